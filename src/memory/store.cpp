// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "memory/script_context.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

// The functions below are lua/lib/fence.lua, lib/lock.lua, acquire.lua, gathered.lua (of several tries), release.lua and renew.lua line by line,
// without the short ways that only spare a server of Redis some work (lua/lib/take_free.lua). If you change one, change the other too;
// tests/sim/differential/memory_store_differential_test.cpp compares them.
namespace conch::memory {

namespace {

/// The first 48 bits of a client and the ticket in a vote's id; 0 and 0 for any other id.
protocol::acquire_reply::owner voter_of(std::string_view id, bool claimed) {
  auto const dot = id.find('.');
  std::string_view const client = id.substr(0, dot), number = id.substr(dot + 1, id.find('-', dot) - dot - 1);
  if (number.size() < 4) return {0, 0, !claimed};
  std::int64_t voter = 0, ticket = 0;
  std::string_view const bits = client.substr(0, 12);
  auto const read = std::from_chars(bits.data(), bits.data() + bits.size(), voter, 16);
  if (read.ptr != bits.data() + bits.size()) voter = 0;
  std::from_chars(number.data(), number.data() + number.size() - 3, ticket);
  return {voter, ticket, !claimed};
}

}  // namespace

std::int64_t store::entry::next_expiry() const noexcept {
  std::int64_t first = none;
  for (std::int64_t const until :
       {owner_until, line_until, fence_until, permits.until, permits.ends_until, requests_until, watchers_until, alert_until}) {
    if (until != none && (first == none || until < first)) first = until;
  }
  return first;
}

std::shared_ptr<store> store::named(std::string_view name) {
  // Never destroyed: clients that are static objects use it until the very end.
  static auto& guard = *new std::mutex;
  static auto& all = *new std::map<std::string, std::shared_ptr<store>, std::less<>>;
  std::lock_guard const lock{guard};
  auto place = all.find(name);
  if (place == all.end()) place = all.emplace(name, std::make_shared<store>()).first;
  return place->second;
}

void store::subscribe(std::string client, listener& l) {
  std::lock_guard const lock{mutex_};
  listeners_.insert_or_assign(std::move(client), &l);
}

void store::unsubscribe(std::string_view client) {
  std::lock_guard const lock{mutex_};
  auto const place = listeners_.find(client);
  if (place != listeners_.end()) listeners_.erase(place);
}

std::size_t store::size() const {
  std::lock_guard const lock{mutex_};
  return entries_.size();
}

template <class Command, class F>
auto store::at_entry(Command const& c, std::string_view client, std::int64_t now_us, F&& f) {
  std::chrono::milliseconds claim{0}, retention{0};
  if constexpr (requires { c.claim; }) {
    claim = c.claim;
    retention = c.retention;
  }
  script_context m{*this, find_or_make(c.name), client, now_us, claim.count(), retention.count()};
  auto reply = std::forward<F>(f)(m);
  put_on_agenda(m.e);
  return reply;
}

store::acquired store::answer_to(protocol::acquire_command const& c, std::string_view client, std::int64_t now_us) {
  return at_entry(c, client, now_us, [&](script_context& m) {
    if (!c.origin.empty()) return c.permit != nullptr ? adopt_permit(m, c) : adopt(m, c);
    return c.permit != nullptr ? acquire_permit(m, c) : acquire(m, c);
  });
}

store::released store::answer_to(protocol::release_command const& c, std::string_view client, std::int64_t now_us) {
  return at_entry(c, client, now_us, [&](script_context& m) { return c.permit != nullptr ? release_permit(m, c) : release(m, c); });
}

store::renewed store::answer_to(protocol::renew_command const& c, std::string_view client, std::int64_t now_us) {
  return c.permits ? renew_permits(c, client, now_us) : renew(c, client, now_us);
}

engine::lock_report store::answer_to(protocol::inspect_command const& c, std::string_view client, std::int64_t now_us) {
  return at_entry(c, client, now_us, [&](script_context& m) { return inspect(m); });
}

protocol::order_reply store::answer_to(protocol::force_command const& c, std::string_view client, std::int64_t now_us) {
  return at_entry(c, client, now_us, [&](script_context& m) { return force(m, c); });
}

protocol::order_reply store::answer_to(protocol::request_command const& c, std::string_view client, std::int64_t now_us) {
  return at_entry(c, client, now_us, [&](script_context& m) { return request(m, c, client); });
}

protocol::session_reply store::answer_to(protocol::requested_command const& c, std::string_view, std::int64_t) {
  entry const* const known = find(c.name);
  return {.count = known != nullptr && known->requests.contains(c.fence) ? 1 : 0};
}

protocol::watch_reply store::answer_to(protocol::watch_command const& c, std::string_view client, std::int64_t now_us) {
  return at_entry(c, client, now_us, [&](script_context& m) { return watch(m, c); });
}

protocol::session_reply store::answer_to(protocol::unwatch_command const& c, std::string_view client, std::int64_t now_us) {
  return at_entry(c, client, now_us, [&](script_context& m) {
    std::size_t const before = m.e.watchers.size();
    forget_watcher(m.e, id_text(client, c.id));
    return protocol::session_reply{.count = static_cast<std::int64_t>(before - m.e.watchers.size())};
  });
}

store::ordered store::answer_to(protocol::limit_command const& c, std::string_view client, std::int64_t now_us) {
  return at_entry(c, client, now_us, [&](script_context& m) { return set_limit(m, c); });
}

/// lua/adopt.lua
store::acquired store::adopt(script_context& m, protocol::acquire_command const& c) {
  using reply = protocol::acquire_reply;
  using kind = reply::kind;
  entry& e = m.e;
  if (c.not_after_us > 0 && m.now_us > c.not_after_us) return reply{.what = kind::too_late, .server_us = m.now_us};
  if (e.permits.until != none) return std::nullopt;
  if (e.owned_by(m.client, c.id)) {
    m.extend(c.lease.count());
  } else if (e.owned() && e.owner.text + ' ' + std::to_string(e.owner_fence) == c.origin) {
    m.own({id_text(m.client, c.id), c.id}, e.owner_fence, false, c.lease.count());
    m.tell_end(c.lease.count());
  } else {
    return reply{.what = kind::busy, .server_us = m.now_us};
  }
  m.keep_fence(e.owner_fence);
  return m.granted(e.owner_fence);
}

store::acquired store::acquire(script_context& m, protocol::acquire_command const& c) {
  using reply = protocol::acquire_reply;
  using kind = reply::kind;
  entry& e = m.e;
  grant me{id_text(m.client, c.id), c.id};
  std::int64_t const lease = c.lease.count();
  bool const vote = c.proposal != 0;
  std::int64_t const floor = (vote ? c.proposal : 1) - 1;
  auto const rival = [&](reply r) {
    if (vote) r.seen = voter_of(e.owner.text, e.claimed);
    return r;
  };
  if (c.not_after_us > 0 && m.now_us > c.not_after_us) return reply{.what = kind::too_late, .server_us = m.now_us};
  if (e.permits.until != none) return std::nullopt;

  if (e.owned()) {
    if (e.owned_by(m.client, c.id)) {
      if (m.extend(lease, !vote)) m.tell_end(lease);
      return m.granted(e.owner_fence);
    }
    std::int64_t const left = m.owner_left();
    if (!c.wait) return rival({.what = kind::busy, .left_ms = left, .server_us = m.now_us});
    std::int64_t const ticket = m.enqueue(me, c.ticket, left, lease);
    return rival({.what = kind::queued, .left_ms = left, .ticket = ticket, .server_us = m.now_us});
  }

  if (!e.line.empty()) {
    std::int64_t const ticket = c.wait ? m.enqueue(me, c.ticket, m.claim, lease) : 0;
    script_context::passed const next = m.pass_on(me.text, lease, floor, vote);
    if (next.unfinished) return reply{.what = kind::unfinished, .ticket = ticket, .server_us = m.now_us};
    if (next.fence && !vote) m.tell_end(lease);
    if (next.fence) return m.granted(*next.fence);
    if (next.taken) {
      return rival({.what = c.wait ? kind::queued : kind::busy,
                    .left_ms = m.claim,
                    .ticket = ticket,
                    .server_us = m.now_us,
                    .passed_on = !vote && !e.line.empty()});
    }
  }

  std::int64_t const fence = m.next_fence(floor);
  m.own(std::move(me), fence, vote, lease);
  return m.granted(fence);
}

protocol::tries_reply store::answer_to(protocol::acquire_all_command const& c, std::string_view client, std::int64_t now_us) {
  if (c.not_after_us > 0 && now_us > c.not_after_us) return {.too_late = true, .server_us = now_us};
  auto const take = [](script_context& m, grant me, std::int64_t lease) -> std::int64_t {
    entry& e = m.e;
    if (!e.owned() && e.permits.until == none && e.line.empty()) {
      std::int64_t const fence = m.next_fence(0);
      m.own(std::move(me), fence, false, lease);
      return fence;
    }
    if (!e.owned_by(m.client, me.number)) return 0;
    if (m.extend(lease)) m.tell_end(lease);
    return e.owner_fence;
  };
  protocol::tries_reply reply{.server_us = now_us};
  reply.fences.reserve(c.items.size());
  for (protocol::attempt const& item : c.items) {
    script_context m{*this, find_or_make(item.name), client, now_us, 0, c.retention.count()};
    std::int64_t const fence = take(m, grant{id_text(client, item.id), item.id}, item.lease.count());
    put_on_agenda(m.e);
    if (fence == 0) break;
    reply.fences.push_back(fence);
  }
  return reply;
}

store::released store::release(script_context& m, protocol::release_command const& c) {
  using reply = protocol::release_reply;
  using kind = reply::kind;
  using again_kind = protocol::acquire_reply::kind;
  entry& e = m.e;
  std::optional<grant> again;
  if (c.new_id != 0) again = grant{id_text(m.client, c.new_id), c.new_id};
  std::int64_t const lease = c.lease.count();
  if (e.permits.until != none) return std::nullopt;

  bool const was_owner = e.owned_by(m.client, c.id);
  if (was_owner && c.keep) {
    if (m.extend(lease, c.floor == 0)) m.tell_end(lease);
    return reply{.what = kind::still_owned, .server_us = m.now_us, .fence = e.owner_fence};
  }
  reply given_back{.what = kind::released, .was_mine = was_owner, .server_us = m.now_us};
  std::int64_t const floor = std::max({c.floor, c.next_fence_floor, was_owner ? e.owner_fence : 0});
  bool const raised = c.floor != 0 && m.raise_fence(c.floor) < c.floor;
  if (!was_owner) {
    std::string const id = id_text(m.client, c.id);
    bool const was_first = e.owned() && m.is_first(id);
    m.leave_line(id);
    if (e.owned()) {
      std::int64_t const left = m.owner_left();
      if (!again && (was_first || e.claimed)) m.tell_end(left, was_first ? 1 : 3);
      if (!again) return given_back;
      std::int64_t const ticket = m.enqueue(*again, 0, left, lease);
      given_back.more_in_line = true;
      given_back.again = {.what = again_kind::queued, .left_ms = left, .ticket = ticket};
      return given_back;
    }
  }

  if (e.line.empty()) {
    if (again) {
      std::int64_t const fence = m.next_fence(floor);
      m.own(std::move(*again), fence, false, lease);
      given_back.again = {.what = again_kind::granted, .fence = fence};
      return given_back;
    }
    e.owner_until = none;
    tell_freed(e);
    if (was_owner && !raised) given_back.server_us = 0;  // the usual case: the script says nothing more than that
    return given_back;
  }

  std::int64_t const ticket = again ? m.enqueue(*again, 0, m.claim, lease) : 0;
  script_context::passed const next = m.pass_on(again ? std::string_view{again->text} : std::string_view{}, lease, floor);
  if (!next.taken) {
    e.owner_until = none;
    if (!next.unfinished) tell_freed(e);
  }
  given_back.more_in_line = !e.line.empty();
  if (next.fence) {
    given_back.again = {.what = again_kind::granted, .fence = *next.fence};
    return given_back;
  }
  given_back.passed_on = next.taken;
  given_back.more_to_do = next.unfinished;
  if (again) given_back.again = {.what = again_kind::queued, .left_ms = m.claim, .ticket = ticket};
  return given_back;
}

store::renewed store::renew(protocol::renew_command const& c, std::string_view client, std::int64_t now_us) {
  using kind = renewed::kind;
  renewed reply{.server_us = now_us};
  reply.locks.reserve(c.items.size());
  for (protocol::renewal const& item : c.items) {
    entry* const e = find(item.name);
    bool const mine = e != nullptr && e->owned_by(client, item.id) && (!item.fence || item.fence == e->owner_fence);
    if (mine) {
      script_context m{*this, *e, client, now_us, 0, c.retention.count()};
      bool const was_claim = m.extend(item.lease.count());
      if (c.retention.count() != 0) {
        m.keep_fence(e->owner_fence);
        if (was_claim) m.tell_end(item.lease.count());
        if (was_claim) m.tell_watchers_end(item.lease.count());
      }
      put_on_agenda(*e);
    }
    reply.locks.push_back({.what = mine ? kind::renewed : kind::not_mine});
  }
  return reply;
}

store::renewed store::answer_to(protocol::confirm_command const& c, std::string_view client, std::int64_t now_us) {
  using kind = renewed::kind;
  renewed reply{.server_us = now_us};
  reply.locks.reserve(c.items.size());
  for (protocol::renewal const& item : c.items) {
    script_context m{*this, find_or_make(item.name), client, now_us, 0, c.retention.count()};
    std::int64_t const before = m.raise_fence(item.floor);
    if (c.keep_fences) m.keep_fence(item.floor);
    bool const mine = m.e.owned_by(client, item.id);
    if (mine && m.extend(item.lease.count())) m.tell_end(item.lease.count());
    put_on_agenda(m.e);
    reply.locks.push_back({.what = mine ? kind::renewed : kind::not_mine, .overtaken = mine && before > item.floor, .last_fence = before});
  }
  return reply;
}

store::entry* store::find(std::string_view name) {
  auto const place = entries_.find(name);
  return place == entries_.end() ? nullptr : place->second.get();
}

store::entry& store::find_or_make(std::string_view name) {
  if (entry* const known = find(name)) return *known;
  auto made = std::make_unique<entry>();
  made->name = name;
  std::string_view const key = made->name;
  return *entries_.emplace(key, std::move(made)).first->second;
}

/// As in Redis a key lives to the end of its last millisecond. A key that has gone does not come back when the clock goes back.
void store::drop_expired(std::int64_t now_ms) {
  while (!agenda_.empty() && agenda_.begin()->first < now_ms) {
    entry& e = *agenda_.begin()->second;
    if (e.owner_until < now_ms) e.owner_until = none;
    if (e.line_until < now_ms) {
      e.line.clear();
      e.tickets.clear();
      e.line_until = none;
    }
    if (e.fence_until < now_ms) e.fence_until = none;
    if (e.permits.until < now_ms) e.permits = {};
    if (e.permits.ends_until < now_ms) {
      e.permits.forget_ends();
      e.permits.ends_until = none;
    }
    if (e.requests_until < now_ms) {
      e.requests.clear();
      e.requests_until = none;
    }
    if (e.watchers_until < now_ms) {
      e.watchers.clear();
      e.watchers_until = none;
    }
    if (e.alert_until < now_ms) e.alert_until = none;
    put_on_agenda(e);
  }
}

/// Called after any change: puts the entry on the agenda by what expires first, or removes it from the store when nothing is left of it.
void store::put_on_agenda(entry& e) {
  std::int64_t const next = e.next_expiry();
  if (e.looked_at != none && e.looked_at != next) agenda_.erase({e.looked_at, &e});
  if (next == none) {
    entries_.erase(entries_.find(e.name));  // the key is a view into the entry
  } else {
    if (e.looked_at != next) agenda_.emplace(next, &e);
    e.looked_at = next;
  }
}

}  // namespace conch::memory
