// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/redis/url.hpp"

#include <conch/clock.hpp>
#include <conch/config.hpp>

#include <cstdint>
#include <string>

namespace conch::redis {

/// Credentials of a provider, and their renewal on the live connection. The provider is asked when nine tenths of their
/// time have passed, and the new ones go to the server as AUTH, among the commands of the protocol. If either refuses,
/// the provider is asked again later: the server continues with the old ones for as long as it likes. No I/O, no clock.
class reauthentication {
 public:
  /// `settings` outlives this. `renews`: on the live connection. False: a new connection is made when the server ends
  /// the present one.
  reauthentication(config const& settings, bool renews) noexcept : settings_{settings}, renews_{renews} {}

  // ---- of the provider
  /// When it is to be asked, or when its answer is overdue; time_point::max(): never.
  time_point next_due() const noexcept { return due_; }
  bool is_asking() const noexcept { return at_ == step::asking; }
  /// It is asked.
  void ask(time_point now) noexcept;
  /// It has given credentials: for a connection that is to be made, or for the present one.
  void found(credentials const& c) noexcept;

  // ---- of the server
  /// Appends AUTH. `answers_before`: how many answers arrive before its own.
  void send(address const& as, std::int64_t answers_before, std::string& out);
  bool is_sent() const noexcept { return at_ == step::sent; }
  /// Is the next answer that of AUTH, and not the protocol's? To be called for each.
  bool is_own_answer() noexcept { return at_ == step::sent && answers_before_-- == 0; }

  // ---- of one of both
  /// The server knows the present credentials. True: next_due() is when they are to be renewed.
  bool accepted(time_point now) noexcept;
  void refused(time_point now) noexcept;
  /// The connection has ended.
  void end() noexcept;

  /// How often credentials were renewed on a live connection, and how often that failed. Over all connections.
  std::uint64_t successes() const noexcept { return successes_; }
  std::uint64_t failures() const noexcept { return failures_; }

 private:
  enum class step : std::uint8_t { none, due_later, asking, sent };

  config const& settings_;
  bool const renews_;
  step at_ = step::none;
  duration good_for_ = duration::max();  // the credentials
  time_point due_ = time_point::max();
  std::int64_t answers_before_ = 0;  // while AUTH is sent
  std::uint64_t successes_ = 0, failures_ = 0;
};

}  // namespace conch::redis
