// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/readable.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/lock_scanner.hpp"
#include "cli/output.hpp"
#include "cli/show.hpp"
#include "servers/urls.hpp"

#include <boost/system/system_error.hpp>

#include <chrono>

namespace conch::cli {

int list(arguments const& given, connection const& servers) {
  bool answered = false;
  int code = exit_code::unreachable;
  for (std::string const& url : servers.servers) {
    try {
      lock_scanner scanner{servers, url, given.names};
      for (auto const& [name, status] : scanner.look()) {
        if (given.names_only && !given.json) {
          print(conch::printable(name) + '\n');
        } else if (given.json) {
          boost::json::object o = as_json(name, status);
          if (servers.quorum) o["server"] = conch::servers::without_login(url);
          print(one_line(o));
        } else {
          print((servers.quorum ? conch::servers::without_login(url) + ": " : "") +
                as_text(name, status, std::chrono::system_clock::now()));
        }
      }
      answered = true;
    } catch (boost::system::system_error const& error) {
      code = exit_code_of(error.code());
      say(given, error.code().message(), code);
    }
  }
  return answered ? exit_code::done : code;
}

}  // namespace conch::cli
