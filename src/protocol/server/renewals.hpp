// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/server/holds.hpp"

#include <span>
#include <string>
#include <vector>

namespace conch::protocol {

using namespace engine;

/// Renewals: many holds in one script.
class renewals {
 public:
  renewals(common_parts& on, holds const& held) noexcept : on_{on}, held_{held} {}

  void send(std::span<server_place* const> places, renewal_mode mode, time_point now);
  void answered(in_flight const& r, answer const& a, time_point now);
  /// It is not answered any more.
  void went_unanswered(renewal_batch const& batch);
  /// Why an owned place could not be renewed in time, as text; empty: nothing prevented it.
  std::string why_not(server_place const& p, time_point now) const;

 private:
  void send_kind(std::span<server_place* const> places, bool permits, bool keep_fences, renewal_mode mode,
                 time_point now);
  bool renewed_elsewhere(renewal_batch const& sent, answer const& a, time_point now);
  static milliseconds lease_left(server_place const& p, time_point now);

  common_parts& on_;
  holds const& held_;
  std::vector<renewal> scratch_;
};

}  // namespace conch::protocol
