// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "net/name_lookup.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace conch::net {

/// The threads of a process that ask getaddrinfo, and the clients that wait for the results (name_lookup).
class lookup_threads {
 public:
  class waiter {
   public:
    virtual ~waiter() = default;
    /// Once, from any thread. It must not call back.
    virtual void answered(name_lookup::error_code ec, name_lookup::addresses const& found) noexcept = 0;
  };

  /// It is never destroyed: a thread of it may outlive main(). A child of fork() has none of its parent's threads, and
  /// starts its own.
  static lookup_threads& of_this_process();

  /// The waiter is notified, unless it is gone by then.
  void ask(std::string const& host, std::uint16_t port, std::shared_ptr<waiter> const& who);

 private:
  using clock = std::chrono::steady_clock;
  using key = std::pair<std::string, std::uint16_t>;
  struct answer {
    name_lookup::error_code ec;
    name_lookup::addresses found;
  };
  struct entry {
    std::size_t asking = 0;           // threads, and places in the queue
    clock::time_point newest{};       // when the last of them was begun
    bool has_answered = false;        // one of them, since then
    std::optional<answer> late = {};  // it had no waiter; it is for the next one that asks
    clock::time_point late_since{};
    std::vector<std::weak_ptr<waiter>> waiting{};
  };

  explicit lookup_threads(lookup_threads* inherited);
  static answer look_up(key const& k) noexcept;
  using running = std::multiset<clock::time_point>;
  bool has_room(clock::time_point now) const;
  bool may_ask_again(entry const& e, clock::time_point now);
  bool begin(key const& k, clock::time_point now);
  void run(key k, running::iterator since) noexcept;
  bool take_from_queue(key& k) noexcept;
  void report(key const& k, answer const& a) noexcept;
  void forget_old(clock::time_point now);

  pid_t const process_;
  lookup_threads* const inherited_;  // of the parent process: not to be touched, and not lost to a checker of leaks
  std::mutex mutex_;                 // guards what follows
  std::map<key, entry> names_;
  std::deque<key> queue_;       // there were too many threads
  running running_;             // of each thread, when its present look-up was begun
  clock::time_point slowed_{};  // when a name that hangs got one more although many hang
};

}  // namespace conch::net
