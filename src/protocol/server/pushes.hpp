// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/server/asking.hpp"

namespace conch::protocol {

using namespace engine;

/// The server's pushes about places, and other clients' requests to let go.
class pushes {
 public:
  pushes(common_parts& on, grant_ids& ids, asking& asks, place_keeper& mine) noexcept
      : on_{on},
        ids_{ids},
        asks_{asks},
        mine_{mine} {}

  void begin_connection() noexcept { logged_strays_ = false; }
  void granted(pushed_grant const& g, time_point now);
  void missed(std::string_view name, grant_id id, time_point now);
  void lease_ends_in(std::string_view name, grant_id id, milliseconds left, time_point now);
  void revoked(std::string_view name, grant_id id, time_point now);
  void requested(std::string_view name, grant_id id, time_point now);

  /// The cohort wants to know of requests. Pushes announce them. The server is asked once here, and on every new
  /// connection, because a request may have come before that.
  void watch_requests(server_place& p, time_point now);
  void ask_for_requests(server_place& p, time_point now);
  void requested_answered(in_flight const& r, answer const& a, time_point now);

 private:
  server_place* wanted(pushed_grant const& g);
  server_place* in_line_under(std::string_view name, grant_id id);
  server_place* owned_under(std::string_view name, grant_id id);
  static bool fits(server_place const& p, pushed_grant const& g);
  bool is_plausible(std::int64_t fence, time_point now) const;
  void give_back_stray(pushed_grant const& g, time_point now);
  void asked_to_let_go(server_place& p, time_point now);

  common_parts& on_;
  grant_ids& ids_;
  asking& asks_;
  place_keeper& mine_;
  time_point strays_since_ = time_point::min();  // when the present second of stray grants began
  int strays_ = 0;                               // in that second
  bool logged_strays_ = false;                   // logged once for each connection
};

}  // namespace conch::protocol
