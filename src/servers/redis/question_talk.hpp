// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "resp/decoder.hpp"
#include "servers/redis/dialogue.hpp"
#include "servers/redis/greeting.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace conch::redis {

/// What a server has answered to any command, an error included: its values in the order in which they were sent, as of
/// resp::decoder.
class reply {
 public:
  explicit reply(std::span<resp::node const> message);
  reply(reply&&) noexcept = default;
  reply& operator=(reply&&) noexcept = default;
  reply(reply const&) = delete;
  reply& operator=(reply const&) = delete;
  ~reply() = default;

  bool is_error() const noexcept { return redis::is_error(nodes_); }
  /// The whole answer as one text: a string, or the text of an error.
  std::string_view text() const noexcept { return nodes_.front().text; }
  std::int64_t number() const noexcept { return nodes_.front().integer; }
  /// At least one.
  std::span<resp::node const> nodes() const noexcept { return nodes_; }
  /// The value with this number in a list without lists in it; empty: there is none.
  std::string_view item(std::size_t number) const noexcept {
    return number + 1 < nodes_.size() ? nodes_[number + 1].text : std::string_view{};
  }
  std::size_t items() const noexcept { return nodes_.size() - 1; }

 private:
  std::vector<resp::node> nodes_;
  std::vector<char> texts_;  // what they point to
};

/// How a connection for questions begins.
enum class introduction : std::uint8_t {
  // AUTH, SELECT and PING, in RESP2: for a server in any state, a Sentinel, or a version that is too old
  plain,
  as_client,         // as a client of one server: what the client refuses fails, with the same words
  as_cluster_client  // the same of a node of a Cluster
};

/// The exchange on a connection for questions. Answers are kept until they are taken. No I/O.
class question_talk final : public dialogue {
 public:
  explicit question_talk(introduction how) noexcept : how_{how} {}

  std::string begin(address const& where, std::string const& client_name) override;
  progress received(std::span<resp::node const> message, bool is_push, time_point now) override;
  void ended(protocol::fault what, std::string_view why) override;

  /// The server takes questions.
  bool is_good() const noexcept { return is_good_ && !has_ended_; }
  bool has_ended() const noexcept { return has_ended_; }
  /// How the connection, or the attempt to make one, ended: which server, and why.
  protocol::fault end_fault() const noexcept { return end_fault_; }
  std::string const& end_words() const noexcept { return end_words_; }

  bool has_answer() const noexcept { return !answers_.empty(); }
  /// The first one. There is one.
  reply take_answer();
  void forget_answers() noexcept { answers_.clear(); }

 private:
  enum class step : std::uint8_t { auth, select, ping };

  progress answer_to(step what, std::span<resp::node const> message);

  introduction const how_;
  greeting greeting_;
  std::deque<step> expected_;
  bool is_good_ = false, has_ended_ = false;
  protocol::fault end_fault_ = protocol::fault::none;
  std::string end_words_;
  std::deque<reply> answers_;
};

}  // namespace conch::redis
