// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "net/alone.hpp"
#include "servers/zookeeper/connection.hpp"
#include "servers/zookeeper/url.hpp"

#include <conch/config.hpp>

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace conch::zookeeper {

/// A session for questions that no client asks: it makes no node. It blocks, each wait for a few seconds at most. All
/// functions throw boost::system::system_error, with a printable text; then this object is useless.
class questions final : private wire_events {
 public:
  /// Connects to one of the servers, within config::connect_timeout and no more than five seconds, and logs in.
  questions(config const& settings, ensemble_url const& where);
  ~questions();
  questions(questions const&) = delete;
  questions& operator=(questions const&) = delete;

  /// The answers, in the order of the requests. A refusal is an answer.
  std::vector<reply> ask(std::vector<request> const& all);
  reply ask(request const& one) { return ask(std::vector<request>{one}).front(); }
  duration ping();

  /// What a client asks for, and what the servers give.
  std::chrono::milliseconds asked_session() const noexcept { return asked_; }
  std::chrono::milliseconds session() const noexcept { return given_; }
  duration connected_in() const noexcept { return connected_in_; }
  std::string shown() const { return out_.shown(); }

 private:
  void connect();
  void log_in(address const& as);
  [[noreturn]] void fail();

  // wire_events
  void connected(time_point now) override;
  void greeted(connect_response const& c, time_point now) override;
  void answered(reply const& r, time_point) override { answers_.push_back(r); }
  void answered_ping(std::int64_t, time_point) override { is_pinged_ = true; }
  void noticed(notice const&, time_point) override {}
  void disconnected(fault what, std::string_view why, time_point now) override;

  config const& settings_;
  std::chrono::milliseconds const asked_;
  std::chrono::milliseconds given_{};
  duration connected_in_{};
  net::alone host_;
  connection out_;
  std::deque<reply> answers_;
  bool is_up_ = false, is_pinged_ = false, has_ended_ = false;
  errc error_ = errc::unreachable;
  std::string trouble_;
};

}  // namespace conch::zookeeper
