// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/postgresql/connection.hpp"

#include "base/turns.hpp"
#include "servers/postgresql/input.hpp"

#include <conch/error.hpp>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <utility>

namespace conch::postgresql {

using boost::system::error_code;

namespace {

/// libpq keeps what has come in until an answer is whole, and a server may never end one. It keeps each setting that a
/// server reports for good, and goes through all of them for each. So a server may send this much more than the
/// statements that it has not answered: no answer of conch's functions is longer than its question, but for that of an
/// inspection, and a greeting is shorter.
constexpr std::size_t most_unread = std::size_t{128} << 10;
/// A message that has come in part is looked at again after this time.
constexpr auto soon = std::chrono::milliseconds{5};

reply reply_of(PGresult const* r) {
  auto const status = PQresultStatus(r);
  if (r != nullptr && (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)) {
    reply good;
    for (int column = 0; PQntuples(r) > 0 && column < PQnfields(r); ++column) {
      good.row.emplace_back(PQgetvalue(r, 0, column), static_cast<std::size_t>(PQgetlength(r, 0, column)));
    }
    return good;
  }
  char const* const state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
  char const* const words = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
  return {state != nullptr ? state : "08006", words != nullptr ? words : "the connection is broken", {}};
}

}  // namespace

connection::connection(host& h, asio::any_io_executor on, config const& settings, std::string const& client_id,
                       std::string const& url)
    : shell{h, on},
      settings_{settings},
      parameters_{parameters_of(url, settings, secrets_)},
      fsm_{settings, client_id, shown_of(parameters_), std::random_device{}(), warning_of(parameters_)},
      in_one_thread_{settings.single_threaded},
      socket_{on},
      again_{on} {
  for (named_place& one : places_of(parameters_)) {
    bool const is_name = one.must_be_looked_up();
    hosts_.push_back({std::move(one.name), std::move(one.address), std::move(one.port)});
    if (is_name) hosts_.back().lookup = std::make_unique<net::name_lookup>(on_);
  }
}

// ---------------------------------------------------------------------------------------------- from the protocol

void connection::send(protocol::command const& c) {
  switch (fsm_.send(c)) {
    case connection_fsm::flush_due::no: return;
    case connection_fsm::flush_due::later: return flush_later();
    case connection_fsm::flush_due::at_once: asio::dispatch(on_, [this, keep = host_.keep()] { flush(); }); return;
  }
}

// ------------------------------------------------------------------------------------------------- on the strand

void connection::flush_later() {
  asio::post(on_, [this, keep = host_.keep()] { flush(); });
}

void connection::flush() {
  send_all();
  carry_out();
}

void connection::carry_out() {
  for (net::steps todo = fsm_.life().take(); todo.any(); todo = fsm_.life().take()) {
    if (todo.log) log_lines();
    if (todo.close) close();
    if (todo.sleep) sleep(todo.until);
    if (todo.resolve) resolve();
    if (todo.connect) connect();
    if (todo.write) query();
    if (todo.read) begin_pipeline();
    if (todo.flush) in_one_thread_ ? send_all() : flush_later();  // after the handlers of this turn, which were posted
    if (todo.call_due_later) call_due_later();
  }
}

void connection::close() {
  end_handlers();
  for (named_host& one : hosts_) {
    if (one.lookup) one.lookup->cancel();
  }
  again_.cancel();
  own_.is(-1);
  of_libpq_.is(-1);
  error_code ignored;
  socket_.close(ignored);
  last_.reset();
  connection_.reset();
  ended_by_.clear();
  is_open_ = in_pipeline_ = is_querying_ = write_waits_ = at_end_ = false;
  unanswered_.clear();
  asked_ = unread_ = 0;
}

/// In a later turn, as an asynchronous operation would.
void connection::fail(std::string words) {
  asio::post(on_, bound([this, words = std::move(words)] { give([&](time_point now) { fsm_.failed(words, now); }); }));
}

void connection::resolve() {
  if (fsm_.is_up()) {
    // A name that has not been answered since the last time hangs. The answer for the present server's name counts
    // without it.
    report_found(true);
    if (!fsm_.is_up()) return;
  }
  bool any = false;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (!hosts_[i].lookup) continue;
    hosts_[i].found.clear();
    hosts_[i].why_not.clear();
    hosts_[i].is_asked = any = true;
    look_up(i);
  }
  if (!any) asio::post(on_, bound([this] { report_found(false); }));
}

void connection::look_up(std::size_t number) {
  hosts_[number].lookup->async_find(hosts_[number].name, 0,
                                    bound([this, number](error_code ec, net::name_lookup::addresses const& found) {
                                      named_host& one = hosts_[number];
                                      one.is_asked = false;
                                      if (ec) one.why_not = "'" + one.name + "': " + ec.message();
                                      for (auto const& each : found) one.found.push_back(each.address().to_string());
                                      report_found(false);
                                    }));
}

/// What is known by now. `is_last`: no more is waited for.
void connection::report_found(bool is_last) {
  std::vector<place> all;
  net::lifecycle::found f;
  // Everything about the host that this connection leads to must be known; about the others, only what they report.
  named_host const* const present = fsm_.is_up() ? &hosts_[places_[fsm_.life().address_number()].host] : nullptr;
  for (named_host const& one : hosts_) {
    bool const counts = present == nullptr || present == &one;
    if (one.is_asked && (counts || !is_last)) f.is_all = false;
    if (!one.why_not.empty() && counts) f.why_not = one.why_not;
    auto const host = static_cast<std::size_t>(&one - hosts_.data());
    if (!one.lookup) all.push_back({one.name, one.address, one.port, false, host});
    for (std::string const& address : one.found)
      all.push_back({one.name, address, one.port, address != one.name, host});
  }
  for (place const& one : all) f.addresses.push_back((one.address.empty() ? one.name : one.address) + ':' + one.port);
  if (fsm_.life().state() == net::connection_state::resolving) places_ = std::move(all);
  give([&](time_point now) { fsm_.life().resolved(std::move(f), now); });
}

void connection::connect() {
  place const& to = places_[fsm_.life().address_number()];
  guard_ = {};
  connection_.reset(begin_connection(parameters_, {to.name, to.address, to.port}));
  if (!connection_) return fail("no memory");
  // From a file, if no other is known.
  if (char const* const password = PQpass(connection_.get()); password != nullptr && !(of_file_ == password))
    of_file_ = password;
  // What ends a connection on which nothing is asked comes as a notice.
  PQsetNoticeReceiver(connection_.get(), &connection::note, this);
  PQsetErrorVerbosity(connection_.get(), PQERRORS_VERBOSE);
  if (PQstatus(connection_.get()) == CONNECTION_BAD) return fail(said());
  poll(PGRES_POLLING_WRITING);
}

bool connection::watch_socket() {
  error_code ec;
  own_.is(-1);
  socket_.close(ec);
  of_libpq_.is(PQsocket(connection_.get()));
  int const own = ::fcntl(PQsocket(connection_.get()), F_DUPFD_CLOEXEC, 0);
  own_.is(own);
  if (own >= 0) socket_.assign(own, ec);
  if (own >= 0 && !ec) return true;
  if (own >= 0) ::close(own);
  fail("cannot wait for the connection's socket");
  return false;
}

void connection::poll(PostgresPollingStatusType what) {
  switch (what) {
    case PGRES_POLLING_READING:
    case PGRES_POLLING_WRITING:
      // libpq may try once more with another socket, without TLS.
      if (!watch_socket()) return;
      socket_.async_wait(what == PGRES_POLLING_READING ? asio::posix::stream_descriptor::wait_read
                                                       : asio::posix::stream_descriptor::wait_write,
                         bound([this](error_code ec) {
                           if (!ec) continue_connecting();
                         }));
      return;
    case PGRES_POLLING_OK:
      if (PQsetnonblocking(connection_.get(), 1) != 0 || !watch_socket()) return fail(said());
      read();
      give([this](time_point now) {
        char const* const where = PQhost(connection_.get());
        bool const over_tcp = where != nullptr && where[0] != '/' && where[0] != '@' && where[0] != '\0';
        bool const by_name = places_[fsm_.life().address_number()].by_name;
        fsm_.connected({PQserverVersion(connection_.get()), PQbackendPID(connection_.get()), over_tcp, by_name}, now);
      });
      return;
    case PGRES_POLLING_FAILED:
    case PGRES_POLLING_ACTIVE: return fail(said());
  }
}

/// Before libpq reads what a server has sent: it would do whatever that asks for, and keep all of it.
void connection::continue_connecting() {
  switch (look_at_login(connection_.get(), guard_)) {
    case login_guard::step::pass: break;
    case login_guard::step::nothing: return poll(PGRES_POLLING_READING);
    case login_guard::step::wait:
      again_.expires_after(soon);
      again_.async_wait(bound([this](error_code ec) {
        if (!ec) continue_connecting();
      }));
      return;
    case login_guard::step::too_much: return fail("the server sends more than a server that asks for a password");
    case login_guard::step::too_dear:
      return fail("the server asks for more than " + std::to_string(most_scram_rounds) +
                  " rounds of SCRAM, which would stop this program for long: set the password anew with a smaller "
                  "scram_iterations");
  }
  std::size_t const before = available(socket_.native_handle());
  auto const next = PQconnectPoll(connection_.get());
  count_read(before);
  if (unread_ > most_unread) return fail("the server sends more than the greeting of a PostgreSQL server");
  poll(next);
}

/// libpq has read; `before`: how much there was.
void connection::count_read(std::size_t before) { unread_ += taken(before, available(socket_.native_handle())); }

void connection::query() {
  is_querying_ = true;
  if (PQsendQuery(connection_.get(), fsm_.query().c_str()) == 0) return fail(said());
  push_out();
}

void connection::begin_pipeline() {
  in_pipeline_ = PQenterPipelineMode(connection_.get()) == 1;
  if (!in_pipeline_) fail(said());
}

/// Each statement is a transaction of its own: an error in one does not touch the others, and no lock of a row waits
/// for the next.
void connection::send_all() {
  std::vector<char const*> values;
  std::vector<int> lengths, formats;
  std::vector<statement> const all = fsm_.take_statements();
  if (!in_pipeline_) return;
  for (statement const& s : all) {
    std::size_t size = 0;
    values.clear();
    lengths.clear();
    formats.clear();
    for (int n = 0; n < s.size(); ++n) {
      values.push_back(s.value(n));
      lengths.push_back(s.length(n));
      size += static_cast<std::size_t>(s.length(n));
      formats.push_back(s.format(n));
    }
    bool const sent = PQsendQueryPrepared(connection_.get(), s.name(), s.size(), values.data(), lengths.data(),
                                          formats.data(), 0) == 1;
    if (!sent || PQpipelineSync(connection_.get()) == 0) return fail(said());
    unanswered_.push_back(size);
    asked_ += size;
  }
  if (!all.empty()) push_out();
}

void connection::push_out() {
  int const left = PQflush(connection_.get());
  if (left < 0) return;  // a read reports more
  if (left == 0 || std::exchange(write_waits_, true)) return;
  socket_.async_wait(asio::posix::stream_descriptor::wait_write, bound([this](error_code ec) {
                       write_waits_ = false;
                       if (!ec) push_out();
                     }));
}

void connection::read() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, bound([this](error_code ec) {
                       if (ec) return;
                       std::size_t const before = available(socket_.native_handle());
                       is_open_ = PQconsumeInput(connection_.get()) == 1;
                       count_read(before);
                       read_results();
                     }));
}

/// Reports what has come in: a limited number at a time, since a buffer has room for thousands of short answers.
void connection::read_results() {
  bool more = false;
  auto const before = generation();
  give([&](time_point now) { more = take_in(now); });
  if (before != generation()) return;
  if (more) asio::post(on_, bound([this] { read_results(); }));
  else if (unread_ > most_unread + asked_)
    give([this](time_point now) { fsm_.failed("an answer is longer than any that conch's functions give", now); });
  else if (is_open_) read();
  else give([this](time_point now) { fsm_.failed(why_ended(), now); });
}

void connection::note(void* self, PGresult const* r) {
  char const* const severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity == nullptr || std::string_view{severity} != "FATAL") return;
  static_cast<connection*>(self)->ended_by_ = PQresultErrorMessage(r);
}

/// The server's reason, if it has given one.
std::string connection::why_ended() const {
  if (last_ && PQresultStatus(last_.get()) == PGRES_FATAL_ERROR) return PQresultErrorMessage(last_.get());
  return ended_by_.empty() ? said() : ended_by_;
}

/// True: there is more.
bool connection::take_in(time_point now) {
  for (std::size_t left = in_one_turn; left != 0; --left) {
    bool const is_busy = PQisBusy(connection_.get()) == 1, is_asked = !unanswered_.empty() || is_querying_;
    // PQnotifies reads past a result that is complete and not taken yet. A lock may be granted by another's transaction
    // after ours has put us in line, and before our answer's end: the answer is reported first.
    if (in_pipeline_ && !last_ && (is_busy || !is_asked)) take_notifications(now);
    if (is_busy || !is_asked) return false;
    bool const goes_on = in_pipeline_ ? take_answer(now) : take_query(now);
    if (!goes_on) return false;
  }
  return true;
}

void connection::take_notifications(time_point now) {
  for (PGnotify* n = PQnotifies(connection_.get()); n != nullptr; n = PQnotifies(connection_.get())) {
    std::unique_ptr<PGnotify, decltype(&PQfreemem)> const freed{n, &PQfreemem};
    constexpr std::size_t frame = 11;  // letter, length, process, and the ends of two texts
    // At most one TLS record: what has come in was counted with it.
    constexpr std::size_t record = 70;
    std::size_t const around = frame + (PQsslInUse(connection_.get()) == 1 ? record : 0);
    unread_ -= std::min(unread_, around + std::strlen(n->relname) + std::strlen(n->extra));
    if (fsm_.is_up()) fsm_.notified(n->extra, now);
  }
}

/// A statement brings a result, the end of its results, and its commit. Only then does it count. False: the connection
/// is broken, and nothing comes any more.
bool connection::take_answer(time_point now) {
  result one{PQgetResult(connection_.get())};
  if (!one) return !std::exchange(at_end_, true);
  at_end_ = false;
  if (PQresultStatus(one.get()) != PGRES_PIPELINE_SYNC) {
    if (!last_ || PQresultStatus(one.get()) != PGRES_TUPLES_OK) last_ = std::move(one);
    return true;
  }
  asked_ -= unanswered_.front();
  unanswered_.pop_front();
  unread_ = 0;
  result const whole = std::exchange(last_, nullptr);
  if (fsm_.is_up()) fsm_.answered(reply_of(whole.get()), now);
  return true;
}

/// As take_answer.
bool connection::take_query(time_point now) {
  if (result one{PQgetResult(connection_.get())}) {
    last_ = std::move(one);
    return true;
  }
  if (!is_open_) return false;
  is_querying_ = false;
  unread_ = 0;
  result const whole = std::exchange(last_, nullptr);
  fsm_.queried(reply_of(whole.get()), now);
  return true;
}

}  // namespace conch::postgresql
