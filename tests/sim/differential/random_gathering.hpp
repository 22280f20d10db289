// Random commands for several mutexes at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/gathering.hpp"
#include "protocol/wire.hpp"

namespace conch::sim {

/// What clients might ask in one turn, also for what they never had, and what another program might do to the keys.
class random_gathering {
 public:
  using milliseconds = std::chrono::milliseconds;

  /// `shortest`: a lease has one to three of it, and so has the time a fence is kept.
  struct lives {
    milliseconds shortest, claim;
  };

  random_gathering(std::uint64_t seed, bool votes, lives l) : random_{seed}, votes_{votes}, lives_{l} {}

  static constexpr std::string_view clients[] = {"a", "b", "c"};
  static constexpr std::string_view names[] = {"K", "L", "M", "N"};
  static constexpr std::string_view suffixes[] = {"", ":q", ":f", ":w", ":a"};

  std::int64_t now_us() const { return now_us_; }

  void step() {
    now_us_ += pick(0, 3) == 0 ? pick(1, 4'000'000) : pick(0, 60'000);
    if (chance(3)) now_us_ -= pick(1, 3'000'000);
  }

  struct change {
    std::size_t client;
    bool hears;
  };
  std::optional<change> subscription() {
    if (!chance(20)) return {};
    return change{client(), chance(60)};
  }

  static std::string key(std::string_view name, std::string_view suffix) {
    return "conch:{" + std::string{name} + "}" + std::string{suffix};
  }

  /// Commands of another program.
  std::vector<std::vector<std::string>> tampering(milliseconds life) {
    if (!chance(15)) return {};
    std::string_view const name = names[pick(0, 3)];
    std::string const k = key(name, suffixes[pick(0, 3)]);
    switch (pick(0, 5)) {
      case 0: return {{"DEL", k}};
      case 1: return {{"SET", k, "what"}};
      case 2: return {{"DEL", k}, {"HSET", k, "what", "else"}};
      case 3: return {{"ZADD", k, "5", "b.1"}};
      // Somebody waits for the lock to be free, as lua/watch.lua leaves it.
      case 4:
        return {{"ZADD", key(name, ":w"), "5", "b.1"},
                {"SET", key(name, ":a"), "", "PX", std::to_string(life.count())}};
      default: return {{"SET", k + ":a", "", "PX", std::to_string(life.count())}};
    }
  }

  std::size_t client() { return static_cast<std::size_t>(pick(0, 2)); }

  /// Two to four commands, which fit into one gathering.
  std::vector<protocol::command> commands() {
    milliseconds const lease = some_life(), retention = 2 * some_life();
    bool const wait = chance(70);
    std::vector<protocol::command> all;
    std::vector<std::string_view> left{std::begin(names), std::end(names)};
    std::shuffle(left.begin(), left.end(), random_);
    for (std::int64_t n = pick(2, 4); n > 0; --n, left.pop_back()) {
      if (chance(55)) {
        protocol::acquire_command c{.name = left.back(),
                                    .id = some_id(),
                                    .wait = wait,
                                    .lease = lease,
                                    .claim = lives_.claim,
                                    .retention = retention};
        if (chance(20)) c.ticket = now_us_ - pick(-100, 100);
        if (chance(10)) c.not_after_us = now_us_ + pick(-1, 1);
        if (votes_) c.proposal = chance(50) ? now_us_ - protocol::fence_epoch_us + pick(-2, 2) : 1;
        all.emplace_back(c);
      } else {
        protocol::release_command c{
            .name = left.back(), .id = some_id(), .lease = lease, .claim = lives_.claim, .retention = retention};
        if (chance(20) && !votes_) c.new_id = static_cast<engine::grant_id>(pick(11, 14));
        if (votes_) c.floor = chance(70) ? now_us_ - protocol::fence_epoch_us - pick(0, 1'000'000) : 1;
        if (votes_) c.next_fence_floor = chance(30) ? now_us_ - protocol::fence_epoch_us + 5 : 0;
        all.emplace_back(c);
      }
    }
    return all;
  }

 private:
  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>{least, most}(random_);
  }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  milliseconds some_life() { return pick(1, 3) * lives_.shortest; }

  /// A client that asks twice under one id, or gives back what it never had, is answered in the same way, too.
  engine::grant_id some_id() {
    return static_cast<engine::grant_id>(votes_ ? pick(1, 3) * protocol::attempts_per_ticket + 1 : pick(1, 4));
  }

  std::mt19937_64 random_;
  bool votes_;
  lives lives_;
  std::int64_t now_us_ = protocol::fence_epoch_us + 1'000'000'000'000;
};

}  // namespace conch::sim
