// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/postgresql/connection.hpp"

#include "base/turns.hpp"

#include <conch/error.hpp>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#if CONCH_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#endif

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
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

/// libpq keeps what has come in until an answer is whole, and a server may never end one. It keeps each setting that a server reports for good, and
/// goes through all of them for each. So a server may send this much more than the statements that it has not answered: no answer of conch's
/// functions is longer than its question, but for that of an inspection, and a greeting is shorter.
constexpr std::size_t most_unread = std::size_t{128} << 10;
/// libpq takes at least so much at a time, if it is there.
constexpr std::size_t least_read = 8192;
/// A message that has come in part is looked at again after this time.
constexpr auto soon = std::chrono::milliseconds{5};

std::size_t available(int socket) noexcept {
  int size = 0;
  return ::ioctl(socket, FIONREAD, &size) == 0 && size > 0 ? static_cast<std::size_t>(size) : 0;
}

std::vector<std::string> list_of(std::string const& text) {
  std::vector<std::string> all;
  for (std::size_t at = 0;;) {
    std::size_t const comma = text.find(',', at);
    all.push_back(text.substr(at, comma - at));
    if (comma == std::string::npos) return all;
    at = comma + 1;
  }
}

std::string const& value_of(std::vector<std::pair<std::string, std::string>> const& all, std::string_view key) {
  static std::string const none;
  auto const found = std::find_if(all.begin(), all.end(), [&](auto const& one) { return one.first == key; });
  return found == all.end() ? none : found->second;
}

/// The words of libpq up to what they quote: that may be a part of a password.
std::string without_quotes(std::string_view words) {
  words = words.substr(0, words.find('"'));
  while (!words.empty() && (words.back() == ' ' || words.back() == ':' || words.back() == '\n')) words.remove_suffix(1);
  return "libpq: " + std::string{words};
}

std::vector<std::pair<std::string, std::string>> parameters_of(std::string const& url, config const& settings, std::vector<secret>& secrets) {
  using options_ptr = std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)>;
  char* wrong = nullptr;
  options_ptr const parsed{PQconninfoParse(url.c_str(), &wrong), &PQconninfoFree};
  std::unique_ptr<char, decltype(&PQfreemem)> const words{wrong, &PQfreemem};
  if (!parsed) throw boost::system::system_error{make_error_code(errc::invalid_url, without_quotes(wrong != nullptr ? wrong : "no memory"))};
  std::vector<std::pair<std::string, std::string>> all;
  auto const add = [&](PQconninfoOption const* options, auto const& wanted) {
    for (PQconninfoOption const* one = options; one != nullptr && one->keyword != nullptr; ++one) {
      if (one->val != nullptr && one->val[0] != '\0' && value_of(all, one->keyword).empty() && wanted(std::string_view{one->keyword})) {
        all.emplace_back(one->keyword, one->val);
      }
    }
  };
  add(parsed.get(), [](std::string_view) { return true; });
  // Names that come from the environment are looked up here, too.
  options_ptr const defaults{PQconndefaults(), &PQconninfoFree};
  if (value_of(all, "host").empty() && value_of(all, "hostaddr").empty()) {
    add(defaults.get(), [](std::string_view key) { return key == "host" || key == "hostaddr"; });
  }
  add(defaults.get(), [](std::string_view key) { return key == "port"; });
  // The password of the environment, too. libpq marks what is secret.
  for (auto const& options : {parsed.get(), defaults.get()}) {
    for (PQconninfoOption const* one = options; one != nullptr && one->keyword != nullptr; ++one) {
      if (one->val != nullptr && one->dispchar != nullptr && one->dispchar[0] == '*') secrets.emplace_back(one->val);
    }
  }
  auto const unless_said = [&](char const* key, std::string value) {
    if (value_of(all, key).empty()) all.emplace_back(key, std::move(value));
  };
  unless_said("application_name", settings.client_name);
  unless_said("gssencmode", "disable");  // its look-up of a ticket blocks
  unless_said("target_session_attrs", "any");
  all.emplace_back("client_encoding", "UTF8");
  return all;
}

/// What libpq says of lists of unequal length, which it gets one by one.
void must_match(char const* key, std::size_t count, std::size_t hosts) {
  if (count == hosts) return;
  throw boost::system::system_error{make_error_code(
      errc::invalid_url, std::string{"the URL names "} + std::to_string(hosts) + " hosts, and " + std::to_string(count) + " of " + key)};
}

/// With several hosts each has its port, as in the URL.
std::string shown_of(std::vector<std::pair<std::string, std::string>> const& all) {
  std::string const& name = value_of(all, "dbname");
  auto const hosts = list_of(value_of(all, "host").empty() ? value_of(all, "hostaddr") : value_of(all, "host")),
             ports = list_of(value_of(all, "port"));
  std::string text;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    std::string const& port = ports[std::min(i, ports.size() - 1)];
    text += (i == 0 ? "" : ",") + hosts[i] + (port.empty() || hosts[i].empty() ? "" : ':' + port);
  }
  return "postgresql://" + text + (name.empty() ? "" : "/" + name);
}

bool is_local(std::string const& host) {
  if (host.empty() || host.starts_with('/') || host.starts_with('@') || host == "localhost" || host.ends_with(".localhost")) return true;
  error_code ec;
  auto const address = asio::ip::make_address(host, ec);
  return !ec && address.is_loopback();
}

/// What is to be said of a URL whose connection anybody on the way may read. Nobody has said whether it is to be encrypted: then libpq asks the
/// server, and believes a "no", or a request for the password in clear. Empty: nothing.
std::string warning_of(std::vector<std::pair<std::string, std::string>> const& all) {
  std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> const defaults{PQconndefaults(), &PQconninfoFree};
  std::string mode = value_of(all, "sslmode");
  for (PQconninfoOption const* one = defaults.get(); mode.empty() && one != nullptr && one->keyword != nullptr; ++one) {
    if (one->val != nullptr && one->keyword == std::string_view{"sslmode"}) mode = one->val;
  }
  bool const is_open = (mode.empty() || mode == "prefer" || mode == "allow") && value_of(all, "sslrootcert") != "system";
  auto const names = list_of(value_of(all, "host")), addresses = list_of(value_of(all, "hostaddr"));
  bool far = false;
  for (std::size_t i = 0; i < std::max(names.size(), addresses.size()); ++i) {
    bool const has_address = i < addresses.size() && !addresses[i].empty();
    far = far || !is_local(has_address ? addresses[i] : i < names.size() ? names[i] : std::string{});
  }
  if (!is_open || !far) return {};
  return "without sslmode=verify-full in the URL an attacker on the network may read the connection, and ask for the password";
}

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

connection::connection(host& h, asio::any_io_executor on, config const& settings, std::string const& client_id, std::string const& url)
    : shell{h, on}, settings_{settings}, parameters_{parameters_of(url, settings, secrets_)}, fsm_{settings, client_id, shown_of(parameters_),
                                                                                                   std::random_device{}(), warning_of(parameters_)},
      in_one_thread_{settings.single_threaded}, socket_{on}, timer_{on}, again_{on} {
  auto const names = list_of(value_of(parameters_, "host")), addresses = list_of(value_of(parameters_, "hostaddr")),
             ports = list_of(value_of(parameters_, "port"));
  std::size_t const hosts = std::max(names.size(), addresses.size());
  if (!value_of(parameters_, "host").empty() && !value_of(parameters_, "hostaddr").empty()) must_match("hostaddr", addresses.size(), names.size());
  if (ports.size() > 1) must_match("port", ports.size(), hosts);
  for (std::size_t i = 0; i < hosts; ++i) {
    named_host one{i < names.size() ? names[i] : std::string{}, i < addresses.size() ? addresses[i] : std::string{},
                   ports[ports.size() == 1 ? 0 : i]};
    bool const is_path = one.name.empty() || one.name.starts_with('/') || one.name.starts_with('@');
    if (!is_path && one.address.empty()) one.lookup = std::make_unique<net::name_lookup>(on_);
    hosts_.push_back(std::move(one));
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

void connection::want_connection() {
  if (fsm_.want_connection()) go_on_later();
}

void connection::drop_connection(std::string_view why) {
  if (fsm_.drop_connection(why)) go_on_later();
}

void connection::shut_down() {
  asio::post(on_, [this, keep = host_.keep()] {
    host_.enter([this](time_point) { fsm_.shut_down(); });
    carry_out();
  });
}

// ------------------------------------------------------------------------------------------------- on the strand

void connection::go_on_later() {
  asio::post(on_, [this, keep = host_.keep()] { input([this](time_point now) { fsm_.due(now); }); });
}

void connection::flush_later() {
  asio::post(on_, [this, keep = host_.keep()] { flush(); });
}

void connection::flush() {
  send_all();
  carry_out();
}

void connection::carry_out() {
  for (connection_actions todo = fsm_.take(); todo.any(); todo = fsm_.take()) {
    if (todo.log) {
      for (auto const& [level, words] : fsm_.take_log()) host_.log(level, words);
    }
    if (todo.close) close();
    if (todo.sleep) sleep(todo.until);
    if (todo.resolve) resolve();
    if (todo.connect) connect();
    if (todo.query) query();
    if (todo.pipeline) begin_pipeline();
    if (todo.flush) in_one_thread_ ? send_all() : flush_later();  // behind the handlers of this turn, which were posted
    if (todo.go_on) go_on_later();
  }
}

void connection::close() {
  end_handlers();
  for (named_host& one : hosts_) {
    if (one.lookup) one.lookup->cancel();
  }
  timer_.cancel();
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

void connection::sleep(time_point until) {
  if (until == time_point::max()) {
    timer_.cancel();
    return;
  }
  timer_.expires_after(until - clock::now());
  timer_.async_wait(bound([this](error_code ec) {
    if (!ec) input([this](time_point now) { fsm_.due(now); });
  }));
}

/// In a later turn, as an asynchronous operation would.
void connection::fail(std::string words) {
  asio::post(on_, bound([this, words = std::move(words)] { input([&](time_point now) { fsm_.failed(words, now); }); }));
}

void connection::resolve() {
  if (fsm_.is_up()) {
    // A name that has not been answered since the last time hangs. The answer for the present server's name counts without it.
    tell_found(true);
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
  if (!any) asio::post(on_, bound([this] { tell_found(false); }));
}

void connection::look_up(std::size_t number) {
  hosts_[number].lookup->async_find(hosts_[number].name, 0, bound([this, number](error_code ec, net::name_lookup::addresses const& found) {
                                      named_host& one = hosts_[number];
                                      one.is_asked = false;
                                      if (ec) one.why_not = "'" + one.name + "': " + ec.message();
                                      for (auto const& each : found) one.found.push_back(each.address().to_string());
                                      tell_found(false);
                                    }));
}

/// What is known by now. `is_last`: no more is waited for.
void connection::tell_found(bool is_last) {
  std::vector<place> all;
  connection_fsm::found f;
  // Of the host that this connection leads to all must be known; of the others, what they say.
  named_host const* const present = fsm_.is_up() ? &hosts_[places_[fsm_.address_number()].host] : nullptr;
  for (named_host const& one : hosts_) {
    bool const counts = present == nullptr || present == &one;
    if (one.is_asked && (counts || !is_last)) f.is_all = false;
    if (!one.why_not.empty() && counts) f.why_not = one.why_not;
    auto const host = static_cast<std::size_t>(&one - hosts_.data());
    if (!one.lookup) all.push_back({one.name, one.address, one.port, false, host});
    for (std::string const& address : one.found) all.push_back({one.name, address, one.port, address != one.name, host});
  }
  for (place const& one : all) f.addresses.push_back((one.address.empty() ? one.name : one.address) + ':' + one.port);
  if (fsm_.takes_addresses()) places_ = std::move(all);
  input([&](time_point now) { fsm_.resolved(std::move(f), now); });
}

void connection::connect() {
  place const& to = places_[fsm_.address_number()];
  std::vector<char const*> keys, values;
  auto const add = [&](char const* key, std::string const& value) {
    if (value.empty()) return;
    keys.push_back(key);
    values.push_back(value.c_str());
  };
  for (auto const& [key, value] : parameters_) {
    if (key != "host" && key != "hostaddr" && key != "port") add(key.c_str(), value);
  }
  add("host", to.name);
  add("hostaddr", to.address);
  add("port", to.port);
  keys.push_back(nullptr);
  values.push_back(nullptr);
  guard_ = {};
  connection_.reset(PQconnectStartParams(keys.data(), values.data(), 0));
  if (!connection_) return fail("no memory");
  // Of a file, where no other is known.
  if (char const* const password = PQpass(connection_.get()); password != nullptr && !(of_file_ == password)) of_file_ = password;
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
      socket_.async_wait(what == PGRES_POLLING_READING ? asio::posix::stream_descriptor::wait_read : asio::posix::stream_descriptor::wait_write,
                         bound([this](error_code ec) {
                           if (!ec) go_on_connecting();
                         }));
      return;
    case PGRES_POLLING_OK:
      if (PQsetnonblocking(connection_.get(), 1) != 0 || !watch_socket()) return fail(said());
      read();
      input([this](time_point now) {
        char const* const where = PQhost(connection_.get());
        bool const over_tcp = where != nullptr && where[0] != '/' && where[0] != '@' && where[0] != '\0';
        bool const by_name = places_[fsm_.address_number()].by_name;
        fsm_.connected({PQserverVersion(connection_.get()), PQbackendPID(connection_.get()), over_tcp, by_name}, now);
      });
      return;
    case PGRES_POLLING_FAILED:
    case PGRES_POLLING_ACTIVE: return fail(said());
  }
}

/// Before libpq reads what a server has sent: it would do whatever that asks for, and keep all of it.
void connection::go_on_connecting() {
  switch (look_at_login()) {
    case login_guard::step::go_on: break;
    case login_guard::step::nothing: return poll(PGRES_POLLING_READING);
    case login_guard::step::wait:
      again_.expires_after(soon);
      again_.async_wait(bound([this](error_code ec) {
        if (!ec) go_on_connecting();
      }));
      return;
    case login_guard::step::too_much: return fail("the server says more than a server that asks for a password");
    case login_guard::step::too_dear:
      return fail("the server asks for more than " + std::to_string(most_scram_rounds) +
                  " rounds of SCRAM, which would stop this program for long: set the password anew with a smaller scram_iterations");
  }
  std::size_t const before = available(socket_.native_handle());
  auto const next = PQconnectPoll(connection_.get());
  count_read(before);
  if (unread_ > most_unread) return fail("the server says more than the greeting of a PostgreSQL server");
  poll(next);
}

login_guard::step connection::look_at_login() {
  if (PQstatus(connection_.get()) != CONNECTION_AWAITING_RESPONSE) return login_guard::step::go_on;
  std::array<char, most_of_login> text{};
  ::ssize_t size = 0;
  bool is_nothing = false;  // else an end, which libpq finds as well
#if CONCH_TLS
  if (auto* const tls = static_cast<SSL*>(PQsslStruct(connection_.get(), "OpenSSL"))) {
    ERR_clear_error();
    int const taken = SSL_peek(tls, text.data(), static_cast<int>(text.size()));
    size = taken;
    is_nothing = taken <= 0 && SSL_get_error(tls, taken) == SSL_ERROR_WANT_READ;
  } else
#endif
  {
    size = ::recv(PQsocket(connection_.get()), text.data(), text.size(), MSG_PEEK | MSG_DONTWAIT);
    is_nothing = size < 0 && (errno == EAGAIN || errno == EINTR);
  }
  if (is_nothing) return login_guard::step::nothing;
  return size <= 0 ? login_guard::step::go_on : guard_.look({text.data(), static_cast<std::size_t>(size)});
}

/// libpq has read; `before`: how much there was. At most as much as it has taken counts, also if more has come meanwhile.
void connection::count_read(std::size_t before) {
  std::size_t const left = available(socket_.native_handle());
  unread_ += std::max(before - std::min(left, before), std::min(before, least_read));
}

void connection::query() {
  is_querying_ = true;
  if (PQsendQuery(connection_.get(), fsm_.query().c_str()) == 0) return fail(said());
  push_out();
}

void connection::begin_pipeline() {
  in_pipeline_ = PQenterPipelineMode(connection_.get()) == 1;
  if (!in_pipeline_) fail(said());
}

/// Each statement is a transaction of its own: an error in one does not touch the others, and no lock of a row waits for the next.
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
    bool const sent = PQsendQueryPrepared(connection_.get(), s.name(), s.size(), values.data(), lengths.data(), formats.data(), 0) == 1;
    if (!sent || PQpipelineSync(connection_.get()) == 0) return fail(said());
    unanswered_.push_back(size);
    asked_ += size;
  }
  if (!all.empty()) push_out();
}

void connection::push_out() {
  int const left = PQflush(connection_.get());
  if (left < 0) return;  // a read tells more
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
                       hear();
                     }));
}

/// Reports what has come in: a limited number at a time, since a buffer has room for thousands of short answers.
void connection::hear() {
  bool more = false;
  auto const before = generation();
  input([&](time_point now) { more = take_in(now); });
  if (before != generation()) return;
  if (more) asio::post(on_, bound([this] { hear(); }));
  else if (unread_ > most_unread + asked_)
    input([this](time_point now) { fsm_.failed("an answer is longer than any that conch's functions give", now); });
  else if (is_open_) read();
  else input([this](time_point now) { fsm_.failed(why_ended(), now); });
}

void connection::note(void* self, PGresult const* r) {
  char const* const severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity == nullptr || std::string_view{severity} != "FATAL") return;
  static_cast<connection*>(self)->ended_by_ = PQresultErrorMessage(r);
}

/// The server's words, where it has said why.
std::string connection::why_ended() const {
  if (last_ && PQresultStatus(last_.get()) == PGRES_FATAL_ERROR) return PQresultErrorMessage(last_.get());
  return ended_by_.empty() ? said() : ended_by_;
}

/// True: there is more.
bool connection::take_in(time_point now) {
  for (std::size_t left = engine::in_one_turn; left != 0; --left) {
    bool const is_busy = PQisBusy(connection_.get()) == 1, is_asked = !unanswered_.empty() || is_querying_;
    // PQnotifies looks beyond a result that is complete and not taken yet. A lock may be granted by another's transaction after ours has put us in
    // line, and before our answer's end: the answer is reported first.
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
    // Of a record of TLS, at most: what has come in was counted with it.
    constexpr std::size_t record = 70;
    std::size_t const around = frame + (PQsslInUse(connection_.get()) == 1 ? record : 0);
    unread_ -= std::min(unread_, around + std::strlen(n->relname) + std::strlen(n->extra));
    if (fsm_.is_up()) fsm_.notified(n->extra, now);
  }
}

/// Of a statement comes a result, the end of its results, and that its transaction is committed. Only then it counts. False: the connection is
/// broken, and nothing comes any more.
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
