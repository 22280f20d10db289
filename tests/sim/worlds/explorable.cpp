#include "sim/worlds/explorable.hpp"

#include <utility>

namespace conch::sim {

namespace {

bool take_one(explorable& world, steps& order) {
  world.pass_until(world.time());
  if (world.is_over(!order.empty())) return false;
  nanos const next = world.next_timer();
  auto const let_time_pass = [&world, next] {
    world.pass_until(next);
    world.say_explored("time has passed");
  };
  auto const faults = world.possible_faults();
  steps::moment const m{world.time(), next,           let_time_pass,
                        faults,       world.paused(), [&world] { return world.digest_of_servers(); }};
  return order.take_one(m);
}

}  // namespace

void take_steps(explorable& world, steps*& order) {
  while (take_one(world, *order)) continue;
  auto rest = std::exchange(order, nullptr)->take_rest();
  world.say_explored("the rest in the order of its time");
  for (auto& what : rest) world.soon(std::move(what));
  world.pass_until(world.time());
}

}  // namespace conch::sim
