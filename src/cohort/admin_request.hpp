// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "cohort/grant_id.hpp"
#include "cohort/permit.hpp"

#include <conch/clock.hpp>
#include <conch/error.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What an operator asks or orders; it concerns no place of this client in line.
namespace conch::engine {

/// What is asked or ordered of the server about a lock.
struct order {
  enum class kind : std::uint8_t {
    inspect,    // who has it
    force,      // takes it from whoever has it
    set_limit,  // of a semaphore
    downgrade,  // makes one's own part smaller
  };

  kind what = kind::inspect;
  std::string name;
  std::int64_t fence = 0;  // force: of the one to lose it; 0: of all
  std::uint32_t size = 0;  // set_limit: the new limit; downgrade: what is left of the part
  grant_id id = 0;         // downgrade: whose part
  engine::permit permit;   // downgrade: as it was asked for
};

/// A question or an order about a lock. It is asked again after a reconnect, until it is answered or `offline_timeout` is over;
/// but not what would have an effect of its own if it was carried out before: to take a lock from whoever has it by then.
///
/// Belongs to the shell, which may free it after on_admin_answered.
struct admin_request : order, list_hook<admin_request> {
  admin_request() noexcept;
  ~admin_request();  // withdrawn, if it is not answered yet

  // The backend's.
  class backend* at = nullptr;
  std::uint64_t serial = 0;
  bool written = false;                // and not answered
  std::int64_t taken = 0;              // force: from so many by the scripts before the next
  std::int64_t last = 0, from_us = 0;  // force: where the next goes on (force_command)
  time_point until{};
  timer due;
};

/// Who has a lock, and how many wait.
struct lock_report {
  struct owner {
    std::array<std::uint32_t, 4> client;  // 128 bits, the first first
    std::int64_t fence, left_ms;
    std::uint32_t permits, segment;
    bool confirmed;
  };

  permit_kind kind = permit_kind::none;
  std::uint64_t waiting = 0;
  std::uint32_t held = 0, taken = 0, limit = 0;
  std::vector<owner> owners;  // none of very many; at most 100
};

struct admin_result {
  std::int64_t count = 0;             // force: from how many it was taken; set_limit: how many permits are taken
  std::optional<lock_report> status;  // inspect
};

/// Who asks. Nothing here may call back into the engine before it has returned.
class admin_events {
 public:
  /// Once for each that was asked and not withdrawn.
  virtual void on_admin_answered(admin_request& i, admin_result const& result, error_code why) = 0;

 protected:
  ~admin_events() = default;
};

}  // namespace conch::engine
