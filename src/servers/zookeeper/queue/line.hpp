// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/faults.hpp"
#include "servers/zookeeper/queue/cleanups.hpp"
#include "servers/zookeeper/queue/common_parts.hpp"
#include "servers/zookeeper/queue/holds.hpp"
#include "servers/zookeeper/queue/keeps.hpp"
#include "servers/zookeeper/queue/shared_nodes.hpp"

#include <cstdint>
#include <string>

namespace conch::zookeeper {

/// A place that asks, is queued, or leaves: its node, the nodes before it, its turn.
class line {
 public:
  line(common_parts& on, keeps& kept, cleanups& pending, shared_nodes& shared, holds& held) noexcept
      : on_{on},
        keeps_{kept},
        cleanups_{pending},
        shared_{shared},
        held_{held} {}
  line(line const&) = delete;
  line& operator=(line const&) = delete;

  void make_node(queue_place& p, time_point now);
  void found(queue_place& p, std::string path, std::int64_t created, time_point now);
  void list(queue_place& p, time_point now);
  void look(queue_place& p, children const& all, time_point now);
  void gone(queue_place& p, std::string const& path, time_point now);
  void take_turn(queue_place& p, bool pushed, time_point now);
  void kept(queue_place& p, reply const& a, time_point now);
  void interval_measured(queue_place& p, stat const& keep, std::uint32_t interval_ms, time_point now);
  void interval_over(queue_place& p, time_point now);
  void gone_from_line(queue_place& p, time_point now);
  void has_no_node(queue_place& p, time_point now);

  bool is_too_long(queue_place const& p) const;
  error_code lease_too_long(queue_place const& p) const;
  void patience(queue_place& p, time_point since);
  void fail(queue_place& p, error_code why, time_point now);
  void request_refused(queue_place& p, status what, std::string const& asked, time_point now);

 private:
  void ask_for_rights(queue_place& p, time_point now);
  void remove_strays(queue_place& p, children const& all, time_point now);
  bool is_proved(time_point now) const;
  void own(queue_place& p, time_point now);
  void leave(queue_place& p, time_point now);
  void ask_later(queue_place& p, status what, std::string const& asked, time_point now);
  error_code error_of(status what, std::string const& asked) const;
  error_code error_of(verdict const& v, queue_place const& p) const;
  bool is_known(std::uint64_t number) const {
    return on_.all.find(number) != nullptr || cleanups_.find(number) != nullptr;
  }

  common_parts& on_;
  keeps& keeps_;
  cleanups& cleanups_;
  shared_nodes& shared_;
  holds& held_;
};

}  // namespace conch::zookeeper
