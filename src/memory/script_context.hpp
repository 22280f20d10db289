// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "memory/store.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

// The functions that the commands of a store share: lua/lib/fence.lua and lib/lock.lua, function by function.
namespace conch::memory {

inline std::string id_text(std::string_view client, engine::grant_id id) {
  std::string text{client};
  text += '.';
  char digits[engine::longest_grant_id];
  text.append(digits, engine::write_grant_id(digits, id));
  return text;
}

/// As Redis' PTTL: the time that is left of a key that exists.
inline std::int64_t left_until(std::int64_t until_ms, std::int64_t now_ms) {
  return until_ms < 0 ? -1 : std::max<std::int64_t>(until_ms - now_ms, 0);
}

struct store::script_context {
  store& in;
  entry& e;
  std::string_view client;
  std::int64_t now_us;
  std::int64_t claim;
  std::int64_t retention;

  std::int64_t now_ms() const { return now_us / 1000; }
  std::int64_t clock() const { return now_us - protocol::fence_epoch_us; }
  std::int64_t owner_left() const { return left_until(e.owner_until, now_ms()); }

  std::int64_t next_fence(std::int64_t floor) {
    std::int64_t fence = std::max(clock(), floor + 1);
    if (e.fence_until != none && e.fence >= fence) fence = e.fence + 1;
    e.fence = fence;
    e.fence_until = now_ms() + retention + (fence - clock() + 999) / 1000;
    return fence;
  }

  /// lua/lib/vote.lua
  std::int64_t raise_fence(std::int64_t floor) {
    std::int64_t const before = e.fence_until != none ? e.fence : 0;
    if (before < floor) {
      std::int64_t const ahead = std::max<std::int64_t>(floor - clock(), 0);
      e.fence = floor;
      e.fence_until = now_ms() + retention + (ahead + 999) / 1000;
    }
    return before;
  }

  /// lua/lib/keep.lua
  void keep_fence(std::int64_t fence) {
    std::int64_t const kept = std::max(fence, e.fence_until != none ? e.fence : 0);
    std::int64_t const lives = retention + std::max<std::int64_t>(0, (kept - clock() + 999) / 1000);
    if (e.fence_until != none && e.fence >= fence && left_until(e.fence_until, now_ms()) >= lives) return;
    e.fence = kept;
    e.fence_until = now_ms() + lives;
  }

  /// The answer to the client that owns the lock now.
  protocol::acquire_reply granted(std::int64_t fence, std::int64_t segment = 0) const {
    return {.what = protocol::acquire_reply::kind::granted, .fence = fence, .segment = segment, .server_us = now_us};
  }

  void own(grant id, std::int64_t fence, bool claimed, std::int64_t lease) {
    e.owner = std::move(id);
    e.owner_fence = fence;
    e.claimed = claimed;
    e.owner_until = now_ms() + lease;
  }

  /// Whether this has made a claim a hold.
  bool extend(std::int64_t lease, bool confirms = true) {
    bool const was_claim = confirms && std::exchange(e.claimed, false);
    e.owner_until = now_ms() + std::max(owner_left(), lease);
    return was_claim;
  }

  /// lua/lib/told.lua, with the line and with the watchers
  void tell_end(std::int64_t left, std::size_t most = 3) { tell_end_to(e.line, left, most); }
  void tell_watchers_end(std::int64_t left) { tell_end_to(e.watchers, left, 3); }

  void tell_end_to(std::map<std::pair<std::int64_t, std::string>, engine::grant_id> const& whom, std::int64_t left, std::size_t most) {
    for (auto at = whom.begin(); at != whom.end() && most != 0; ++at, --most) {
      auto const heard = in.listeners_.find(std::string_view{at->first.second}.substr(0, at->first.second.find('.')));
      if (heard != in.listeners_.end()) heard->second->on_end(e.name, at->second, std::chrono::milliseconds{left});
    }
  }

  bool is_first(std::string_view in_line) const { return !e.line.empty() && e.line.begin()->first.second == in_line; }

  std::int64_t enqueue(grant const& id, std::int64_t ticket, std::int64_t lock_left, std::int64_t lease) {
    if (ticket == 0) {
      ticket = now_us;
      if (!e.line.empty()) ticket = std::max(ticket, e.line.rbegin()->first.first + 1);
    }
    auto const place = e.tickets.try_emplace(id.text, ticket).first;
    if (ticket < place->second) {
      e.line.erase({place->second, id.text});
      place->second = ticket;
    }
    ticket = place->second;
    e.line.emplace(std::pair{ticket, id.text}, id.number);
    std::int64_t const lives = lock_left + lease;
    if (left_until(e.line_until, now_ms()) < lives) e.line_until = now_ms() + lives;
    return ticket;
  }

  void leave_line(std::string_view id) {
    auto const place = e.tickets.find(id);
    if (place == e.tickets.end()) return;
    e.line.erase({place->second, place->first});
    e.tickets.erase(place);
    if (e.line.empty()) e.line_until = none;
  }

  struct passed {
    std::optional<std::int64_t> fence;  // the fence that `me` got
    bool taken = false;
    bool unfinished = false;  // the lock has no owner, and the line has more waiters than were looked at
  };

  passed pass_on(std::string_view me, std::int64_t my_lease, std::int64_t floor, bool claimed = false) {
    std::int64_t const fence = next_fence(floor);
    for (std::int64_t step = 0; !e.line.empty(); ++step) {
      if (step == in.bounds_.most_steps) return {std::nullopt, false, true};
      grant head{e.line.begin()->first.second, e.line.begin()->second};
      leave_line(head.text);
      if (head.text == me) {
        own(std::move(head), fence, claimed, my_lease);
        return {fence, true};
      }
      if (head.text.find(' ') != std::string::npos) continue;  // a waiter for a lock of another kind
      auto const heard = in.listeners_.find(std::string_view{head.text}.substr(0, head.text.find('.')));
      if (heard != in.listeners_.end()) {
        heard->second->on_grant({e.name, head.number, fence, now_us, std::chrono::milliseconds{claim}});
        own(std::move(head), fence, true, claim);
        return {std::nullopt, true};
      }
    }
    return {};
  }
};

}  // namespace conch::memory
