// The judge of chains of waits. It knows at every moment which task has which lock and which one waits for which, and
// compares that with the deadlocks that are reported.
#pragma once

#include "sim/worlds/plan.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace conch::engine {
class wait_walk;
}

namespace conch::sim {

class observer;
class sim_client;
struct sim_acquisition;
class world;

/// From then until that.
struct time_span {
  nanos from = 0, until = INT64_MAX;  // the latter: it goes on
};

class chains_judge {
 public:
  chains_judge(world& w, plan const& p) : world_{w}, plan_{p} {}

  /// What the tasks of that client hold and wait for now.
  void tasks_of(sim_client const& c, std::vector<sim_acquisition const*> const& all);
  /// After each command at the server.
  void look_at_locks(observer const& server);
  /// A walk has found a deadlock, whose circle was complete at that moment, and then was looked at once more. It has
  /// been there at one moment since.
  void reported(sim_client const& by, engine::wait_walk const& walk, nanos since);
  /// It is the victim. Of one circle there is one: the youngest wait.
  void ended(sim_acquisition const& victim, engine::wait_walk const& walk, nanos since);
  std::uint64_t deadlocks() const { return deadlocks_; }

 private:
  using spans = std::vector<time_span>;
  static constexpr nanos open = INT64_MAX;

  /// A task has that lock, or waits for it.
  struct fact {
    std::string task, lock;
    std::int64_t fence = 0;  // the server's part; 0: it waits
    int client = 0;
    std::uint64_t process = 0, order = 0;
    time_span real = {};
    nanos known_until = open;  // the servers know since then that it has ended
  };
  struct ownership {
    std::int64_t fence = 0;
    std::string client = {};  // its id
    time_span when = {};
  };
  /// What the server has of a lock, in the order of time.
  struct lock_seen {
    std::vector<ownership> owners = {};
    std::map<std::string, spans> queued = {};  // by the id of the client
  };

  static spans both(spans const& a, spans const& b);
  void look_at_queue(int name, lock_seen& seen) const;
  spans owned(std::string const& lock, std::int64_t fence) const;
  spans has_place(std::string const& client, std::string const& lock) const;
  spans of_task(std::string const& task, std::string const& lock, std::int64_t fence) const;
  void servers_learn(sim_client const& c);
  fact const* wait_of(std::string const& task, std::string const& lock, nanos since) const;
  static std::string circle_words(engine::wait_walk const& walk);

  world& world_;
  plan const& plan_;
  std::vector<fact> facts_;
  std::map<std::string, lock_seen> locks_;  // by name
  std::set<std::string> ended_;             // the circles that had a victim
  std::uint64_t deadlocks_ = 0;
};

}  // namespace conch::sim
