// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/readable.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/operator.hpp"
#include "cli/output.hpp"
#include "cli/show.hpp"

#include <conch/log.hpp>

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>

// The commands about one lock. Over several servers each is asked by itself: a majority of them decides.
namespace conch::cli {

namespace {

log_hook log_of(arguments const& given) { return given.verbose ? log_to_stderr(log_level::debug) : nullptr; }

void print_status(arguments const& given, connection const& servers, std::string const& url, std::string const& name, lock_status const& s) {
  if (given.json) {
    boost::json::object o = as_json(name, s);
    if (servers.quorum()) o["server"] = without_password(url);
    print(one_line(o));
  } else {
    print((servers.quorum() ? without_password(url) + ": " : "") + as_text(name, s, std::chrono::system_clock::now()));
  }
}

bool asks() { return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0; }

/// Shows on the terminal what is to be done, and asks.
bool agreed(std::string const& question) {
  print_error(question + " [y/N] ");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace

int status(arguments const& given, connection const& servers) {
  // Of several servers some may be away: the others still have something to tell.
  bool answered = false;
  std::string why;
  int code = exit_code::unreachable;
  for (std::string const& url : servers.servers) {
    operator_client client{servers, url, log_of(given)};
    try {
      for (std::string const& name : given.names) print_status(given, servers, url, name, client.inspect(name));
      answered = true;
    } catch (boost::system::system_error const& error) {
      if (!servers.quorum()) throw;
      why = without_password(url) + ": " + error.code().message();
      code = exit_code_of(error.code());
      say(given, why, code);
    }
  }
  return answered ? exit_code::done : code;
}

int unlock(arguments const& given, connection const& servers) {
  std::string const& name = given.names.front();
  if (!given.yes && !asks()) throw failure{exit_code::usage, "conch unlock takes the lock from its holder: without a terminal it needs --yes"};
  std::uint32_t taken = 0;
  std::size_t answered = 0;
  for (std::string const& url : servers.servers) {
    operator_client client{servers, url, log_of(given)};
    try {
      if (!given.yes) {
        lock_status const now = client.inspect(name);
        print_error(as_text(name, now, std::chrono::system_clock::now()));
        std::string const whom = given.fence ? "the holder with fence " + std::to_string(*given.fence) : "all of its holders";
        if (!now.locked()) continue;
        if (!agreed("Take " + printable(name) + " from " + whom + "?")) return exit_code::nothing_done;
      }
      taken += client.force_release(name, given.fence);
      ++answered;
    } catch (boost::system::system_error const& error) {
      if (!servers.quorum()) throw;
      say(given, without_password(url) + ": " + error.code().message(), exit_code_of(error.code()));
    }
  }
  if (given.json) {
    boost::json::object o;
    o["name"] = printable(name);
    o["taken_from"] = taken;
    print(one_line(o));
  } else if (taken == 0) {
    print(printable(name) + (given.fence ? ": there is no holder with this fence\n" : ": nobody holds it\n"));
  } else {
    print(printable(name) + ": taken from " + std::to_string(taken) + (taken == 1 ? " holder\n" : " holders\n"));
  }
  if (servers.quorum() && answered <= servers.servers.size() / 2) return exit_code::unreachable;
  return taken == 0 ? exit_code::nothing_done : exit_code::done;
}

}  // namespace conch::cli
