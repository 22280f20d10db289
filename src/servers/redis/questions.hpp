// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "net/alone.hpp"
#include "servers/redis/connection.hpp"
#include "servers/redis/question_talk.hpp"
#include "servers/redis/url.hpp"

#include <conch/config.hpp>
#include <conch/error.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace conch::redis {

/// A connection for questions that no client asks. It blocks, each wait for `limit` at most. All functions throw
/// boost::system::system_error, with printable words that begin with the server; after one about the connection, this
/// object is useless.
class questions final {
 public:
  static constexpr duration usual_limit = std::chrono::seconds{3}, short_limit = std::chrono::seconds{1};

  /// Connects and logs in, with the user and password of the provider or else of the address.
  questions(config const& settings, address where, duration limit = usual_limit,
            introduction how = introduction::plain);
  ~questions();
  questions(questions const&) = delete;
  questions& operator=(questions const&) = delete;

  /// An error of the server is an answer.
  reply ask(std::vector<std::string> const& words);
  /// The same, and an error of the server is thrown.
  reply answer_to(std::vector<std::string> const& words);

  /// How long the constructor has taken.
  duration connected_in() const noexcept { return connected_in_; }
  /// "TLSv1.3, TLS_AES_256_GCM_SHA384"; empty: no TLS.
  std::string tls() const { return out_.version_and_cipher(); }
  address const& where() const noexcept { return where_; }
  /// Throws what the server has answered, as an error.
  [[noreturn]] void refuse(reply const& error) const;

 private:
  [[noreturn]] void fail() const;

  config const settings_;
  std::string const client_id_;
  address const where_;
  duration const limit_;
  net::alone host_;
  question_talk talk_;
  connection out_;
  duration connected_in_{};
  std::string silence_;  // where it does not answer
};

/// The text of the error, without the server.
std::string reason_of(error_code why, address const& where);

}  // namespace conch::redis
