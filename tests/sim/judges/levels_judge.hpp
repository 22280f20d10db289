// The judge of the levels that the owners of one client process take: it has books of its own, kept from what the
// coroutines do.
#pragma once

#include "engine/levels.hpp"
#include "sim/judges/observer.hpp"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace conch::sim {

struct sim_hold;
struct sim_level;
struct sim_owner;

class levels_judge {
 public:
  using levels = std::vector<sim_level const*>;  // all of the process

  levels_judge(world& w, sim_client const& c) : world_{w}, client_{c} {}

  /// P1, P3, P4, P10, P11: what an acquire does next.
  void entered(sim_level const& l, engine::owner_levels::entry const& e, levels const& all, time_point now) const;
  /// P11: a wait for another acquire of the owner has ended.
  void waited(sim_level const& l, engine::owner_levels::wait_end why, time_point now) const;
  void granted(sim_level const& l);
  /// P6, P7, P11: the last level gives the lock back, and no other does.
  void left(sim_level const& l, engine::owner_levels::after_exit after, levels const& all) const;
  /// P11.
  void order_ended(sim_hold const& h, error_code why, engine::reader_order_end const& told, nanos asked_at,
                   time_point now) const;
  /// P6: nothing is left in the owner's tables.
  void over(sim_level const& l, levels const& all) const;
  /// P4: an acquire that waits for its owner waits for one that is under way.
  void nobody_waits_for_ever(levels const& all) const;
  /// P6: an owner of which nobody writes any more, and nobody is told so, is a reader on the server.
  void counts_a_reader(sim_hold const& h, levels const& all, time_point now) const;
  void clear() { youngest_.clear(); }

 private:
  sim_hold const* present_hold(sim_level const& l, levels const& all, time_point now) const;
  static bool same_lock(sim_level const& a, sim_level const& b);
  std::string words(sim_level const& l) const;

  world& world_;
  sim_client const& client_;
  std::map<std::pair<int, int>, std::weak_ptr<sim_hold>> youngest_;  // by owner and lock
};

}  // namespace conch::sim
