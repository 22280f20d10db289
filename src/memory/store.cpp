// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "memory/script_context.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <variant>

// The functions below are lua/lib/fence.lua, lib/lock.lua, acquire.lua, acquire_all.lua, release.lua and renew.lua line by line: whoever changes one
// changes the other, and tests/sim/memory_store_differential_test.cpp compares them.
namespace conch::memory {

namespace {

/// The first 48 bits of a client and the ticket in a vote's id; 0 and 0 for anybody else's.
std::pair<std::int64_t, std::int64_t> voter_of(std::string_view id) {
  auto const dot = id.find('.');
  std::string_view const client = id.substr(0, dot), number = id.substr(dot + 1, id.find('-', dot) - dot - 1);
  if (number.size() < 4) return {0, 0};
  std::int64_t voter = 0, ticket = 0;
  std::string_view const bits = client.substr(0, 12);
  auto const read = std::from_chars(bits.data(), bits.data() + bits.size(), voter, 16);
  if (read.ptr != bits.data() + bits.size()) voter = 0;
  std::from_chars(number.data(), number.data() + number.size() - 3, ticket);
  return {voter, ticket};
}

}  // namespace

std::int64_t store::entry::next_expiry() const noexcept {
  std::int64_t first = none;
  for (std::int64_t const until : {owner_until, line_until, fence_until, permits.until}) {
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

std::vector<std::int64_t> store::answer_to(engine::command const& c, std::string_view client, std::int64_t now_us) {
  drop_expired(now_us / 1000);
  auto const with = [&](auto const& command, auto const& carry_out) {
    std::chrono::milliseconds claim{0}, retention{0};
    if constexpr (requires { command.claim; }) {
      claim = command.claim;
      retention = command.retention;
    }
    script_context m{*this, find_or_make(command.name), client, now_us, claim.count(), retention.count()};
    std::vector<std::int64_t> answer = carry_out(m);
    put_on_agenda(m.e);
    return answer;
  };
  if (auto const* const asked = std::get_if<engine::acquire_command>(&c)) {
    return with(*asked, [&](script_context& m) { return asked->permit != nullptr ? acquire_permit(m, *asked) : acquire(m, *asked); });
  }
  if (auto const* const tried = std::get_if<engine::acquire_all_command>(&c)) return acquire_all(*tried, client, now_us);
  if (auto const* const given = std::get_if<engine::release_command>(&c)) {
    return with(*given, [&](script_context& m) { return given->permit != nullptr ? release_permit(m, *given) : release(m, *given); });
  }
  if (auto const* const wanted = std::get_if<engine::limit_command>(&c)) {
    return with(*wanted, [&](script_context& m) { return set_limit(m, *wanted); });
  }
  if (auto const* const forced = std::get_if<engine::force_command>(&c)) {
    return with(*forced, [&](script_context& m) { return force(m, *forced); });
  }
  if (auto const* const question = std::get_if<engine::inspect_command>(&c)) {
    return with(*question, [&](script_context& m) { return inspect(m); });
  }
  if (auto const* const renewed = std::get_if<engine::renew_command>(&c)) {
    return renewed->permits ? renew_permits(*renewed, client, now_us) : renew(*renewed, client, now_us);
  }
  if (auto const* const votes = std::get_if<engine::confirm_command>(&c)) return confirm(*votes, client, now_us);
  if (std::holds_alternative<engine::prove_publish_command>(c)) return {listeners_.contains(client) ? 1 : 0};
  if (std::holds_alternative<engine::kill_command>(c)) return {0};
  return {};
}

void store::append_rival(entry const& e, std::vector<std::int64_t>& answer) {
  auto const [voter, ticket] = voter_of(e.owner.text);
  answer.insert(answer.end(), {voter, ticket, e.claimed ? 0 : 1});
}

std::vector<std::int64_t> store::acquire(script_context& m, engine::acquire_command const& c) {
  entry& e = m.e;
  grant me{id_text(m.client, c.id), c.id};
  std::int64_t const lease = c.lease.count();
  bool const vote = c.proposal != 0;
  std::int64_t const floor = (vote ? c.proposal : 1) - 1;
  auto const rival = [&](std::vector<std::int64_t> answer) {
    if (vote) {
      answer.resize(4);
      append_rival(e, answer);
    }
    return answer;
  };
  if (c.not_after_us > 0 && m.now_us > c.not_after_us) return {3, 0, m.now_us};
  if (e.permits.until != none) return wrong_type;

  if (e.owned()) {
    if (e.owned_by(m.client, c.id)) {
      m.extend(lease, !vote);
      return {1, e.owner_fence, m.now_us};
    }
    std::int64_t const left = m.owner_left();
    if (!c.wait) return rival({2, left, m.now_us});
    std::int64_t const ticket = m.enqueue(me, c.ticket, left, lease);
    return rival({0, left, m.now_us, ticket});
  }

  if (!e.line.empty()) {
    std::int64_t const ticket = c.wait ? m.enqueue(me, c.ticket, m.claim, lease) : 0;
    script_context::passed const next = m.pass_on(me.text, lease, floor, vote);
    if (next.unfinished) return {4, 0, m.now_us, ticket};
    if (next.fence) return m.granted(*next.fence, c.proposal);
    if (next.taken) {
      std::vector<std::int64_t> answer{c.wait ? 0 : 2, m.claim, m.now_us, ticket};
      if (!vote) answer.push_back(e.line.empty() ? 0 : 1);
      return rival(std::move(answer));
    }
  }

  std::int64_t const fence = m.next_fence(floor);
  m.own(std::move(me), fence, vote, lease);
  return m.granted(fence, c.proposal);
}

std::vector<std::int64_t> store::acquire_all(engine::acquire_all_command const& c, std::string_view client, std::int64_t now_us) {
  if (c.not_after_us > 0 && now_us > c.not_after_us) return {3, 0, now_us};
  auto const take = [](script_context& m, grant me, std::int64_t lease) -> std::int64_t {
    entry& e = m.e;
    if (!e.owned() && e.permits.until == none && e.line.empty()) {
      std::int64_t const fence = m.next_fence(0);
      m.own(std::move(me), fence, false, lease);
      return fence;
    }
    if (!e.owned_by(m.client, me.number)) return 0;
    m.extend(lease);
    return e.owner_fence;
  };
  std::vector<std::int64_t> answer{now_us};
  for (engine::attempt const& item : c.items) {
    script_context m{*this, find_or_make(item.name), client, now_us, 0, c.retention.count()};
    std::int64_t const fence = take(m, grant{id_text(client, item.id), item.id}, item.lease.count());
    put_on_agenda(m.e);
    if (fence == 0) break;
    answer.push_back(fence);
  }
  return answer;
}

std::vector<std::int64_t> store::release(script_context& m, engine::release_command const& c) {
  entry& e = m.e;
  std::optional<grant> again;
  if (c.new_id != 0) again = grant{id_text(m.client, c.new_id), c.new_id};
  std::int64_t const lease = c.lease.count();
  std::int64_t const now = m.now_us;
  if (e.permits.until != none) return wrong_type;

  bool const was_owner = e.owned_by(m.client, c.id);
  if (was_owner && c.keep) {
    m.extend(lease, c.floor == 0);
    return {2, e.owner_fence, 0, now};
  }
  std::int64_t const floor = std::max({c.floor, c.next_fence_floor, was_owner ? e.owner_fence : 0});
  bool const raised = c.floor != 0 && m.raise_fence(c.floor) < c.floor;
  if (!was_owner) {
    m.leave_line(id_text(m.client, c.id));
    if (e.owned()) {
      if (!again) return {0, 0, 0, now};
      std::int64_t const left = m.owner_left();
      std::int64_t const ticket = m.enqueue(*again, 0, left, lease);
      return {0, 0, 1, now, 0, left, ticket};
    }
  }

  if (e.line.empty()) {
    if (again) {
      std::int64_t const fence = m.next_fence(floor);
      m.own(std::move(*again), fence, false, lease);
      return {was_owner, 0, 0, now, 1, fence};
    }
    e.owner_until = none;
    if (was_owner && !raised) return {1};
    return {was_owner, 0, 0, now};
  }

  std::int64_t const ticket = again ? m.enqueue(*again, 0, m.claim, lease) : 0;
  script_context::passed const next = m.pass_on(again ? std::string_view{again->text} : std::string_view{}, lease, floor);
  if (!next.taken) e.owner_until = none;
  std::int64_t const more = e.line.empty() ? 0 : 1;
  if (next.fence) return {was_owner, 0, more, now, 1, *next.fence};
  if (again) return {was_owner, next.unfinished ? 2 : 1, more, now, 0, m.claim, ticket};
  return {was_owner, next.taken ? 1 : next.unfinished ? 2 : 0, more, now};
}

std::vector<std::int64_t> store::renew(engine::renew_command const& c, std::string_view client, std::int64_t now_us) {
  std::vector<std::int64_t> answer{now_us};
  answer.reserve(c.items.size() + 1);
  for (engine::renewal const& item : c.items) {
    entry* const e = find(item.name);
    bool const mine = e != nullptr && e->owned_by(client, item.id);
    if (mine) {
      script_context m{*this, *e, client, now_us, 0, c.retention.count()};
      m.extend(item.lease.count());
      if (c.retention.count() != 0) m.keep_fence(e->owner_fence);
      put_on_agenda(*e);
    }
    answer.push_back(mine ? 1 : 0);
  }
  return answer;
}

std::vector<std::int64_t> store::confirm(engine::confirm_command const& c, std::string_view client, std::int64_t now_us) {
  std::vector<std::int64_t> answer{now_us};
  answer.reserve(2 * c.items.size() + 1);
  for (engine::renewal const& item : c.items) {
    script_context m{*this, find_or_make(item.name), client, now_us, 0, c.retention.count()};
    std::int64_t const before = m.raise_fence(item.floor);
    if (c.keep_fences) m.keep_fence(item.floor);
    bool const mine = m.e.owned_by(client, item.id);
    if (mine) m.extend(item.lease.count());
    put_on_agenda(m.e);
    answer.push_back(!mine ? 0 : before > item.floor ? 2 : 1);
    answer.push_back(before);
  }
  return answer;
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

/// Like Redis a key lives to the end of its last millisecond. What has gone does not come back when the clock does.
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
    put_on_agenda(e);
  }
}

/// After any change: where the entry belongs by what expires first, or out of the store when nothing is left of it.
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
