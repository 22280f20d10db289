// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/question_talk.hpp"

#include "resp/encoder.hpp"
#include "servers/redis/faults.hpp"

#include <utility>

namespace conch::redis {

reply::reply(std::span<resp::node const> message) : nodes_{message.begin(), message.end()} {
  std::size_t size = 0;
  for (resp::node const& one : nodes_) size += one.text.size();
  texts_.reserve(size);
  for (resp::node& one : nodes_) {
    std::size_t const position = texts_.size();
    texts_.insert(texts_.end(), one.text.begin(), one.text.end());
    one.text = {texts_.data() + position, one.text.size()};
  }
}

std::string question_talk::begin(address const& where, std::string const& client_name) {
  is_good_ = false;
  if (how_ != introduction::plain) return greeting_.begin(where, client_name, how_ == introduction::as_cluster_client);
  expected_.clear();
  std::string out;
  if (!where.password.empty()) {
    resp::append_command(
        out, {"AUTH", where.user.empty() ? std::string_view{"default"} : where.user, where.password.bytes()});
    expected_.push_back(step::auth);
  }
  if (where.database != 0) {
    resp::append_command(out, {"SELECT", std::to_string(where.database)});
    expected_.push_back(step::select);
  }
  // Shows first that it answers and accepts the user: otherwise each answer would be about the missing password.
  resp::append_command(out, {"PING"});
  expected_.push_back(step::ping);
  return out;
}

question_talk::progress question_talk::received(std::span<resp::node const> message, bool is_push, time_point) {
  if (is_push) return is_good_ ? progress::good : progress::greeting;
  if (is_good_) {
    answers_.emplace_back(message);
    return progress::good;
  }
  if (how_ != introduction::plain) {
    switch (greeting_.next(message)) {
      case greeting::progress::more: return progress::greeting;
      case greeting::progress::failed: return fail(greeting_.fault(), greeting_.why());
      case greeting::progress::done: break;
    }
    is_good_ = true;
    return progress::good;
  }
  step const what = expected_.front();
  expected_.pop_front();
  return answer_to(what, message);
}

question_talk::progress question_talk::answer_to(step what, std::span<resp::node const> message) {
  if (is_error(message)) {
    std::string_view const words = message[0].text;
    protocol::fault const meant = classify(words);
    // A server that does not let this user send PING, or does not know it, may answer other questions.
    bool const answers = what == step::ping && (words.starts_with("NOPERM") || meant == protocol::fault::refused);
    if (!answers) return fail(meant, readable(words));
  }
  is_good_ = expected_.empty();
  return is_good_ ? progress::good : progress::greeting;
}

void question_talk::ended(protocol::fault what, std::string_view why) {
  has_ended_ = true;
  end_fault_ = what;
  end_words_ = why;
}

reply question_talk::take_answer() {
  reply first = std::move(answers_.front());
  answers_.pop_front();
  return first;
}

}  // namespace conch::redis
