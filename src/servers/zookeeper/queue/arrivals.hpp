// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/queue/catch_up.hpp"
#include "servers/zookeeper/queue/cleanups.hpp"
#include "servers/zookeeper/queue/common_parts.hpp"
#include "servers/zookeeper/queue/holds.hpp"
#include "servers/zookeeper/queue/keeps.hpp"
#include "servers/zookeeper/queue/line.hpp"
#include "servers/zookeeper/queue/shared_nodes.hpp"

#include <string>

namespace conch::zookeeper {

/// Takes what the session reports: what has become of it, and the answers. session::drop() reports the end of the
/// connection before it returns, so it is the last that a function does.
class arrivals final : public session_events {
 public:
  arrivals(common_parts& on, keeps& kept, cleanups& pending, shared_nodes& shared, holds& held, line& in_line,
           catch_up& rest) noexcept
      : on_{on},
        keeps_{kept},
        cleanups_{pending},
        shared_{shared},
        held_{held},
        line_{in_line},
        rest_{rest} {}
  arrivals(arrivals const&) = delete;
  arrivals& operator=(arrivals const&) = delete;

  void opened(time_point now) override;
  void interrupted(time_point now) override;
  void ended(time_point now) override;
  void proved(time_point now) override;
  void answered(reply const& r, time_point now) override;
  void noticed(notice const& n, time_point now) override;
  void refused(error_code why, time_point now) override;

 private:
  void node_answer(in_flight const& r, reply const& a, time_point now);
  void rights_answer(in_flight const& r, reply const& a, time_point now);
  void folder_answer(in_flight const& r, reply const& a, time_point now);
  void list_answer(in_flight const& r, reply const& a, time_point now);
  void watch_answer(in_flight const& r, reply const& a, time_point now);
  void leave_answer(in_flight const& r, reply const& a, time_point now);
  void search_answer(in_flight const& r, reply const& a, time_point now);
  void found_answer(in_flight const& r, reply const& a, time_point now);
  void keep_answer(in_flight const& r, reply const& a, time_point now);
  void kept_end_answer(in_flight const& r, reply const& a, time_point now);
  void interval_seen(std::string const& path, stat const& keep, time_point now);
  void is_gone(std::string const& path, time_point now);

  common_parts& on_;
  keeps& keeps_;
  cleanups& cleanups_;
  shared_nodes& shared_;
  holds& held_;
  line& line_;
  catch_up& rest_;
};

}  // namespace conch::zookeeper
