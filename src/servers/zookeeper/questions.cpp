// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/questions.hpp"

#include "base/fault.hpp"
#include "base/readable.hpp"
#include "servers/zookeeper/faults.hpp"
#include "servers/zookeeper/session.hpp"

#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <utility>

namespace conch::zookeeper {

namespace {

using namespace std::chrono_literals;

constexpr duration longest_answer = 3s, longest_attempt = 5s;

std::chrono::milliseconds asked_session_of(config const& c) {
  return std::chrono::ceil<std::chrono::milliseconds>(std::max(c.lease, least_session(c)) + c.lock_delay);
}

}  // namespace

questions::questions(config const& settings, ensemble_url const& where)
    : settings_{settings},
      asked_{asked_session_of(settings)},
      out_{host_, host_.context().get_executor(), settings, where.servers} {
  out_.report_to(*this);
  time_point const begin = clock::now();
  connect();
  connected_in_ = clock::now() - begin;
  log_in(where.servers.front());
}

/// The session ends now, not by itself.
questions::~questions() {
  if (is_up_) host_.enter([&](time_point) { out_.send(close_session{}); });
  out_.shut_down();
  constexpr duration moment = 100ms;
  host_.run_until([&] { return has_ended_; }, clock::now() + moment);
}

/// To one server after another, until all were tried once.
void questions::connect() {
  time_point const until = clock::now() + std::min<duration>(settings_.connect_timeout, longest_attempt);
  host_.enter([&](time_point now) { out_.want(settings_.lease, now); });
  if (!host_.run_until([&] { return is_up_ || has_ended_; }, until)) trouble_ = shown() + ": no answer in time";
  if (!is_up_) fail();
}

void questions::log_in(address const& as) {
  if (as.password.empty()) return;
  reply const r = ask(add_auth{"digest", as.user + ':' + as.password.bytes()});
  if (r.what != status::ok) throw boost::system::system_error{to_error(r.what, "log in", shown())};
}

std::vector<reply> questions::ask(std::vector<request> const& all) {
  answers_.clear();
  host_.enter([&](time_point) {
    for (request const& one : all) out_.send(one);
  });
  bool const is_answered =
      host_.run_until([&] { return answers_.size() >= all.size() || has_ended_; }, clock::now() + longest_answer);
  if (!is_answered) trouble_ = shown() + ": no answer in time";
  if (answers_.size() < all.size()) fail();
  return {answers_.begin(), answers_.end()};
}

duration questions::ping() {
  time_point const begin = clock::now();
  is_pinged_ = false;
  host_.enter([&](time_point) { out_.send(zookeeper::ping{}); });
  bool const is_answered = host_.run_until([&] { return is_pinged_ || has_ended_; }, begin + longest_answer);
  if (!is_answered) trouble_ = shown() + ": no answer in time";
  if (!is_pinged_) fail();
  return clock::now() - begin;
}

void questions::fail() { throw boost::system::system_error{make_error_code(error_, trouble_)}; }

// ------------------------------------------------------------------------------------------------------- events

void questions::connected(time_point) { out_.greet({0, static_cast<std::int32_t>(asked_.count()), 0, {}}); }

void questions::greeted(connect_response const& c, time_point now) {
  given_ = std::chrono::milliseconds{c.timeout_ms};
  is_up_ = c.timeout_ms > 0;
  if (is_up_) return out_.in_use(settings_.lease, now);
  trouble_ = shown() + ": the server gives no session";
  has_ended_ = true;
}

void questions::disconnected(fault what, std::string_view why, time_point) {
  has_ended_ = is_up_ || is_final(what) || !out_.has_another();
  is_up_ = false;
  error_ = meaning_of(what).error;
  trouble_ = shown() + ": " + readable(why);
}

}  // namespace conch::zookeeper
