// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/scan.hpp"
#include "cli/show.hpp"

#include <chrono>
#include <iostream>

namespace conch::cli {

int list(arguments const& given, connection const& servers) {
  bool answered = false;
  int code = exit_code::unreachable;
  for (std::string const& url : servers.servers) {
    try {
      lock_scanner scanner{servers, url, given.names};
      for (auto const& [name, status] : scanner.look()) {
        if (given.json) {
          boost::json::object o = as_json(name, status);
          if (servers.quorum()) o["server"] = without_password(url);
          std::cout << one_line(o);
        } else {
          std::cout << (servers.quorum() ? without_password(url) + ": " : "") << as_text(name, status, std::chrono::system_clock::now());
        }
      }
      answered = true;
    } catch (failure const& error) {
      if (!servers.quorum()) throw;
      code = error.code;
      say(given, without_password(url) + ": " + error.what(), code);
    }
  }
  return answered ? exit_code::done : code;
}

}  // namespace conch::cli
