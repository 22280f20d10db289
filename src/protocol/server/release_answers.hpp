// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/server/asking.hpp"

namespace conch::protocol {

using namespace engine;

/// What the answer to a clean-up means. It may answer a question too: a release may ask for the lock again.
class release_answers {
 public:
  release_answers(common_parts& on, cleanups& pending, asking& asks) noexcept
      : on_{on},
        cleanups_{pending},
        asks_{asks} {}

  void answered(in_flight const& r, answer const& a, time_point now);

 private:
  static bool is_under(server_place const& p, grant_id new_id);
  static bool asks_under(server_place const& p, grant_id new_id);
  void put_off(cleanup& c, in_flight const& r, time_point now);
  void done(cleanup& c, in_flight const& r, release_reply const& reply, time_point now);
  void refused(cleanup& c, in_flight const& r, answer const& a, time_point now);

  common_parts& on_;
  cleanups& cleanups_;
  asking& asks_;
};

}  // namespace conch::protocol
