// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/readable.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/show.hpp"

#include <boost/json/object.hpp>

#include <string>

namespace conch::cli {

std::string as_error(arguments const& given, std::string const& words, int code) {
  if (!given.json) return "conch: " + words + '\n';
  boost::json::object o;
  o["error"] = conch::readable(words, std::string::npos);
  o["exit_code"] = code;
  return one_line(o);
}

void say(arguments const& given, std::string const& words, int code) { print_error(as_error(given, words, code)); }

}  // namespace conch::cli
