#include "sim/worlds/plan.hpp"
#include "sim/worlds/random.hpp"

#include <algorithm>

namespace conch::sim {

plan make_multi_plan(std::uint64_t seed) {
  plan p = make_plan(seed);
  p.leases_differ = false;
  keep_holds(p);
  random_source r{seed ^ 0x3117'1107};
  p.names = static_cast<int>(r.between(2, 4));
  // Now and then more than one script of tries takes.
  if (random_source{seed ^ 0x0065'7a11}.below(1000) < 3) {
    p.names = static_cast<int>(r.between(65, 70));
    // a script each takes longer than the judge has patience
    p.steps_in_one_turn = std::max<std::size_t>(p.steps_in_one_turn, 16);
    p.faults.clear();
    p.spikes = 0;
    p.clients.resize(1);
    p.clients.front().actors.resize(1);
  }
  p.in_order = false;  // a client that waits for a later lock gives the earlier ones back
  p.orders = false;
  // A key that holds something else ends every attempt with an error, which shows nothing.
  std::erase_if(p.faults, [](fault_plan const& f) {
    return f.what == fault_plan::kind::clobber_lock || f.what == fault_plan::kind::spoil_fence;
  });
  // And now and then nothing is wrong, but a waiter gives up while others keep what it wants for long.
  random_source giving_up{seed ^ 0x00ca'11ed};
  bool const long_holds = giving_up.chance(4);
  if (long_holds) {
    p.faults.clear();
    p.spikes = 0;
  }
  for (fault_plan& f : p.faults) f.name %= p.names;
  for (client_plan& c : p.clients) {
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        o.inner = -1;
        o.order = operation::orders::none;
        std::vector<int> names;
        for (int i = 0; i < p.names; ++i) names.push_back(i);
        for (std::size_t i = names.size(); i > 1; --i)
          std::swap(names[i - 1], names[static_cast<std::size_t>(r.below(static_cast<std::int64_t>(i)))]);
        names.resize(static_cast<std::size_t>(r.between(p.names > 64 ? 65 : 2, p.names)));
        o.all = names;
        o.name = names.front();
        o.hold = std::min<nanos>(o.hold, 100 * millisecond);
        if (!long_holds) continue;
        o.hold = 3 * c.settings.command_timeout.count();
        if (!giving_up.chance(50)) continue;
        o.cancel = giving_up.chance(50) ? operation::cancels::partial : operation::cancels::terminal;
        o.cancel_after = giving_up.between(0, c.settings.command_timeout.count());
      }
    }
  }
  return p;
}

}  // namespace conch::sim
