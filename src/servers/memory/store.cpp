// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/memory/store.hpp"

#include <chrono>
#include <map>
#include <utility>

namespace conch::memory {

struct store::audience final : rules::audience {
  audience(store const& s, known const& n, rules::us now, std::chrono::milliseconds c)
      : in{s},
        of{n},
        now_us{now},
        claim{c} {}

  bool send(rules::push const& p) override {
    using kind = rules::push::kind;
    auto const heard = in.listeners_.find(p.to.client());
    if (heard == in.listeners_.end()) return false;
    listener& l = *heard->second;
    engine::grant_id const id = p.to.number;
    switch (p.what) {
      case kind::granted:
        l.on_push(protocol::pushed_grant{of.name, id, p.fence, now_us, claim, of.lock.kind,
                                         static_cast<std::uint32_t>(p.chosen)});
        break;
      case kind::taken_away: l.on_push(protocol::revocation{of.name, id}); break;
      case kind::requested: l.on_push(protocol::request_to_let_go{of.name, id}); break;
      case kind::ends: l.on_push(protocol::end_of_lease{of.name, id, std::chrono::milliseconds{p.left}}); break;
      case kind::free: l.on_push(protocol::end_of_hold{of.name, id}); break;
    }
    return true;
  }

  bool is_listening(std::string_view client) const override { return in.listeners_.contains(client); }

  store const& in;
  known const& of;
  rules::us now_us;
  std::chrono::milliseconds claim;
};

std::shared_ptr<store> store::named(std::string_view name) {
  // Never destroyed: clients that are static objects use it until the very end.
  static auto& guard = *new fork_safe_mutex;
  static auto& all = *new std::map<std::string, std::shared_ptr<store>, std::less<>>;
  {
    std::lock_guard const lock{guard};
    if (auto const known = all.find(name); known != all.end()) return known->second;
  }
  auto const fresh = std::make_shared<store>();  // it has a fork_safe_mutex too
  std::lock_guard const lock{guard};
  return all.try_emplace(std::string{name}, fresh).first->second;
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
  return names_.size();
}

template <class Command, class Request>
auto store::carry_out_at(known& k, Command const& c, std::string_view client, std::int64_t now_us, Request&& request) {
  std::chrono::milliseconds claim{0}, retention{0};
  if constexpr (requires { c.claim; }) claim = c.claim;
  if constexpr (requires { c.retention; }) retention = c.retention;
  audience clients{*this, k, now_us, claim};
  auto reply = request(k.lock, rules::moment{now_us, client, clients, claim.count(), retention.count()});
  put_on_agenda(k);
  return reply;
}

store::acquired store::answer_to(protocol::acquire_command const& c, std::string_view client, std::int64_t now_us) {
  return carry_out_at(find_or_make(c.name), c, client, now_us, [&](auto& lock, auto const& when) {
    return c.origin.empty() ? rules::acquire(lock, when, c) : rules::adopt(lock, when, c);
  });
}

protocol::tries_reply store::answer_to(protocol::acquire_all_command const& c, std::string_view client,
                                       std::int64_t now_us) {
  if (c.not_after_us > 0 && now_us > c.not_after_us) return {.too_late = true, .server_us = now_us};
  protocol::tries_reply reply{.server_us = now_us};
  reply.fences.reserve(c.items.size());
  for (protocol::attempt const& item : c.items) {
    std::int64_t const fence =
        carry_out_at(find_or_make(item.name), c, client, now_us,
                     [&](auto& lock, auto const& when) { return rules::take(lock, when, item); });
    if (fence == 0) break;
    reply.fences.push_back(fence);
  }
  return reply;
}

store::released store::answer_to(protocol::release_command const& c, std::string_view client, std::int64_t now_us) {
  return carry_out_at(find_or_make(c.name), c, client, now_us,
                      [&](auto& lock, auto const& when) { return rules::release(lock, when, c); });
}

protocol::renew_reply store::answer_to(protocol::renew_command const& c, std::string_view client, std::int64_t now_us) {
  using kind = protocol::renew_reply::kind;
  protocol::renew_reply reply{.server_us = now_us};
  reply.locks.reserve(c.items.size());
  for (protocol::renewal const& item : c.items) {
    auto const renew = [&](auto& lock, auto const& when) { return rules::renew(lock, when, item, !c.permits); };
    known* const k = find(item.name);
    bool const mine = k != nullptr && carry_out_at(*k, c, client, now_us, renew);
    reply.locks.push_back({.what = mine ? kind::renewed : kind::not_mine});
  }
  return reply;
}

protocol::renew_reply store::answer_to(protocol::confirm_command const& c, std::string_view client,
                                       std::int64_t now_us) {
  protocol::renew_reply reply{.server_us = now_us};
  reply.locks.reserve(c.items.size());
  for (protocol::renewal const& item : c.items) {
    reply.locks.push_back(carry_out_at(find_or_make(item.name), c, client, now_us, [&](auto& lock, auto const& when) {
      return rules::confirm(lock, when, item, c.keep_fences);
    }));
  }
  return reply;
}

engine::lock_report store::answer_to(protocol::inspect_command const& c, std::string_view client, std::int64_t now_us) {
  return carry_out_at(find_or_make(c.name), c, client, now_us, rules::inspect);
}

protocol::order_reply store::answer_to(protocol::force_command const& c, std::string_view client, std::int64_t now_us) {
  return carry_out_at(find_or_make(c.name), c, client, now_us,
                      [&](auto& lock, auto const& when) { return rules::force(lock, when, c); });
}

protocol::order_reply store::answer_to(protocol::request_command const& c, std::string_view client,
                                       std::int64_t now_us) {
  return carry_out_at(find_or_make(c.name), c, client, now_us,
                      [&](auto& lock, auto const& when) { return rules::request(lock, when, c); });
}

protocol::session_reply store::answer_to(protocol::requested_command const& c, std::string_view, std::int64_t) const {
  known const* const k = find(c.name);
  return {.count = k != nullptr && k->lock.requests.contains(c.fence) ? 1 : 0};
}

protocol::watch_reply store::answer_to(protocol::watch_command const& c, std::string_view client, std::int64_t now_us) {
  return carry_out_at(find_or_make(c.name), c, client, now_us,
                      [&](auto& lock, auto const& when) { return rules::watch(lock, when, c); });
}

protocol::session_reply store::answer_to(protocol::unwatch_command const& c, std::string_view client,
                                         std::int64_t now_us) {
  auto const unwatch = [&](auto& lock, auto const& when) { return rules::unwatch(lock, when, c); };
  return {.count = carry_out_at(find_or_make(c.name), c, client, now_us, unwatch) ? 1 : 0};
}

protocol::session_reply store::answer_to(protocol::introduce_command const& c, std::string_view, std::int64_t now_us) {
  std::erase_if(introductions_, [&](auto const& one) { return one.first == c.name || one.second.until_us <= now_us; });
  if (!c.text.empty())
    introductions_.emplace(c.name, introduction{std::string{c.text}, now_us + rules::us{c.kept.count()} * 1000});
  return {};
}

protocol::identity_reply store::answer_to(protocol::identify_command const& c, std::string_view,
                                          std::int64_t now_us) const {
  auto const found = introductions_.find(c.name);
  bool const is_kept = found != introductions_.end() && found->second.until_us > now_us;
  return {is_kept ? found->second.text : std::string{}};
}

store::ordered store::answer_to(protocol::limit_command const& c, std::string_view client, std::int64_t now_us) {
  return carry_out_at(find_or_make(c.name), c, client, now_us,
                      [&](auto& lock, auto const& when) { return rules::set_limit(lock, when, c); });
}

store::known* store::find(std::string_view name) const {
  auto const place = names_.find(name);
  return place == names_.end() ? nullptr : place->second.get();
}

store::known& store::find_or_make(std::string_view name) {
  if (known* const k = find(name)) return *k;
  auto made = std::make_unique<known>();
  made->name = name;
  std::string_view const key = made->name;
  return *names_.emplace(key, std::move(made)).first->second;
}

/// What has expired does not come back when the clock goes back, whichever lock the command is about.
void store::drop_expired(std::int64_t now_us) {
  while (!agenda_.empty() && agenda_.begin()->first <= now_us) {
    known& k = *agenda_.begin()->second;
    rules::end_what_is_over(k.lock, now_us);
    put_on_agenda(k);
  }
}

/// Called after any change: puts the lock on the agenda by what expires first, or removes it when nothing is left of
/// it.
void store::put_on_agenda(known& k) {
  rules::us const next = rules::next_end(k.lock);
  if (next != 0 && next == k.looked_at) return;
  decltype(agenda_)::node_type entry;
  if (k.looked_at != 0) entry = agenda_.extract({k.looked_at, &k});
  k.looked_at = next;
  if (next == 0) {
    names_.erase(names_.find(k.name));  // the key is a view into it
  } else if (entry.empty()) {
    agenda_.emplace(next, &k);
  } else {
    entry.value().first = next;
    agenda_.insert(std::move(entry));
  }
}

}  // namespace conch::memory
