#pragma once

// Five servers, and clients of all of them.

#include "integration/fixture.hpp"

#include <array>

namespace conch::test {

inline constexpr std::size_t masters = 5;

class redlock_servers {
 public:
  redlock_servers() {
    for (auto& s : all_) s = std::make_unique<redis_server>();
  }

  redis_server& operator[](std::size_t i) { return *all_[i]; }
  redis_server& at(std::size_t i) const { return *all_[i]; }

  /// Short times: a lease of 2 s, a vote of 600 ms.
  config settings(std::chrono::milliseconds lease = 2s) const {
    config c;
    for (auto const& s : all_) c.quorum.servers.push_back(s->url());
    c.lease = lease;
    c.quorum.vote_claim = 600ms;
    c.command_timeout = lease / 3;
    c.stop_margin = lease / 10;
    c.reconnect_min = 5ms;
    c.reconnect_max = 100ms;
    return c;
  }

  /// With times that a busy machine keeps.
  config calm() const {
    config c = settings(9s);
    c.quorum.vote_claim = 2500ms;
    return c;
  }

  std::string list() const {
    std::string urls;
    for (auto const& s : all_) urls += (urls.empty() ? "" : ",") + s->url();
    return urls;
  }

  /// Answers nobody, and keeps its connections.
  void stop(std::size_t i) {
    all_[i]->stop();
    mute_[i] = true;
  }
  void cont(std::size_t i) {
    all_[i]->cont();
    mute_[i] = false;
  }
  void kill(std::size_t i) {
    all_[i]->kill();
    mute_[i] = true;
  }
  void restart(std::size_t i, bool keep_data) {
    all_[i]->restart(keep_data);
    mute_[i] = false;
  }

  /// On how many of the running servers the lock is owned; in state `h` or `c` if given.
  std::size_t owned(std::string const& name, char state = 0) const {
    std::size_t n = 0;
    for (std::size_t i = 0; i < masters; ++i) {
      if (mute_[i]) continue;
      redis_probe probe{*all_[i]};
      std::string const value = probe.command({"GET", lock_key(name)});
      if (value != "(nil)" && (state == 0 || value.back() == state)) ++n;
    }
    return n;
  }

  /// On how many servers `clients` or more are queued.
  std::size_t lines(std::string const& name, std::int64_t clients = 1) const {
    std::size_t n = 0;
    for (std::size_t i = 0; i < masters; ++i) {
      if (mute_[i]) continue;
      redis_probe probe{*all_[i]};
      if (in_line(probe, name) >= clients) ++n;
    }
    return n;
  }

  bool nothing_left(std::string const& name) const { return owned(name) == 0 && lines(name) == 0; }

 private:
  std::array<std::unique_ptr<redis_server>, masters> all_;
  std::array<bool, masters> mute_{};
};

}  // namespace conch::test
