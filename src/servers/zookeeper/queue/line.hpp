// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/faults.hpp"
#include "servers/zookeeper/queue/cleanups.hpp"
#include "servers/zookeeper/queue/common_parts.hpp"
#include "servers/zookeeper/queue/holds.hpp"
#include "servers/zookeeper/queue/keeps.hpp"
#include "servers/zookeeper/queue/riders.hpp"

#include <cstdint>
#include <string>

namespace conch::zookeeper {

/// A place that asks, is queued, or leaves: its node, the nodes before it, its turn.
class line {
 public:
  line(common_parts& on, keeps& kept, cleanups& owed, riders& shares, holds& held) noexcept
      : on_{on},
        keeps_{kept},
        owed_{owed},
        shares_{shares},
        held_{held} {}
  line(line const&) = delete;
  line& operator=(line const&) = delete;

  void make_node(standing& s, time_point now);
  void found(standing& s, std::string path, std::int64_t created, time_point now);
  void list(standing& s, time_point now);
  void look(standing& s, children const& all, time_point now);
  void gone(standing& s, std::string const& path, time_point now);
  void take_turn(standing& s, bool pushed, time_point now);
  void kept(standing& s, reply const& a, time_point now);
  void interval_measured(standing& s, stat const& keep, std::uint32_t interval_ms, time_point now);
  void interval_over(standing& s, time_point now);
  void gone_from_line(standing& s, time_point now);
  void has_no_node(standing& s, time_point now);

  bool is_too_long(standing const& s) const;
  error_code lease_too_long(standing const& s) const;
  void patience(standing& s, time_point since);
  void fail(standing& s, error_code why, time_point now);
  void request_refused(standing& s, status what, std::string const& asked, time_point now);

 private:
  void ask_for_rights(standing& s, time_point now);
  void remove_strays(standing& s, children const& all, time_point now);
  bool is_proved(time_point now) const;
  void own(standing& s, time_point now);
  void leave(standing& s, time_point now);
  void ask_later(standing& s, status what, std::string const& asked, time_point now);
  error_code error_of(status what, std::string const& asked) const;
  error_code error_of(verdict const& v, standing const& s) const;
  bool is_known(std::uint64_t number) const { return on_.all.find(number) != nullptr || owed_.find(number) != nullptr; }

  common_parts& on_;
  keeps& keeps_;
  cleanups& owed_;
  riders& shares_;
  holds& held_;
};

}  // namespace conch::zookeeper
