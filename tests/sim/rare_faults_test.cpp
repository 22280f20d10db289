// Deliberate faults that random schedules hardly ever reach: each has its case here.
#include "engine_mutants.hpp"
#include "unit/engine_fixture.hpp"

namespace conch::engine {
namespace {

class RareFaults : public engine_test {
 public:
  RareFaults() { settings.command_timeout = 3s; }
  ~RareFaults() override { sim::active_engine_mutant = sim::engine_mutant::none; }

 protected:
  /// What a wait is told that is cancelled after its time-out, when the server has said that another client has the
  /// lock.
  texts cancelled_after_a_time_out(cancel_type type) {
    start_connected();
    caller& a = ask("a", "L", {.wait = 1s});
    advance(1s);
    queue(30'000);
    cancel(a, type);
    if (type == cancel_type::partial) {
      removed();
      released(false);
    }
    return received();
  }
};

TEST_F(RareFaults, TheReasonOfATimeOutIsKept) {  // P11
  for (cancel_type const type : {cancel_type::partial, cancel_type::terminal}) {
    sim::active_engine_mutant = sim::engine_mutant::none;
    EXPECT_EQ(cancelled_after_a_time_out(type), texts{"a failed timed_out"});
    sim::active_engine_mutant = sim::engine_mutant::reason_of_the_time_out_kept;
    EXPECT_EQ(cancelled_after_a_time_out(type), texts{"a failed unreachable"});
  }
}

}  // namespace
}  // namespace conch::engine
