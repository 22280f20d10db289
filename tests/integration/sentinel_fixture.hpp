#pragma once

// What tests with real Sentinels share.

#include "integration/fixture.hpp"
#include "support/sentinel_set.hpp"

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

namespace conch::test {

/// Listens to Sentinels, each with a thread of its own, for the first +switch-master of all.
class switch_watch {
 public:
  explicit switch_watch(sentinel_set& of, std::string const& name = "m") {
    for (std::size_t i = 0; i < of.sentinels(); ++i) {
      // Subscribed before this returns.
      auto probe = std::make_shared<redis_probe>(of.sentinel(i), 200ms);
      probe->command({"SUBSCRIBE", "+switch-master"});
      threads_.emplace_back([this, probe, name] {
        while (!ended_) {
          try {
            if (probe->read_message().find("+switch-master, " + name + " ") == std::string::npos) continue;
          } catch (std::runtime_error const&) {  // nothing came
            continue;
          }
          steady::duration none{};
          first_.compare_exchange_strong(none, steady::now().time_since_epoch());
          return;
        }
      });
    }
  }
  ~switch_watch() {
    ended_ = true;
    for (auto& t : threads_) t.join();
  }
  switch_watch(switch_watch const&) = delete;
  switch_watch& operator=(switch_watch const&) = delete;

  bool seen() const { return first_.load() != steady::duration{}; }
  steady::time_point first() const { return steady::time_point{first_.load()}; }

 private:
  std::vector<std::thread> threads_;
  std::atomic<steady::duration> first_{};
  std::atomic<bool> ended_ = false;
};

/// How many connections of clients with this name the server has.
inline std::size_t connections(redis_server& at, std::string const& name) {
  redis_probe probe{at, 10s};
  std::string const all = probe.command({"CLIENT", "LIST"});
  std::size_t n = 0;
  for (auto found = all.find(" name=" + name + " "); found != std::string::npos;
       found = all.find(" name=" + name + " ", found + 1))
    ++n;
  return n;
}

}  // namespace conch::test
