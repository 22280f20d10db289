// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "memory/moment.hpp"

#include <charconv>
#include <map>

// lua/lib/permits.lua and the scripts that include it, and permit_renew.lua, line by line: whoever changes one changes the
// other, and tests/sim/permit_differential_test.cpp compares them.
namespace conch::memory {

/// What lua/lib/permits.lua keeps in locals.
struct store::parts_moment {
  moment& m;
  parts_hash& hash;
  engine::permit const& part;
  grant me;           // its id
  std::string entry;  // its text in the line

  std::int64_t limit = part.limit;
  std::int64_t used = 0, first_end = 0;
  std::string map;
  std::optional<part_owner> mine;
  bool was_set = false;

  parts_moment(moment& at, engine::permit const& wanted, grant who)
      : m{at}, hash{at.e.parts}, part{wanted}, me{std::move(who)},
        entry{me.text + ' ' + std::to_string(wanted.weight) + ' ' + wanted.visited} {}

  bool reentrant() const { return part.kind == engine::permit_kind::reentrant; }
  bool segmented() const { return part.kind == engine::permit_kind::segments; }

  /// False: the name is that of another kind of lock.
  bool load() {
    if (m.e.owned() || (hash.until != none && hash.kind != part.kind)) return false;
    if (hash.until != none) {
      limit = hash.limit;
      was_set = hash.limit_set;
      used = hash.used;
      first_end = hash.first_end_us;
      map = hash.map;
    }
    if (used > 0 && first_end <= m.now_us) sweep();
    if (used == 0) {
      if (!was_set) limit = part.limit;
      first_end = 0;
      map = segmented() ? std::string(static_cast<std::size_t>(limit), '0') : std::string{};
    }
    auto const found = hash.owners.find(me.text);
    if (found != hash.owners.end()) mine = found->second;
    return true;
  }

  void mark(std::int64_t segment, char taken) {
    if (segment > 0) map[static_cast<std::size_t>(segment - 1)] = taken;
  }

  void write(std::string const& id = {}, part_owner const* owner = nullptr) {
    if (used == 0 && !was_set) {
      hash = {};
      return;
    }
    hash.kind = part.kind;
    hash.limit = limit;
    hash.used = used;
    hash.first_end_us = first_end;
    hash.map = map;
    hash.limit_set = was_set;
    if (was_set && left_until(hash.until, m.now_ms()) < m.retention) hash.until = m.now_ms() + m.retention;
    if (owner != nullptr) hash.owners.insert_or_assign(id, *owner);
  }

  void sweep() {
    used = first_end = 0;
    for (auto at = hash.owners.begin(); at != hash.owners.end();) {
      part_owner const& owner = at->second;
      if (owner.ends_us <= m.now_us) {
        mark(owner.segment, '0');
        at = hash.owners.erase(at);
      } else {
        used += owner.weight;
        first_end = first_end == 0 ? owner.ends_us : std::min(first_end, owner.ends_us);
        ++at;
      }
    }
    write();
  }

  void live(std::int64_t lease) {
    if (left_until(hash.until, m.now_ms()) < lease) hash.until = m.now_ms() + lease;
  }

  std::int64_t lock_left() const { return std::max(left_until(hash.until, m.now_ms()), m.claim); }

  void own_part(std::string const& id, std::int64_t size, std::int64_t fence, bool claimed, std::int64_t lease,
                std::int64_t segment, std::string_view for_whom) {
    std::int64_t const ends = m.now_us + lease * 1000;
    first_end = used == 0 ? ends : std::min(first_end, ends);
    used += size;
    if (reentrant()) map = for_whom;
    mark(segment, '1');
    part_owner const owner{size, fence, claimed, ends, segment};
    write(id, &owner);
    live(lease);
  }

  void extend_part(std::int64_t lease) {
    mine->claimed = false;
    mine->ends_us = std::max(mine->ends_us, m.now_us + lease * 1000);
    write(me.text, &*mine);
    live(lease);
  }

  std::int64_t left() {
    if (used > 0 && first_end - m.now_us < m.claim * 500) sweep();
    return used == 0 ? m.claim : (first_end - m.now_us + 999) / 1000;
  }

  std::optional<std::int64_t> fit(std::int64_t size, std::string_view unwanted, std::int64_t start) const {
    if (used >= limit) return std::nullopt;
    if (reentrant()) return used == 0 || map == unwanted ? std::optional<std::int64_t>{0} : std::nullopt;
    if (!segmented()) return used + std::min(size, limit) <= limit ? std::optional<std::int64_t>{0} : std::nullopt;
    for (std::int64_t i = 0; i < limit; ++i) {
      std::int64_t const segment = (start + i) % limit + 1;
      bool const wanted = unwanted.find(',' + std::to_string(segment) + ',') == std::string_view::npos;
      if (map[static_cast<std::size_t>(segment - 1)] == '0' && wanted) return segment;
    }
    return std::nullopt;
  }

  struct waiter {
    std::string_view id, visited;
    std::int64_t weight;
  };

  static waiter parse(std::string_view text) {
    auto const first = text.find(' ');
    auto const second = text.find(' ', first + 1);
    return {text.substr(0, first), text.substr(second + 1),
            std::stoll(std::string{text.substr(first + 1, second - first - 1)})};
  }

  static std::string_view client_of(std::string_view id) { return id.substr(0, id.find('.')); }

  void drop_dead() {
    while (!m.e.line.empty()) {
      std::string const head = m.e.line.begin()->first.second;
      if (head == entry || m.in.listeners_.contains(client_of(head))) return;
      m.leave_line(head);
    }
  }

  struct admitted {
    std::optional<std::int64_t> fence, segment;
    int others = 0;
  };

  admitted admit(std::string_view who, std::int64_t my_lease, std::int64_t fence) {
    admitted result;
    auto at = m.e.line.begin();
    while (used < limit && at != m.e.line.end()) {
      auto const [key, number] = *at;
      std::string const& text = key.second;
      waiter const head = parse(text);
      auto const segment = fit(head.weight, head.visited, 0);
      if (!segment) {
        if (!segmented() && !reentrant()) break;
        ++at;
        continue;
      }
      ++at;
      fence = m.next_fence(fence);
      m.leave_line(text);
      std::int64_t const size = std::min(head.weight, limit);
      if (head.id == who) {
        own_part(std::string{head.id}, size, fence, false, my_lease, *segment, head.visited);
        result.fence = fence;
        result.segment = segment;
      } else if (auto const heard = m.in.listeners_.find(client_of(head.id)); heard != m.in.listeners_.end()) {
        heard->second->on_grant({m.e.name, number, fence, m.now_us, std::chrono::milliseconds{m.claim}, part.kind,
                                 static_cast<std::uint32_t>(*segment)});
        own_part(std::string{head.id}, size, fence, true, m.claim, *segment, head.visited);
        ++result.others;
      }
    }
    return result;
  }
};

std::vector<std::int64_t> store::acquire_part(moment& m, engine::acquire_command const& c) {
  if (c.not_after_us > 0 && m.now_us > c.not_after_us) return {3, 0, m.now_us};
  parts_moment p{m, *c.part, {id_text(m.client, c.id), c.id}};
  if (!p.load()) return wrong_type;
  std::int64_t const lease = c.lease.count();
  std::int64_t ticket = c.ticket;

  if (p.mine) {
    p.extend_part(lease);
    p.admit({}, 0, 0);
    return {1, p.mine->fence, m.now_us, p.mine->segment};
  }

  bool nobody_waits = m.e.line.empty();
  std::optional<std::int64_t> passed_on;
  auto const refused = [&](std::vector<std::int64_t> answer) {
    if (passed_on) answer.push_back(*passed_on);
    return answer;
  };
  if (!nobody_waits) {
    bool const again = ticket > 0;
    if (c.wait) ticket = m.enqueue({p.entry, c.id}, ticket, p.lock_left(), lease);
    if (again) p.drop_dead();
    auto const next = p.admit(p.me.text, lease, 0);
    if (next.fence) return {1, *next.fence, m.now_us, *next.segment};
    nobody_waits = m.e.line.empty();
    if (next.others > 0) passed_on = nobody_waits ? 0 : 1;
    if (c.wait) return refused({0, p.left(), m.now_us, ticket});
  }

  auto const segment = nobody_waits || p.segmented() || p.reentrant() ? p.fit(c.part->weight, c.part->visited, c.part->start) : std::nullopt;
  if (segment) {
    std::int64_t const fence = m.next_fence(0);
    p.own_part(p.me.text, std::min<std::int64_t>(c.part->weight, p.limit), fence, false, lease, *segment, c.part->visited);
    return {1, fence, m.now_us, *segment};
  }
  std::int64_t const sleep = p.left();
  if (!c.wait) return refused({2, sleep, m.now_us, 0});
  return {0, sleep, m.now_us, m.enqueue({p.entry, c.id}, ticket, p.lock_left(), lease)};
}

std::vector<std::int64_t> store::release_part(moment& m, engine::release_command const& c) {
  parts_moment p{m, *c.part, {id_text(m.client, c.id), c.id}};
  if (!p.load()) return wrong_type;
  if (p.mine && c.keep) {
    p.extend_part(c.lease.count());
    p.admit({}, 0, 0);
    return {2, p.mine->fence, p.mine->segment, m.now_us};
  }

  std::int64_t const was_mine = p.mine ? 1 : 0;
  std::int64_t const floor = p.mine ? p.mine->fence : 0;
  if (!p.mine) {
    m.leave_line(p.entry);
  } else if (c.rest > 0) {
    p.used -= std::max<std::int64_t>(p.mine->weight - c.rest, 0);
    p.mine->weight = std::min<std::int64_t>(p.mine->weight, c.rest);
    p.write(p.me.text, &*p.mine);
  } else {
    p.used -= p.mine->weight;
    p.mark(p.mine->segment, '0');
    p.hash.owners.erase(p.me.text);
    p.write();
  }

  auto const next = p.admit({}, 0, floor);
  return {was_mine, next.others > 0 ? 1 : 0, m.e.line.empty() ? 0 : 1, m.now_us};
}

std::vector<std::int64_t> store::renew_parts(engine::renew_command const& c, std::string_view client, std::int64_t now_us) {
  std::vector<std::int64_t> answer{now_us};
  answer.reserve(c.items.size() + 1);
  for (engine::renewal const& item : c.items) {
    entry* const e = find(item.name);
    std::string const id = id_text(client, item.id);
    auto const found = e != nullptr ? e->parts.owners.find(id) : decltype(e->parts.owners.end()){};
    bool const mine = e != nullptr && found != e->parts.owners.end() && found->second.ends_us > now_us;
    if (mine) {
      std::int64_t const lease = item.lease.count();
      found->second.claimed = false;
      found->second.ends_us = std::max(found->second.ends_us, now_us + lease * 1000);
      if (left_until(e->parts.until, now_us / 1000) < lease) e->parts.until = now_us / 1000 + lease;
      if (c.retention.count() != 0) moment{*this, *e, client, now_us, 0, c.retention.count()}.keep_fence(found->second.fence);
      put_on_agenda(*e);
    }
    answer.push_back(mine ? 1 : 0);
  }
  return answer;
}

std::vector<std::int64_t> store::set_limit(moment& m, engine::limit_command const& c) {
  engine::permit const wanted{.kind = engine::permit_kind::semaphore, .limit = c.limit};
  parts_moment p{m, wanted, {}};
  if (!p.load()) return wrong_type;
  p.was_set = true;
  p.limit = c.limit;
  p.write();
  auto const next = p.admit({}, 0, 0);
  if (next.others == 0) return {p.used, m.now_us};
  return {p.used, m.now_us, m.e.line.empty() ? 0 : 1};
}

void store::revoke(std::string_view id, std::string_view name) {
  auto const dot = id.find('.');
  auto const heard = listeners_.find(id.substr(0, dot));
  if (heard == listeners_.end()) return;
  engine::grant_id number;
  std::string_view text = id.substr(dot + 1);
  if (engine::read_grant_id(text, number)) heard->second->on_revoke(name, number);
}

std::vector<std::int64_t> store::force(moment& m, engine::force_command const& c) {
  if (m.e.parts.until == none) {
    if (!m.e.owned() || (c.fence > 0 && m.e.owner_fence != c.fence)) return {0, m.now_us};
    revoke(m.e.owner.text, m.e.name);
    bool const taken = !m.e.line.empty() && m.pass_on({}, 0, m.e.owner_fence).taken;
    if (taken) return {1, m.now_us, m.e.line.empty() ? 0 : 1, 0, 1};
    m.e.owner_until = none;
    return {1, m.now_us};
  }
  engine::permit const any{.kind = m.e.parts.kind, .limit = static_cast<std::uint32_t>(m.e.parts.limit)};
  parts_moment p{m, any, {}};
  p.load();
  std::map<std::int64_t, std::pair<std::string, part_owner>> chosen;
  for (auto const& [id, owner] : p.hash.owners) {
    if (c.fence == 0 || owner.fence == c.fence) chosen.emplace(owner.fence, std::pair{id, owner});
  }
  for (auto const& [fence, one] : chosen) {
    revoke(one.first, m.e.name);
    p.hash.owners.erase(one.first);
    p.used -= one.second.weight;
    p.mark(one.second.segment, '0');
  }
  auto const count = static_cast<std::int64_t>(chosen.size());
  if (chosen.empty()) return {count, m.now_us};
  p.write();
  auto const next = p.admit({}, 0, chosen.rbegin()->first);
  if (next.others == 0) return {count, m.now_us};
  return {count, m.now_us, m.e.line.empty() ? 0 : 1, static_cast<std::int64_t>(any.kind), p.limit};
}

std::vector<std::int64_t> store::inspect(moment& m) {
  struct seen {
    std::string_view id;
    std::int64_t left, weight, segment;
    bool claimed;
  };
  std::map<std::int64_t, seen> owners;  // by fence
  std::int64_t taken = 0, limit = 1, kind = 0;
  auto const waiting = static_cast<std::int64_t>(m.e.line.size());
  parts_hash const& hash = m.e.parts;
  if (hash.until != none) {
    limit = hash.limit;
    kind = static_cast<std::int64_t>(hash.kind);
    std::size_t const parts = hash.owners.size();
    if (parts > 1000) return {m.now_us, waiting, static_cast<std::int64_t>(parts), hash.used, limit, kind};
    for (auto const& [id, owner] : hash.owners) {
      if (owner.ends_us <= m.now_us) continue;
      owners.emplace(owner.fence, seen{id, (owner.ends_us - m.now_us + 999) / 1000, owner.weight, owner.segment, owner.claimed});
      taken += owner.weight;
    }
  } else if (m.e.owned()) {
    owners.emplace(m.e.owner_fence, seen{m.e.owner.text, m.owner_left(), 1, 0, m.e.claimed});
    taken = 1;
  }

  std::vector<std::int64_t> answer{m.now_us, waiting, static_cast<std::int64_t>(owners.size()), taken, limit, kind};
  std::size_t named = 0;
  for (auto const& [fence, owner] : owners) {
    if (named++ == 100) break;
    std::string_view const client = owner.id.substr(0, owner.id.find('.'));
    for (std::size_t word = 0; word < 4; ++word) {
      std::string_view const digits = client.size() > 8 * word ? client.substr(8 * word, 8) : std::string_view{};
      std::int64_t bits = 0;
      auto const read = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
      answer.push_back(!digits.empty() && read.ptr == digits.data() + digits.size() ? bits : 0);
    }
    answer.insert(answer.end(), {fence, owner.left, owner.weight, owner.segment, owner.claimed ? 0 : 1});
  }
  return answer;
}

}  // namespace conch::memory
