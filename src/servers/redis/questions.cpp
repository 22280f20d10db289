// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/questions.hpp"

#include "base/failure.hpp"
#include "base/fault.hpp"
#include "base/readable.hpp"
#include "resp/encoder.hpp"
#include "servers/redis/faults.hpp"

#include <boost/system/system_error.hpp>

#include <utility>

namespace conch::redis {

namespace {

/// The wait ends before the attempt: the connection then reports how far it has come. The addresses of a name share the
/// attempt.
config settings_for(config c, duration limit) {
  c.connect_timeout = limit + limit / 8;
  c.single_threaded = true;
  return c;
}

}  // namespace

questions::questions(config const& settings, address where, duration limit, introduction how)
    : settings_{settings_for(settings, limit)},
      where_{std::move(where)},
      limit_{limit},
      talk_{how},
      out_{host_, host_.context().get_executor(), settings_, client_id_, where_, {.talk = &talk_}} {
  time_point const begin = clock::now();
  host_.enter([&](time_point) { out_.want_connection(); });
  host_.run_until([&] { return talk_.is_good() || talk_.has_ended(); }, begin + limit_);
  if (!talk_.is_good()) {
    if (!talk_.has_ended()) silence_ = out_.unfinished_attempt();
    fail();
  }
  connected_in_ = clock::now() - begin;
}

questions::~questions() {
  out_.shut_down();
  host_.context().restart();
  host_.context().poll();
}

reply questions::ask(std::vector<std::string> const& words) {
  if (!talk_.is_good() || !silence_.empty()) fail();
  talk_.forget_answers();
  std::string bytes;
  {
    resp::command_writer command{bytes, words.size()};
    for (std::string const& one : words) command.arg(std::string_view{one});
  }
  host_.enter([&](time_point) { out_.say(bytes); });
  bool const is_over = host_.run_until([&] { return talk_.has_answer() || talk_.has_ended(); }, clock::now() + limit_);
  if (!is_over) silence_ = where_.shown() + ": no answer in time";
  if (!talk_.has_answer()) fail();
  return talk_.take_answer();
}

reply questions::answer_to(std::vector<std::string> const& words) {
  reply r = ask(words);
  if (r.is_error()) refuse(r);
  return r;
}

void questions::refuse(reply const& error) const {
  throw boost::system::system_error{
      to_error(classify(error.text()), where_.shown() + ": " + readable(error.text(), longest_line))};
}

void questions::fail() const {
  if (!silence_.empty()) throw boost::system::system_error{make_error_code(errc::unreachable, silence_)};
  throw boost::system::system_error{make_error_code(meaning_of(talk_.end_fault()).error, talk_.end_words())};
}

std::string reason_of(error_code why, address const& where) {
  std::string words = cause_of(why);
  std::string const server = where.shown() + ": ";
  if (words.empty()) return why.message();
  return words.starts_with(server) ? words.substr(server.size()) : words;
}

}  // namespace conch::redis
