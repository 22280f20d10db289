// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "rules/lock.hpp"

#include "rules/kinds.hpp"

#include <boost/assert.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>
#include <vector>

namespace conch::rules {

using engine::permit;
using protocol::acquire_command;
using protocol::acquire_reply;
using protocol::order_reply;
using protocol::release_reply;

namespace {

constexpr ms patient_pause = 20;  // then a patient request is to be repeated
// owners that a report names, or that one request asks to let go: the first by their fences ...
constexpr std::size_t most_named = 100;
constexpr std::size_t too_many = 1000;  // ... and none of more than that

/// What a command asks for.
permit const& wish_of(permit const* share) {
  // never destroyed: clients that are static objects use it until the very end
  static permit const& mutex = *new permit{permit_kind::none, 1, 1};
  return share != nullptr ? *share : mutex;
}

// ---- times ---------------------------------------------------------------------------------------------------------

/// A key of Redis is there to the end of its last millisecond. So is all that is kept here.
us end_of_key(us now, ms lives) { return (now / 1000 + lives + 1) * 1000; }
ms left_of_key(us end, us now) { return end / 1000 - 1 - now / 1000; }

us end_of_lease(lock const& l, us now, ms lease) {
  return rules_of(l.kind).whole_ms ? end_of_key(now, lease) : now + lease * 1000;
}

ms left_of(lock const& l, owner const& o, us now) {
  return rules_of(l.kind).whole_ms ? left_of_key(o.ends, now) : (o.ends - now + 999) / 1000;
}

/// How long a waiter may sleep: then the first of the present leases ends.
ms left(lock& l, moment const& when) {
  return l.owners.empty() ? when.claim : std::max<ms>(left_of(l, l.owners.first_to_end(), when.now), 0);
}

void keep(lock& l, moment const& when, ms lease) { l.kept = std::max(l.kept, end_of_key(when.now, lease)); }

/// A limit that was set is kept for the retention after each change. Without it there is nothing to keep of a lock
/// without owners.
void owners_changed(lock& l, moment const& when) {
  if (l.limit_is_set) {
    keep(l, when, when.retention);
  } else if (l.owners.empty()) {
    l.kept = 0;
  }
}

void remove(lock& l, moment const& when, owner& o) {
  if (o.segment != 0) l.segments[static_cast<std::size_t>(o.segment - 1)] = '0';
  l.owners.remove(o);
  l.passed_over = 0;
  owners_changed(l, when);
}

void end_leases(lock& l, moment const& when) {
  while (!l.owners.empty() && l.owners.first_to_end().ends <= when.now) remove(l, when, l.owners.first_to_end());
}

/// Looks at the lock as one of that kind. False: it is of another kind.
bool open(lock& l, moment const& when, permit const& as) {
  end_what_is_over(l, when.now);
  if (l.kept != 0 && l.kind != as.kind) return false;
  end_leases(l, when);
  l.kind = as.kind;
  if (l.owners.empty()) {
    if (!l.limit_is_set) l.limit = as.limit;
    if (l.kind == permit_kind::segments) l.segments.assign(static_cast<std::size_t>(l.limit), '0');
    l.passed_over = 0;
  }
  return true;
}

// ---- fences --------------------------------------------------------------------------------------------------------

/// Keeps a fence for the retention, and not before the clock has passed it.
us end_of_fence(moment const& when, std::int64_t fence) {
  return end_of_key(when.now, when.retention + std::max<std::int64_t>(fence - when.clock() + 999, 0) / 1000);
}

/// Above each fence before it, whether data or the clock went back (not both at once).
std::int64_t next_fence(lock& l, moment const& when, std::int64_t above) {
  l.fence = std::max({when.clock(), above + 1, l.fence + 1});
  l.fence_kept = end_of_fence(when, l.fence);
  return l.fence;
}

/// No fence from now on is at or below `floor`. Returns the greatest one before.
std::int64_t raise_fence(lock& l, moment const& when, std::int64_t floor) {
  std::int64_t const before = l.fence;
  if (before >= floor) return before;
  l.fence = floor;
  l.fence_kept = end_of_fence(when, floor);
  return before;
}

/// For a hold that lasts long: as if its fence were granted now.
void keep_fence(lock& l, moment const& when, std::int64_t fence) {
  us const kept = end_of_fence(when, std::max(l.fence, fence));
  l.fence_kept = l.fence < fence ? kept : std::max(l.fence_kept, kept);
  l.fence = std::max(l.fence, fence);
}

// ---- what fits -----------------------------------------------------------------------------------------------------

std::int64_t room(lock const& l) { return l.limit - l.owners.taken(); }

/// For a lock with segments: the first one that is free and not in `unwanted`, from that place on and then from the
/// first. 0: there is none.
std::int64_t free_segment(lock const& l, std::string_view unwanted, std::int64_t start) {
  std::vector<bool> refused(l.segments.size() + 1);
  for (std::size_t position = unwanted.find_first_of("0123456789"); position < unwanted.size();
       position = unwanted.find_first_of("0123456789", position)) {
    auto const end = std::min(unwanted.find_first_not_of("0123456789", position), unwanted.size());
    std::size_t segment = 0;
    std::from_chars(unwanted.data() + position, unwanted.data() + end, segment);
    if (segment < refused.size()) refused[segment] = true;
    position = end;
  }
  auto const from = static_cast<std::size_t>(start % l.limit);
  auto const first_in = [&](std::size_t begin, std::size_t end) -> std::int64_t {
    for (auto it = l.segments.find('0', begin); it < end; it = l.segments.find('0', it + 1)) {
      if (!refused[it + 1]) return static_cast<std::int64_t>(it) + 1;
    }
    return 0;
  };
  std::int64_t const behind = first_in(from, l.segments.size());
  return behind != 0 ? behind : first_in(0, from);
}

/// The segment that such a share would have; 0 in a lock without segments. Nothing: it does not fit. More than the
/// limit counts as all of it, because the limit may have been lowered since.
std::optional<std::int64_t> fits(lock const& l, std::int64_t size, std::string_view unwanted, std::int64_t start = 0) {
  if (room(l) <= 0) return std::nullopt;
  bool yes = false;
  std::int64_t segment = 0;
  switch (l.kind) {
    case permit_kind::none:
    case permit_kind::semaphore:
    case permit_kind::shared: yes = std::min(size, l.limit) <= room(l); break;
    case permit_kind::reentrant: yes = l.owners.empty() || l.whose == unwanted; break;
    case permit_kind::segments: yes = (segment = free_segment(l, unwanted, start)) != 0; break;
  }
  return yes ? std::optional{segment} : std::nullopt;
}

struct grant {
  std::int64_t size, segment, fence;
  std::string_view whose{};  // of a reentrant lock
  ms lease;
  bool claimed;
};

owner& own(lock& l, moment const& when, sender const& s, grant const& g) {
  if (owner* const before = l.owners.find(s)) remove(l, when, *before);  // no client asks for two things under one id
  if (l.kind == permit_kind::reentrant) l.whose = g.whose;
  if (g.segment != 0) l.segments[static_cast<std::size_t>(g.segment - 1)] = '1';
  keep(l, when, g.lease);
  owner& o = l.owners.add(s, {.who = {},
                              .size = g.size,
                              .segment = g.segment,
                              .fence = g.fence,
                              .ends = end_of_lease(l, when.now, g.lease),
                              .claimed = g.claimed});
  owners_changed(l, when);
  return o;
}

// ---- the line ------------------------------------------------------------------------------------------------------

std::string line_text(sender const& s, permit const& wants) {
  std::string text = s.text();
  if (wants) text.append(1, ' ').append(std::to_string(wants.weight)).append(1, ' ').append(wants.detail);
  return text;
}

/// At the place that it had, or else behind all others; of two places the earlier counts. The queue outlives the
/// present leases by that of the last waiter, so that no waiter is forgotten when an owner dies. Returns the ticket.
std::int64_t stand_in_line(lock& l, moment const& when, sender const& s, permit const& wants, std::int64_t shown,
                           ms lease) {
  waiter me{shown, {line_text(s, wants), s.number}};
  auto const before = l.line.find(me.who.text);
  bool const was_there = before != l.line.end();
  if (was_there && (shown == 0 || before->ticket <= shown)) {
    me.ticket = before->ticket;
  } else {
    if (shown == 0) me.ticket = l.line.empty() ? when.now : std::max(when.now, l.line.last_ticket() + 1);
    if (was_there) l.line.remove(before);
    l.line.add(me);
    if (me.ticket <= l.passed_over) l.passed_over = 0;
  }
  bool const is_held_mutex = l.kind == permit_kind::none && !l.owners.empty();
  ms const held = is_held_mutex ? left(l, when) : std::max(left_of_key(l.kept, when.now), when.claim);
  l.line_kept = std::max(l.line_kept, end_of_key(when.now, held + lease));
  return me.ticket;
}

line::iterator leave_line(lock& l, line::iterator w) {
  auto const next = l.line.remove(w);
  if (l.line.empty()) l.line_kept = 0;
  return next;
}

/// Tells the first in the queue when the lease of the present owner ends: they may know of a longer, earlier one.
void tell_end(lock& l, moment const& when, ms left, int most = 3) {
  for (auto w = l.line.begin(); w != l.line.end() && most != 0; ++w, --most)
    when.clients.send({.what = push::kind::ends, .to = w->who, .left = left});
}

/// One of the first `room` in the queue whose client is not connected, if the request is patient. nullptr: there is
/// none.
waiter const* awaited(lock const& l, moment const& when, bool patient, sender const& me, std::int64_t room) {
  if (!patient) return nullptr;
  for (auto w = l.line.begin(); w != l.line.end() && room > 0; ++w, --room) {
    if (!w->who.is(me) && !when.clients.is_listening(w->who.client())) return &*w;
  }
  return nullptr;
}

struct turns {
  sender const* asker = nullptr;  // is in line too, and is granted by the answer to its request
  ms lease = 0;                   // of the asker
  bool as_claim = false;
  sender const* gone = nullptr;  // does not wait any more, whatever it asked for in line
  std::int64_t above = 0;        // fences are greater than this one
};

struct passed {
  owner const* asker = nullptr;  // is an owner now
  bool others = false;           // some are, and were notified
};

/// Gives what is free to the first in the queue for whom it is enough, as long as there is one. A large request at the
/// head is not overtaken; but with segments, and for a reentrant lock, a waiter that wants nothing of what is free is
/// passed over. One that cannot be told is not granted: it loses its place, and comes back to it with its ticket.
passed pass_on(lock& l, moment const& when, turns t) {
  passed result;
  if (l.line.empty()) return result;
  bool const in_order = rules_of(l.kind).in_order, of_mutex = l.kind == permit_kind::none;
  std::int64_t fence = 0;                       // reserved for the next grant
  std::set<std::string, std::less<>> hopeless;  // for whom no segment was found: there are never more
  auto next = in_order ? l.line.begin() : l.line.after(l.passed_over);
  while (next != l.line.end() && room(l) > 0) {
    auto const wish = next->wants();
    if (of_mutex && fence == 0) fence = next_fence(l, when, t.above);
    if (wish.of_mutex != of_mutex || (t.gone != nullptr && next->who.is(*t.gone))) {
      next = leave_line(l, next);
      continue;
    }
    auto const segment = hopeless.contains(wish.unwanted) ? std::nullopt : fits(l, wish.size, wish.unwanted);
    if (!segment && in_order) break;
    if (!segment) {
      if (l.kind == permit_kind::segments) hopeless.emplace(wish.unwanted);
      ++next;
      continue;
    }
    if (fence == 0) fence = next_fence(l, when, t.above);
    bool const by_answer = t.asker != nullptr && next->who.is(*t.asker);
    if (by_answer || when.clients.send({push::kind::granted, next->who, fence, *segment, when.claim})) {
      owner const& o = own(l, when, {next->who.client(), next->who.number},
                           {.size = std::min(wish.size, l.limit),
                            .segment = *segment,
                            .fence = fence,
                            .whose = wish.unwanted,
                            .lease = by_answer ? t.lease : when.claim,
                            .claimed = !by_answer || t.as_claim});
      if (by_answer) result.asker = &o;
      result.others = result.others || !by_answer;
      t.above = std::exchange(fence, 0);
    }
    next = leave_line(l, next);
  }
  if (!in_order && !l.line.empty() && room(l) > 0) l.passed_over = l.line.last_ticket();
  return result;
}

void tell_that_it_is_free(lock& l, moment const& when) {
  if (l.watchers.empty()) return;
  l.watchers_kept = 0;
  for (lock::watcher const& w : std::exchange(l.watchers, {}))
    when.clients.send({.what = push::kind::free, .to = w.who});
}

/// The same to watchers.
void tell_watchers_end(lock const& l, moment const& when, ms left) {
  int most = 3;
  for (auto w = l.watchers.begin(); w != l.watchers.end() && most != 0; ++w, --most)
    when.clients.send({.what = push::kind::ends, .to = w->who, .left = left});
}

// ---- owners --------------------------------------------------------------------------------------------------------

/// The lease is at least that long from now on. A claim becomes a hold; true: it was one.
bool extend(lock& l, moment const& when, owner& o, ms lease) {
  o.ends = std::max(o.ends, end_of_lease(l, when.now, lease));
  keep(l, when, lease);
  return std::exchange(o.claimed, false);
}

/// Within the minimum interval after its grant a mutex is not given back: its lease ends with the interval.
void end_later(lock& l, moment const& when, owner& o, ms ends_in) {
  l.kept = o.ends = end_of_lease(l, when.now, ends_in);
  o.claimed = false;
  tell_end(l, when, ends_in);
  tell_watchers_end(l, when, ends_in);
}

/// The same for an owner that asks again. A vote becomes a hold only by its confirmation.
void extend_and_tell(lock& l, moment const& when, owner& o, ms lease, bool confirms) {
  bool const was_claim = extend(l, when, o, lease);
  o.claimed = was_claim && !confirms;
  owners_changed(l, when);
  if (was_claim && confirms) tell_end(l, when, lease);
}

/// What an owner is told that it has: its segment. One that asked for all that was free: how much that is.
std::int64_t told_of(owner const& o, permit const& asked) { return asked.weight == 0 ? o.size : o.segment; }

std::map<std::int64_t, owner const*> owners_by_fence(lock const& l, us now) {
  std::map<std::int64_t, owner const*> all;
  for (auto const& [number, o] : l.owners) {
    if (o.ends > now) all.emplace(o.fence, &o);
  }
  return all;
}

/// For a vote: the first 48 bits of the client, and the ticket that is in its id; 0 and 0 of any other id.
acquire_reply::owner voter_of(id const& who, bool claimed) {
  std::string_view const client = who.client();
  std::string_view const number = std::string_view{who.text}.substr(client.size() + 1);
  std::string_view const count = number.substr(0, number.find('-'));
  if (count.size() < 4) return {0, 0, !claimed};
  std::int64_t voter = 0, ticket = 0;
  std::string_view const bits = client.substr(0, 12);
  auto const read = std::from_chars(bits.data(), bits.data() + bits.size(), voter, 16);
  if (read.ptr != bits.data() + bits.size()) voter = 0;
  std::from_chars(count.data(), count.data() + count.size() - 3, ticket);
  return {voter, ticket, !claimed};
}

/// Is there no waiter that fits and whose turn it is?
bool all_turns_are_taken(lock const& l) {
  for (waiter const& w : l.line) {
    auto const wish = w.wants();
    if (room(l) <= 0) return true;
    if (wish.of_mutex == (l.kind == permit_kind::none) && fits(l, wish.size, wish.unwanted)) return false;
    if (rules_of(l.kind).in_order) return true;
  }
  return true;
}

// ---- requests ------------------------------------------------------------------------------------------------------

bool is_too_late(moment const& when, acquire_command const& c) {
  return c.not_after_us > 0 && when.now > c.not_after_us;
}

std::optional<acquire_reply> carry_out(lock& l, moment const& when, acquire_command const& c) {
  using kind = acquire_reply::kind;
  permit const& wants = wish_of(c.permit);
  sender const me{when.client, c.id};
  bool const is_vote = c.proposal != 0;
  std::int64_t const above = is_vote ? c.proposal - 1 : 0;
  ms const lease = c.lease.count();
  end_what_is_over(l, when.now);
  if (is_too_late(when, c)) return acquire_reply{.what = kind::too_late, .server_us = when.now};
  if (!open(l, when, wants)) return std::nullopt;

  auto const granted = [&](owner const& o, std::int64_t told) {
    return acquire_reply{.what = kind::granted, .fence = o.fence, .chosen = told, .server_us = when.now};
  };
  if (owner* const mine = l.owners.find(me)) {
    extend_and_tell(l, when, *mine, lease, !is_vote);
    if (awaited(l, when, c.patient, me, room(l)) == nullptr) pass_on(l, when, {.gone = &me});
    return granted(*mine, told_of(*mine, wants));
  }

  std::int64_t ticket = 0;
  auto const not_yet = [&](ms sleeps, bool passed_on, id const* rival, bool is_claim) {
    acquire_reply r{.what = c.wait ? kind::queued : kind::busy,
                    .left_ms = sleeps,
                    .ticket = ticket,
                    .server_us = when.now,
                    .passed_on = passed_on};
    if (is_vote && rival != nullptr) r.seen = voter_of(*rival, is_claim);
    return r;
  };
  passed next;
  if (!l.line.empty()) {
    if (c.wait) ticket = stand_in_line(l, when, me, wants, c.ticket, lease);
    if (auto const* const first = awaited(l, when, c.patient, me, room(l)))
      return not_yet(patient_pause, false, &first->who, true);
    // The first in the queue may be dead, and want so much that its turn does not come soon: a waiter that asks again
    // finds out.
    while (c.ticket > 0 && !c.patient && rules_of(l.kind).looks_at_head && !l.line.empty()) {
      id const& first = l.line.begin()->who;
      if (first.text == line_text(me, wants) || when.clients.is_listening(first.client())) break;
      leave_line(l, l.line.begin());
    }
    next = pass_on(l, when, {.asker = &me, .lease = lease, .as_claim = is_vote, .above = above});
    if (next.asker != nullptr && !is_vote) tell_end(l, when, lease);
    if (next.asker != nullptr) return granted(*next.asker, next.asker->segment);
  }

  if (l.line.empty() || (!rules_of(l.kind).in_order && ticket == 0)) {
    if (auto const segment = fits(l, wants.weight, wants.detail, wants.start)) {
      std::int64_t const size = wants.weight == 0 ? room(l) : std::min<std::int64_t>(wants.weight, l.limit);
      return granted(own(l, when, me,
                         {.size = size,
                          .segment = *segment,
                          .fence = next_fence(l, when, above),
                          .whose = wants.detail,
                          .lease = lease,
                          .claimed = is_vote}),
                     wants.weight == 0 ? size : *segment);
    }
  }
  if (c.wait && ticket == 0) ticket = stand_in_line(l, when, me, wants, c.ticket, lease);
  owner const* const rival = l.owners.empty() ? nullptr : &l.owners.begin()->second;
  return not_yet(left(l, when), next.others && !is_vote && !l.line.empty(), rival != nullptr ? &rival->who : nullptr,
                 rival != nullptr && rival->claimed);
}

std::int64_t carry_out(lock& l, moment const& when, protocol::attempt const& c) {
  if (!open(l, when, wish_of(nullptr))) return 0;
  sender const me{when.client, c.id};
  if (owner* const mine = l.owners.find(me)) {
    extend_and_tell(l, when, *mine, c.lease.count(), true);
    return mine->fence;
  }
  if (!l.owners.empty() || !l.line.empty()) return 0;
  return own(l, when, me,
             {.size = 1, .segment = 0, .fence = next_fence(l, when, 0), .lease = c.lease.count(), .claimed = false})
      .fence;
}

/// The owner "CLIENT.N FENCE".
owner* find(lock& l, std::string_view origin) {
  auto const gap = origin.find(' '), dot = origin.find('.');
  if (gap == std::string_view::npos || dot > gap) return nullptr;
  std::string_view number = origin.substr(dot + 1, gap - dot - 1);
  engine::grant_id n;
  if (!engine::read_grant_id(number, n)) return nullptr;
  owner* const found = l.owners.find({origin.substr(0, dot), n});
  return found != nullptr && std::to_string(found->fence) == origin.substr(gap + 1) ? found : nullptr;
}

std::optional<acquire_reply> carry_out_adoption(lock& l, moment const& when, acquire_command const& c) {
  using kind = acquire_reply::kind;
  end_what_is_over(l, when.now);
  if (is_too_late(when, c)) return acquire_reply{.what = kind::too_late, .server_us = when.now};
  if (l.kept != 0 && l.kind != wish_of(c.permit).kind) return std::nullopt;
  sender const me{when.client, c.id};
  ms const lease = c.lease.count();
  auto const is_alive = [&](owner const* o) { return o != nullptr && o->ends > when.now; };
  owner* mine = l.owners.find(me);
  owner* const from = find(l, c.origin);
  if (is_alive(mine)) {
    extend(l, when, *mine, lease);
  } else if (is_alive(from)) {
    owner part = *from;
    us const ends = end_of_lease(l, when.now, lease);
    bool const of_mutex = l.kind == permit_kind::none;
    part.ends = of_mutex ? ends : std::max(part.ends, ends);  // that of a mutex begins anew
    part.claimed = false;
    if (mine != nullptr) remove(l, when, *mine);
    l.owners.remove(*from);
    mine = &l.owners.add(me, part);
    l.kept = of_mutex ? ends : std::max(l.kept, end_of_key(when.now, lease));
    if (of_mutex) tell_end(l, when, lease);
  } else {
    return acquire_reply{.what = kind::busy, .server_us = when.now};
  }
  keep_fence(l, when, mine->fence);
  return acquire_reply{.what = kind::granted, .fence = mine->fence, .chosen = mine->segment, .server_us = when.now};
}

std::optional<release_reply> carry_out(lock& l, moment const& when, protocol::release_command const& c) {
  using kind = release_reply::kind;
  using again_kind = acquire_reply::kind;
  permit const& what = wish_of(c.permit);
  if (!open(l, when, what)) return std::nullopt;
  sender const me{when.client, c.id}, again{when.client, c.new_id};
  bool const of_mutex = l.kind == permit_kind::none, asks_again = c.new_id != 0;
  ms const lease = c.lease.count();
  owner* mine = l.owners.find(me);
  if (mine != nullptr && c.keep) {
    extend_and_tell(l, when, *mine, lease, c.floor == 0);
    if (awaited(l, when, c.patient, me, room(l)) == nullptr) pass_on(l, when, {.gone = &me});
    return release_reply{
        .what = kind::still_owned, .server_us = when.now, .fence = mine->fence, .chosen = told_of(*mine, what)};
  }

  release_reply r{.what = kind::released, .was_mine = mine != nullptr, .server_us = when.now};
  if (mine != nullptr && c.ends_in.count() != 0) {
    if (c.floor != 0) raise_fence(l, when, c.floor);
    end_later(l, when, *mine, c.ends_in.count());
    return r;
  }
  std::int64_t const above = std::max({c.floor, c.next_fence_floor, mine != nullptr ? mine->fence : 0});
  if (c.floor != 0) raise_fence(l, when, c.floor);
  bool was_first = false;
  if (mine == nullptr) {
    auto const place = l.line.find(line_text(me, what));
    was_first = !l.owners.empty() && place != l.line.end() && place == l.line.begin();
    if (place != l.line.end()) leave_line(l, place);
  }
  std::int64_t const frees = mine != nullptr ? mine->size - std::min<std::int64_t>(mine->size, c.rest) : 0;
  bool const is_awaited = awaited(l, when, c.patient, me, room(l) + frees) != nullptr;
  if (is_awaited && mine != nullptr && c.rest == 0) return release_reply{.what = kind::not_done, .server_us = when.now};
  if (is_awaited && of_mutex) {
    r.more_in_line = true;
    return r;
  }
  if (mine != nullptr && c.rest == 0) {
    remove(l, when, *mine);
  } else if (mine != nullptr) {
    l.owners.resize(*mine, mine->size - frees);
    owners_changed(l, when);
  }

  bool const is_held_mutex = of_mutex && !l.owners.empty();
  bool const at_once = asks_again && l.line.empty() && !is_held_mutex;
  if (asks_again && !at_once) r.again.ticket = stand_in_line(l, when, again, what, 0, lease);
  passed next;
  if (at_once) {
    grant const g{.size = 1, .segment = 0, .fence = next_fence(l, when, above), .lease = lease, .claimed = false};
    owner const& o = own(l, when, again, g);
    next.asker = &o;
  } else if (!is_awaited) {
    next = pass_on(
        l, when,
        {.asker = asks_again ? &again : nullptr, .lease = lease, .gone = of_mutex ? nullptr : &me, .above = above});
  }
  if (l.owners.empty()) tell_that_it_is_free(l, when);
  r.passed_on = next.others;
  r.more_in_line = is_held_mutex ? asks_again : !l.line.empty();
  if (next.asker != nullptr) {
    r.again = {.what = again_kind::granted, .fence = next.asker->fence};
  } else if (asks_again) {
    r.again.what = again_kind::queued;
    r.again.left_ms = left(l, when);
  }
  // Those behind know of a longer lease, or no waiter checks that the new owner has taken its turn, because the client
  // that passed it on leaves.
  if (!r.was_mine && !asks_again && !l.owners.empty()) {
    bool const is_doubtful = of_mutex ? is_held_mutex && l.owners.begin()->second.claimed : left(l, when) <= when.claim;
    if (was_first || is_doubtful) tell_end(l, when, left(l, when), was_first ? 1 : 3);
  }
  return r;
}

order_reply carry_out(lock& l, moment const& when, protocol::force_command const& c) {
  end_what_is_over(l, when.now);
  if (l.kept == 0 || c.last) return {};
  permit const as{.kind = l.kind, .limit = static_cast<std::uint32_t>(l.limit), .weight = 1};
  open(l, when, as);
  order_reply r;
  std::int64_t above = 0;
  for (auto const& [fence, o] : owners_by_fence(l, when.now)) {
    if (c.fence && fence != *c.fence) continue;
    ++r.count;
    above = fence;
    when.clients.send({.what = push::kind::taken_away, .to = o->who});
    remove(l, when, *l.owners.find({o->who.client(), o->who.number}));
  }
  if (r.count > 0) {
    bool const others = pass_on(l, when, {.above = above}).others;
    r.passed_on = others && !l.line.empty();
    if (others) r.permit = as;
  }
  if (l.owners.empty()) tell_that_it_is_free(l, when);
  return r;
}

std::optional<order_reply> carry_out(lock& l, moment const& when, protocol::limit_command const& c) {
  permit after{.kind = permit_kind::semaphore, .limit = c.limit, .weight = 1};
  if (!open(l, when, after)) return std::nullopt;
  if (!l.limit_is_set || !c.if_unset) {
    l.limit = c.by != 0 ? std::clamp<std::int64_t>(l.limit + c.by, 1, engine::most_permits) : c.limit;
    l.limit_is_set = true;
    owners_changed(l, when);
  }
  bool const others = pass_on(l, when, {}).others;
  after.limit = static_cast<std::uint32_t>(l.limit);
  return order_reply{.count = l.owners.taken(), .passed_on = others && !l.line.empty(), .permit = after};
}

void forget_watcher(lock& l, sender const& s) {
  std::erase_if(l.watchers, [&](lock::watcher const& w) { return w.who.is(s); });
  if (l.watchers.empty()) l.watchers_kept = 0;
}

bool carry_out_renewal(lock& l, moment const& when, protocol::renewal const& c, bool of_mutex) {
  end_what_is_over(l, when.now);
  if ((l.kind == permit_kind::none) != of_mutex) return false;
  owner* const mine = l.owners.find({when.client, c.id});
  if (mine == nullptr || mine->ends <= when.now || (c.fence && mine->fence != *c.fence)) return false;
  ms const lease = c.lease.count();
  bool const was_claim = extend(l, when, *mine, lease);
  if (when.retention != 0) {
    keep_fence(l, when, mine->fence);
    // Those behind it, and the watchers, know the lease of an earlier owner.
    if (was_claim) tell_end(l, when, lease);
    if (was_claim) tell_watchers_end(l, when, lease);
  }
  return true;
}

protocol::renew_reply::one carry_out_confirmation(lock& l, moment const& when, protocol::renewal const& c,
                                                  bool keeps_fence) {
  using kind = protocol::renew_reply::kind;
  end_what_is_over(l, when.now);
  std::int64_t const before = raise_fence(l, when, c.floor);
  if (keeps_fence) keep_fence(l, when, c.floor);
  owner* const mine = l.kept != 0 && l.kind == permit_kind::none ? l.owners.find({when.client, c.id}) : nullptr;
  if (mine != nullptr && extend(l, when, *mine, c.lease.count())) tell_end(l, when, c.lease.count());
  return {.what = mine != nullptr ? kind::renewed : kind::not_mine,
          .overtaken = mine != nullptr && before > c.floor,
          .last_fence = before};
}

order_reply carry_out(lock& l, moment const& when, protocol::request_command const& c) {
  end_what_is_over(l, when.now);
  order_reply r;
  ms longest = 1;
  auto const owners = owners_by_fence(l, when.now);
  if (owners.size() > too_many) return r;
  for (auto const& [fence, o] : owners) {
    if (r.count == most_named || (c.fence && fence != *c.fence)) continue;
    ++r.count;
    longest = std::max(longest, left_of(l, *o, when.now));
    l.requests[fence] = {std::string{when.client}, when.now};
    when.clients.send({.what = push::kind::requested, .to = o->who});
  }
  if (r.count > 0) l.requests_kept = std::max(l.requests_kept, end_of_key(when.now, longest));
  return r;
}

protocol::watch_reply carry_out(lock& l, moment const& when, protocol::watch_command const& c) {
  end_what_is_over(l, when.now);
  sender const me{when.client, c.id};
  if (c.id != 0) forget_watcher(l, me);
  auto const owners = owners_by_fence(l, when.now);
  if (owners.empty()) {
    tell_that_it_is_free(l, when);
    return {.is_free = true};
  }
  ms longest = 1;
  for (auto const& [fence, o] : owners) longest = std::max(longest, left_of(l, *o, when.now));
  if (c.id != 0) {
    l.watchers.insert({when.now, {me.text(), c.id}});
    l.watchers_kept = std::max(l.watchers_kept, end_of_key(when.now, longest + c.lease.count()));
  }
  return {.left_ms = longest};
}

/// A client's 128 bits. 0 where a word is not hexadecimal.
std::array<std::uint32_t, 4> words_of(std::string_view client) {
  std::array<std::uint32_t, 4> words{};
  for (std::size_t word = 0; word < words.size(); ++word) {
    std::string_view const digits = client.size() > 8 * word ? client.substr(8 * word, 8) : std::string_view{};
    std::int64_t bits = 0;
    auto const read = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
    bool const whole = !digits.empty() && read.ptr == digits.data() + digits.size();
    words[word] = whole ? static_cast<std::uint32_t>(bits & 0xffff'ffff) : 0;
  }
  return words;
}

/// Asserts that the rules hold at the end of a request. passes_on(reply): L5, too.
template <class Request, class PassesOn>
auto checked([[maybe_unused]] lock& l, [[maybe_unused]] moment const& when, Request request,
             [[maybe_unused]] PassesOn passes_on) {
  auto reply = request();
#ifndef BOOST_ASSERT_IS_VOID
  if (l.owners.size() + l.line.size() > 100) return reply;  // would take long
  std::string const broken = broken_rule(l, when.now, passes_on(reply));
  BOOST_ASSERT_MSG(broken.empty(), broken.c_str());
#endif
  return reply;
}

constexpr auto never = [](auto const&) { return false; };

}  // namespace

// ---- what happens by itself ----------------------------------------------------------------------------------------

us next_end(lock const& l) noexcept {
  us first = 0;
  for (us const end : {l.kept, l.line_kept, l.fence_kept, l.requests_kept, l.watchers_kept}) {
    if (end != 0 && (first == 0 || end < first)) first = end;
  }
  return first;
}

void end_what_is_over(lock& l, us now) {
  auto const is_over = [&](us& end) { return end != 0 && end <= now ? (end = 0, true) : false; };
  if (is_over(l.kept)) {
    l.owners.clear();
    l.limit_is_set = false;
  }
  if (is_over(l.line_kept)) l.line.clear();
  if (is_over(l.fence_kept)) l.fence = 0;
  if (is_over(l.requests_kept)) l.requests.clear();
  if (is_over(l.watchers_kept)) l.watchers.clear();
}

std::string broken_rule(lock const& l, us now, bool passed_on) {
  std::int64_t taken = 0;
  std::set<std::int64_t> segments;
  for (auto const& [number, o] : l.owners) {
    taken += o.size;
    if (o.segment != 0 && !segments.insert(o.segment).second) return "L2: two owners have the same segment";
    if (o.segment != 0 && l.segments.at(static_cast<std::size_t>(o.segment - 1)) != '1')
      return "L2: the segment of an owner counts as free";
    if (o.ends > l.kept) return "an owner is kept longer than its lock";
  }
  if (taken != l.owners.taken()) return "L1: the sum of the shares is wrong";
  if (taken > l.limit && !l.limit_is_set) return "L1: more is taken than there is";
  if (l.kind == permit_kind::none && l.owners.size() > 1) return "L1: a mutex has two owners";
  if (l.kind == permit_kind::segments && l.kept != 0 &&
      static_cast<std::size_t>(std::count(l.segments.begin(), l.segments.end(), '1')) != segments.size()) {
    return "L2: a segment without an owner is taken";
  }
  if (l.fence != 0 && l.fence + protocol::fence_epoch_us > l.fence_kept) return "L7: a fence is kept too short";
  if ((l.fence == 0) != (l.fence_kept == 0)) return "L7: a fence that is not kept";
  if (l.line.empty() != (l.line_kept == 0)) return "L6: a line that is not kept, or kept without need";
  if (l.line_kept != 0 && l.line_kept <= now) return "L6: a line that is over";
  if (l.owners.empty() && !l.limit_is_set && l.kept != 0) return "a lock without owners is kept";
  if (passed_on && !all_turns_are_taken(l)) return "L5: a waiter fits";
  return {};
}

// ---- requests ------------------------------------------------------------------------------------------------------

std::optional<acquire_reply> acquire(lock& l, moment const& when, acquire_command const& c) {
  auto const passes_on = [&](auto const& reply) { return reply && !c.patient && !is_too_late(when, c); };
  return checked(
      l, when, [&] { return carry_out(l, when, c); }, passes_on);
}

std::int64_t take(lock& l, moment const& when, protocol::attempt const& c) {
  return checked(
      l, when, [&] { return carry_out(l, when, c); }, never);
}

std::optional<acquire_reply> adopt(lock& l, moment const& when, acquire_command const& c) {
  return checked(
      l, when, [&] { return carry_out_adoption(l, when, c); }, never);
}

std::optional<release_reply> release(lock& l, moment const& when, protocol::release_command const& c) {
  auto const passes_on = [&](auto const& reply) { return reply && !c.patient; };
  return checked(
      l, when, [&] { return carry_out(l, when, c); }, passes_on);
}

bool renew(lock& l, moment const& when, protocol::renewal const& c, bool of_mutex) {
  return checked(
      l, when, [&] { return carry_out_renewal(l, when, c, of_mutex); }, never);
}

protocol::renew_reply::one confirm(lock& l, moment const& when, protocol::renewal const& c, bool keeps_fence) {
  return checked(
      l, when, [&] { return carry_out_confirmation(l, when, c, keeps_fence); }, never);
}

order_reply request(lock& l, moment const& when, protocol::request_command const& c) {
  return checked(
      l, when, [&] { return carry_out(l, when, c); }, never);
}

protocol::watch_reply watch(lock& l, moment const& when, protocol::watch_command const& c) {
  return checked(
      l, when, [&] { return carry_out(l, when, c); }, never);
}

order_reply force(lock& l, moment const& when, protocol::force_command const& c) {
  return checked(
      l, when, [&] { return carry_out(l, when, c); }, [](auto const& reply) { return reply.count > 0; });
}

std::optional<order_reply> set_limit(lock& l, moment const& when, protocol::limit_command const& c) {
  return checked(
      l, when, [&] { return carry_out(l, when, c); }, [](auto const& reply) { return reply.has_value(); });
}

bool unwatch(lock& l, moment const& when, protocol::unwatch_command const& c) {
  end_what_is_over(l, when.now);
  std::size_t const before = l.watchers.size();
  forget_watcher(l, {when.client, c.id});
  return l.watchers.size() != before;
}

engine::lock_report inspect(lock& l, moment const& when) {
  end_what_is_over(l, when.now);
  auto const owners = owners_by_fence(l, when.now);
  engine::lock_report report;
  report.waiting = l.line.size();
  report.kind = l.kept != 0 ? l.kind : permit_kind::none;
  report.limit = l.kept != 0 ? static_cast<std::uint32_t>(l.limit) : 1;
  report.held = static_cast<std::uint32_t>(owners.size());
  for (auto const& [fence, o] : owners) {
    report.taken += static_cast<std::uint32_t>(o->size);
    if (owners.size() > too_many || report.owners.size() == most_named) continue;
    auto& one = report.owners.emplace_back();
    one.client = words_of(o->who.client());
    if (auto const asked = l.requests.find(fence); asked != l.requests.end()) {
      one.asked_by = words_of(asked->second.asker);
      one.asked_us = asked->second.when;
    }
    one.fence = fence;
    one.left_ms = left_of(l, *o, when.now);
    one.permits = static_cast<std::uint32_t>(o->size);
    one.segment = static_cast<std::uint32_t>(o->segment);
    one.confirmed = !o->claimed;
  }
  for (waiter const& w : l.line) {
    if (report.waiters.size() == most_named) break;
    report.waiters.push_back({words_of(w.who.client()), w.ticket, static_cast<std::uint32_t>(w.wants().size)});
  }
  return report;
}

}  // namespace conch::rules
