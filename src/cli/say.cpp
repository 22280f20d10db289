// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/commands.hpp"
#include "cli/show.hpp"

#include <boost/json/object.hpp>

#include <iostream>

namespace conch::cli {

void say(arguments const& given, std::string const& words, int code) {
  if (given.json) {
    boost::json::object o;
    o["error"] = shown(words);
    o["exit_code"] = code;
    std::cerr << one_line(o);
  } else {
    std::cerr << "conch: " + words + '\n';
  }
}

}  // namespace conch::cli
