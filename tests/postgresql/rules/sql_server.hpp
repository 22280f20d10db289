// The functions of sql/*.sql on a real server, which are told the time; and what must be true of the rows that they
// leave.
#pragma once

#include <gtest/gtest.h>

#include <libpq-fe.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "servers/postgresql/codec.hpp"
#include "servers/postgresql/schema.hpp"
#include "sim/differential/compared.hpp"
#include "sim/differential/rules_allowances.hpp"
#include "sim/differential/rules_server.hpp"
#include "support/postgresql_server.hpp"

namespace conch::sim {

class sql_server {
 public:
  struct outcome {
    any_reply reply = protocol::fault::malformed;
    seen_grants pushes;
    std::string said;
    std::string wrong;  // an answer or a notification that no client understands
  };

  /// `sweeps`: whenever the time is set, everything that has expired goes, so that it does not come back when the clock
  /// does.
  sql_server(test::postgresql_server const& at, std::vector<std::string> const& clients, std::string_view schema,
             bool sweeps)
      : sweeps_{sweeps},
        own_{at},
        connection_{PQconnectdb(at.url().c_str()), &PQfinish} {
    PQsetNoticeProcessor(
        connection_.get(), [](void*, char const*) {}, nullptr);
    own_.ask("set jit = off");
    run("set jit = off");  // as a client
    own_.ask("drop schema if exists conch cascade");
    own_.ask("begin;" + std::string{schema} + ";commit");
    own_.ask(R"(
      create or replace function conch.now_us() returns bigint language sql volatile as $$ select current_setting('conch.test_now')::bigint $$;
      create function conch.test_time(t bigint) returns void language plpgsql as $$
      declare l conch.lock;
      begin
        for l in select * from conch.lock loop perform conch.put(conch.without_expired(l, t / 1000)); end loop;
      end $$;
      insert into conch.alive values (true, 0, 0, 0))");
    run("set statement_timeout = '20s'");
    run(postgresql::preparation({"none", "conch:"}));
    for (std::string const& client : clients) {
      connections_.try_emplace(client, at);
      run("listen " + postgresql::channel_of(client));
    }
  }

  void at(std::int64_t now_us) {
    now_us_ = now_us;
    std::string const time = std::to_string(now_us);
    run("select set_config('conch.test_now', '" + time + "', false)" +
        (sweeps_ ? ", conch.test_time(" + time + ")" : ""));
  }

  void subscribe(std::string const& client, bool on) {
    std::string const key = "(conch.key_of('" + client + "'))";
    on ? static_cast<void>(listens_.insert(client)) : static_cast<void>(listens_.erase(client));
    connections_.at(client).ask(on ? "select conch.hear('" + client + "')" : "select pg_advisory_unlock" + key);
  }

  outcome carry_out(protocol::command const& c, std::string const& client) {
    postgresql::statement const s = postgresql::encode(c, {client, "conch:"});
    std::vector<char const*> values;
    std::vector<int> lengths, formats;
    for (int n = 0; n < s.size(); ++n) {
      values.push_back(s.value(n));
      lengths.push_back(s.length(n));
      formats.push_back(s.format(n));
    }
    std::unique_ptr<PGresult, decltype(&PQclear)> const r{
        PQexecPrepared(connection_.get(), s.name(), s.size(), values.data(), lengths.data(), formats.data(), 0),
        &PQclear};
    outcome all;
    postgresql::reply reply;
    if (PQresultStatus(r.get()) == PGRES_TUPLES_OK) {
      reply.row = {PQgetvalue(r.get(), 0, 0)};
      all.said = reply.row[0];
    } else {
      char const* const state = PQresultErrorField(r.get(), PG_DIAG_SQLSTATE);
      reply.sqlstate = state != nullptr ? state : "08000";
      all.said = PQresultErrorMessage(r.get());
    }
    std::vector<std::int64_t> numbers;
    protocol::answer const a = postgresql::to_answer(reply, numbers);
    if (a.what != protocol::fault::none && a.what != protocol::fault::wrong_type)
      all.wrong = "no answer, but: " + all.said;
    all.reply = read_reply(c, a);
    // They are those of this very transaction, in the order in which it made them.
    for (PGnotify* n = PQnotifies(connection_.get()); n != nullptr; n = PQnotifies(connection_.get())) {
      read_push(std::string{n->relname}.substr(6), n->extra, all);
      PQfreemem(n);
    }
    return all;
  }

  /// What is wrong with the rows of locks that were renewed: a hold is confirmed, lives for its lease at least, and if
  /// that is asked for its fence is kept.
  std::string wrong_renewal(protocol::renew_command const& c, protocol::renew_reply const& r,
                            std::string const& client) {
    for (std::size_t i = 0; i < r.locks.size(); ++i) {
      protocol::renewal const& item = c.items[i];
      if (r.locks[i].what != protocol::renew_reply::kind::renewed) continue;
      std::string const ms = std::to_string(now_us_ / 1000),
                        key = test::bytes_literal("conch:{" + std::string{item.name} + "}");
      std::string const owner =
          "from conch.lock l, lateral (" +
          std::string{c.permits ? "select p.fence, p.claimed, p.ends / 1000 as until from conch.part p where p.key = "
                                  "l.key and p.id = "
                                : "select l.owner_fence as fence, l.claimed, l.owner_until as until where l.owner = "} +
          "'" + client + "." + engine::to_text(item.id) + "') o where l.key = " + key;
      std::string const forgotten = c.retention.count() == 0 ? ""
                                                             : " or l.fence < o.fence or l.fence_until < " + ms +
                                                                   " + " + std::to_string(c.retention.count());
      std::string const wrong =
          own_.ask("select count(*) filter (where o.claimed or o.until < " + ms + " + " +
                   std::to_string(item.lease.count()) + forgotten + ") || ' of ' || count(*) " + owner);
      if (wrong != "0 of 1") return "a renewal has left wrong rows: " + wrong;
    }
    return {};
  }

  /// What the rows say of a lock. `all`: also of shares whose leases have ended.
  compared_state state(std::string const& name, bool all = false) {
    std::string const key = test::bytes_literal("conch:{" + name + "}"), ms = std::to_string(now_us_ / 1000);
    std::istringstream rows{own_.ask("with l as (select * from conch.lock where key = " + key + R"()
      select string_agg(x.row, E'\n' order by x.n, x.at, x.id, x.rest) from (
        select 0 as n, 0 as at, '' as id, '' as rest, concat_ws(' ', 'l', l.owner, l.owner_fence, l.claimed, l.owner_until, l.kind, l.lim, l.used,
          l.limit_set, l.hash_until, l.line_until, l.fence, l.fence_until, l.requests_until, l.watchers_until, l.map) as row
        from (select coalesce(y.owner, '-') as owner, y.owner_fence, y.claimed, y.owner_until, y.kind, y.lim, y.used, y.limit_set, y.hash_until, y.line_until, y.fence,
          y.fence_until, y.requests_until, y.watchers_until, y.map from l y) l
        union all select 1, p.ends, p.id, '', concat_ws(' ', 'p', p.id, p.weight, p.fence, p.claimed, p.ends, p.segment) from conch.part p join l using (key)
        union all select 2, q.ticket, q.id, q.rest, concat_ws(' ', 'q', q.ticket, q.id || q.rest) from conch.line q join l using (key)
        union all select 3, r.at, '', '', concat_ws(' ', 'r', r.owner_fence, r.asker, r.at) from conch.request r join l using (key)
        union all select 4, w.at, w.id, '', concat_ws(' ', 'w', w.at, w.id) from conch.watcher w join l using (key)) x)")};
    std::int64_t const now = now_us_ / 1000;
    auto const left = [&](std::int64_t until) { return until < now ? -1 : until - now; };
    compared_state s;
    for (std::string row; std::getline(rows, row);) {
      std::istringstream words{row};
      std::string what, id, claimed, map, limit_set;
      words >> what;
      if (what == "l") {
        std::int64_t owner_fence = 0, owner_until = 0, kind = 0, limit = 0, used = 0, hash_until = 0, line_until = 0,
                     fence = 0, fence_until = 0, requests_until = 0, watchers_until = 0;
        words >> id >> owner_fence >> claimed >> owner_until >> kind >> limit >> used >> limit_set >> hash_until >>
            line_until >> fence >> fence_until >> requests_until >> watchers_until >> map;
        s.line_kept = left(line_until);
        s.fence_kept = left(fence_until);
        s.fence = s.fence_kept < 0 ? 0 : fence;
        s.requests_kept = left(requests_until);
        s.watchers_kept = left(watchers_until);
        if (owner_until >= now) {
          s.kind = "mutex";
          s.limit = 1;
          s.kept = left(owner_until);
          s.owners[id] = std::string{claimed == "t" ? "1 c " : "1 h "} + std::to_string(s.kept) + " 0";
          s.fences[id] = owner_fence;
        } else if (hash_until >= now) {
          s.kind = std::string(1, static_cast<char>(kind));
          s.limit = limit;
          s.limit_is_set = limit_set == "t";
          s.kept = left(hash_until);
          if (s.kind == "e" && used > 0) s.whose = map;
        }
      } else if (what == "p") {
        std::int64_t weight = 0, fence = 0, ends = 0, segment = 0;
        words >> id >> weight >> fence >> claimed >> ends >> segment;
        if (s.kind.size() != 1 || (ends <= now_us_ && !all)) continue;
        s.owners[id] = std::to_string(weight) + (claimed == "t" ? " c " : " h ") + std::to_string(ends) + ' ' +
                       std::to_string(segment);
        s.fences[id] = fence;
      } else if (what == "q" && s.line_kept >= 0) {
        std::int64_t ticket = 0;
        words >> ticket >> std::ws;
        std::getline(words, id);
        s.line.emplace_back(ticket, id);
      } else if (what == "r" && s.requests_kept >= 0) {
        std::int64_t fence = 0, when = 0;
        words >> fence >> id >> when;
        s.requests[std::to_string(fence)] = id + ' ' + std::to_string(when);
      } else if (what == "w" && s.watchers_kept >= 0) {
        std::int64_t since = 0;
        words >> since >> id;
        s.watchers.emplace_back(since, id);
      }
    }
    return s;
  }

  /// What is wrong with the rows; empty: nothing. Sums are sums, nothing of a row that has gone is left, and what is
  /// kept is not lost or lowered.
  std::string wrong_rows() {
    static std::string const contradiction = R"(
      select string_agg(encode(key, 'escape') || ' ' || what, '; ') from (
        select l.key, case
          when l.hash_until = -1 and p.n > 0 then 'has owners beside no sums'
          when l.hash_until <> -1 and l.used <> p.used then 'says that ' || l.used || ' is used of what is ' || p.used
          when l.hash_until <> -1 and p.n > 0 and l.first_end > p.first_end then 'has an end before the first one'
          when l.hash_until <> -1 and l.kind = 103 and l.map is distinct from p.map then 'has the segments ' || l.map || ' taken, which are ' || p.map
          when l.owner_until >= NOW and l.hash_until >= NOW then 'is a mutex that is owned, and a lock with several owners'
          when l.waiting <> exists (select from conch.line q where q.key = l.key) then 'does not know whether there is a line'
          when l.requests_until = -1 and exists (select from conch.request q where q.key = l.key) then 'has requests beside no time'
          when l.watchers_until = -1 and exists (select from conch.watcher q where q.key = l.key) then 'has watchers beside no time'
        end as what
        from conch.lock l, lateral (
          select count(*) as n, coalesce(sum(x.weight), 0) as used, min(x.ends) as first_end,
            (select string_agg(case when exists (select from conch.part y where y.key = l.key and y.segment = i) then '1' else '0' end, '' order by i)
             from generate_series(1, l.lim) i where l.kind = 103) as map
          from conch.part x where x.key = l.key) p
        union all
        select o.key, 'has left rows behind' from (select key from conch.part union select key from conch.line union select key from conch.request
          union select key from conch.watcher) o where not exists (select from conch.lock l where l.key = o.key)
      ) x where what is not null)";
    std::string question = contradiction;
    for (std::size_t at; (at = question.find("NOW")) != std::string::npos;)
      question.replace(at, 3, std::to_string(now_us_ / 1000));
    std::string wrong = own_.ask(question);
    std::string const rows = own_.ask(
        "select string_agg(encode(key, 'hex') || ' ' || fence || ' ' || fence_until || ' ' || greatest(owner_until, "
        "hash_until, line_until, "
        "fence_until), "
        "';') from conch.lock");
    std::map<std::string, kept> now;
    for (std::size_t at = 0; at < rows.size();) {
      std::size_t const end = std::min(rows.find(';', at), rows.size());
      std::istringstream one{rows.substr(at, end - at)};
      std::string key;
      kept k;
      one >> key >> k.fence >> k.fence_until >> k.until;
      now.emplace(key, k);
      at = end + 1;
    }
    std::int64_t const ms = now_us_ / 1000;
    for (auto const& [key, before] : kept_) {
      auto const it = now.find(key);
      if (it == now.end() && before.until >= ms) wrong += "; a row has gone that is kept: " + key;
      if (it != now.end() && before.fence_until >= ms && it->second.fence < before.fence)
        wrong += "; a kept fence is lowered: " + key;
      if (it != now.end() && before.fence_until >= ms && it->second.fence_until < ms)
        wrong += "; a kept fence is forgotten: " + key;
    }
    kept_ = std::move(now);
    return wrong;
  }

 private:
  struct kept {
    std::int64_t fence = 0, fence_until = -1, until = -1;
  };

  void run(std::string const& statements) {
    std::unique_ptr<PGresult, decltype(&PQclear)> const r{PQexec(connection_.get(), statements.c_str()), &PQclear};
    auto const status = PQresultStatus(r.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
      throw std::runtime_error{PQresultErrorMessage(r.get())};
  }

  void read_push(std::string const& client, std::string const& payload, outcome& out) {
    std::string name;
    auto const p = postgresql::read_push(payload, {client, "conch:"}, name);
    if (!p) out.wrong = "no notification of conch: " + payload;
    // A grant goes only to clients that are connected. All else is notified without a check.
    if (p && (std::holds_alternative<protocol::pushed_grant>(*p) || listens_.contains(client)))
      out.pushes.push_back(seen(client, *p));
  }

  bool const sweeps_;
  test::postgresql_probe own_;
  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
  std::set<std::string> listens_;
  std::map<std::string, test::postgresql_probe> connections_;  // of clients that listen
  std::map<std::string, kept> kept_;
  std::int64_t now_us_ = 0;
};

/// As a server of this kind is asked: it gives no votes. False: not at all.
inline bool is_for_one_server(protocol::command& c) {
  if (auto* const acquire = std::get_if<protocol::acquire_command>(&c)) acquire->proposal = 0;
  if (auto* const release = std::get_if<protocol::release_command>(&c)) release->floor = release->next_fence_floor = 0;
  return !std::holds_alternative<protocol::confirm_command>(c) &&
         !std::holds_alternative<protocol::prove_publish_command>(c);
}

/// Clients that wait for a free lock are told in the order of asking, and in SQL in any.
inline void in_order(seen_grants& all) {
  std::stable_sort(all.begin(), all.end(), [](seen_grant const& a, seen_grant const& b) {
    bool const both = a.fence == freed_mark && b.fence == freed_mark;
    return both && std::tie(a.client, a.id) < std::tie(b.client, b.id);
  });
}

/// PostgreSQL sends the same notification once for each transaction, however often it was made there.
inline void without_repetitions(seen_grants& all) {
  seen_grants once;
  for (seen_grant& g : all) {
    if (std::find(once.begin(), once.end(), g) == once.end()) once.push_back(std::move(g));
  }
  all = std::move(once);
}

/// What differs between the rows of a lock and the rules after a command; empty: nothing.
inline std::string difference_of_states(sql_server& sql, rules_server& rules, std::string const& name, std::int64_t now,
                                        std::map<std::string, int>& happened) {
  rules::lock& l = rules.locks[name];
  compared_state const is = sql.state(name);
  compared_state should = state_of(l, now);
  if (should.limit_is_set && (is.kept > should.kept || is.line_kept > should.line_kept)) {
    // As the scripts: a limit that was set is remembered somewhat longer, from whenever its owners are looked at, and
    // with it the line.
    if (is.kept > should.kept) l.kept += (is.kept - should.kept) * 1000;
    if (should.line_kept >= 0 && is.line_kept > should.line_kept)
      l.line_kept += (is.line_kept - should.line_kept) * 1000;
    should = state_of(l, now);
    ++happened["a limit kept longer"];
  }
  ++happened["states"];
  happened["owners"] += static_cast<int>(should.owners.size());
  happened["in line"] += static_cast<int>(should.line.size());
  return is == should ? ""
                      : "other rows: " + testing::PrintToString(is) + " instead of " + testing::PrintToString(should);
}

/// Random commands at both. What differs first, or is wrong with the rows; empty: nothing.
template <class Side, class Reference>
std::string difference(Side& side, sql_server& sql, Reference& reference, int steps,
                       std::map<std::string, int>& happened) {
  std::set<std::string> listening;
  auto const change = [&](std::string const& client) {
    bool const on = listening.insert(client).second;
    if (!on) listening.erase(client);
    sql.subscribe(client, on);
    reference.subscribe(client, on);
  };
  for (std::string const& client : side.clients()) change(client);
  constexpr bool are_rules = std::is_same_v<Reference, rules_server>;
  int step = 0;
  std::int64_t before = side.now();
  seen_grants pushes;  // of the last command
  auto const compare = [&](protocol::command const& command, std::string const& client) -> std::string {
    sql.at(side.now());
    reference.at(side.now());
    if constexpr (are_rules) {
      // When the clock goes back, something that has expired may be there again, or not: both are right, so the rules
      // are told which.
      for (auto& [name, l] : reference.locks) {
        if (side.now() >= before || reference.ends_at_once) break;
        compared_state const was = state_of(l, side.now());
        copy_state(sql.state(name, true), l, side.now());
        happened["came back"] += state_of(l, side.now()) == was ? 0 : 1;
      }
    }
    before = side.now();
    auto got = sql.carry_out(command, client);
    auto expected = reference.carry_out(command, client);
    in_order(expected.pushes);
    without_repetitions(expected.pushes);
    in_order(got.pushes);
    std::string const where = " at step " + std::to_string(step) + " at " + std::to_string(side.now()) + ", " + client +
                              " sends\n" + described(command) + "\nanswer: " + got.said;
    if (!got.wrong.empty()) return got.wrong + where;
    seen_grants const heard = got.pushes;
    if constexpr (are_rules) {
      allow(command, got.reply, expected.reply);
      if (std::string const wrong = allow(command, got.pushes, expected.pushes); !wrong.empty()) return wrong + where;
    }
    if (got.reply != expected.reply) {
      return "another reply: " + testing::PrintToString(got.reply) + " instead of " +
             testing::PrintToString(expected.reply) + where;
    }
    if (got.pushes != expected.pushes) {
      return "other pushes: " + testing::PrintToString(got.pushes) + " instead of " +
             testing::PrintToString(expected.pushes) + where;
    }
    if (std::string const wrong = sql.wrong_rows(); !wrong.empty()) return wrong + where;
    auto const* const renews = std::get_if<protocol::renew_command>(&command);
    if (auto const* const renewed = std::get_if<protocol::renew_reply>(&got.reply);
        renewed != nullptr && renews != nullptr) {
      if (std::string const wrong = sql.wrong_renewal(*renews, *renewed, client); !wrong.empty()) return wrong + where;
    }
    if constexpr (are_rules) {
      for (std::string const& name : names_of(command)) {
        if (std::string const wrong = difference_of_states(sql, reference, name, side.now(), happened); !wrong.empty())
          return wrong + where;
      }
      ++happened[kind_of(got.reply)];
    } else if (got.reply.index() == 0) {
      ++happened["wrong type"];
    }
    ++happened["commands"];
    happened["pushes"] += static_cast<int>(heard.size());
    pushes = heard;
    return {};
  };
  for (; step < steps; ++step) {
    side.step();
    std::string const client = side.client();
    if (side.rarely()) change(client);
    protocol::command command = side.command(client);
    if (!is_for_one_server(command)) continue;
    if constexpr (are_rules) {
      // No client is patient where it asks again.
      if (auto* const release = std::get_if<protocol::release_command>(&command);
          release != nullptr && release->patient)
        release->new_id = 0;
    }
    if (std::string how = compare(command, client); !how.empty()) return how;
    // Every third client does what it should with a grant that it receives: it confirms it, before the claim ends.
    seen_grants const heard = std::move(pushes);
    for (seen_grant const& g : heard) {
      if (g.fence <= 0 || g.fence % 3 != 0) continue;
      protocol::renewal const item{g.name, g.id, std::chrono::milliseconds{100}, 0, g.fence};
      protocol::renew_command const confirms{
          {&item, 1}, false, g.kind != engine::permit_kind::none, std::chrono::milliseconds{2'000}};
      if (std::string how = compare(confirms, g.client); !how.empty()) return how;
      ++happened["confirmed claims"];
    }
  }
  return {};
}

}  // namespace conch::sim
