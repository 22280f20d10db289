// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/postgresql/connection_fsm.hpp"

#include "base/numbers.hpp"
#include "base/readable.hpp"
#include "protocol/shortest_lease.hpp"
#include "servers/postgresql/faults.hpp"
#include "servers/postgresql/schema.hpp"

#include <boost/assert.hpp>

#include <algorithm>
#include <utility>

namespace conch::postgresql {

namespace {

constexpr int oldest_server = 120000;
constexpr std::int64_t last_us = std::int64_t{1} << 53;
constexpr std::size_t longest_name_of_a_run = 64;
constexpr std::size_t most_advice = 400;  // bytes; it ends with what to do

std::string milliseconds_of(duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
}

}  // namespace

connection_fsm::connection_fsm(config const& settings, std::string const& client_id, std::string shown,
                               std::uint64_t seed, std::string warning)
    : settings_{settings},
      who_{client_id, settings.key_prefix},
      shown_{std::move(shown)},
      warning_{std::move(warning)},
      life_{settings, *this, seed, {}},
      gate_{!settings.single_threaded} {}

connection_fsm::flush_due connection_fsm::send(protocol::command const& c) {
  statement one = encode(c, who_);
  flush_due const when = gate_.add(unanswered_ > 0, [&] { outgoing_.push_back(std::move(one)); });
  life_.note_lease(protocol::shortest_lease(c, settings_.lock_delay));
  ++unanswered_;
  return when;
}

// ------------------------------------------------------------------------------------------------------- the greeting

net::location connection_fsm::locate(time_point) {
  if (!warning_.empty()) life_.log(log_level::warning, shown_ + ": " + std::exchange(warning_, {}));
  return {.what = net::location::kind::here};
}

void connection_fsm::connected(server const& s, time_point now) {
  server_ = s;
  life_.connected(now);
}

void connection_fsm::greet(time_point now) {
  installed_ = false;
  if (server_.version < oldest_server) {
    return life_.failed(protocol::fault::refused,
                        "the server's version is " + std::to_string(server_.version / 10000) + ", 12 is needed", now);
  }
  ask(question::settings, settings_query());
}

std::string_view connection_fsm::step() const {
  return asked_ == question::schema ? "the schema is not made yet" : "no answer to the greeting yet";
}

void connection_fsm::ask(question what, std::string query) {
  asked_ = what;
  query_ = std::move(query);
  life_.todo.write = true;
}

/// The settings of the role and of the database are those of its other programs. Functions of conch are short, and each
/// is a transaction of its own at the usual isolation level: at another one it fails where another session has the lock
/// of its row.
std::string connection_fsm::settings_query() const {
  auto const ms = milliseconds_of(settings_.command_timeout);
  // Commands queued behind one that waits for a row belong to other locks, and have to be answered in time.
  auto const for_a_row = milliseconds_of(settings_.command_timeout / 4);
  std::vector<std::pair<std::string, std::string>> all{
      {"client_min_messages", "warning"},
      {"default_transaction_isolation", "read committed"},
      {"default_transaction_read_only", "off"},
      {"statement_timeout", ms},
      {"lock_timeout", for_a_row},
      {"idle_in_transaction_session_timeout", "0"},
      {"search_path", ""},
      {"jit", "off"},
      // The tables are mostly small, and may be large a minute later: a plan must not depend on that.
      {"plan_cache_mode", "force_generic_plan"},
      {"enable_seqscan", "off"},
      {"enable_bitmapscan", "off"},
  };
  if (server_.version >= 140000) all.emplace_back("idle_session_timeout", "0");
  if (server_.over_tcp) {
    // When the server sees that a client has died without a word, and passes it over in line.
    all.insert(all.end(),
               {{"tcp_keepalives_idle", "10"}, {"tcp_keepalives_interval", "5"}, {"tcp_keepalives_count", "3"}});
    all.emplace_back("tcp_user_timeout", "20000");
  }
  std::string query = "select ";
  for (auto const& [name, value] : all)
    query.append("pg_catalog.set_config('").append(name).append("', '").append(value).append("', false),");
  // From here on no name means what others have made.
  query.back() = ';';
  query += "select pg_backend_pid(), pg_is_in_recovery(), to_regnamespace('conch') is not null, (";
  query.append(owners_question()).append(")");
  // A command that waits for a lock when this client has gone ends then, and not only when its time has passed.
  if (server_.version >= 140000)
    query += ",case when version() ~ 'linux' then set_config('client_connection_check_interval', '1000', false) end";
  return query;
}

void connection_fsm::queried(reply const& r, time_point now) {
  BOOST_ASSERT_MSG(life_.state() == net::connection_state::greeting, "an answer to no query");
  switch (asked_) {
    case question::settings: return settled(r, now);
    case question::greeting: return greeted(r, now);
    case question::schema: return r.sqlstate.empty() ? say_hello(now) : refuse(r, now);
  }
}

void connection_fsm::say_hello(time_point now) {
  asked_at_ = now;
  ask(question::greeting, preparation(who_) + "select * from conch.connect('" + std::string{who_.client} + "')");
}

void connection_fsm::settled(reply const& r, time_point now) {
  if (!r.sqlstate.empty()) return refuse(r, now);
  if (r.row.size() < 4) return life_.failed(protocol::fault::malformed, "an answer that PostgreSQL does not give", now);
  // A pool gives the same connection to several clients, one after another: notifications that one LISTENs for there
  // reach the wrong one.
  if (whole_number<std::int64_t>(r.row[0]) != server_.process) {
    return life_.failed(protocol::fault::refused,
                        "a connection pool such as PgBouncer is in front of the server; conch needs its own "
                        "connection, so the URL must name the server itself",
                        now);
  }
  if (r.row[1] != "f") return life_.failed(protocol::fault::reconnect, "the server is a standby", now);
  if (!r.row[3].empty()) return life_.failed(protocol::fault::refused, readable(r.row[3], most_advice), now);
  // If another client has created it just now, the script checks that one.
  r.row[2] == "t" ? say_hello(now) : install();
}

void connection_fsm::install() {
  installed_ = true;
  life_.take_time();  // it answers, and this takes its time
  // Nothing of it may still wait when this attempt is given up.
  auto const most = std::min(settings_.connect_timeout, settings_.command_timeout);
  ask(question::schema, "begin;set local statement_timeout=" + milliseconds_of(settings_.connect_timeout) +
                            ";set local lock_timeout=" + milliseconds_of(most) + ";" + std::string{schema()} +
                            ";commit");
}

/// The server has answered a query with an error.
void connection_fsm::refuse(reply const& r, time_point now) {
  std::string words = readable(r.words, r.sqlstate == says_wrong_owner ? most_advice : readable_words);
  auto const what = classify(r.sqlstate, r.words);
  if (what == protocol::fault::access_denied && asked_ == question::schema) {
    words += "; a role that may create a schema runs the schema script postgresql.sql once";
  } else if (what == protocol::fault::access_denied && asked_ == question::greeting) {
    words += "; the role needs the rights that the schema script postgresql.sql names";
  }
  life_.failed(what, words, now);
}

void connection_fsm::greeted(reply const& r, time_point now) {
  if (says_no_schema(r.sqlstate) && !installed_) return install();
  if (!r.sqlstate.empty()) return refuse(r, now);
  auto const version = r.row.size() == 4 ? whole_number<int>(r.row[0]) : std::nullopt;
  auto const server_us = r.row.size() == 4 ? whole_number<std::int64_t>(r.row[1]) : std::nullopt;
  bool const fits = version && server_us && *server_us > 0 && *server_us < last_us &&
                    r.row[2].size() <= longest_name_of_a_run && r.row[3].size() <= longest_name_of_a_run;
  if (!fits) return life_.failed(protocol::fault::malformed, "the schema conch is not that of this library", now);
  if (*version < schema_version && !installed_) return install();
  if (*version < schema_version)
    return life_.failed(protocol::fault::malformed, "the schema conch is older than it was just made", now);
  life_.up(r.row[2], server_.by_name, now);
  logged_foreign_pushes_ = false;
  unanswered_ = 0;
  life_.todo.read = true;
  life_.todo.flush = gate_.claim();
  events_->connected_as({static_cast<std::uint64_t>(server_.process), std::string{r.row[3]}, *server_us, asked_at_,
                         std::string{r.row[2]}},
                        now);
}

void connection_fsm::failed(std::string_view words, time_point now) {
  refusal const why = read_refusal(words);
  auto what = classify(why.sqlstate, why.words);
  // Connecting is always worth another attempt, unless the server rejects the role or the database.
  if (!life_.is_up() && what != protocol::fault::access_denied && what != protocol::fault::refused)
    what = protocol::fault::try_later;
  life_.failed(what, readable(why.words), now);
}

net::role::retry connection_fsm::ended(end const& e, time_point now) {
  if (e.was_up) events_->disconnected(e.why, now);
  else events_->connect_failed(e.what, shown_ + ": " + std::string{e.why}, now);
  gate_.forget([this] { outgoing_.clear(); });
  return {};
}

// ------------------------------------------------------------------------------------------- what comes in, and goes
// out

void connection_fsm::answered(reply const& r, time_point now) {
  // The commands that this causes go out together, also those of the handlers that it completes.
  if (gate_.claim()) life_.todo.flush = true;
  --unanswered_;
  events_->answered(to_answer(r, numbers_), now);
}

void connection_fsm::notified(std::string_view payload, time_point now) {
  if (gate_.claim()) life_.todo.flush = true;
  if (auto const p = read_push(payload, who_, name_)) return events_->pushed(*p, now);
  if (std::exchange(logged_foreign_pushes_, true)) return;
  life_.log(
      log_level::warning,
      "ignored a notification on our channel that conch did not send; further ones on this connection are not logged");
}

std::vector<statement> connection_fsm::take_statements() {
  if (!life_.is_up()) return {};
  std::vector<statement> all;
  gate_.take([&] { all.swap(outgoing_); });
  return all;
}

}  // namespace conch::postgresql
