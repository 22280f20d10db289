// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/postgresql/examination.hpp"

#include "base/duration_text.hpp"
#include "base/readable.hpp"
#include "servers/postgresql/schema.hpp"

#include <chrono>
#include <cstddef>

namespace conch::postgresql {

using servers::finding;
using servers::verdict;

namespace {

constexpr char const* script = "the database's owner runs postgresql.sql (in share/conch)";

finding judge_version(server_facts const& f) {
  std::string const shown = "PostgreSQL " + readable(f.version);
  if (f.version_number >= 120000) return {verdict::ok, "version", shown, ""};
  return {verdict::bad, "version", shown, "conch needs PostgreSQL 12 or newer"};
}

finding judge_role(server_facts const& f) {
  if (!f.is_standby) return {verdict::ok, "role", "primary", ""};
  return {verdict::bad, "role", "standby: no lock can be acquired here", "add the primary's host to the URL"};
}

finding judge_connection(server_facts const& f) {
  if (!f.is_pooled) return {verdict::ok, "pool", "none, so notifications reach the right client", ""};
  return {verdict::bad, "pool", "a connection pool such as PgBouncer is in between",
          "name the server itself in the URL"};
}

finding judge_durability(server_facts const& f) {
  if (!f.fsync) {
    return {verdict::warning, "durability",
            "fsync is off: after a crash of the machine the longest lease may be forgotten, and a lock granted twice",
            "set fsync = on"};
  }
  if (f.synchronous_commit)
    return {verdict::ok, "durability", "the longest lease survives a crash; held locks are waited for, not kept", ""};
  return {verdict::ok, "durability", "synchronous_commit is off, which conch's functions override where it matters",
          ""};
}

finding judge_connections(server_facts const& f) {
  std::string const shown = std::to_string(f.connections) + " of " + std::to_string(f.most_connections) + " in use";
  if (f.connections * 10 < f.most_connections * 9) return {verdict::ok, "connections", shown, ""};
  return {verdict::warning, "connections", shown, "each program with conch needs one: raise max_connections"};
}

finding judge_transactions(server_facts const& f) {
  constexpr char const* what = "transactions";
  constexpr std::int64_t long_s = 300;
  if (!f.oldest_transaction_s) return {verdict::ok, what, "no open one of others is known", ""};
  std::string const shown =
      "the oldest open one has lasted " + duration_text(std::chrono::seconds{*f.oldest_transaction_s});
  if (*f.oldest_transaction_s < long_s) return {verdict::ok, what, shown, ""};
  return {verdict::warning, what, shown, "it keeps dead rows, which slows busy locks: find it in pg_stat_activity"};
}

/// The first few.
std::string listed(std::vector<std::string> const& all) {
  constexpr std::size_t most = 3;
  std::string shown;
  for (std::size_t i = 0; i < all.size() && i < most; ++i) shown += (i == 0 ? "" : ", ") + readable(all[i]);
  return all.size() > most ? shown + " and " + std::to_string(all.size() - most) + " more" : shown;
}

finding judge_schema_version(schema_facts const& f) {
  if (!f.version)
    return {verdict::bad, "schema", "its version cannot be asked: it is not conch's, or a right is missing", script};
  std::string const shown = "version " + std::to_string(*f.version);
  if (*f.version < schema_version) {
    return {verdict::bad, "schema", shown + ", and this conch needs " + std::to_string(schema_version),
            "run the newer script first, while programs run: " + std::string{script}};
  }
  if (*f.version > schema_version)
    return {verdict::ok, "schema", shown + ", newer than this conch, which it serves too", ""};
  return {verdict::ok, "schema", shown, ""};
}

finding judge_rights(schema_facts const& f, std::string const& role) {
  std::string const to = " to " + readable(role);
  if (!f.may_use)
    return {verdict::bad, "rights", "USAGE on the schema conch is missing", "grant usage on schema conch" + to};
  if (!f.no_execute.empty())
    return {verdict::bad, "rights", "EXECUTE is missing: " + listed(f.no_execute),
            "grant execute on all functions in schema conch" + to};
  if (!f.no_access.empty()) {
    return {verdict::bad, "rights", "SELECT, INSERT, UPDATE or DELETE is missing: " + listed(f.no_access),
            "grant select, insert, update, delete on all tables in schema conch" + to};
  }
  return {verdict::ok, "rights", "all that conch uses", ""};
}

}  // namespace

std::vector<finding> judge_server(server_facts const& f) {
  std::vector<finding> all{judge_version(f), judge_role(f), judge_connection(f)};
  if (f.is_standby) return all;
  for (auto const judge : {judge_durability, judge_connections, judge_transactions}) all.push_back(judge(f));
  return all;
}

std::vector<finding> judge_schema(schema_facts const& f, std::string const& role) {
  if (!f.is_there && f.may_create) return {{verdict::ok, "schema", "not there yet: the first client makes it", ""}};
  if (!f.is_there) return {{verdict::bad, "schema", "there is none, and this role may not create it", script}};
  if (!f.owners_trouble.empty()) return {{verdict::bad, "schema", readable(f.owners_trouble, longest_line), ""}};
  finding const rights = judge_rights(f, role);
  if (!f.may_use) return {rights};
  return {judge_schema_version(f), rights};
}

}  // namespace conch::postgresql
