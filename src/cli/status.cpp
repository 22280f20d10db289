// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/readable.hpp"
#include "base/votes.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/operator.hpp"
#include "cli/output.hpp"
#include "cli/show.hpp"
#include "servers/probe.hpp"
#include "servers/urls.hpp"

#include <conch/log.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// The commands about one lock. Over several servers each is asked by itself: a majority of them decides.
namespace conch::cli {

namespace {

log_hook log_of(arguments const& given) { return given.verbose ? log_to_stderr(log_level::debug) : nullptr; }

void print_status(arguments const& given, connection const& servers, std::string const& url, std::string const& name,
                  lock_status const& s) {
  if (given.json) {
    boost::json::object o = as_json(name, s);
    if (servers.quorum) o["server"] = conch::servers::without_login(url);
    print(one_line(o));
  } else {
    print((servers.quorum ? conch::servers::without_login(url) + ": " : "") +
          as_text(name, s, std::chrono::system_clock::now()));
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

namespace {

/// Asks by the library's locks, or else by the probe.
class status_questions {
 public:
  status_questions(arguments const& given, connection const& servers, std::string const& url) {
    if (auto probe = conch::servers::open_probe(servers.at(url)); probe->knows_status()) probe_ = std::move(probe);
    else client_.emplace(servers, url, log_of(given));
  }
  lock_status ask(std::string const& name) { return probe_ ? probe_->look(name) : client_->inspect(name); }

 private:
  std::unique_ptr<servers::probe> probe_;
  std::optional<operator_client> client_;
};

}  // namespace

int status(arguments const& given, connection const& servers) {
  // Some of several servers may be away: the others can still report.
  bool answered = false;
  std::string why;
  int code = exit_code::unreachable;
  for (std::string const& url : servers.servers) {
    try {
      status_questions questions{given, servers, url};
      for (std::string const& name : given.names) print_status(given, servers, url, name, questions.ask(name));
      answered = true;
    } catch (boost::system::system_error const& error) {
      if (!servers.quorum) throw;
      why = conch::servers::without_login(url) + ": " + error.code().message();
      code = exit_code_of(error.code());
      say(given, why, code);
    }
  }
  return answered ? exit_code::done : code;
}

namespace {

/// The servers of a quorum, each asked by itself. Some may be away.
class unlocking {
 public:
  unlocking(arguments const& given, connection const& servers)
      : given_{given},
        servers_{servers},
        name_{given.names.front()} {
    for (std::string const& url : servers.servers)
      clients_.push_back(std::make_unique<operator_client>(servers, url, log_of(given)));
  }

  int run() {
    if (!given_.yes) {
      bool locked = false;
      each([&](operator_client& client) {
        lock_status const now = client.inspect(name_);
        print_error(as_text(name_, now, std::chrono::system_clock::now()));
        locked = locked || now.locked();
      });
      if (!locked) return report();
      std::string const holder =
          given_.fence ? "the holder with fence " + std::to_string(*given_.fence) : "all of its holders";
      if (!agreed("Take " + printable(name_) + " from " + holder + "?")) return exit_code::nothing_done;
    }
    if (given_.fence && servers_.quorum) {
      take_from_owner();
    } else {
      each([&](operator_client& client) { take(client, given_.fence); });
    }
    return report();
  }

 private:
  /// Counts holders, not servers: over a quorum each server reports the same holders.
  void take(operator_client& client, std::optional<std::int64_t> fence) {
    taken_ = std::max(taken_, client.force_release(name_, fence));
  }

  /// The fence of one grant differs from server to server until a majority has agreed on the greatest; the client does
  /// not.
  void take_from_owner() {
    auto const of_this_grant = [&](lock_holder const& h) { return same_grant(h.fence, *given_.fence); };
    std::string owner;
    each([&](operator_client& client) {
      for (lock_holder const& h : client.inspect(name_).holders) owner = of_this_grant(h) ? h.client : owner;
    });
    if (owner.empty()) return;
    each([&](operator_client& client) {
      for (lock_holder const& h : client.inspect(name_).holders) {
        if (h.client == owner) take(client, h.fence);
      }
    });
  }

  template <class F>
  void each(F const& ask) {
    answered_ = 0;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      try {
        ask(*clients_[i]);
        ++answered_;
      } catch (boost::system::system_error const& error) {
        if (!servers_.quorum) throw;
        say(given_, conch::servers::without_login(servers_.servers[i]) + ": " + error.code().message(),
            exit_code_of(error.code()));
      }
    }
  }

  int report() const {
    if (given_.json) {
      boost::json::object o;
      o["name"] = printable(name_);
      o["taken_from"] = taken_;
      print(one_line(o));
    } else if (taken_ == 0) {
      print(printable(name_) + (given_.fence ? ": there is no holder with this fence\n" : ": nobody holds it\n"));
    } else {
      print(printable(name_) + ": taken from " + std::to_string(taken_) + (taken_ == 1 ? " holder\n" : " holders\n"));
    }
    if (servers_.quorum && answered_ < majority_of(servers_.servers.size())) return exit_code::unreachable;
    return taken_ == 0 ? exit_code::nothing_done : exit_code::done;
  }

  arguments const& given_;
  connection const& servers_;
  std::string const& name_;
  std::vector<std::unique_ptr<operator_client>> clients_;
  std::uint32_t taken_ = 0;
  std::size_t answered_ = 0;
};

}  // namespace

int unlock(arguments const& given, connection const& servers) {
  if (!given.yes && !asks())
    throw failure{exit_code::usage, "conch unlock takes the lock from its holder: without a terminal it needs --yes"};
  unlocking u{given, servers};
  return u.run();
}

}  // namespace conch::cli
