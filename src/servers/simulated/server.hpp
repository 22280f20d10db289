// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/memory/store.hpp"
#include "servers/simulated/ensemble.hpp"
#include "servers/simulated/surroundings.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::simulated {

class link;

/// A server in a world: locks that follow the rules (src/rules), clients that connect, and restarts.
class server {
 public:
  server(surroundings& of, std::string name)
      : world_{of},
        name_{std::move(name)},
        started_us_{of.clock_us() - a_day_us} {}
  server(server const&) = delete;
  server& operator=(server const&) = delete;

  std::string const& name() const noexcept { return name_; }
  surroundings& world() const noexcept { return world_; }
  bool is_up() const noexcept { return is_up_; }
  /// Names this run.
  std::string run() const { return name_ + '.' + std::to_string(runs_); }
  std::int64_t uptime_us() const { return world_.clock_us() - started_us_; }
  std::uint64_t next_client_id() noexcept { return ++connections_so_far_; }

  void attach(link& l) { links_.push_back(&l); }
  void detach(link& l) { std::erase(links_, &l); }
  std::vector<link*> const& links() const noexcept { return links_; }

  /// Breaks all connections. The server is back after 10 to 500 ms.
  void restart(bool keeps_data);
  /// Breaks the connections of that client.
  void cut(std::string_view client);
  /// Takes a lock from its owner, as `conch force` does. `token`: any of that grant. Returns the name of the lock;
  /// empty: there is no such owner.
  std::string force(std::int64_t token);

  /// Is a lock held with that token, or was it handed on inside its client since?
  bool holds(std::int64_t token);

  struct grant {
    std::string lock, client;
    std::int64_t token = 0;
    std::uint64_t waiting = 0;  // in line
  };
  /// All owners of all locks. A lock that has a line and no owner is there with an empty client.
  std::vector<grant> grants();
  /// Does the process still have it? What a client cannot give back before it ends is left to its lease.
  bool exists(std::string_view client) const;

  // ---- from connections
  /// `name`: the part of the server, and the prefix of the keys.
  memory::store& store(std::string const& name);
  void names(std::string const& store, std::string_view lock) { locks_.emplace(store, lock); }
  /// A server that votes with others grants nothing alone.
  void votes_on(std::string_view lock) { voted_on_.emplace(lock); }
  /// A grant of a lock with several owners says nothing about those before it.
  void granted(std::string_view lock, engine::permit_kind kind, std::int64_t fence);
  /// What it keeps for clients of ZooKeeper.
  ensemble& nodes() noexcept { return nodes_; }
  /// The client's name in traces: its process, and a number if that has several.
  std::string name_of(std::string_view client) const;

 private:
  static constexpr std::int64_t a_day_us = 86'400'000'000;

  surroundings& world_;
  std::string const name_;
  std::int64_t started_us_;
  bool is_up_ = true;
  unsigned runs_ = 1;
  std::uint64_t connections_so_far_ = 0;
  std::vector<link*> links_;
  std::map<std::string, std::unique_ptr<memory::store>> stores_;  // by name
  std::set<std::pair<std::string, std::string>> locks_;           // store and name of those that were ever asked for
  std::set<std::string, std::less<>> voted_on_;
  ensemble nodes_{*this};
};

}  // namespace conch::simulated
