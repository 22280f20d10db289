// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
// An assertion of the code that is simulated: as good as a judge.

#include "sim/judges/observer.hpp"

#include <boost/assert.hpp>

#include <string>

namespace boost {

void assertion_failed_msg(char const* condition, char const* why, char const* function, char const* file, long line) {
  throw conch::sim::violation{conch::sim::of_an_assertion, std::string{why} + " (" + condition + " in " + function +
                                                               ", " + file + ':' + std::to_string(line) + ')'};
}

void assertion_failed(char const* condition, char const* function, char const* file, long line) {
  assertion_failed_msg(condition, "an assertion has failed", function, file, line);
}

}  // namespace boost
