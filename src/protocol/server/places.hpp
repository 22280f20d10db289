// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "protocol/server/environment.hpp"
#include "protocol/server/server_link.hpp"
#include "protocol/server_place.hpp"

#include <conch/error.hpp>

#include <set>
#include <vector>

namespace conch::protocol {

using namespace engine;

class my_slots;

/// All places that are not idle, in the order of their asking: what waits for an answer or a turn, and the holds. What
/// this connection has not come to yet rests.
class places {
 public:
  places(environment const& env, server_link const& link) noexcept : env_{env}, link_{link} {}

  // The connection.
  void begin();
  /// Nothing about any place is written any more. Then those without a connection rest.
  void end();
  void rest();
  /// All that ask are to fail.
  void fail_all(error_code why);
  void stop_failing() { failing_ = {}; }
  /// Set: the places that rest are to fail with it.
  error_code const& failing() const noexcept { return failing_; }

  /// `behind_the_rest`: others asked earlier, or there is no room.
  void add(server_place& p, bool behind_the_rest) { (behind_the_rest ? resting_ : active_).push_back(p); }
  /// From another server.
  void receive(server_place& p);
  /// It asks once more, or leaves, when there is room.
  void postpone(server_place& p);
  void hold(server_place& p);
  /// The server has nothing of the place any more, except what a clean-up ends.
  static void end(server_place& p);
  /// Gives up a reference.
  void drop(server_place& p);
  /// Asserts what is true of a place at the end of every input that concerns it.
  void assert_consistent(server_place const& p) const;

  // What rests is written in this order: the holds, (clean-ups,) what asks again, what asks. Each of these takes the
  // first; there is one.
  server_place& next_hold();
  server_place& next_postponed();
  server_place& next();
  bool has_resting_holds() const noexcept { return !resting_holds_.empty(); }
  bool has_postponed() const noexcept { return !again_.empty(); }
  bool has_resting() const noexcept { return !resting_.empty(); }
  server_place& first_resting() noexcept { return resting_.front(); }

  bool has_any() const noexcept;
  bool has_rest() const noexcept { return has_resting() || has_postponed() || has_resting_holds(); }
  /// The places in these slots that ask or are queued, and have been written.
  std::vector<server_place*> asking_in(std::set<unsigned> const& slots);
  std::vector<server_place*> holds_in(std::set<unsigned> const& slots);
  /// Gives those of other servers to them.
  void part(my_slots const& mine, time_point now);

 private:
  environment const& env_;
  server_link const& link_;
  list<server_place> active_;
  list<server_place> resting_;  // also those that are still to fail
  list<server_place> again_;
  list<server_place> holds_;
  list<server_place> resting_holds_;
  error_code failing_;
};

}  // namespace conch::protocol
