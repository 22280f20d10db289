// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/probe.hpp"
#include "servers/redis/examination.hpp"
#include "servers/redis/questions.hpp"

#include <conch/config.hpp>

#include <optional>
#include <string>
#include <vector>

namespace conch::redis {

/// Examines one server that keeps locks, or should. It blocks, and throws boost::system::system_error as questions do.
class visit {
 public:
  /// `label`: for the findings; empty: there is no other server. All outlive this.
  visit(config const& settings, address const& where, bool in_cluster, std::string const& label,
        servers::probe::tell const& to)
      : settings_{settings},
        where_{where},
        in_cluster_{in_cluster},
        label_{label},
        to_{to} {}

  void run();

  /// As run() has found it.
  std::optional<clock_offset> const& clock() const noexcept { return clock_; }
  std::string const& identity() const noexcept { return identity_; }

 private:
  struct time_asked {
    std::vector<duration> trips;
    std::optional<clock_offset> clock{};  // none: not reported
  };

  static time_asked ask_for_time(questions& server);
  void tell(finding const& f) const { to_(label_, f); }
  bool look_at_information(questions& server);
  void look_at_replicas(server_info const& info);
  void look_at_rights(questions& server);
  void look_at_versions(questions& server);

  config const& settings_;
  address const& where_;
  bool const in_cluster_;
  std::string const& label_;
  servers::probe::tell const& to_;
  std::optional<clock_offset> clock_;
  std::string identity_;
};

}  // namespace conch::redis
