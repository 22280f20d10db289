// Random commands for mutexes.
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

/// What a client might do next, and things it would never do: answers must agree for all of them.
class random_client_side {
 public:
  explicit random_client_side(std::uint64_t seed, generator_options const& o = {})
      : options_{o},
        random_{seed},
        clock_{o} {
    auto const clients = static_cast<std::size_t>(pick(2, 4));
    // Not in the order of their letters, and one a prefix of another.
    std::vector<std::string> const all{"c7f", "a01", "c7f0", "b"};
    clients_.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(clients));
    std::vector<std::string> const names{"stock:{1}%7D", "}", std::string{"a\0b", 3}};
    usual_names_ = pick(2, 3);
    names_.assign(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(usual_names_));
    names_ = with_many(std::move(names_), o.many_names);
  }

  std::vector<std::string> const& clients() const { return clients_; }
  std::int64_t now() const { return clock_.now(); }

  void step() {
    switch (pick(0, 19)) {
      case 0:  // a lease or two
        if (!options_.owners_act || pick(0, 3) == 0) clock_.forward(pick(1, 40) * 100'000);
        break;
      case 1: clock_.forward(pick(0, 3) * 1'000); break;  // to the very millisecond of an expiry
      case 2: clock_.back(pick(1, 400'000)); break;
      case 3:
        if (pick(0, 9) == 0) clock_.back(pick(1, 20) * 1'000'000);
        if (pick(0, 30) == 0) clock_.forward(30'000'000);  // everything expires
        break;
      case 4:
      case 5:
      case 6: break;  // no time at all: equal tickets
      default: clock_.forward(pick(1, 60'000)); break;
    }
  }

  /// An owner of a lock that an answer has told of.
  void sees(std::string_view of, std::int64_t fence) {
    seen_of_ = of;
    seen_fence_ = fence;
  }

  std::string const& client() { return clients_[static_cast<std::size_t>(pick(0, std::ssize(clients_) - 1))]; }
  std::string const& name() {
    bool const is_seldom = options_.many_names && pick(0, 9) == 0;
    return names_[static_cast<std::size_t>(is_seldom ? pick(usual_names_, std::ssize(names_) - 1)
                                                     : pick(0, usual_names_ - 1))];
  }

  protocol::command command(std::string const& client) {
    auto const retention = std::chrono::milliseconds{pick(0, 3) == 0 ? 1 : 2'000};
    auto const claim = std::chrono::milliseconds{pick(1, 4) * 50};
    if (!asked_.empty() && pick(0, 11) == 0) {
      asked const& from = asked_[static_cast<std::size_t>(pick(0, std::ssize(asked_) - 1))];
      origin_ = from.origin;
      protocol::acquire_command c{
          pick(0, 9) == 0 ? name() : *from.name, adopting_id(client), false, lease(), claim, retention};
      if (pick(0, 5) == 0) c.not_after_us = now() + pick(-2, 2);
      c.origin = origin_;
      return c;
    }
    if (pick(0, 9) == 0) {
      if (!watched_.empty() && pick(0, 4) == 0) {
        auto const [of, id] = watched_.front();
        watched_.pop_front();
        return protocol::unwatch_command{of, id};
      }
      protocol::watch_command const c{name(), pick(0, 5) == 0 ? engine::grant_id{} : some_id(client), lease()};
      watched_.emplace_back(c.name, c.id);
      if (watched_.size() > 3) watched_.pop_front();
      return c;
    }
    switch (pick(0, 15)) {
      case 15: return protocol::requested_command{seen_of_, pick(0, 3) == 0 ? some_fence() : seen_fence_};
      case 12: return protocol::inspect_command{name()};
      case 13:
        if (pick(0, 1) == 0) return protocol::inspect_command{name()};
        if (pick(0, 1) == 0) return protocol::request_command{name(), some_owner(3)};
        return protocol::force_command{name(), claim, retention, some_owner(5)};
      case 14: {
        attempts_.clear();
        // No client tries a lock twice at once.
        for (std::int64_t n = pick(1, 3); n > 0; --n) {
          protocol::attempt const one{name(), some_id(client), lease()};
          if (std::none_of(attempts_.begin(), attempts_.end(),
                           [&](auto const& other) { return other.name == one.name; }))
            attempts_.push_back(one);
        }
        return protocol::acquire_all_command{attempts_, retention, pick(0, 5) == 0 ? now() + pick(-2, 2) : 0};
      }
      case 0:
      case 1:
      case 2:
      case 3: {
        // With the times that a command may leave out; seldom, since they are long.
        if (pick(0, 39) == 0)
          return protocol::acquire_command{
              name(), some_id(client), true, redis::usual_lease, redis::usual_claim, redis::usual_retention};
        protocol::acquire_command c{name(), some_id(client), pick(0, 4) != 0, lease(), claim, retention};
        if (pick(0, 3) == 0) c.ticket = now() + pick(-300'000, 100'000);
        if (pick(0, 5) == 0) c.not_after_us = now() + pick(-2, 2);
        if (options_.patience) c.patient = pick(0, 2) == 0;
        if (pick(0, 2) == 0) {
          c.id = some_vote(client);
          c.proposal = pick(0, 1) == 0 ? 1 : some_fence();
        }
        // If it is granted at once, mostly with this fence.
        auto const at = std::find(names_.begin(), names_.end(), c.name);
        asked_.push_back({&*at, client + "." + engine::to_text(c.id) + " " + std::to_string(clock_.fence()), c.id,
                          clock_.fence(), client});
        if (asked_.size() > 6) asked_.pop_front();
        return c;
      }
      case 4:
      case 5:
      case 6:
      case 7: {
        if (pick(0, 9) == 0)
          return protocol::release_command{
              name(), some_id(client), false, redis::usual_lease, redis::usual_claim, redis::usual_retention};
        protocol::release_command c{name(), some_id(client), pick(0, 3) == 0, lease(), claim, retention};
        if (pick(0, 2) == 0) c.new_id = some_id(client);
        if (options_.patience) c.patient = pick(0, 1) == 0;
        if (asked const* const mine = own(client)) {
          c.name = *mine->name;
          c.id = mine->id;
        } else if (pick(0, 2) == 0) {
          c.id = some_vote(client);
          c.floor = some_fence();
          if (pick(0, 1) == 0) c.next_fence_floor = some_fence();
        }
        if (pick(0, 5) == 0) {  // within the minimum interval
          c.ends_in = lease();
          c.new_id = 0;
          c.next_fence_floor = 0;
          c.keep = c.patient = false;
        }
        return c;
      }
      case 8: {
        items_.clear();
        for (std::int64_t n = pick(1, 3); n > 0; --n) items_.push_back(renewal(client));
        return protocol::renew_command{items_, false, false, pick(0, 2) == 0 ? retention : std::chrono::milliseconds{}};
      }
      case 9:
      case 10: {
        items_.clear();
        for (std::int64_t n = pick(1, 3); n > 0; --n)
          items_.push_back({name(), some_vote(client), lease(), some_fence()});
        return protocol::confirm_command{items_, retention, false, pick(0, 2) == 0};
      }
      default: return protocol::prove_publish_command{};
    }
  }

  bool rarely() { return pick(0, options_.patience ? 9 : 24) == 0; }

 private:
  struct asked {
    std::string const* name;
    std::string origin;  // of one that takes it over
    engine::grant_id id;
    std::int64_t fence;
    std::string client;
  };

  std::int64_t pick(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>{from, to}(random_);
  }
  std::chrono::milliseconds lease() { return std::chrono::milliseconds{pick(0, 5) == 0 ? 1 : pick(1, 8) * 100}; }

  /// Mostly a recent one; 9 and 10, 99 and 100 are in another order as texts.
  engine::grant_id some_id(std::string const& of) {
    auto& last = last_[of];
    if (last == 0) last = 7;
    if (pick(0, 3) == 0) ++last;
    return with_nonce(last - static_cast<std::uint64_t>(pick(0, 4)));
  }

  /// Tickets are few, so that it is often the same vote.
  engine::grant_id some_vote(std::string const& of) {
    return with_nonce(7000 + last_[of] / 16 * 1000 + static_cast<std::uint64_t>(pick(0, 9) == 0 ? 999 : 0));
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

  std::int64_t some_fence() { return std::max<std::int64_t>(clock_.fence() + pick(-100'000, 400'000), 1); }

  /// A client renews what it was granted, by its fence, also when that has become another's, or its own anew.
  protocol::renewal renewal(std::string const& client) {
    if (asked_.empty() || pick(0, 2) == 0)
      return {name(), some_id(client), lease(), 0, pick(0, 2) == 0 ? std::optional{some_fence()} : std::nullopt};
    asked const& from = asked_[static_cast<std::size_t>(pick(0, std::ssize(asked_) - 1))];
    return {*from.name, from.id, lease(), 0,
            pick(0, 2) == 0 ? std::nullopt : std::optional{from.fence + (pick(0, 5) == 0 ? pick(1, 3) : 0)}};
  }

  /// The owner that an order means: none has the fence 0.
  std::optional<std::int64_t> some_owner(std::int64_t one_in) {
    if (pick(1, one_in) != 1) return std::nullopt;
    return pick(0, 3) == 0 ? 0 : some_fence();
  }

  generator_options const options_;
  std::mt19937_64 random_;
  random_clock clock_;
  std::int64_t usual_names_ = 0;
  std::vector<std::string> clients_, names_;
  std::string seen_of_ = "stock:{1}%7D";
  std::int64_t seen_fence_ = 1;
  std::map<std::string, std::uint64_t> last_;
  std::deque<asked> asked_;
  std::deque<std::pair<std::string_view, engine::grant_id>> watched_;
  std::string origin_;
  std::vector<protocol::renewal> items_;
  std::vector<protocol::attempt> attempts_;
};

}  // namespace conch::sim
