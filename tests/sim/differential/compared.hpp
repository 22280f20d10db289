// What the servers of a differential test are compared by: replies as the client reads them, and pushes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/overloaded.hpp"
#include "protocol/replies.hpp"
#include "servers/memory/store.hpp"
#include "servers/redis/codec.hpp"
#include "support/printed_replies.hpp"

namespace conch::sim {

/// What a command is answered. A fault: it was not carried out, or nobody can read that.
using any_reply = std::variant<protocol::fault, protocol::acquire_reply, protocol::tries_reply, protocol::release_reply,
                               protocol::renew_reply, engine::lock_report, protocol::order_reply,
                               protocol::session_reply, protocol::watch_reply, protocol::identity_reply>;

/// As the client reads an answer to a command.
struct reply_reader {
  protocol::answer const& a;

  any_reply operator()(protocol::acquire_command const& c) const { return protocol::read_acquire(a, c.proposal); }
  any_reply operator()(protocol::acquire_all_command const& c) const {
    return whole(protocol::read_tries(a, c.items.size()));
  }
  any_reply operator()(protocol::release_command const& c) const {
    return protocol::read_release(a, c.new_id != 0, c.permit != nullptr);
  }
  any_reply operator()(protocol::renew_command const& c) const {
    return whole(protocol::read_renew(a, c.items.size(), false));
  }
  any_reply operator()(protocol::confirm_command const& c) const {
    return whole(protocol::read_renew(a, c.items.size(), true));
  }
  any_reply operator()(protocol::inspect_command const&) const { return whole(protocol::read_inspect(a)); }
  any_reply operator()(protocol::force_command const&) const { return whole(protocol::read_force(a)); }
  any_reply operator()(protocol::request_command const&) const { return whole(protocol::read_force(a)); }
  any_reply operator()(protocol::watch_command const&) const { return whole(protocol::read_watch(a)); }
  any_reply operator()(protocol::identify_command const&) const { return whole(protocol::read_identity(a)); }
  any_reply operator()(protocol::limit_command const& c) const { return whole(protocol::read_limit(a, c.limit)); }
  template <class Command>
  any_reply operator()(Command const&) const {
    return protocol::read_session(a);
  }

 private:
  template <class Reply>
  static any_reply whole(std::optional<Reply> r) {
    if (!r) return protocol::fault::malformed;
    return *std::move(r);
  }
};

inline any_reply read_reply(protocol::command const& c, protocol::answer const& a) {
  if (a.what != protocol::fault::none) return a.what;
  return std::visit(reply_reader{a}, c);
}

inline any_reply reply_of(memory::store& s, protocol::command const& c, std::string_view client, std::int64_t now_us) {
  any_reply said = protocol::fault::malformed;
  s.carry_out(c, client, now_us, [&](auto reply) {
    if (reply) {
      said = *std::move(reply);
    } else {
      said = protocol::fault::wrong_type;
    }
  });
  return said;
}

struct seen_grant {
  std::string client, name;
  engine::grant_id id;
  std::int64_t fence, granted_us, claim_ms;
  engine::permit_kind kind;
  std::uint32_t segment;

  bool operator==(seen_grant const&) const = default;
};

using seen_grants = std::vector<seen_grant>;

inline std::ostream& operator<<(std::ostream& out, seen_grant const& g) {
  return out << g.client << '.' << engine::to_text(g.id) << " gets " << g.name << " fence " << g.fence << " at "
             << g.granted_us << " for " << g.claim_ms << " segment " << g.segment;
}

inline seen_grant seen(std::string_view client, protocol::pushed_grant const& g) {
  return {std::string{client}, std::string{g.name}, g.id, g.fence, g.granted_us, g.claim.count(), g.kind, g.chosen};
}

/// The fence of a push that tells of a request.
constexpr std::int64_t requested_mark = -1;
/// And of one that tells that a lock is free, with and without others to be told.
constexpr std::int64_t freed_mark = -2, freed_and_more_mark = -3;
/// And of one that reports when the lease of the present owner ends.
constexpr std::int64_t end_mark = -4;
/// And of one that tells of a missed turn.
constexpr std::int64_t missed_mark = -5;

inline seen_grant seen(std::string_view client, protocol::push const& p) {
  protocol::pushed_grant const all = std::visit(
      overloaded{[](protocol::pushed_grant const& g) { return g; },
                 [](protocol::revocation const& r) { return protocol::pushed_grant{.name = r.name, .id = r.id}; },
                 [](protocol::request_to_let_go const& r) {
                   return protocol::pushed_grant{.name = r.name, .id = r.id, .fence = requested_mark};
                 },
                 [](protocol::end_of_hold const& e) {
                   return protocol::pushed_grant{
                       .name = e.name, .id = e.id, .fence = e.more ? freed_and_more_mark : freed_mark};
                 },
                 [](protocol::missed_turn const& m) {
                   return protocol::pushed_grant{.name = m.name, .id = m.id, .fence = missed_mark};
                 },
                 [](protocol::end_of_lease const& e) {
                   return protocol::pushed_grant{.name = e.name, .id = e.id, .fence = end_mark, .claim = e.left};
                 }},
      p);
  return seen(client, all);
}

class listening_client final : public memory::store::listener {
 public:
  listening_client(std::string id, seen_grants& out) : id_{std::move(id)}, out_{out} {}
  void on_push(protocol::push const& p) override { out_.push_back(seen(id_, p)); }

 private:
  std::string id_;
  seen_grants& out_;
};

/// The clients, all of which listen to the store and to what it is compared with, until they lose their connections.
class listening_clients {
 public:
  template <class Other>
  listening_clients(std::vector<std::string> const& all, memory::store& store, Other& other, seen_grants& out)
      : store_{store} {
    for (auto const& client : all) {
      clients_.try_emplace(client, client, out);
      change(client, other);
    }
  }

  /// Its connection is lost, or there again.
  template <class Other>
  void change(std::string const& client, Other& other) {
    bool const on = listening_.insert(client).second;
    other.subscribe(client, on);
    if (on) {
      store_.subscribe(client, clients_.at(client));
    } else {
      store_.unsubscribe(client);
      listening_.erase(client);
    }
  }

 private:
  memory::store& store_;
  std::map<std::string, listening_client> clients_;
  std::set<std::string> listening_;
};

/// What else a generator draws. All that is compared must know it.
struct generator_options {
  bool patience = false;    // of a client after a change of roles
  bool many_names = false;  // so many that each new one looks through those that are not used any more
  bool may_go_back = true;  // the clock
  bool comes_back = false;  // what has expired, where no command has looked at it before the clock goes back
  bool near_2020 = false;   // the clock begins before that of tokens does
  bool mixed_kinds = true;  // one name as a mutex and as a lock with several owners
  // as with real clients: more releases are an owner's, and an id asks for one thing, and adopts nothing else
  bool owners_act = false;
};

/// The first that this client has asked for, from that place on and then from the beginning. Null: there is none.
template <typename Asked>
Asked const* first_of(std::string const& client, std::deque<Asked> const& all, std::int64_t place) {
  auto const from = all.begin() + place;
  auto const is_its = [&](Asked const& one) { return one.client == client; };
  auto found = std::find_if(from, all.end(), is_its);
  if (found == all.end()) found = std::find_if(all.begin(), from, is_its);
  return found == all.end() || !is_its(*found) ? nullptr : &*found;
}

/// The clock of a test's server.
class random_clock {
 public:
  explicit random_clock(generator_options const& o) : may_go_back_{o.may_go_back} {
    constexpr std::int64_t before_us = 30'000'000;
    if (o.near_2020) now_us_ = protocol::fence_epoch_us - before_us;
  }

  std::int64_t now() const noexcept { return now_us_; }
  void forward(std::int64_t by) noexcept { now_us_ += by; }
  void back(std::int64_t by) noexcept {
    if (may_go_back_) now_us_ -= by;
  }
  /// What the clock is worth as a fence; the least that there is before 2020.
  std::int64_t fence() const noexcept { return std::max<std::int64_t>(now_us_ - protocol::fence_epoch_us, 1); }

 private:
  bool const may_go_back_;
  std::int64_t now_us_ = 1'700'000'000'000'000;
};

/// Names that are used seldom.
inline std::vector<std::string> with_many(std::vector<std::string> names, bool many) {
  for (int i = 0; many && i < 60; ++i) names.push_back("seldom " + std::to_string(i));
  return names;
}

/// Always the same for one request; every third belongs to an earlier client version, whose ids have none.
inline engine::grant_id with_nonce(std::uint64_t count) { return {count, count % 3 * 0x9e3779b97f4a7c15u}; }

/// An id of a client whose last one this was.
inline engine::grant_id never_used_before(std::uint64_t& last) {
  last = std::max<std::uint64_t>(last, 7) + 1;
  return with_nonce(last);
}

inline std::string described(protocol::command const& c) {
  std::string bytes;
  redis::encode(c, "CLIENT", bytes);
  return bytes;
}

}  // namespace conch::sim
