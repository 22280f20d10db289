// src/rules as a server to compare with, and what a lock is as text: of src/rules, and of the keys on the model of
// Redis.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rules/lock.hpp"
#include "sim/differential/compared.hpp"
#include "sim/differential/scripted_server.hpp"

namespace conch::sim {

/// The locks of src/rules by their names, carried out without any bound.
class rules_server {
 public:
  struct outcome {
    any_reply reply;
    seen_grants pushes;
  };

  /// Not at once: what has expired stays until a command looks at it, and may be there again when the clock goes back.
  explicit rules_server(bool at_once = true) : ends_at_once{at_once} {}

  void at(std::int64_t now_us) {
    now_us_ = now_us;
    // As the server that it is compared with: what has expired must not come back when the clock does.
    for (auto& [name, l] : locks) {
      if (ends_at_once) rules::end_what_is_over(l, now_us);
    }
  }

  void subscribe(std::string const& client, bool on) {
    on ? static_cast<void>(listening_.insert(client)) : static_cast<void>(listening_.erase(client));
  }
  bool is_listening(std::string_view client) const { return listening_.contains(client); }

  outcome carry_out(protocol::command const& c, std::string const& client) {
    client_ = client;
    pushed_.clear();
    any_reply reply = std::visit([&](auto const& one) { return answer_to(one); }, c);
    return {std::move(reply), std::move(pushed_)};
  }

  std::map<std::string, rules::lock, std::less<>> locks;
  bool const ends_at_once;

 private:
  struct audience final : rules::audience {
    audience(rules_server& s, std::string_view n, std::int64_t c) : server{s}, name{n}, claim{c} {}

    bool send(rules::push const& p) override {
      using kind = rules::push::kind;
      std::string const client{p.to.client()};
      if (!is_listening(client)) return false;
      protocol::pushed_grant g{.name = name, .id = p.to.number};
      if (p.what == kind::granted) {
        auto const k = server.locks.find(name)->second.kind;
        g = {name,
             p.to.number,
             p.fence,
             server.now_us_,
             std::chrono::milliseconds{claim},
             k,
             static_cast<std::uint32_t>(p.chosen)};
      }
      if (p.what == kind::requested) g.fence = requested_mark;
      if (p.what == kind::free) g.fence = freed_mark;
      if (p.what == kind::ends) {
        g.fence = end_mark;
        g.claim = std::chrono::milliseconds{p.left};
      }
      server.pushed_.push_back(seen(client, g));
      return true;
    }
    bool is_listening(std::string_view client) const override { return server.is_listening(client); }

    rules_server& server;
    std::string_view name;
    std::int64_t claim;
  };

  template <class Command, class F>
  auto with(Command const& c, std::string_view name, F&& f) {
    std::int64_t claim = 0, retention = 0;
    if constexpr (requires { c.claim; }) claim = c.claim.count();
    if constexpr (requires { c.retention; }) retention = c.retention.count();
    audience heard{*this, name, claim};
    return f(locks[std::string{name}], rules::moment{now_us_, client_, heard, claim, retention});
  }

  template <class Reply>
  static any_reply or_wrong_type(std::optional<Reply> r) {
    if (!r) return protocol::fault::wrong_type;
    return *std::move(r);
  }

  any_reply answer_to(protocol::acquire_command const& c) {
    return with(c, c.name, [&](rules::lock& l, rules::moment const& at) {
      return or_wrong_type(c.origin.empty() ? rules::acquire(l, at, c) : rules::adopt(l, at, c));
    });
  }
  any_reply answer_to(protocol::acquire_all_command const& c) {
    if (c.not_after_us > 0 && now_us_ > c.not_after_us)
      return protocol::tries_reply{.too_late = true, .server_us = now_us_};
    protocol::tries_reply r{.server_us = now_us_};
    for (auto const& item : c.items) {
      auto const fence =
          with(c, item.name, [&](rules::lock& l, rules::moment const& at) { return rules::take(l, at, item); });
      if (fence == 0) break;
      r.fences.push_back(fence);
    }
    return r;
  }
  any_reply answer_to(protocol::release_command const& c) {
    return with(c, c.name,
                [&](rules::lock& l, rules::moment const& at) { return or_wrong_type(rules::release(l, at, c)); });
  }
  any_reply answer_to(protocol::renew_command const& c) {
    using kind = protocol::renew_reply::kind;
    protocol::renew_reply r{.server_us = now_us_};
    for (auto const& item : c.items) {
      bool const mine = with(
          c, item.name, [&](rules::lock& l, rules::moment const& at) { return rules::renew(l, at, item, !c.permits); });
      r.locks.push_back({.what = mine ? kind::renewed : kind::not_mine});
    }
    return r;
  }
  any_reply answer_to(protocol::confirm_command const& c) {
    protocol::renew_reply r{.server_us = now_us_};
    for (auto const& item : c.items) {
      r.locks.push_back(with(c, item.name, [&](rules::lock& l, rules::moment const& at) {
        return rules::confirm(l, at, item, c.keep_fences);
      }));
    }
    return r;
  }
  any_reply answer_to(protocol::inspect_command const& c) {
    return with(c, c.name, [&](rules::lock& l, rules::moment const& at) -> any_reply { return rules::inspect(l, at); });
  }
  any_reply answer_to(protocol::force_command const& c) {
    return with(c, c.name,
                [&](rules::lock& l, rules::moment const& at) -> any_reply { return rules::force(l, at, c); });
  }
  any_reply answer_to(protocol::request_command const& c) {
    return with(c, c.name,
                [&](rules::lock& l, rules::moment const& at) -> any_reply { return rules::request(l, at, c); });
  }
  any_reply answer_to(protocol::limit_command const& c) {
    return with(c, c.name,
                [&](rules::lock& l, rules::moment const& at) { return or_wrong_type(rules::set_limit(l, at, c)); });
  }
  any_reply answer_to(protocol::watch_command const& c) {
    return with(c, c.name,
                [&](rules::lock& l, rules::moment const& at) -> any_reply { return rules::watch(l, at, c); });
  }
  any_reply answer_to(protocol::unwatch_command const& c) {
    return with(c, c.name, [&](rules::lock& l, rules::moment const& at) -> any_reply {
      return protocol::session_reply{.count = rules::unwatch(l, at, c) ? 1 : 0};
    });
  }
  any_reply answer_to(protocol::requested_command const& c) {
    return with(c, c.name, [&](rules::lock& l, rules::moment const&) -> any_reply {
      rules::end_what_is_over(l, now_us_);
      return protocol::session_reply{.count = l.requests.contains(c.fence) ? 1 : 0};
    });
  }
  any_reply answer_to(protocol::prove_publish_command const&) {
    return protocol::session_reply{.count = is_listening(client_) ? 1 : 0};
  }
  template <class Command>
  any_reply answer_to(Command const&) {
    return protocol::session_reply{};
  }

  std::set<std::string, std::less<>> listening_;
  std::string client_;
  std::int64_t now_us_ = 0;
  seen_grants pushed_;
};

/// A lock as it is compared. Times are in ms from now on, of what is there; -1: it is not there.
struct compared_state {
  std::string kind;  // "" if there is none
  std::int64_t limit = 0;
  bool limit_is_set = false;
  std::string whose;
  std::map<std::string, std::string> owners;  // of those whose leases are not over: "SIZE STATE ENDS SEGMENT"
  std::map<std::string, std::int64_t> fences;
  std::int64_t kept = -1;
  std::vector<std::pair<std::int64_t, std::string>> line;
  std::int64_t line_kept = -1;
  std::int64_t fence = 0, fence_kept = -1;
  std::map<std::string, std::string> requests;
  std::int64_t requests_kept = -1;
  std::vector<std::pair<std::int64_t, std::string>> watchers;  // with the time of asking
  std::int64_t watchers_kept = -1;

  bool operator==(compared_state const&) const = default;

  friend void PrintTo(compared_state const& s, std::ostream* out) {
    *out << "\n  kind " << s.kind << " limit " << s.limit << (s.limit_is_set ? " set" : "") << " whose " << s.whose
         << " kept " << s.kept << "\n  owners " << testing::PrintToString(s.owners) << " fences "
         << testing::PrintToString(s.fences) << "\n  line " << testing::PrintToString(s.line) << " kept " << s.line_kept
         << "\n  fence " << s.fence << " kept " << s.fence_kept << "\n  requests " << testing::PrintToString(s.requests)
         << " kept " << s.requests_kept << "\n  watchers " << testing::PrintToString(s.watchers) << " kept "
         << s.watchers_kept << '\n';
  }
};

inline compared_state state_of(rules::lock const& l, std::int64_t now) {
  auto const left = [&](std::int64_t end) { return end <= now ? -1 : end / 1000 - 1 - now / 1000; };
  compared_state s;
  s.kept = left(l.kept);
  s.line_kept = left(l.line_kept);
  s.fence_kept = left(l.fence_kept);
  s.requests_kept = left(l.requests_kept);
  s.watchers_kept = left(l.watchers_kept);
  if (s.kept >= 0) {
    s.kind = l.kind == engine::permit_kind::none ? "mutex" : std::string(1, static_cast<char>(l.kind));
    s.limit = l.limit;
    s.limit_is_set = l.limit_is_set;
    if (l.kind == engine::permit_kind::reentrant && !l.owners.empty()) s.whose = l.whose;
  }
  for (auto const& [number, o] : l.owners) {
    if (o.ends <= now || s.kept < 0) continue;
    std::int64_t const ends = l.kind == engine::permit_kind::none ? o.ends / 1000 - 1 - now / 1000 : o.ends;
    s.owners[o.who.text] =
        std::to_string(o.size) + (o.claimed ? " c " : " h ") + std::to_string(ends) + ' ' + std::to_string(o.segment);
    s.fences[o.who.text] = o.fence;
  }
  if (s.line_kept >= 0) {
    for (auto const& w : l.line) s.line.emplace_back(w.ticket, w.who.text);
  }
  if (s.fence_kept >= 0) s.fence = l.fence;
  if (s.requests_kept >= 0) {
    for (auto const& [fence, r] : l.requests)
      s.requests[std::to_string(fence)] = r.asker + ' ' + std::to_string(r.when);
  }
  if (s.watchers_kept >= 0) {
    for (auto const& w : l.watchers) s.watchers.emplace_back(w.since, w.who.text);
  }
  return s;
}

/// The same from the keys of a server; `key` is that of the lock.
inline compared_state read_state(scripted_server& server, std::string const& key, std::int64_t now) {
  auto const texts = [&](std::vector<std::string> const& words) {
    std::vector<std::string> all;
    for (value const& v : server.ask(words).items) all.push_back(v.text);
    return all;
  };
  auto const left = [&](std::string const& of) { return std::max<std::int64_t>(server.ask({"PTTL", of}).integer, -1); };
  compared_state s;
  s.kept = left(key);
  s.line_kept = left(key + ":q");
  s.fence_kept = left(key + ":f");
  s.requests_kept = left(key + ":r");
  s.watchers_kept = left(key + ":w");
  std::string const type = server.ask({"TYPE", key}).text;
  if (type == "string") {
    std::istringstream text{server.ask({"GET", key}).text};
    std::string id, state;
    std::int64_t fence = 0;
    text >> id >> fence >> state;
    s.kind = "mutex";
    s.limit = 1;
    s.owners[id] = "1 " + state + ' ' + std::to_string(s.kept) + " 0";
    s.fences[id] = fence;
  } else if (type == "hash") {
    auto const all = texts({"HGETALL", key});
    for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
      std::istringstream text{all[i + 1]};
      if (all[i] == "walked") continue;
      if (all[i] == "sums") {
        std::int64_t taken = 0, first_end = 0;
        text >> s.kind >> s.limit >> taken >> first_end >> s.limit_is_set;
        if (s.kind == "e" && taken > 0) text >> s.whose;
        continue;
      }
      std::string size, state, segment;
      std::int64_t fence = 0, ends = 0;
      text >> size >> fence >> state >> ends >> segment;
      if (ends <= now) continue;
      s.owners[all[i]] = size + ' ' + state + ' ' + std::to_string(ends) + ' ' + segment;
      s.fences[all[i]] = fence;
    }
  }
  auto const scored = [&](std::string const& of) {
    std::vector<std::pair<std::int64_t, std::string>> all;
    auto const said = server.ask({"ZRANGE", of, "0", "-1", "WITHSCORES"});
    for (std::size_t i = 0; i < said.items.size(); ++i) {
      value const& one = said.items[i];
      if (!one.items.empty()) {
        all.emplace_back(std::stoll(one.items[1].text), one.items[0].text);
      } else if (i % 2 == 0) {
        all.emplace_back(std::stoll(said.items[i + 1].text), one.text);
      }
    }
    return all;
  };
  s.line = scored(key + ":q");
  if (s.fence_kept >= 0) s.fence = std::stoll(server.ask({"GET", key + ":f"}).text);
  auto const requests = texts({"HGETALL", key + ":r"});
  for (std::size_t i = 0; i + 1 < requests.size(); i += 2) s.requests[requests[i]] = requests[i + 1];
  s.watchers = scored(key + ":w");
  return s;
}

/// What may differ between a lock and what the server has of it: numbers of fences; how long a limit that was set is
/// remembered, and with it the queue; which watchers were told already; and which waiters were found unsubscribed.
inline void copy_what_may_differ(compared_state const& from, rules::lock& to, std::int64_t now) {
  auto const end = [&](std::int64_t left) { return left < 0 ? 0 : (now / 1000 + left + 1) * 1000; };
  for (auto const& [id, fence] : from.fences) {
    auto const dot = id.find('.');
    std::string_view number = std::string_view{id}.substr(dot + 1);
    engine::grant_id n;
    EXPECT_TRUE(engine::read_grant_id(number, n)) << id;
    to.owners.find({std::string_view{id}.substr(0, dot), n})->fence = fence;
  }
  to.fence = from.fence;
  to.fence_kept = end(from.fence_kept);
  if (to.limit_is_set) to.kept = end(from.kept);
  for (auto w = to.line.begin(); w != to.line.end();) {
    bool const is_there =
        std::find(from.line.begin(), from.line.end(), std::pair{w->ticket, w->who.text}) != from.line.end();
    w = is_there ? std::next(w) : to.line.remove(w);
  }
  to.line_kept = end(from.line_kept);
  std::erase_if(to.watchers, [&](auto const& w) {
    return std::find(from.watchers.begin(), from.watchers.end(), std::pair{w.since, w.who.text}) == from.watchers.end();
  });
  to.watchers_kept = end(from.watchers_kept);
}

/// The lock is what the server has of it.
inline void copy_state(compared_state const& from, rules::lock& to, std::int64_t now) {
  auto const end = [&](std::int64_t left) { return left < 0 ? 0 : (now / 1000 + left + 1) * 1000; };
  auto const id_of = [](std::string const& text) {
    std::string_view number{text};
    number.remove_prefix(text.find('.') + 1);
    number = number.substr(0, number.find(' '));
    engine::grant_id n;
    EXPECT_TRUE(engine::read_grant_id(number, n)) << text;
    return n;
  };
  bool const is_mutex = from.kind == "mutex";
  to.owners.clear();
  to.line.clear();
  to.requests.clear();
  to.watchers.clear();
  to.passed_over = 0;
  to.kind = from.kind.empty() || is_mutex ? rules::permit_kind::none : rules::permit_kind{from.kind[0]};
  to.limit = from.kind.empty() ? 1 : from.limit;
  to.limit_is_set = from.limit_is_set;
  to.whose = from.whose;
  to.segments.assign(to.kind == rules::permit_kind::segments ? static_cast<std::size_t>(to.limit) : 0, '0');
  to.kept = end(from.kept);
  for (auto const& [id, words] : from.owners) {
    std::istringstream text{words};
    std::string state;
    rules::owner o;
    text >> o.size >> state >> o.ends >> o.segment;
    if (is_mutex) o.ends = end(o.ends);
    o.claimed = state == "c";
    o.fence = from.fences.at(id);
    if (o.segment != 0) to.segments[static_cast<std::size_t>(o.segment - 1)] = '1';
    to.owners.add({std::string_view{id}.substr(0, id.find('.')), id_of(id)}, o);
  }
  for (auto const& [ticket, text] : from.line) to.line.add({ticket, {text, id_of(text)}});
  to.line_kept = end(from.line_kept);
  to.fence = from.fence;
  to.fence_kept = end(from.fence_kept);
  for (auto const& [fence, words] : from.requests) {
    std::istringstream text{words};
    auto& one = to.requests[std::stoll(fence)];
    text >> one.asker >> one.when;
  }
  to.requests_kept = end(from.requests_kept);
  for (auto const& [since, text] : from.watchers) to.watchers.insert({since, {text, id_of(text)}});
  to.watchers_kept = end(from.watchers_kept);
}

}  // namespace conch::sim
