// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/server/asking.hpp"
#include "protocol/server/orders.hpp"
#include "protocol/server/pushes.hpp"
#include "protocol/server/renewals.hpp"

namespace conch::protocol {

using namespace engine;

/// The work that follows a new connection, the end of one, or a failure, and what waits for room: in turns.
class catch_up {
 public:
  catch_up(common_parts& on, cleanups& pending, asking& asks, renewals& renews, pushes& pushed, orders& asked) noexcept
      : on_{on},
        cleanups_{pending},
        asks_{asks},
        renews_{renews},
        pushes_{pushed},
        asked_{asked} {}

  /// Does one turn of it.
  void resume_backlog(time_point now);
  void fail_all(error_code why, time_point now);
  void end_all_orders(error_code why, time_point now);

  /// Waits something for room, or for the connection to come to it?
  bool has_rest() const noexcept { return on_.all.has_rest() || cleanups_.has_rest(); }
  /// True while the present connection has not repeated all requests and clean-ups, or while a failure is not reported
  /// to all.
  bool is_under_way() const noexcept { return on_.all.failing() || (on_.link.connected() && has_rest()); }

 private:
  void renew_holds(std::size_t& left, time_point now);
  void send_postponed(std::size_t& left, time_point now);
  void ask_everything_again(std::size_t& left, time_point now);
  void resume_the_rest(std::size_t& left, time_point now);
  void come_back(time_point now);

  common_parts& on_;
  cleanups& cleanups_;
  asking& asks_;
  renewals& renews_;
  pushes& pushes_;
  orders& asked_;
};

}  // namespace conch::protocol
