// Random commands for locks with several owners.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/differential/compared.hpp"

namespace conch::sim {

/// What clients might do next, and things they would never do: answers must agree for all of them.
class random_permits {
 public:
  explicit random_permits(std::uint64_t seed) : random_{seed} {}

  static std::vector<std::string> clients() { return {"c7f", "a01", "c7f0"}; }
  std::string const& client() { return clients_[static_cast<std::size_t>(pick(0, 2))]; }
  std::int64_t now() const { return now_us_; }
  bool rarely() { return pick(0, 24) == 0; }

  void step() {
    switch (pick(0, 19)) {
      case 0: now_us_ += pick(1, 40) * 100'000; break;
      case 1: now_us_ -= pick(1, 100'000); break;
      case 2:
      case 3:
      case 4: break;  // no time at all: equal tickets
      default: now_us_ += pick(1, 60'000); break;
    }
    if (pick(0, 60) == 0) now_us_ += 30'000'000;  // everything expires
  }

  protocol::command command(std::string const& client) {
    auto const retention = std::chrono::milliseconds{pick(0, 3) == 0 ? 1 : 2'000};
    auto const claim = std::chrono::milliseconds{pick(1, 4) * 50};
    if (!asked_.empty() && pick(0, 9) == 0) {
      asked const& from = asked_[static_cast<std::size_t>(pick(0, std::ssize(asked_) - 1))];
      origin_ = from.origin;
      permit_ = from.share;
      name_ = pick(0, 19) == 0 ? pick(0, 3) : from.name;
      protocol::acquire_command c{names_[static_cast<std::size_t>(name_)], some_id(client), false, lease(), claim, retention};
      if (pick(0, 9) == 0) c.not_after_us = now_us_ + pick(-2, 2);
      c.origin = origin_;
      c.permit = &permit_;
      return c;
    }
    if (pick(0, 11) == 0) return protocol::watch_command{name(), pick(0, 5) == 0 ? engine::grant_id{} : some_id(client), lease()};
    switch (pick(0, 11)) {
      case 10:
        if (pick(0, 2) == 0) return protocol::request_command{name(), pick(0, 3) == 0 ? now_us_ - 1'577'836'800'000'000 : 0};
        return protocol::inspect_command{name()};
      case 11:
        if (pick(0, 1) == 0) {
          protocol::limit_command c{pick(0, 9) == 0 ? name() : names_[0], claim, retention, static_cast<std::uint32_t>(pick(1, 7))};
          if (pick(0, 2) == 0) c.by = pick(-4, 4);
          c.if_unset = c.by == 0 && pick(0, 2) == 0;
          return c;
        }
        return protocol::force_command{name(), claim, retention, pick(0, 3) == 0 ? now_us_ - 1'577'836'800'000'000 : 0};
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: {
        auto const id = some_id(client);
        protocol::acquire_command c{name(), id, pick(0, 4) != 0, lease(), claim, retention};
        if (pick(0, 3) == 0) c.ticket = now_us_ + pick(-300'000, 100'000);
        if (pick(0, 9) == 0) c.not_after_us = now_us_ + pick(-2, 2);
        c.permit = permit(id);
        if (!c.wait && permit_.kind == engine::permit_kind::semaphore && pick(0, 2) == 0) permit_.weight = 0;
        // If it is granted at once, mostly with this fence.
        asked_.push_back({name_, permit_, client + "." + engine::to_text(id) + " " + std::to_string(now_us_ - protocol::fence_epoch_us)});
        if (asked_.size() > 6) asked_.pop_front();
        return c;
      }
      case 5:
      case 6:
      case 7:
      case 8: {
        auto const id = some_id(client);
        protocol::release_command c{name(), id, pick(0, 3) == 0, lease(), claim, retention};
        c.permit = permit(id);
        if (permit_.kind == engine::permit_kind::semaphore && pick(0, 5) == 0) permit_.weight = 0;
        if (pick(0, 4) == 0) c.rest = 1;
        return c;
      }
      default: {
        items_.clear();
        for (std::int64_t n = pick(1, 3); n > 0; --n) items_.push_back({name(), some_id(client), lease()});
        return protocol::renew_command{items_, false, true, pick(0, 2) == 0 ? retention : std::chrono::milliseconds{}};
      }
    }
  }

 private:
  std::int64_t pick(std::int64_t from, std::int64_t to) { return std::uniform_int_distribution<std::int64_t>{from, to}(random_); }
  std::chrono::milliseconds lease() { return std::chrono::milliseconds{pick(0, 5) == 0 ? 1 : pick(1, 8) * 100}; }

  /// One name for each kind of lock, and sometimes that of another kind.
  std::string const& name() {
    name_ = pick(0, 3);
    return names_[static_cast<std::size_t>(name_)];
  }

  /// Mostly what that id asked for before.
  engine::permit const* permit(engine::grant_id id) {
    auto const kind = pick(0, 40) == 0 ? pick(0, 3) : name_;
    auto const draw = [&](std::int64_t from, std::int64_t to) {
      return static_cast<std::uint32_t>(pick(0, 20) == 0 ? pick(from, to) : from + static_cast<std::int64_t>(id.count) % (to - from + 1));
    };
    switch (kind) {
      case 0: permit_ = {engine::permit_kind::semaphore, pick(0, 9) == 0 ? 2u : 5u, draw(1, 4), 0, "-"}; break;
      case 1: permit_ = {engine::permit_kind::shared, 1000, draw(0, 3) == 0 ? 1000u : 1u, 0, "-"}; break;
      case 3: {
        static std::string const owners[] = {"6d65", "796f75"};
        permit_ = {engine::permit_kind::reentrant, 1000, 1, 0, owners[draw(0, 1)]};
        break;
      }
      default: {
        static std::string const visits[] = {"-", ",2,", ",1,3,", "-", ",2,3,"};
        permit_ = {engine::permit_kind::segments, 3, 1, static_cast<std::uint32_t>(pick(0, 2)), visits[draw(0, 4)]};
      }
    }
    return &permit_;
  }

  engine::grant_id some_id(std::string const& of) {
    auto& last = last_[of];
    if (last == 0) last = 7;
    if (pick(0, 2) == 0) ++last;
    return with_nonce(last - static_cast<std::uint64_t>(pick(0, 6)));
  }

  std::mt19937_64 random_;
  std::vector<std::string> const clients_ = clients();
  std::vector<std::string> const names_{"permits", "a}b", "%7D", "again"};
  std::int64_t name_ = 0;
  engine::permit permit_;
  struct asked {
    std::int64_t name;
    engine::permit share;
    std::string origin;  // of one that takes it over
  };
  std::deque<asked> asked_;
  std::string origin_;
  std::map<std::string, std::uint64_t> last_;
  std::vector<protocol::renewal> items_;
  std::int64_t now_us_ = 1'700'000'000'000'000;
};

}  // namespace conch::sim
