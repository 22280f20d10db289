#include "sim/worlds/explorable.hpp"

namespace conch::sim {

void take_steps(explorable& world, steps& order) {
  for (;;) {
    world.pass_until(world.time());
    if (world.is_over(!order.empty())) return;
    nanos const next = world.next_timer();
    auto const let_time_pass = [&world, next] {
      world.pass_until(next);
      world.say_explored("time has passed");
    };
    auto const faults = world.possible_faults();
    steps::moment const m{world.time(), next,           let_time_pass,
                          faults,       world.paused(), [&world] { return world.digest_of_servers(); }};
    if (!order.take_one(m)) return;
  }
}

}  // namespace conch::sim
