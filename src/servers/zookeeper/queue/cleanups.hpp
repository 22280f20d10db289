// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "servers/zookeeper/queue/common_parts.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace conch::zookeeper {

/// Releases and leaves that are not done yet.
class cleanups {
 public:
  /// `resume`: sends those that rest.
  cleanups(common_parts& on, callback resume) noexcept
      : on_{on},
        later_{resume},
        delay_{this, call<&cleanups::delay_is_over>} {}
  cleanups(cleanups const&) = delete;
  cleanups& operator=(cleanups const&) = delete;
  ~cleanups();

  void add(queue_place& p, engine::receipt* r, time_point now, bool was_valid = false);
  /// The node of a hold that was lost stays until then, or for as long as the session lasts.
  void add_later(queue_place& p, time_point not_before);
  void send(cleanup& c, time_point now);
  void send_later(cleanup& c, time_point now);
  void answered(in_flight const& r, reply const& a, time_point now);
  void refused(cleanup& c, error_code why, time_point now);
  void came_of(std::uint64_t number, std::string node, time_point now);
  void finish(cleanup& c, bool was_mine, error_code why, time_point now);
  time_point late_after(engine::receipt const& r) const;
  error_code why_not_done(engine::receipt const& r) const;
  error_code no_answer() const;

  /// None: there is no clean-up of that number.
  cleanup* find(std::uint64_t number) const;
  /// Without those that wait for the end of a delay.
  std::size_t count() const noexcept { return count_; }
  bool has_delayed() const noexcept { return !delayed_.empty(); }
  bool has_rest() const noexcept { return !resting_.empty(); }
  /// The first that rests, which rests no more.
  cleanup& next();
  void rest_all();
  void interrupted();

 private:
  cleanup& make(queue_place& p);
  void delay_is_over(time_point now);

  common_parts& on_;
  list<cleanup> pending_, resting_;
  list<cleanup> delayed_;                                  // in the order of their ends
  std::unordered_map<std::uint64_t, cleanup*> by_number_;  // all of them
  std::size_t count_ = 0;
  time_point last_delay_ends_ = time_point::min();
  timer later_, delay_;
};

}  // namespace conch::zookeeper
