// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "memory/script_context.hpp"

#include <boost/assert.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <utility>
#include <vector>

// The functions below are lua/lib/permits.lua, the scripts that include it, and permit_renew.lua, line by line. If you change one, change
// the other too; tests/sim/differential/permit_differential_test.cpp compares them.
namespace conch::memory {

void store::permits_hash::note_end(std::string const& id, std::int64_t ends_us) {
  forget_end(id);
  ends.emplace(ends_us, id);
  end_of.emplace(id, ends_us);
}

void store::permits_hash::forget_end(std::string const& id) {
  auto const known = end_of.find(id);
  if (known == end_of.end()) return;
  ends.erase({known->second, id});
  end_of.erase(known);
}

void store::permits_hash::forget_ends() {
  ends.clear();
  end_of.clear();
}

/// What lua/lib/permits.lua keeps in locals.
struct store::permit_context {
  script_context& m;
  permits_hash& hash;
  engine::permit const& permit;
  grant me;           // its id
  std::string entry;  // its text in the line

  std::int64_t limit = permit.limit;
  std::int64_t used = 0, first_end = 0;
  std::string map;
  std::optional<permit_owner> mine;
  bool was_set = false;
  std::int64_t steps = m.in.bounds_.most_steps;
  bool unfinished = false;
  std::set<std::string, std::less<>> hopeless;

  permit_context(script_context& at, engine::permit const& wanted, grant who)
      : m{at}, hash{at.e.permits}, permit{wanted}, me{std::move(who)}, entry{me.text + ' ' + std::to_string(wanted.weight) + ' ' +
                                                                             wanted.excluded_segments} {}

  bool reentrant() const { return permit.kind == engine::permit_kind::reentrant; }
  bool segmented() const { return permit.kind == engine::permit_kind::segments; }
  bool in_order() const { return !reentrant() && !segmented(); }

  /// False: the name is that of another kind of lock.
  bool load() {
    if (m.e.owned() || (hash.until != none && hash.kind != permit.kind)) return false;
    if (hash.until != none) {
      limit = hash.limit;
      was_set = hash.limit_set;
      used = hash.used;
      first_end = hash.first_end_us;
      map = hash.map;
      if (hash.ends_until < m.now_ms()) hash.forget_ends();
    }
    auto const found = hash.owners.find(me.text);
    if (found != hash.owners.end()) mine = found->second;
    if (mine && mine->ends_us <= m.now_us) {
      if (hash.indexed) take_back(me.text, *mine);
      mine.reset();
    }
    if (used > 0 && first_end <= m.now_us) sweep(m.now_us);
    if (used == 0) {
      if (!was_set) limit = permit.limit;
      first_end = 0;
      map = segmented() ? std::string(static_cast<std::size_t>(limit), '0') : std::string{};
      hash.indexed = false;
      hash.walked = 0;
    }
    return true;
  }

  void mark(std::int64_t segment, char taken) {
    if (segment == 0) return;
    if (taken == '0') hash.walked = 0;
    map[static_cast<std::size_t>(segment - 1)] = taken;
  }

  void write(std::string const& id = {}, permit_owner const* owner = nullptr) {
    if (used == 0 && !was_set) {
      hash = {};
      return;
    }
    hash.kind = permit.kind;
    hash.limit = limit;
    hash.used = used;
    hash.first_end_us = first_end;
    hash.map = map;
    hash.limit_set = was_set;
    if (was_set && left_until(hash.until, m.now_ms()) < m.retention) hash.until = m.now_ms() + m.retention;
    if (owner != nullptr) hash.owners.insert_or_assign(id, *owner);
  }

  void take_back(std::string const& id, permit_owner owner) {
    used -= owner.weight;
    mark(owner.segment, '0');
    hash.owners.erase(id);
    if (hash.indexed && used > 0) hash.forget_end(id);
    write();
  }

  void sweep(std::int64_t before) {
    if (hash.indexed) {
      std::vector<std::string> ids;
      for (auto const& [ends, id] : hash.ends) {
        if (ends > before || std::ssize(ids) == std::max<std::int64_t>(steps, 1)) break;
        ids.push_back(id);
      }
      steps -= std::ssize(ids);
      for (std::string const& id : ids) {
        auto const found = hash.owners.find(id);
        if (found == hash.owners.end()) {
          hash.forget_end(id);
        } else if (found->second.ends_us <= m.now_us) {
          take_back(id, found->second);
        } else {
          hash.note_end(id, found->second.ends_us);
        }
      }
      if (used == 0) return;
      if (!hash.ends.empty()) {
        first_end = hash.ends.begin()->first;
        unfinished = first_end <= m.now_us;
        write();
        return;
      }
    }
    used = first_end = 0;
    for (auto at = hash.owners.begin(); at != hash.owners.end();) {
      permit_owner const& owner = at->second;
      if (owner.ends_us <= m.now_us) {
        mark(owner.segment, '0');
        at = hash.owners.erase(at);
      } else {
        used += owner.weight;
        first_end = first_end == 0 ? owner.ends_us : std::min(first_end, owner.ends_us);
        ++at;
      }
    }
    hash.indexed = hash.owners.size() > m.in.bounds_.few_owners;
    if (hash.indexed) {
      hash.forget_ends();
      for (auto const& [id, owner] : hash.owners) hash.note_end(id, owner.ends_us);
      hash.ends_until = m.now_ms() + std::max<std::int64_t>(left_until(hash.until, m.now_ms()), 0) + m.retention;
    }
    write();
  }

  void live(std::int64_t lease) {
    if (left_until(hash.until, m.now_ms()) < lease) hash.until = m.now_ms() + lease;
  }

  std::int64_t lock_left() const { return std::max(left_until(hash.until, m.now_ms()), m.claim); }

  void own_permit(std::string const& id, std::int64_t size, std::int64_t fence, bool claimed, std::int64_t lease, std::int64_t segment,
                  std::string_view for_whom) {
    std::int64_t const ends = m.now_us + lease * 1000;
    first_end = used == 0 ? ends : std::min(first_end, ends);
    used += size;
    if (reentrant()) map = for_whom;
    mark(segment, '1');
    if (hash.indexed) {
      hash.note_end(id, ends);
      hash.ends_until = m.now_ms() + lease + m.retention;
    }
    permit_owner const owner{size, fence, claimed, ends, segment};
    write(id, &owner);
    live(lease);
    auto const few = m.in.bounds_.few_owners;
    if (hash.indexed || used - size < static_cast<std::int64_t>(few)) return;
    std::size_t const fields = hash.owners.size() + 1 + (hash.walked != 0 ? 1 : 0);
    if (fields > few + 2 && fields <= 2 * few) sweep(m.now_us);
  }

  void extend_part(std::int64_t lease) {
    bool const was_claim = std::exchange(mine->claimed, false);
    mine->ends_us = std::max(mine->ends_us, m.now_us + lease * 1000);
    write(me.text, &*mine);
    live(lease);
    if (was_claim) m.tell_end(lease);
  }

  std::int64_t left() {
    std::int64_t const soon = m.now_us + m.claim * 500;
    if (used > 0 && first_end < soon) sweep(soon);
    return used == 0 ? m.claim : (first_end - m.now_us + 999) / 1000;
  }

  std::int64_t told_of(permit_owner const& owner) const { return permit.weight == 0 ? owner.weight : owner.segment; }

  std::optional<std::int64_t> fit(std::int64_t size, std::string_view unwanted, std::int64_t start) {
    if (used >= limit) return std::nullopt;
    if (reentrant()) return used == 0 || map == unwanted ? std::optional<std::int64_t>{0} : std::nullopt;
    if (!segmented()) return used + std::min(size, limit) <= limit ? std::optional<std::int64_t>{0} : std::nullopt;
    if (hopeless.contains(unwanted)) return std::nullopt;
    steps -= std::ssize(unwanted) / 32;
    std::vector<bool> refused(map.size() + 1);
    for (std::size_t at = unwanted.find_first_of("0123456789"); at < unwanted.size(); at = unwanted.find_first_of("0123456789", at)) {
      auto const end = std::min(unwanted.find_first_not_of("0123456789", at), unwanted.size());
      std::size_t segment = 0;
      std::from_chars(unwanted.data() + at, unwanted.data() + end, segment);
      if (segment < refused.size()) refused[segment] = true;
      at = end;
    }
    for (std::int64_t i = 0; i < limit; ++i) {
      std::int64_t const segment = (start + i) % limit + 1;
      auto const place = static_cast<std::size_t>(segment);
      if (map[place - 1] == '0' && !refused[place]) return segment;
    }
    hopeless.emplace(unwanted);
    return std::nullopt;
  }

  struct waiter {
    std::string_view id, excluded_segments;
    std::int64_t weight;
  };

  /// "ID WEIGHT EXCLUDED". Nothing: a waiter for a mutex of this name, of which there is the id alone.
  static std::optional<waiter> parse(std::string_view text) {
    auto const first = text.find(' ');
    if (first == std::string_view::npos) return std::nullopt;
    auto const second = text.find(' ', first + 1);
    BOOST_ASSERT_MSG(second != std::string_view::npos, "an entry of the line that no kind of lock makes");
    std::int64_t weight = 0;
    std::from_chars(text.data() + first + 1, text.data() + second, weight);
    return waiter{text.substr(0, first), text.substr(second + 1), weight};
  }

  static std::string_view client_of(std::string_view id) { return id.substr(0, id.find('.')); }

  void drop_dead() {
    while (true) {
      std::string const head = m.e.line.empty() ? std::string{} : m.e.line.begin()->first.second;
      unfinished = unfinished || steps <= 0;
      if (head.empty() || head == entry || steps <= 0 || m.in.listeners_.contains(client_of(head))) return;
      m.leave_line(head);
      --steps;
    }
  }

  std::int64_t stand_in_line(engine::grant_id number, std::int64_t shown, std::int64_t lease) {
    auto const known = m.e.tickets.find(entry);
    bool const was_there = known != m.e.tickets.end() && (shown == 0 || known->second <= shown);
    std::int64_t const ticket = m.enqueue({entry, number}, shown, lock_left(), lease);
    if (ticket <= hash.walked && !was_there) hash.walked = 0;
    return ticket;
  }

  struct admitted {
    std::optional<std::int64_t> fence, segment;
    int others = 0;
  };

  admitted admit(std::string_view who, std::int64_t my_lease, std::int64_t fence) {
    struct place_in_line {
      std::int64_t ticket;
      std::string text;
      engine::grant_id number;
    };
    admitted result;
    std::int64_t walked = in_order() ? 0 : hash.walked;
    std::int64_t passed = 0;  // the ticket of the waiters that were passed over last
    bool ready = false;       // false: no owner has `fence` yet
    std::size_t place = 0, batch = 2;
    bool stop = false;
    while (used < limit && !stop) {
      std::vector<place_in_line> heads;
      auto at = m.e.line.lower_bound({walked + 1, std::string{}});
      if (in_order()) at = m.e.line.begin();
      for (std::size_t i = 0; i < place && at != m.e.line.end(); ++i) ++at;
      for (; heads.size() < batch && at != m.e.line.end(); ++at) heads.push_back({at->first.first, at->first.second, at->second});
      for (place_in_line const& one : heads) {
        if (place != 0 && passed < one.ticket) {
          walked = passed;
          place = 0;
        }
        if (used >= limit || steps <= 0) {
          stop = true;
          unfinished = unfinished || used < limit;
          break;
        }
        std::optional<waiter> const entered = parse(one.text);
        if (!entered || (entered->id == me.text && who.empty())) {
          --steps;
          m.leave_line(one.text);
          continue;
        }
        waiter const& head = *entered;
        auto const segment = fit(head.weight, head.excluded_segments, 0);
        if (used > 0 || segment) --steps;
        if (!segment) {
          if (in_order()) {
            stop = true;
            break;
          }
          passed = one.ticket;
          ++place;
          continue;
        }
        if (!std::exchange(ready, true)) fence = m.next_fence(fence);
        m.leave_line(one.text);
        std::int64_t const size = std::min(head.weight, limit);
        if (head.id == who) {
          own_permit(std::string{head.id}, size, fence, false, my_lease, *segment, head.excluded_segments);
          result.fence = fence;
          result.segment = segment;
          steps -= 2;
          ready = false;
        } else if (auto const heard = m.in.listeners_.find(client_of(head.id)); heard != m.in.listeners_.end()) {
          heard->second->on_grant(
              {m.e.name, one.number, fence, m.now_us, std::chrono::milliseconds{m.claim}, permit.kind, static_cast<std::uint32_t>(*segment)});
          own_permit(std::string{head.id}, size, fence, true, m.claim, *segment, head.excluded_segments);
          ++result.others;
          steps -= 2;
          ready = false;
        }
      }
      if (heads.size() < batch && !stop) {
        if (place != 0) walked = passed;
        stop = true;
      }
      batch = 20;
    }
    if (!in_order() && used > 0) hash.walked = walked;
    return result;
  }
};

store::acquired store::acquire_permit(script_context& m, protocol::acquire_command const& c) {
  using reply = protocol::acquire_reply;
  using kind = reply::kind;
  if (c.not_after_us > 0 && m.now_us > c.not_after_us) return reply{.what = kind::too_late, .server_us = m.now_us};
  permit_context p{m, *c.permit, {id_text(m.client, c.id), c.id}};
  if (!p.load()) return std::nullopt;
  std::int64_t const lease = c.lease.count();
  std::int64_t ticket = c.ticket;
  auto const granted = [&](std::int64_t fence, std::int64_t told) {
    reply r = m.granted(fence, told);
    r.more_to_do = p.unfinished && !m.e.line.empty();
    return r;
  };

  if (p.mine) {
    p.extend_part(lease);
    p.admit({}, 0, 0);
    return granted(p.mine->fence, p.told_of(*p.mine));
  }

  bool nobody_waits = m.e.line.empty();
  bool passed_on = false;
  if (!nobody_waits) {
    bool const again = ticket > 0;
    if (c.wait) ticket = p.stand_in_line(c.id, ticket, lease);
    if (again) p.drop_dead();
    auto const next = p.admit(p.me.text, lease, 0);
    if (next.fence) m.tell_end(lease);
    if (next.fence) return granted(*next.fence, *next.segment);
    nobody_waits = m.e.line.empty();
    passed_on = next.others > 0 && !nobody_waits;
    if (p.unfinished && !nobody_waits) {
      return reply{.what = kind::unfinished, .ticket = c.wait ? ticket : 0, .server_us = m.now_us, .passed_on = passed_on};
    }
    if (c.wait) return reply{.what = kind::queued, .left_ms = p.left(), .ticket = ticket, .server_us = m.now_us, .passed_on = passed_on};
  }

  auto const segment =
      nobody_waits || p.segmented() || p.reentrant() ? p.fit(c.permit->weight, c.permit->excluded_segments, c.permit->start) : std::nullopt;
  if (segment) {
    std::int64_t const fence = m.next_fence(0);
    std::int64_t const size = c.permit->weight == 0 ? p.limit - p.used : std::min<std::int64_t>(c.permit->weight, p.limit);
    p.own_permit(p.me.text, size, fence, false, lease, *segment, c.permit->excluded_segments);
    return m.granted(fence, p.told_of({.weight = size, .segment = *segment}));
  }
  if (p.unfinished) {
    std::int64_t const place = c.wait ? p.stand_in_line(c.id, ticket, lease) : 0;
    return reply{.what = kind::unfinished, .ticket = place, .server_us = m.now_us, .passed_on = passed_on};
  }
  std::int64_t const sleep = p.left();
  if (!c.wait) return reply{.what = kind::busy, .left_ms = sleep, .server_us = m.now_us, .passed_on = passed_on};
  std::int64_t const place = p.stand_in_line(c.id, ticket, lease);
  return reply{.what = kind::queued, .left_ms = sleep, .ticket = place, .server_us = m.now_us};
}

/// lua/permit_adopt.lua
store::acquired store::adopt_permit(script_context& m, protocol::acquire_command const& c) {
  using reply = protocol::acquire_reply;
  using kind = reply::kind;
  permits_hash& hash = m.e.permits;
  if (c.not_after_us > 0 && m.now_us > c.not_after_us) return reply{.what = kind::too_late, .server_us = m.now_us};
  if (m.e.owned() || (hash.until != none && hash.kind != c.permit->kind)) return std::nullopt;
  std::int64_t const lease = c.lease.count(), ends = m.now_us + lease * 1000;
  std::string const id = id_text(m.client, c.id);
  auto const alive = [&](auto const& at) { return at != hash.owners.end() && at->second.weight > 0 && at->second.ends_us > m.now_us; };
  auto mine = hash.owners.find(id);
  auto const gap = c.origin.find(' ');
  auto const from = hash.owners.find(c.origin.substr(0, gap));
  if (alive(mine)) {
    mine->second.claimed = false;
    mine->second.ends_us = std::max(mine->second.ends_us, ends);
  } else if (alive(from) && std::to_string(from->second.fence) == c.origin.substr(gap + 1)) {
    permit_owner part = from->second;
    part.claimed = false;
    part.ends_us = std::max(part.ends_us, ends);
    if (hash.indexed) {
      if (hash.ends_until < m.now_ms()) hash.forget_ends();
      hash.note_end(id, part.ends_us);
      hash.forget_end(from->first);
      hash.ends_until = m.now_ms() + lease + m.retention;
    }
    hash.owners.erase(from);
    mine = hash.owners.insert_or_assign(id, part).first;
  } else {
    return reply{.what = kind::busy, .server_us = m.now_us};
  }
  if (left_until(hash.until, m.now_ms()) < lease) hash.until = m.now_ms() + lease;
  m.keep_fence(mine->second.fence);
  return m.granted(mine->second.fence, mine->second.segment);
}

store::released store::release_permit(script_context& m, protocol::release_command const& c) {
  using reply = protocol::release_reply;
  using kind = reply::kind;
  permit_context p{m, *c.permit, {id_text(m.client, c.id), c.id}};
  if (!p.load()) return std::nullopt;
  if (p.mine && c.keep) {
    p.extend_part(c.lease.count());
    p.admit({}, 0, 0);
    return reply{.what = kind::still_owned,
                 .more_to_do = p.unfinished && !m.e.line.empty(),
                 .server_us = m.now_us,
                 .fence = p.mine->fence,
                 .segment = p.told_of(*p.mine)};
  }

  bool const was_mine = p.mine.has_value();
  std::int64_t const floor = p.mine ? p.mine->fence : 0;
  bool const was_first = !p.mine && p.used > 0 && m.is_first(p.entry);
  if (!p.mine) {
    m.leave_line(p.entry);
  } else if (c.rest > 0) {
    p.used -= std::max<std::int64_t>(p.mine->weight - c.rest, 0);
    p.mine->weight = std::min<std::int64_t>(p.mine->weight, c.rest);
    p.write(p.me.text, &*p.mine);
  } else {
    p.take_back(p.me.text, *p.mine);
  }

  auto const next = p.admit({}, 0, floor);
  bool const more = !m.e.line.empty();
  if (p.used == 0 && !(p.unfinished && more)) tell_freed(m.e);
  std::int64_t const left = std::max<std::int64_t>(0, (p.first_end - m.now_us + 999) / 1000);
  if (!was_mine && p.used > 0 && more && (was_first || left <= m.claim)) m.tell_end(left, was_first ? 1 : 3);
  return reply{.what = kind::released,
               .was_mine = was_mine,
               .passed_on = next.others > 0,
               .more_in_line = more,
               .more_to_do = p.unfinished && more,
               .server_us = m.now_us};
}

store::renewed store::renew_permits(protocol::renew_command const& c, std::string_view client, std::int64_t now_us) {
  using kind = renewed::kind;
  renewed reply{.server_us = now_us};
  reply.locks.reserve(c.items.size());
  for (protocol::renewal const& item : c.items) {
    entry* const e = find(item.name);
    std::string const id = id_text(client, item.id);
    auto const found = e != nullptr ? e->permits.owners.find(id) : decltype(e->permits.owners.end()){};
    bool const there = e != nullptr && found != e->permits.owners.end() && found->second.ends_us > now_us;
    bool const mine = there && (!item.fence || item.fence == found->second.fence);
    if (mine) {
      std::int64_t const lease = item.lease.count();
      bool const was_claim = std::exchange(found->second.claimed, false);
      found->second.ends_us = std::max(found->second.ends_us, now_us + lease * 1000);
      if (left_until(e->permits.until, now_us / 1000) < lease) e->permits.until = now_us / 1000 + lease;
      if (c.retention.count() != 0) {
        script_context m{*this, *e, client, now_us, 0, c.retention.count()};
        m.keep_fence(found->second.fence);
        if (was_claim) m.tell_end(lease);
        if (was_claim) m.tell_watchers_end(lease);
        if (e->permits.ends_until >= now_us / 1000) e->permits.ends_until = now_us / 1000 + lease + c.retention.count();
      }
      put_on_agenda(*e);
    }
    reply.locks.push_back({.what = mine ? kind::renewed : kind::not_mine});
  }
  return reply;
}

store::ordered store::set_limit(script_context& m, protocol::limit_command const& c) {
  engine::permit const wanted{.kind = engine::permit_kind::semaphore, .limit = c.limit, .weight = 1};
  permit_context p{m, wanted, {}};
  if (!p.load()) return std::nullopt;
  if (!p.was_set || !c.if_unset) {
    constexpr std::int64_t most = 1'000'000;
    p.was_set = true;
    p.limit = c.by != 0 ? std::clamp<std::int64_t>(p.limit + c.by, 1, most) : c.limit;
    p.write();
  }
  engine::permit after = wanted;
  after.limit = static_cast<std::uint32_t>(p.limit);
  auto const next = p.admit({}, 0, 0);
  bool const more = !m.e.line.empty();
  return protocol::order_reply{.count = p.used, .passed_on = next.others > 0 && more, .more_to_do = p.unfinished && more, .permit = after};
}

void store::tell(std::string_view id, std::string_view name, void (listener::*what)(std::string_view, engine::grant_id)) {
  auto const dot = id.find('.');
  auto const heard = listeners_.find(id.substr(0, dot));
  if (heard == listeners_.end()) return;
  engine::grant_id number;
  std::string_view text = id.substr(dot + 1);
  if (engine::read_grant_id(text, number)) (heard->second->*what)(name, number);
}

protocol::order_reply store::force(script_context& m, protocol::force_command const& c) {
  if (m.e.permits.until == none) {
    if (!m.e.owned() || c.last || (c.fence && m.e.owner_fence != c.fence)) return {};
    tell(m.e.owner.text, m.e.name, &listener::on_revoke);
    script_context::passed const next = m.e.line.empty() ? script_context::passed{} : m.pass_on({}, 0, m.e.owner_fence);
    if (!next.taken) {
      m.e.owner_until = none;
      if (!next.unfinished) tell_freed(m.e);
    }
    protocol::order_reply reply{.count = 1, .passed_on = next.taken && !m.e.line.empty(), .more_to_do = next.unfinished};
    if (next.taken || next.unfinished) reply.permit = {.limit = 1, .weight = 1};
    return reply;
  }
  engine::permit const any{.kind = m.e.permits.kind, .limit = static_cast<std::uint32_t>(m.e.permits.limit)};
  permit_context p{m, any, {}};
  p.load();
  std::map<std::int64_t, std::pair<std::string, permit_owner>> chosen;
  std::optional<std::int64_t> last = c.last;
  std::int64_t from = c.from_us;
  bool rest = false;
  auto const choose = [&](std::string const& id, permit_owner const& owner) {
    bool const is_meant = owner.weight > 0 && (!last || owner.fence <= *last) && (!c.fence || owner.fence == c.fence);
    if (is_meant) chosen.emplace(owner.fence, std::pair{id, owner});
  };
  if (p.hash.indexed) {
    std::int64_t looked = 0;
    // Owners whose leases end at the same moment go together.
    auto at = !last ? p.hash.ends.begin() : p.hash.ends.lower_bound({from + 1, std::string{}});
    for (; at != p.hash.ends.end() && (looked < bounds_.most_steps || at->first == from); ++at, ++looked) {
      if (auto const found = p.hash.owners.find(at->second); found != p.hash.owners.end()) choose(at->second, found->second);
      from = at->first;
    }
    rest = looked >= bounds_.most_steps && (!c.fence || chosen.empty());
  } else {
    for (auto const& [id, owner] : p.hash.owners) choose(id, owner);
  }
  if (rest && !last) last = c.fence ? *c.fence : m.next_fence(0);
  for (auto const& [fence, one] : chosen) {
    tell(one.first, m.e.name, &listener::on_revoke);
    p.take_back(one.first, one.second);
  }
  rest = rest && p.used > 0;
  permit_context::admitted next;
  bool const admits = !chosen.empty() || (last && !rest);
  if (admits) next = p.admit({}, 0, chosen.empty() ? 0 : chosen.rbegin()->first);
  bool const more = admits && !m.e.line.empty();
  if (p.used == 0 && !(p.unfinished && more)) tell_freed(m.e);
  protocol::order_reply reply{.count = std::ssize(chosen), .passed_on = next.others > 0 && more, .more_to_do = !rest && p.unfinished && more};
  if (next.others > 0 || reply.more_to_do || rest) {
    reply.permit = {.kind = any.kind, .limit = static_cast<std::uint32_t>(p.limit), .weight = 1};
  }
  if (rest) reply.goes_on = {*last, from};
  return reply;
}

namespace {

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

}  // namespace

/// Whom an order can mean; `owners` only of a lock that has at most 1000 of them.
struct store::seen_owners {
  struct one {
    std::string_view id;
    std::int64_t left, weight, segment;
    bool claimed;
  };

  explicit seen_owners(script_context const& m) {
    permits_hash const& hash = m.e.permits;
    if (hash.until == none) {
      if (m.e.owned()) by_fence.emplace(m.e.owner_fence, one{m.e.owner.text, m.owner_left(), 1, 0, m.e.claimed});
      return;
    }
    if (hash.owners.size() > 1000) return;
    for (auto const& [id, owner] : hash.owners) {
      if (owner.ends_us <= m.now_us) continue;
      by_fence.emplace(owner.fence, one{id, (owner.ends_us - m.now_us + 999) / 1000, owner.weight, owner.segment, owner.claimed});
    }
  }

  std::map<std::int64_t, one> by_fence;
};

protocol::order_reply store::request(script_context& m, protocol::request_command const& c, std::string_view asker) {
  constexpr std::int64_t most = 100;
  protocol::order_reply reply;
  std::int64_t longest = 1;
  seen_owners const owners{m};
  for (auto const& [fence, owner] : owners.by_fence) {
    if (reply.count == most || (c.fence && fence != c.fence)) continue;
    ++reply.count;
    longest = std::max(longest, owner.left);
    m.e.requests[fence] = {std::string{asker}, m.now_us};
    tell(owner.id, m.e.name, &listener::on_request);
  }
  if (reply.count > 0) m.e.requests_until = std::max(m.e.requests_until, m.now_us / 1000 + longest);
  return reply;
}

/// lua/watch.lua
protocol::watch_reply store::watch(script_context& m, protocol::watch_command const& c) {
  std::string const id = c.id != 0 ? id_text(m.client, c.id) : std::string{};
  forget_watcher(m.e, id);
  seen_owners const owners{m};
  bool const many = m.e.permits.until != none && m.e.permits.owners.size() > 1000;
  if (owners.by_fence.empty() && !many) {
    if (id.empty()) m.e.alert_until = m.now_ms();
    tell_freed(m.e);
    return {.is_free = true};
  }
  std::int64_t left = many ? left_until(m.e.permits.until, m.now_ms()) : 1;
  for (auto const& [fence, owner] : owners.by_fence) left = std::max(left, owner.left);
  if (id.empty()) return {.left_ms = left};
  m.e.watchers.emplace(std::pair{m.now_us, id}, c.id);
  m.e.watchers_until = m.now_ms() + std::max<std::int64_t>(left + c.lease.count(), left_until(m.e.watchers_until, m.now_ms()));
  m.e.alert_until = m.e.watchers_until;
  return {.left_ms = left};
}

/// lua/lib/freed.lua
void store::tell_freed(entry& e) {
  if (std::exchange(e.alert_until, none) == none) return;
  std::vector<std::pair<std::string, engine::grant_id>> told;
  while (!e.watchers.empty() && std::ssize(told) < bounds_.most_steps) {
    auto const first = e.watchers.begin();
    told.emplace_back(first->first.second, first->second);
    e.watchers.erase(first);
  }
  bool const more = !e.watchers.empty();
  if (!more) e.watchers_until = none;
  e.alert_until = e.watchers_until;
  for (auto const& [id, number] : told) {
    auto const heard = listeners_.find(std::string_view{id}.substr(0, id.find('.')));
    if (heard != listeners_.end()) heard->second->on_freed(e.name, number, more && id == told.back().first);
  }
}

void store::forget_watcher(entry& e, std::string_view id) {
  std::erase_if(e.watchers, [&](auto const& one) { return one.first.second == id; });
  if (e.watchers.empty()) e.watchers_until = none;
}

engine::lock_report store::inspect(script_context& m) {
  engine::lock_report report;
  report.waiting = m.e.line.size();
  report.limit = 1;
  std::int64_t taken = 0;
  permits_hash const& hash = m.e.permits;
  if (hash.until != none) {
    report.limit = static_cast<std::uint32_t>(hash.limit);
    report.kind = hash.kind;
    if (hash.owners.size() > 1000) {
      report.held = static_cast<std::uint32_t>(hash.owners.size());
      report.taken = static_cast<std::uint32_t>(hash.used);
      return report;
    }
  }
  seen_owners const owners{m};
  for (auto const& [fence, owner] : owners.by_fence) taken += owner.weight;
  report.held = static_cast<std::uint32_t>(owners.by_fence.size());
  report.taken = static_cast<std::uint32_t>(taken);
  for (auto const& [fence, owner] : owners.by_fence) {
    if (report.owners.size() == 100) break;
    engine::lock_report::owner& one = report.owners.emplace_back();
    one.client = words_of(owner.id.substr(0, owner.id.find('.')));
    if (auto const asked = m.e.requests.find(fence); asked != m.e.requests.end()) {
      one.asked_by = words_of(asked->second.asker);
      one.asked_us = asked->second.at_us;
    }
    one.fence = fence;
    one.left_ms = owner.left;
    one.permits = static_cast<std::uint32_t>(owner.weight);
    one.segment = static_cast<std::uint32_t>(owner.segment);
    one.confirmed = !owner.claimed;
  }
  return report;
}

}  // namespace conch::memory
