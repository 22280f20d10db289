// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "protocol/wire.hpp"

#include <conch/error.hpp>

#include <span>
#include <string>

namespace conch::engine {

/// What is asked or ordered of the server about a lock.
struct order {
  enum class kind : std::uint8_t {
    inspect,    // who has it
    force,      // takes it from whoever has it
    set_limit,  // of a semaphore
    weaken,     // makes one's own part smaller
  };

  kind what = kind::inspect;
  std::string name;
  std::int64_t fence = 0;  // force: of the one to lose it; 0: of all
  std::uint32_t size = 0;  // set_limit: the new limit; weaken: what is left of the part
  grant_id id = 0;         // weaken: whose part
  permit part;             // weaken: as it was asked for
};

/// A question or an order about a lock. It is asked again after a reconnect, until it is answered or `offline_timeout` is over;
/// but not what would have an effect of its own if it was carried out before: to take a lock from whoever has it by then.
///
/// Belongs to the shell, which may free it after on_inquiry_answered.
struct inquiry : order, list_hook<inquiry> {
  inquiry() noexcept;
  ~inquiry();  // withdrawn, if it is not answered yet

  // The server's.
  class server* at = nullptr;
  std::uint64_t serial = 0;
  bool written = false;    // and not answered
  std::int64_t taken = 0;  // force: from so many by the scripts before the next
  std::int64_t last = 0, from_us = 0;  // force: where the next goes on (force_command)
  time_point until{};
  timer due;
};

/// Who asks. Nothing here may call back into the engine before it has returned.
class inquirer {
 public:
  /// Once for each that was asked and not withdrawn.
  virtual void on_inquiry_answered(inquiry& i, std::span<std::int64_t const> numbers, error_code why) = 0;

 protected:
  ~inquirer() = default;
};

}  // namespace conch::engine
