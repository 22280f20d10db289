// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/replies.hpp"

#include <boost/assert.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace conch::protocol {

namespace {

// of force; its unfinished_flag is about the owners that it takes the lock from
constexpr std::int64_t more_to_pass_on_flag = 4;

/// The reply of a server in this process; nullptr: there are numbers to read.
template <class Reply>
Reply* ready_made(answer const& a) noexcept {
  auto* const* const reply = std::get_if<Reply*>(&a.content);
  return reply != nullptr ? *reply : nullptr;
}

/// `x` and `y` as the acquire scripts write them behind `what`.
void read_result(acquire_reply& r, std::int64_t what, std::int64_t x, std::int64_t y) {
  using kind = acquire_reply::kind;
  constexpr kind kinds[] = {kind::queued, kind::granted, kind::busy, kind::too_late, kind::unfinished};
  if (what < 0 || what >= static_cast<std::int64_t>(std::size(kinds))) return;
  r.what = kinds[what];
  if (r.what == kind::granted) {
    r.fence = x;
    r.chosen = y;
  } else {
    r.left_ms = x;
    r.ticket = y;
  }
}

}  // namespace

/// FENCE · -CLOCK, granted with the fence that was proposed · WHAT X CLOCK [Y [FLAGS | CLIENT TICKET CONFIRMED]]
acquire_reply read_acquire(answer const& a, std::int64_t proposal) {
  acquire_reply r;
  if (a.what != fault::none) return r;
  if (auto const* const ready = ready_made<acquire_reply>(a)) return *ready;
  std::span const n = a.numbers();
  if (n.size() == 1) {
    // The usual grant: its fence is what the server's clock showed.
    bool const as_proposed = n[0] < 0;
    r.what = acquire_reply::kind::granted;
    r.fence = as_proposed ? proposal : n[0];
    r.server_us = as_proposed ? -n[0] : n[0] + fence_epoch_us;
    return r;
  }
  if (n.size() < 3) return r;
  read_result(r, n[0], n[1], n.size() > 3 ? n[3] : 0);
  r.server_us = n[2];
  if (n.size() == 5) {
    bool const granted = r.what == acquire_reply::kind::granted;
    r.passed_on = !granted && (n[4] & passed_on_flag) != 0;
    r.more_to_do = granted && (n[4] & unfinished_flag) != 0;
  }
  if (n.size() > 6) r.seen = {n[4], n[5], n[6] != 0};
  return r;
}

/// CLOCK FENCE... · 3 0 CLOCK
std::optional<tries_reply> read_tries(answer const& a, std::size_t tried) {
  if (a.what != fault::none) return std::nullopt;
  if (auto* const ready = ready_made<tries_reply>(a)) return std::move(*ready);
  std::span const n = a.numbers();
  if (n.size() == 3 && n[0] == 3) return tries_reply{.too_late = true, .server_us = n[2]};
  if (n.empty() || n.size() > tried + 1) return std::nullopt;
  return tries_reply{.server_us = n[0], .fences{n.begin() + 1, n.end()}};
}

/// 1 · WAS_MINE FLAGS MORE CLOCK [WHAT X Y] · 2 FENCE SEGMENT CLOCK [FLAGS] · 3 0 1 CLOCK
release_reply read_release(answer const& a, bool asked_again, bool of_permit) {
  release_reply r;
  if (a.what != fault::none) return r;
  if (auto const* const ready = ready_made<release_reply>(a)) return *ready;
  std::span const n = a.numbers();
  if (n.size() == 1 && n[0] == 1 && !asked_again) {
    r.what = release_reply::kind::released;
    r.was_mine = true;
    return r;
  }
  if (n.size() < 4) return r;
  r.server_us = n[3];
  if (n[0] == 3) {
    r.what = release_reply::kind::not_done;
    return r;
  }
  if (n[0] == 2) {
    r.what = release_reply::kind::still_owned;
    r.fence = n[1];
    r.chosen = of_permit ? n[2] : 0;
    r.more_to_do = n.size() == 5;
    return r;
  }
  if (asked_again && n.size() < 6) return r;
  r.what = release_reply::kind::released;
  r.was_mine = n[0] == 1;
  r.passed_on = (n[1] & passed_on_flag) != 0;
  r.more_to_do = (n[1] & unfinished_flag) != 0;
  r.more_in_line = n[2] != 0;
  if (asked_again) read_result(r.again, n[4], n[5], n.size() > 6 ? n[6] : 0);
  return r;
}

/// CLOCK WHAT... · of a confirmation CLOCK (WHAT FENCE)...
std::optional<renew_reply> read_renew(answer const& a, std::size_t locks, bool confirms) {
  using kind = renew_reply::kind;
  if (a.what != fault::none) return std::nullopt;
  if (auto* const ready = ready_made<renew_reply>(a)) {
    BOOST_ASSERT_MSG(ready->locks.size() == locks, "a renewal is answered for other locks");
    return std::move(*ready);
  }
  std::span n = a.numbers();
  std::size_t const each = confirms ? 2 : 1;
  if (n.size() != 1 + locks * each) return std::nullopt;
  std::optional<renew_reply> r{std::in_place};
  r->server_us = n[0];
  r->locks.reserve(locks);
  for (n = n.subspan(1); !n.empty(); n = n.subspan(each)) {
    kind const what = n[0] < 0 ? kind::failed : n[0] == 0 ? kind::not_mine : kind::renewed;
    r->locks.push_back({.what = what, .overtaken = confirms && n[0] == 2, .last_fence = confirms ? n[1] : 0});
  }
  return r;
}

namespace {

std::array<std::uint32_t, 4> words_of(std::span<std::int64_t const> words) {
  std::array<std::uint32_t, 4> client{};
  for (std::size_t word = 0; word < client.size(); ++word)
    client[word] = static_cast<std::uint32_t>(words[word] & 0xffff'ffff);
  return client;
}

/// Those that have asked the owners to let go, and those that wait. False: malformed.
bool read_others(lock_report& r, std::span<std::int64_t const> n) {
  constexpr std::size_t each_request = 6, each_waiter = 7;
  while (!n.empty()) {
    std::size_t const size = n[0] == 0 ? each_waiter : each_request;
    if (n.size() < size || n[0] < 0 || n[0] > std::ssize(r.owners)) return false;
    if (n[0] == 0) {
      r.waiters.push_back({words_of(n.subspan(1)), n[5], static_cast<std::uint32_t>(n[6])});
    } else {
      lock_report::owner& o = r.owners[static_cast<std::size_t>(n[0] - 1)];
      o.asked_by = words_of(n.subspan(1));
      o.asked_us = n[5];
    }
    n = n.subspan(size);
  }
  return true;
}

}  // namespace

/// CLOCK WAITING HELD TAKEN LIMIT KIND, for each owner four words of its client, FENCE LEFT_MS PERMITS SEGMENT
/// CONFIRMED, for each that was asked to let go its number, four words of the client that asks, and when, and for each
/// waiter 0, four words of its client, since when, and PERMITS
std::optional<lock_report> read_inspect(answer const& a) {
  if (a.what != fault::none) return std::nullopt;
  if (auto* const ready = ready_made<lock_report>(a)) return std::move(*ready);
  std::span n = a.numbers();
  constexpr std::size_t head = 6, each = 9;
  if (n.size() < head || !is_lock_kind(n[5])) return std::nullopt;
  std::size_t const named = n[2] < 0 || n[2] > 1000 ? 0 : std::min<std::size_t>(static_cast<std::size_t>(n[2]), 100);
  if (n.size() < head + named * each) return std::nullopt;
  std::span const others = n.subspan(head + named * each);
  lock_report r;
  r.waiting = static_cast<std::uint64_t>(n[1]);
  r.held = static_cast<std::uint32_t>(n[2]);
  r.taken = static_cast<std::uint32_t>(n[3]);
  r.limit = static_cast<std::uint32_t>(n[4]);
  r.kind = static_cast<permit_kind>(n[5]);
  for (n = n.subspan(head, named * each); !n.empty(); n = n.subspan(each)) {
    lock_report::owner& o = r.owners.emplace_back();
    o.client = words_of(n);
    o.fence = n[4];
    o.left_ms = n[5];
    o.permits = static_cast<std::uint32_t>(n[6]);
    o.segment = static_cast<std::uint32_t>(n[7]);
    o.confirmed = n[8] != 0;
  }
  if (!read_others(r, others)) return std::nullopt;
  return r;
}

/// COUNT CLOCK [FLAGS KIND LIMIT [LAST FROM]]
std::optional<order_reply> read_force(answer const& a) {
  if (a.what != fault::none) return std::nullopt;
  if (auto* const ready = ready_made<order_reply>(a)) return std::move(*ready);
  std::span const n = a.numbers();
  if (n.size() < 2) return std::nullopt;
  order_reply r{.count = n[0]};
  if (n.size() >= 5 && is_lock_kind(n[3])) {
    r.passed_on = (n[2] & passed_on_flag) != 0;
    r.more_to_do = (n[2] & more_to_pass_on_flag) != 0;
    r.permit = {.kind = static_cast<permit_kind>(n[3]), .limit = static_cast<std::uint32_t>(n[4]), .weight = 1};
  }
  if (n.size() >= 7 && (n[2] & unfinished_flag) != 0) r.goes_on = {n[5], n[6]};
  return r;
}

/// TAKEN CLOCK [FLAGS]
std::optional<order_reply> read_limit(answer const& a, std::uint32_t limit) {
  if (a.what != fault::none) return std::nullopt;
  if (auto* const ready = ready_made<order_reply>(a)) return std::move(*ready);
  std::span const n = a.numbers();
  if (n.size() < 2) return std::nullopt;
  std::int64_t const flags = n.size() > 2 ? n[2] : 0;
  return order_reply{.count = n[0],
                     .passed_on = (flags & passed_on_flag) != 0,
                     .more_to_do = (flags & unfinished_flag) != 0,
                     .permit = {.kind = permit_kind::semaphore,
                                .limit = n.size() > 3 ? static_cast<std::uint32_t>(n[3]) : limit,
                                .weight = 1}};
}

/// FREE LEFT CLOCK
std::optional<watch_reply> read_watch(answer const& a) {
  if (a.what != fault::none) return std::nullopt;
  if (auto const* const ready = ready_made<watch_reply>(a)) return *ready;
  std::span const n = a.numbers();
  if (n.size() != 3 || n[1] < 0) return std::nullopt;
  return watch_reply{.is_free = n[0] == 1, .left_ms = n[1]};
}

/// A text, or none
std::optional<identity_reply> read_identity(answer const& a) {
  if (a.what != fault::none) return std::nullopt;
  if (auto* const ready = ready_made<identity_reply>(a)) return std::move(*ready);
  auto const* const text = std::get_if<std::string_view>(&a.content);
  if (text == nullptr) return std::nullopt;
  return identity_reply{std::string{*text}};
}

/// COUNT · nothing
session_reply read_session(answer const& a) {
  if (auto const* const ready = ready_made<session_reply>(a)) return *ready;
  std::span const n = a.numbers();
  return {.count = n.empty() ? 0 : n[0]};
}

}  // namespace conch::protocol
