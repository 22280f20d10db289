// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/postgresql/questions.hpp"

#include "base/asio_compat.hpp"
#include "base/checks.hpp"
#include "base/fault.hpp"
#include "base/numbers.hpp"
#include "base/readable.hpp"
#include "net/name_lookup.hpp"
#include "servers/postgresql/faults.hpp"
#include "servers/postgresql/input.hpp"

#include <conch/error.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

namespace conch::postgresql {

namespace {

using namespace std::chrono_literals;
using detail::refuse;

constexpr duration longest_answer = 3s, longest_attempt = 5s;
// of one answer; no question here asks for more than a quarter
constexpr std::size_t most_bytes = std::size_t{1} << 20;

int milliseconds_until(time_point until) {
  auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

}  // namespace

questions::questions(config const& settings)
    : parameters_{parameters_of(settings.url, settings, secrets_)},
      shown_{shown_of(parameters_)} {
  time_point const until = clock::now() + std::min<duration>(settings.connect_timeout, longest_attempt);
  std::vector<named_place> const places = with_addresses(until);
  if (places.empty()) refuse(errc::unreachable, shown_ + ": the name is not known");
  std::optional<named_place> standby;
  boost::system::error_code trouble;
  for (std::size_t i = 0; i < places.size(); ++i) {
    // A server that does not answer costs its share.
    time_point const now = clock::now();
    duration const share = (until - now) / static_cast<duration::rep>(places.size() - i);
    try {
      connect(places[i], now + share);
      if (!is_standby_) return;
      standby = places[i];
    } catch (boost::system::system_error const& error) {
      trouble = error.code();
    }
  }
  if (!standby) throw boost::system::system_error{trouble};
  connect(*standby, until);
}

/// One for each address of each host. A name that hangs is left out.
std::vector<named_place> questions::with_addresses(time_point until) const {
  asio::io_context context{1};
  std::vector<named_place> all;
  std::vector<std::unique_ptr<net::name_lookup>> under_way;
  std::size_t left = 0;
  for (named_place const& one : places_of(parameters_)) {
    if (!one.must_be_looked_up()) {
      all.push_back(one);
      continue;
    }
    ++left;
    under_way.push_back(std::make_unique<net::name_lookup>(context.get_executor()));
    auto const port = whole_number<std::uint16_t>(one.port).value_or(0);
    under_way.back()->async_find(one.name, port,
                                 [&all, &left, one](auto const&, net::name_lookup::addresses const& found) {
                                   for (auto const& address : found)
                                     all.push_back({one.name, address.address().to_string(), one.port});
                                   --left;
                                 });
  }
  time_point const half = clock::now() + (until - clock::now()) / 2;
  while (left != 0 && clock::now() < half && context.run_one_until(half) != 0) {
  }
  return all;
}

void questions::connect(named_place const& to, time_point until) {
  connection_.reset(begin_connection(parameters_, to));
  if (!connection_) refuse(errc::unreachable, "no memory");
  PQsetNoticeReceiver(
      connection_.get(), [](void*, PGresult const*) {}, nullptr);
  PQsetErrorVerbosity(connection_.get(), PQERRORS_VERBOSE);
  if (PQstatus(connection_.get()) == CONNECTION_BAD) fail();
  here_ = to.is_on_this_machine();
  unread_ = 0;
  continue_connecting(until);
  settle();
}

void questions::continue_connecting(time_point until) {
  login_guard guard;
  for (auto next = PGRES_POLLING_WRITING; next != PGRES_POLLING_OK;) {
    if (next == PGRES_POLLING_FAILED) fail();
    wait(next == PGRES_POLLING_READING ? POLLIN : POLLOUT, until);
    using step = login_guard::step;
    step const seen = look_at_login(connection_.get(), guard);
    if (seen == step::too_much || seen == step::too_dear)
      refuse(errc::protocol, shown_ + ": the server sends more than a server that asks for a password");
    if (seen == step::wait) ::poll(nullptr, 0, 5);  // for the rest of the message
    if (seen == step::wait || seen == step::nothing) {
      next = PGRES_POLLING_READING;
      continue;
    }
    std::size_t const before = available(PQsocket(connection_.get()));
    next = PQconnectPoll(connection_.get());
    unread_ += taken(before, available(PQsocket(connection_.get())));
    if (unread_ > most_bytes)
      refuse(errc::protocol, shown_ + ": the server sends more than the greeting of a PostgreSQL server");
  }
}

/// Names mean what PostgreSQL means by them, and nothing can be changed or take long.
void questions::settle() {
  if (PQsetnonblocking(connection_.get(), 1) != 0) fail();
  rows const settled = ask(
      "select pg_catalog.set_config('search_path', '', false), pg_catalog.set_config('statement_timeout', '" +
      std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(longest_answer).count()) +
      "', false), pg_catalog.set_config('default_transaction_read_only', 'on', false), pg_catalog.pg_is_in_recovery()");
  is_standby_ = settled.size() == 1 && settled[0].size() == 4 && settled[0][3] == "t";
}

questions::rows questions::ask(std::string const& statement) {
  time_point const until = clock::now() + longest_answer;
  unread_ = 0;
  if (PQsendQuery(connection_.get(), statement.c_str()) == 0) fail();
  for (int left = PQflush(connection_.get()); left != 0; left = PQflush(connection_.get())) {
    if (left < 0) fail();
    wait(POLLOUT, until);
  }
  rows all;
  for (;;) {
    while (PQisBusy(connection_.get()) == 1) read(until);
    std::unique_ptr<PGresult, clears_result> const one{PQgetResult(connection_.get())};
    if (!one) return all;
    auto const status = PQresultStatus(one.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) fail();
    for (int row = 0; row < PQntuples(one.get()); ++row) {
      all.emplace_back();
      for (int column = 0; column < PQnfields(one.get()); ++column) {
        all.back().emplace_back(PQgetvalue(one.get(), row, column),
                                static_cast<std::size_t>(PQgetlength(one.get(), row, column)));
      }
    }
  }
}

void questions::read(time_point until) {
  wait(POLLIN, until);
  std::size_t const before = available(PQsocket(connection_.get()));
  if (PQconsumeInput(connection_.get()) != 1) fail();
  unread_ += taken(before, available(PQsocket(connection_.get())));
  if (unread_ > most_bytes) refuse(errc::protocol, shown_ + ": an answer is longer than any that is asked for");
}

void questions::wait(short what, time_point until) const {
  for (;;) {
    pollfd one{PQsocket(connection_.get()), what, 0};
    int const left = milliseconds_until(until), ready = left == 0 ? 0 : ::poll(&one, 1, left);
    if (ready > 0) return;
    if (ready == 0) refuse(errc::unreachable, shown_ + ": no answer in time");
    if (errno != EINTR) refuse(errc::unreachable, shown_ + ": " + std::strerror(errno));
  }
}

void questions::fail() const {
  refusal const why = read_refusal(PQerrorMessage(connection_.get()));
  refuse(meaning_of(classify(why.sqlstate, why.words)).error, shown_ + ": " + readable(why.words));
}

std::string questions::tls() const {
  if (PQsslInUse(connection_.get()) == 0) return {};
  char const* const protocol = PQsslAttribute(connection_.get(), "protocol");
  char const* const cipher = PQsslAttribute(connection_.get(), "cipher");
  return std::string{protocol != nullptr ? protocol : "TLS"} + ", " +
         (cipher != nullptr ? cipher : "an unknown cipher");
}

}  // namespace conch::postgresql
