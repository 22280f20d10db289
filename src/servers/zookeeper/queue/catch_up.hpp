// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/queue/cleanups.hpp"
#include "servers/zookeeper/queue/common_parts.hpp"
#include "servers/zookeeper/queue/holds.hpp"
#include "servers/zookeeper/queue/keeps.hpp"
#include "servers/zookeeper/queue/line.hpp"
#include "servers/zookeeper/queue/riders.hpp"

namespace conch::zookeeper {

/// The work that follows a connection, the end of one, and the end of the session, and what waits for room: in turns.
class catch_up final : public standing_keeper {
 public:
  catch_up(common_parts& on, keeps& kept, cleanups& owed, riders& shares, holds& held, line& in_line) noexcept
      : on_{on},
        keeps_{kept},
        owed_{owed},
        shares_{shares},
        held_{held},
        line_{in_line} {}
  catch_up(catch_up const&) = delete;
  catch_up& operator=(catch_up const&) = delete;

  void rest_all();
  void resume_backlog(time_point now);

  // standing_keeper
  void due(standing& s, time_point now) override;

 private:
  void catch_up_with(standing& s, time_point now);
  void continue_riding(standing& s, time_point now);

  common_parts& on_;
  keeps& keeps_;
  cleanups& owed_;
  riders& shares_;
  holds& held_;
  line& line_;
};

}  // namespace conch::zookeeper
