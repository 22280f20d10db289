// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/readable.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/show.hpp"

#include <boost/json/object.hpp>

#include <string>

namespace conch::cli {

void say(arguments const& given, std::string const& words, int code) {
  if (given.json) {
    boost::json::object o;
    o["error"] = conch::readable(words, std::string::npos);
    o["exit_code"] = code;
    print_error(one_line(o));
  } else {
    print_error("conch: " + words + '\n');
  }
}

}  // namespace conch::cli
