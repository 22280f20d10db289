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

std::string milliseconds_of(duration d) { return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count()); }
/// So much of an attempt the hosts that are known wait for the names of the others.
constexpr int share_of_names = 5;

}  // namespace

connection_fsm::connection_fsm(config const& settings, std::string const& client_id, std::string shown, std::uint64_t seed, std::string warning)
    : settings_{settings}, who_{client_id, settings.key_prefix}, shown_{std::move(shown)}, warning_{std::move(warning)}, back_off_{seed},
      gate_{!settings.single_threaded} {}

void connection_fsm::log(log_line line) { log(line.level, std::move(line.words)); }

void connection_fsm::log(log_level level, std::string words) {
  log_.push_back({level, std::move(words)});
  actions_.log = true;
}

// ---------------------------------------------------------------------------------------------- from the protocol

connection_fsm::flush_due connection_fsm::send(protocol::command const& c) {
  statement one = encode(c, who_);
  flush_due const when = gate_.add(unanswered_ > 0, [&] { outgoing_.push_back(std::move(one)); });
  shortest_lease_ = std::min(shortest_lease_, protocol::shortest_lease(c));
  ++unanswered_;
  return when;
}

bool connection_fsm::want_connection() noexcept { return !std::exchange(wanted_, true); }

bool connection_fsm::drop_connection(std::string_view why) {
  if (std::exchange(dropping_, true)) return false;
  why_dropped_ = why;
  return true;
}

std::string connection_fsm::unfinished_attempt() const {
  switch (state_) {
    case state::resolving: return shown_ + ": the name is not looked up yet";
    case state::connecting: return shown_ + ": not connected yet";
    case state::settling:
    case state::greeting: return shown_ + ": no answer to the greeting yet";
    case state::installing: return shown_ + ": the schema is not made yet";
    case state::idle:
    case state::up:
    case state::pausing:
    case state::closed: break;
  }
  return {};
}

// -------------------------------------------------------------------------------------- making a connection

void connection_fsm::sleep(time_point until) noexcept {
  until_ = actions_.until = until;
  actions_.sleep = true;
}

void connection_fsm::due(time_point now) {
  switch (state_) {
    case state::idle:
      if (wanted_) connect(now);
      return;
    case state::resolving:
    case state::connecting:
    case state::settling:
    case state::greeting:
    case state::installing:
      if (now < until_) return sleep(until_);
      return too_late(now);
    case state::up:
      if (dropping_) return lost(protocol::fault::reconnect, why_dropped_, now);
      if (now >= look_up_at_) {
        look_up_at_ = detail::later_by(now, settings_.topology_refresh);
        actions_.resolve = true;
      }
      if (look_up_at_ != time_point::max()) sleep(look_up_at_);
      return;
    case state::pausing:
      if (now < until_) return sleep(until_);
      return connect(now);
    case state::closed: return;
  }
}

void connection_fsm::connect(time_point now) {
  state_ = state::resolving;
  installed_ = false;
  if (!warning_.empty()) log(log_level::warning, shown_ + ": " + std::exchange(warning_, {}));
  found_ = {{}, false};
  attempt_until_ = detail::later_by(now, settings_.connect_timeout);
  sleep(attempt_until_);
  actions_.resolve = true;
}

/// A name that hangs does not keep the other hosts waiting for long.
void connection_fsm::resolved(found f, time_point now) {
  if (state_ == state::up) {
    if (!f.is_all || !f.why_not.empty() || !own_.are_elsewhere(f.addresses)) return;
    lost(protocol::fault::reconnect, "the name of the server means another address now: " + f.addresses.front(), now);
    back_off_.begin_anew();
    return sleep(now);
  }
  if (state_ != state::resolving) return;
  bool const is_first = found_.addresses.empty();
  found_ = std::move(f);
  if (found_.is_all) return begin(now);
  if (is_first && !found_.addresses.empty()) sleep(std::min(until_, detail::later_by(now, settings_.connect_timeout / share_of_names)));
}

void connection_fsm::begin(time_point now) {
  if (found_.addresses.empty()) return lost(protocol::fault::try_later, readable(found_.why_not), now);
  choice_.begin(found_.addresses, {.whole = attempt_until_ - now, .lease = settings_.lease}, now);
  if (!choice_.next(now)) return lost(protocol::fault::try_later, "no connection within connect_timeout", now);
  connect_next();
}

void connection_fsm::connect_next() {
  state_ = state::connecting;
  installed_ = false;
  if (actions_.close || choice_.until() != until_) sleep(choice_.until());  // the close ends a sleep
  actions_.connect = true;
}

/// The present server is of no use: the next one follows, unless this was the last.
void connection_fsm::move_on(protocol::fault what, std::string_view why, time_point now) {
  // Before the names are looked up, there is no address to blame.
  if (state_ == state::up || state_ == state::resolving) return lost(what, why, now);
  choice_.refused(why, now);
  bool const for_now = what == protocol::fault::try_later || what == protocol::fault::reconnect;
  if (!for_now || !choice_.next(now)) return lost(what, choice_.words(), now);
  actions_ = {.log = actions_.log, .close = true};
  connect_next();
}

/// The time of this step of the attempt is over.
void connection_fsm::too_late(time_point now) {
  if (state_ == state::resolving && now < attempt_until_) return begin(now);
  if (state_ == state::resolving) return lost(protocol::fault::try_later, "no connection within connect_timeout", now);
  std::string const what = state_ == state::connecting ? "no connection" : "no answer to the greeting";
  choice_.silent(what + (now < attempt_until_ ? " within its share of connect_timeout" : " within connect_timeout"), now);
  if (!choice_.next(now)) return lost(protocol::fault::try_later, choice_.words(), now);
  actions_ = {.log = actions_.log, .close = true};
  connect_next();
}

void connection_fsm::ask(state next, std::string query) {
  state_ = next;
  query_ = std::move(query);
  actions_.query = true;
}

void connection_fsm::connected(server const& s, time_point now) {
  BOOST_ASSERT(state_ == state::connecting);
  server_ = s;
  if (s.version < oldest_server) {
    return move_on(protocol::fault::refused, "the server's version is " + std::to_string(s.version / 10000) + ", 12 is needed", now);
  }
  ask(state::settling, settings_query());
}

/// The settings of the role and of the database are those of its other programs. Functions of conch are short, and each is a transaction of its
/// own at the usual isolation level: at another one it fails where somebody else has the lock of its row.
std::string connection_fsm::settings_query() const {
  auto const ms = milliseconds_of(settings_.command_timeout);
  // What stands behind a command that waits for a row is other locks', and is to be answered in time.
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
    all.insert(all.end(), {{"tcp_keepalives_idle", "10"}, {"tcp_keepalives_interval", "5"}, {"tcp_keepalives_count", "3"}});
    all.emplace_back("tcp_user_timeout", "20000");
  }
  std::string query = "select ";
  for (auto const& [name, value] : all) query.append("pg_catalog.set_config('").append(name).append("', '").append(value).append("', false),");
  // From here on no name means what others have made.
  query.back() = ';';
  query += "select pg_backend_pid(), pg_is_in_recovery(), to_regnamespace('conch') is not null, (";
  query.append(owners_question()).append(")");
  // A command that waits for a lock when this client has gone ends then, and not only when its time is over.
  if (server_.version >= 140000) query += ",case when version() ~ 'linux' then set_config('client_connection_check_interval', '1000', false) end";
  return query;
}

void connection_fsm::queried(reply const& r, time_point now) {
  switch (state_) {
    case state::settling: return settled(r, now);
    case state::greeting: return greeted(r, now);
    case state::installing:
      if (!r.sqlstate.empty()) return refuse(r, now);
      asked_at_ = now;
      return ask(state::greeting, preparation(who_) + "select * from conch.connect('" + std::string{who_.client} + "')");
    case state::idle:
    case state::resolving:
    case state::connecting:
    case state::up:
    case state::pausing:
    case state::closed: break;
  }
  BOOST_ASSERT_MSG(false, "an answer to no query");
}

void connection_fsm::settled(reply const& r, time_point now) {
  if (!r.sqlstate.empty()) return refuse(r, now);
  if (r.row.size() < 4) return move_on(protocol::fault::malformed, "an answer that PostgreSQL does not give", now);
  // A pool gives the same connection to several clients, one after another: what is LISTENed for there is heard by the wrong one.
  if (whole_number<std::int64_t>(r.row[0]) != server_.process) {
    return move_on(
        protocol::fault::refused,
        "a connection pool such as PgBouncer is in front of the server; conch needs its own connection, so the URL must name the server itself", now);
  }
  if (r.row[1] != "f") return move_on(protocol::fault::reconnect, "the server is a standby", now);
  if (!r.row[3].empty()) return move_on(protocol::fault::refused, readable(r.row[3], most_advice), now);
  // Whoever made it in this very moment is looked at by the script.
  if (r.row[2] != "t") return install();
  asked_at_ = now;
  ask(state::greeting, preparation(who_) + "select * from conch.connect('" + std::string{who_.client} + "')");
}

void connection_fsm::install() {
  installed_ = true;
  sleep(attempt_until_);  // it answers; this takes its time
  // Nothing of it may still wait when this attempt is given up.
  auto const most = std::min(settings_.connect_timeout, settings_.command_timeout);
  ask(state::installing, "begin;set local statement_timeout=" + milliseconds_of(settings_.connect_timeout) +
                             ";set local lock_timeout=" + milliseconds_of(most) + ";" + std::string{schema()} + ";commit");
}

/// The server has answered a query with an error.
void connection_fsm::refuse(reply const& r, time_point now) {
  std::string words = readable(r.words, r.sqlstate == says_wrong_owner ? most_advice : readable_words);
  auto const what = classify(r.sqlstate, r.words);
  if (what == protocol::fault::access_denied && state_ == state::installing) {
    words += "; a role that may create a schema runs the schema script postgresql.sql once";
  } else if (what == protocol::fault::access_denied && state_ == state::greeting) {
    words += "; the role needs the rights that the schema script postgresql.sql names";
  }
  move_on(what, words, now);
}

void connection_fsm::greeted(reply const& r, time_point now) {
  if (says_no_schema(r.sqlstate) && !installed_) return install();
  if (!r.sqlstate.empty()) return refuse(r, now);
  auto const version = r.row.size() == 4 ? whole_number<int>(r.row[0]) : std::nullopt;
  auto const server_us = r.row.size() == 4 ? whole_number<std::int64_t>(r.row[1]) : std::nullopt;
  bool const fits = version && server_us && *server_us > 0 && *server_us < last_us && r.row[2].size() <= longest_name_of_a_run &&
                    r.row[3].size() <= longest_name_of_a_run;
  if (!fits) return move_on(protocol::fault::malformed, "the schema conch is not that of this library", now);
  if (*version < schema_version && !installed_) return install();
  if (*version < schema_version) return move_on(protocol::fault::malformed, "the schema conch is older than it was just made", now);
  state_ = state::up;
  std::string const there = choice_.size() > 1 ? " at " + choice_.address() : std::string{};
  std::string const passed_over = choice_.words().empty() ? std::string{} : "; passed over " + choice_.words();
  choice_.succeeded();
  own_.connected(r.row[2], choice_.address());
  look_up_at_ = server_.by_name ? detail::later_by(now, settings_.topology_refresh) : time_point::max();
  sleep(look_up_at_);
  up_since_ = now;
  told_of_foreign_pushes_ = dropping_ = false;
  unanswered_ = 0;
  shortest_lease_ = duration::max();
  log(line_of(connection_event::connected, shown_ + there + passed_over));
  actions_.pipeline = true;
  actions_.flush = gate_.claim();
  events_->connected_as({static_cast<std::uint64_t>(server_.process), std::string{r.row[3]}, *server_us, asked_at_, std::string{r.row[2]}}, now);
}

void connection_fsm::failed(std::string_view words, time_point now) {
  refusal const why = read_refusal(words);
  auto what = classify(why.sqlstate, why.words);
  // To connect is always worth another attempt, where the server does not say that this role or that database is wrong.
  if (state_ != state::up && what != protocol::fault::access_denied && what != protocol::fault::refused) what = protocol::fault::try_later;
  move_on(what, readable(why.words), now);
}

/// The end of this connection, or of the attempt to make one.
void connection_fsm::lost(protocol::fault what, std::string_view reason, time_point now) {
  BOOST_ASSERT(state_ != state::idle && state_ != state::pausing && state_ != state::closed);
  bool const was_up = state_ == state::up;
  std::string const why{reason};
  actions_ = {.log = actions_.log, .close = true};
  state_ = state::pausing;
  look_up_at_ = time_point::max();
  auto const event = was_up ? connection_event::lost : is_final(what) ? connection_event::refused : connection_event::failed;
  log(line_of(event, shown_, why));
  if (was_up) events_->disconnected(why, now);
  else events_->connect_failed(what, shown_ + ": " + why, now);
  gate_.forget([this] { outgoing_.clear(); });
  if (was_up) back_off_.lasted(now - up_since_);
  sleep(detail::later_by(now, back_off_.next(settings_, shortest_lease_)));
}

void connection_fsm::shut_down() noexcept {
  state_ = state::closed;
  actions_ = {.log = actions_.log, .close = true};
}

// ------------------------------------------------------------------------------------------- what comes in, and goes out

void connection_fsm::answered(reply const& r, time_point now) {
  // The commands that this causes go out together, also those of the handlers that it completes.
  if (gate_.claim()) actions_.flush = true;
  --unanswered_;
  events_->answered(to_answer(r, numbers_), now);
}

void connection_fsm::notified(std::string_view payload, time_point now) {
  if (gate_.claim()) actions_.flush = true;
  if (auto const p = read_push(payload, who_, name_)) return events_->pushed(*p, now);
  if (std::exchange(told_of_foreign_pushes_, true)) return;
  log(log_level::warning, "ignored a notification on our channel that conch did not send; further ones on this connection are not logged");
}

std::vector<statement> connection_fsm::take_statements() {
  if (state_ != state::up) return {};
  std::vector<statement> all;
  gate_.take([&] { all.swap(outgoing_); });
  return all;
}

}  // namespace conch::postgresql
