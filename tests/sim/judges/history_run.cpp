#include "sim/judges/history_run.hpp"

#include "base/turns.hpp"
#include "sim/judges/muted_observer.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/world.hpp"

#include <memory>

namespace conch::sim {

outcome history_run::alone() const {
  outcome result = others;
  result.promise = judged.broken() ? of_the_history : 0;
  result.words = judged.words;
  return result;
}

thread_local bool others_are_muted = false;

history_run run_for_history(plan const& p, bool muted) {
  history_run result;
  others_are_muted = muted;
  in_one_turn = p.steps_in_one_turn;
  auto const w = std::make_unique<world>(p, false);
  others_are_muted = false;
  try {
    w->run();
  } catch (violation const& v) {
    result.others.promise = v.promise;
    result.others.words = v.what();
  }
  result.others.scripts = w->executed();
  result.saw = w->watcher().what_users_saw().all();
  result.judged = w->watcher().what_users_saw().judged();
  result.counted = w->watcher().what_users_saw().counted();
  return result;
}

}  // namespace conch::sim
