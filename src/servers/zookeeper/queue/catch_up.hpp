// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/queue/cleanups.hpp"
#include "servers/zookeeper/queue/common_parts.hpp"
#include "servers/zookeeper/queue/holds.hpp"
#include "servers/zookeeper/queue/keeps.hpp"
#include "servers/zookeeper/queue/line.hpp"
#include "servers/zookeeper/queue/shared_nodes.hpp"

namespace conch::zookeeper {

/// The work that follows a connection, the end of one, and the end of the session, and what waits for room: in turns.
class catch_up final : public place_checker {
 public:
  catch_up(common_parts& on, keeps& kept, cleanups& pending, shared_nodes& shared, holds& held, line& in_line) noexcept
      : on_{on},
        keeps_{kept},
        cleanups_{pending},
        shared_{shared},
        held_{held},
        line_{in_line} {}
  catch_up(catch_up const&) = delete;
  catch_up& operator=(catch_up const&) = delete;

  void rest_all();
  void resume_backlog(time_point now);

  // place_checker
  void due(queue_place& p, time_point now) override;

 private:
  void catch_up_with(queue_place& p, time_point now);
  void continue_sharing(queue_place& p, time_point now);

  common_parts& on_;
  keeps& keeps_;
  cleanups& cleanups_;
  shared_nodes& shared_;
  holds& held_;
  line& line_;
};

}  // namespace conch::zookeeper
