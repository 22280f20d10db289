// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/postgresql/probe.hpp"

#include "base/duration_text.hpp"
#include "base/glob.hpp"
#include "base/hex.hpp"
#include "base/numbers.hpp"
#include "servers/found_locks.hpp"
#include "servers/judge.hpp"
#include "servers/postgresql/examination.hpp"
#include "servers/postgresql/questions.hpp"
#include "servers/postgresql/schema.hpp"

#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

namespace conch::postgresql {

namespace {

using servers::finding;
using servers::seen_lock;
using servers::verdict;
using fields = std::vector<std::string>;

[[noreturn]] void not_understood() {
  throw boost::system::system_error{make_error_code(errc::protocol, "an answer that PostgreSQL does not give")};
}

fields only_row(questions::rows all, std::size_t columns) {
  if (all.size() != 1 || all[0].size() != columns) not_understood();
  return std::move(all[0]);
}

std::int64_t number_in(std::string const& text) {
  auto const read = whole_number<std::int64_t>(text);
  if (!read) not_understood();
  return *read;
}

/// "a, b": names without a comma.
std::vector<std::string> list_in(std::string_view text) {
  std::vector<std::string> all;
  while (!text.empty()) {
    auto const comma = std::min(text.find(','), text.size());
    all.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return all;
}

std::string bytes_of(std::string_view hex) {
  auto const digit = [](char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; };
  bool const is_hex = hex.size() % 2 == 0 && hex.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  if (!is_hex) not_understood();
  std::string all;
  for (std::size_t i = 0; i < hex.size(); i += 2) all += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return all;
}

server_facts server_facts_of(fields const& r, questions const& server) {
  server_facts f;
  f.version = r[0];
  f.version_number = server.version();
  f.is_standby = server.is_standby();
  f.is_pooled = number_in(r[1]) != server.process();
  f.fsync = r[2] != "off";
  f.synchronous_commit = r[3] != "off";
  f.connections = number_in(r[4]);
  f.most_connections = number_in(r[5]);
  if (!r[6].empty()) f.oldest_transaction_s = number_in(r[6]);
  return f;
}

constexpr char const* about_server =
    "select current_setting('server_version'), pg_backend_pid(), current_setting('fsync'), "
    "current_setting('synchronous_commit'),"
    " (select count(*) from pg_stat_activity where backend_type = 'client backend'), "
    "current_setting('max_connections'),"
    " (select extract(epoch from max(now() - xact_start))::bigint from pg_stat_activity where pid <> pg_backend_pid() "
    "and backend_type = 'client "
    "backend')";

/// It reads only the catalogue, and runs nothing of that schema.
constexpr char const* about_rights =
    "select has_schema_privilege(n.oid, 'usage'),"
    " (select string_agg(p.proname::text, ',' order by p.proname) from pg_proc p where p.pronamespace = n.oid and not "
    "has_function_privilege(p.oid, 'execute')),"
    " (select string_agg(c.relname::text, ',' order by c.relname) from pg_class c where c.relnamespace = n.oid and "
    "c.relkind in ('r', 'p')"
    "   and not (has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert') and "
    "has_table_privilege(c.oid, 'update')"
    "   and has_table_privilege(c.oid, 'delete')))"
    " from pg_namespace n where n.nspname = 'conch'";

class probe final : public servers::probe {
 public:
  explicit probe(config const& settings) : settings_{settings} {
    std::vector<secret> secrets;
    (void)parameters_of(settings.url, settings, secrets);  // a wrong URL is an error of the call
  }

  duration round_trip() override {
    time_point const begin = conch::clock::now();
    server().ask("select 1");
    return conch::clock::now() - begin;
  }

  std::vector<seen_lock> locks(std::vector<std::string> const& patterns) override;
  void examine(tell const& to) override;
  std::optional<servers::clock_offset> clock() const override { return clock_; }

 private:
  questions& server() {
    if (!server_) server_.emplace(settings_);
    return *server_;
  }
  void look_at_time(tell const& to);
  schema_facts look_at_schema();

  config const settings_;
  std::optional<questions> server_;
  std::optional<servers::clock_offset> clock_;
};

/// By pages, so that no answer is large.
std::vector<seen_lock> probe::locks(std::vector<std::string> const& patterns) {
  constexpr std::size_t a_page = 100;
  servers::found_locks all;
  try {
    if (server().is_standby()) {
      throw boost::system::system_error{make_error_code(
          errc::unreachable, server().shown() + ": the server is a standby; add the primary's host to the URL")};
    }
    if (only_row(server().ask("select to_regclass('conch.lock') is not null"), 1)[0] != "t") return {};
    std::string const head = settings_.key_prefix + '{';
    for (std::string after;;) {
      questions::rows const page =
          server().ask("select encode(key, 'hex') from conch.lock where key > '\\x" + in_hex(after) +
                       "'::bytea and greatest(owner_until, hash_until, line_until) >= extract(epoch from "
                       "clock_timestamp()) * 1000 order by key limit " +
                       std::to_string(a_page));
      for (fields const& one : page) {
        if (one.size() != 1) not_understood();
        after = bytes_of(one[0]);
        bool const is_ours = after.starts_with(head) && after.ends_with('}');
        std::string const name = is_ours ? after.substr(head.size(), after.size() - head.size() - 1) : std::string{};
        if (!name.empty() && matches_one(patterns, name)) all.add(name);
      }
      if (page.size() < a_page) break;
    }
  } catch (boost::system::system_error const&) {
    server_.reset();  // the next call begins with another connection
    throw;
  }
  return all.take();
}

void probe::examine(tell const& to) {
  time_point const begin = conch::clock::now();
  questions& there = server();
  to({},
     {verdict::ok, "reachable", there.shown() + ", connected in " + duration_text(conch::clock::now() - begin), ""});
  to({}, servers::judge_exposure(
             {there.tls(), there.is_on_this_machine(), there.has_password(), "use sslmode=verify-full"}));
  look_at_time(to);
  for (finding const& one : judge_server(server_facts_of(only_row(there.ask(about_server), 7), there))) to({}, one);
  if (there.is_standby()) return;
  std::string const role = only_row(there.ask("select quote_ident(current_user)"), 1)[0];
  for (finding const& one : judge_schema(look_at_schema(), role)) to({}, one);
}

/// Among several answers, the one with the shortest round trip says most about the clock.
void probe::look_at_time(tell const& to) {
  std::vector<duration> trips;
  for (int i = 0; i < 20; ++i) {
    time_point const begin = conch::clock::now();
    fields const now = only_row(server().ask("select (extract(epoch from clock_timestamp()) * 1000000)::bigint"), 1);
    duration const trip = conch::clock::now() - begin, mine = std::chrono::system_clock::now().time_since_epoch();
    trips.push_back(trip);
    if (clock_ && trip / 2 >= clock_->uncertainty) continue;
    clock_ = servers::clock_offset{server().shown(), std::chrono::microseconds{number_in(now[0])} - (mine - trip / 2),
                                   trip / 2};
  }
  to({}, servers::judge_round_trip(std::move(trips)));
  std::string const ahead = clock_->ahead < duration::zero() ? "behind" : "ahead of";
  duration const apart = clock_->ahead < duration::zero() ? -clock_->ahead : clock_->ahead;
  to({}, {verdict::ok, "clock",
          duration_text(apart) + ' ' + ahead + " this machine's, give or take " + duration_text(clock_->uncertainty) +
              "; only the server's clock decides",
          ""});
}

schema_facts probe::look_at_schema() {
  schema_facts f;
  fields const first = only_row(
      server().ask(
          "select to_regnamespace('conch') is not null, has_database_privilege(current_database(), 'create'), (" +
          std::string{owners_question()} + ")"),
      3);
  f.is_there = first[0] == "t";
  f.may_create = first[1] == "t";
  f.owners_trouble = first[2];
  if (!f.is_there || !f.owners_trouble.empty()) return f;
  fields const rights = only_row(server().ask(about_rights), 3);
  f.may_use = rights[0] == "t";
  f.no_execute = list_in(rights[1]);
  f.no_access = list_in(rights[2]);
  bool const may_ask =
      f.may_use && std::find(f.no_execute.begin(), f.no_execute.end(), "version") == f.no_execute.end();
  if (!may_ask) return f;
  bool const has_it = only_row(server().ask("select to_regprocedure('conch.version()') is not null"), 1)[0] == "t";
  if (has_it) f.version = static_cast<int>(number_in(only_row(server().ask("select conch.version()"), 1)[0]));
  return f;
}

}  // namespace

std::unique_ptr<servers::probe> make_probe(config const& settings) { return std::make_unique<probe>(settings); }

}  // namespace conch::postgresql
