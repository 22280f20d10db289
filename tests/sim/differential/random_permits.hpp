// Random commands for locks with several owners, and now and then for a mutex of the same name.
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
  explicit random_permits(std::uint64_t seed, generator_options const& o = {})
      : options_{o},
        random_{seed},
        clock_{o},
        names_{with_many({"permits", "a}b", "%7D", "again"}, o.many_names)} {}

  static std::vector<std::string> clients() { return {"c7f", "a01", "c7f0"}; }
  std::string const& client() { return clients_[static_cast<std::size_t>(pick(0, 2))]; }
  std::int64_t now() const { return clock_.now(); }
  bool rarely() { return pick(0, options_.patience ? 9 : 24) == 0; }

  void step() {
    switch (pick(0, 19)) {
      case 0:
        if (!options_.owners_act || pick(0, 3) == 0) clock_.forward(pick(1, 40) * 100'000);
        break;
      case 1: clock_.back(pick(1, 100'000)); break;
      case 2:
      case 3:
      case 4: break;  // no time at all: equal tickets
      default: clock_.forward(pick(1, 60'000)); break;
    }
    if (options_.comes_back && pick(0, 30) == 0) clock_.back(pick(1, 20) * 100'000);
    if (pick(0, options_.owners_act ? 240 : 60) == 0) clock_.forward(30'000'000);  // everything expires
  }

  protocol::command command(std::string const& client) {
    auto const retention = std::chrono::milliseconds{pick(0, 3) == 0 ? 1 : 2'000};
    auto const claim = std::chrono::milliseconds{pick(1, 4) * 50};
    if (!asked_.empty() && pick(0, 9) == 0) {
      asked const& from = asked_[static_cast<std::size_t>(pick(0, std::ssize(asked_) - 1))];
      origin_ = from.origin;
      permit_ = from.share;
      name_ = pick(0, 19) == 0 ? pick(0, 3) : from.name;
      bool const is_mutex = from.is_mutex;
      protocol::acquire_command c{
          names_[static_cast<std::size_t>(name_)], adopting_id(client), false, lease(), claim, retention};
      if (pick(0, 9) == 0) c.not_after_us = now() + pick(-2, 2);
      c.origin = origin_;
      c.permit = is_mutex ? nullptr : &permit_;
      return c;
    }
    if (pick(0, 11) == 0)
      return protocol::watch_command{name(), pick(0, 5) == 0 ? engine::grant_id{} : some_id(client), lease()};
    switch (pick(0, 11)) {
      case 10:
        if (pick(0, 2) == 0) return protocol::request_command{name(), some_owner()};
        return protocol::inspect_command{name()};
      case 11:
        if (pick(0, 1) == 0) {
          protocol::limit_command c{pick(0, 9) == 0 ? name() : names_[0], claim, retention,
                                    static_cast<std::uint32_t>(pick(1, 7))};
          if (pick(0, 2) == 0) c.by = pick(-4, 4);
          c.if_unset = c.by == 0 && pick(0, 2) == 0;
          return c;
        }
        return protocol::force_command{name(), claim, retention, some_owner()};
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: {
        auto const id = some_id(client);
        protocol::acquire_command c{name(), id, pick(0, 4) != 0, lease(), claim, retention};
        if (pick(0, 3) == 0) c.ticket = now() + pick(-300'000, 100'000);
        if (pick(0, 9) == 0) c.not_after_us = now() + pick(-2, 2);
        c.permit = permit(id);
        if (options_.patience) c.patient = pick(0, 2) == 0;
        if (c.permit != nullptr && !c.wait && permit_.kind == engine::permit_kind::semaphore && pick(0, 2) == 0)
          permit_.weight = 0;
        // If it is granted at once, mostly with this fence.
        asked_.push_back({name_, permit_, client + "." + engine::to_text(id) + " " + std::to_string(clock_.fence()), id,
                          clock_.fence(), c.permit == nullptr, client});
        if (asked_.size() > 6) asked_.pop_front();
        return c;
      }
      case 5:
      case 6:
      case 7:
      case 8: {
        auto const id = some_id(client);
        protocol::release_command c{name(), id, pick(0, 3) == 0, lease(), claim, retention};
        if (asked const* const mine = own(client)) {
          c.name = names_[static_cast<std::size_t>(mine->name)];
          c.id = mine->id;
          permit_ = mine->share;
          c.permit = mine->is_mutex ? nullptr : &permit_;
        } else {
          c.permit = permit(id);
        }
        if (options_.patience) c.patient = pick(0, 1) == 0;
        if (c.permit == nullptr) {
          if (pick(0, 2) == 0) c.new_id = some_id(client);
          return c;
        }
        if (permit_.kind == engine::permit_kind::semaphore && pick(0, 5) == 0) permit_.weight = 0;
        if (pick(0, 4) == 0) c.rest = 1;
        return c;
      }
      default: {
        items_.clear();
        for (std::int64_t n = pick(1, 3); n > 0; --n) items_.push_back(renewal(client));
        return protocol::renew_command{items_, false, pick(0, 9) != 0,
                                       pick(0, 2) == 0 ? retention : std::chrono::milliseconds{}};
      }
    }
  }

 private:
  struct asked {
    std::int64_t name;
    engine::permit share;
    std::string origin;  // of one that takes it over
    engine::grant_id id;
    std::int64_t fence;
    bool is_mutex;
    std::string client;
  };

  std::int64_t pick(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>{from, to}(random_);
  }
  std::chrono::milliseconds lease() { return std::chrono::milliseconds{pick(0, 5) == 0 ? 1 : pick(1, 8) * 100}; }

  /// As random_client_side.
  protocol::renewal renewal(std::string const& client) {
    if (asked_.empty() || pick(0, 2) == 0)
      return {name(), some_id(client), lease(), 0, pick(0, 2) == 0 ? std::optional{clock_.fence()} : std::nullopt};
    asked const& from = asked_[static_cast<std::size_t>(pick(0, std::ssize(asked_) - 1))];
    return {names_[static_cast<std::size_t>(from.name)], from.id, lease(), 0,
            pick(0, 2) == 0 ? std::nullopt : std::optional{from.fence + (pick(0, 5) == 0 ? pick(1, 3) : 0)}};
  }

  /// The owner that an order means: none has the fence 0.
  std::optional<std::int64_t> some_owner() {
    if (pick(0, 3) != 0) return std::nullopt;
    return pick(0, 3) == 0 ? 0 : clock_.fence();
  }

  /// One name for each kind of lock, and sometimes that of another kind.
  std::string const& name() {
    name_ = options_.many_names && pick(0, 9) == 0 ? pick(4, std::ssize(names_) - 1) : pick(0, 3);
    return names_[static_cast<std::size_t>(name_)];
  }

  /// Mostly what that id asked for before; seldom nothing: then it is a mutex.
  engine::permit const* permit(engine::grant_id id) {
    if (options_.mixed_kinds && pick(0, 23) == 0) return nullptr;
    auto const kind = !options_.owners_act && pick(0, 40) == 0 ? pick(0, 3) : name_ % 4;
    auto const draw = [&](std::int64_t from, std::int64_t to) {
      return static_cast<std::uint32_t>(!options_.owners_act && pick(0, 20) == 0
                                            ? pick(from, to)
                                            : from + static_cast<std::int64_t>(id.count) % (to - from + 1));
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

  /// The id of the client that adopts.
  engine::grant_id adopting_id(std::string const& of) {
    if (!options_.owners_act) return some_id(of);
    return never_used_before(last_[of]);
  }

  /// What this client has asked for, and may own. Null: nothing, or it does not matter.
  asked const* own(std::string const& client) {
    if (!options_.owners_act || pick(0, 3) == 0) return nullptr;
    return first_of(client, asked_, pick(0, std::ssize(asked_)));
  }

  engine::grant_id some_id(std::string const& of) {
    auto& last = last_[of];
    if (last == 0) last = 7;
    if (pick(0, 2) == 0) ++last;
    return with_nonce(last - static_cast<std::uint64_t>(pick(0, 6)));
  }

  generator_options const options_;
  std::mt19937_64 random_;
  random_clock clock_;
  std::vector<std::string> const clients_ = clients();
  std::vector<std::string> const names_;
  std::int64_t name_ = 0;
  engine::permit permit_;
  std::deque<asked> asked_;
  std::string origin_;
  std::map<std::string, std::uint64_t> last_;
  std::vector<protocol::renewal> items_;
};

}  // namespace conch::sim
