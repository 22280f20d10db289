// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/server/common_parts.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace conch::protocol {

using namespace engine;

/// What this client tells others about itself and its tasks, for people who look at a lock. The server keeps it for
/// longer than the client takes to send it again. So it outlives a client that dies, for an hour or for two leases, and
/// can still say who had the lock. A client that closes removes it.
class introducer {
 public:
  explicit introducer(common_parts& on) noexcept : on_{on}, again_{this, call<&introducer::send_all>} {}

  /// `id`: of the client or a task. `text`: empty: there is nothing to tell.
  void present(std::string_view id, std::string_view text, time_point now);
  /// The client closes.
  void withdraw(time_point now);
  /// A connection has begun.
  void begin(time_point now) { send_all(now); }
  void answered(answer const& a);
  /// It has ended.
  void rest() noexcept {
    unanswered_ = 0;
    again_.cancel();
  }
  /// The server has confirmed that it keeps nothing any more, or cannot be told.
  bool settled() const noexcept { return !is_closing_ || unanswered_ == 0; }

 private:
  struct introduced {
    std::string id, text{};
    bool is_known = false;  // the server may have something of it
  };

  duration kept() const;
  void send_all(time_point now);
  void send(introduced& one, time_point now);

  common_parts& on_;
  std::vector<introduced> all_;
  std::size_t unanswered_ = 0;
  bool is_closing_ = false;
  bool logged_refusal_ = false;
  timer again_;
};

}  // namespace conch::protocol
