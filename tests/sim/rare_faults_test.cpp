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

  /// What the next connection carries after a wait was cancelled, an earlier connection cannot be ended, and the lease
  /// should be over long since.
  texts sent_after_an_outage() {
    start_connected(false);
    caller& a = ask("a");
    queue(30'000);
    cancel(a, cancel_type::total);
    sent();
    disconnect();
    advance(10min);
    received();
    connect();
    return sent();
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

TEST_F(RareFaults, ACleanUpGoesOutOnceMoreWithoutClientKill) {  // P6
  EXPECT_EQ(sent_after_an_outage(), (texts{"kill here:1", "subscribe", "prove", "release L 1"}));
  sim::active_engine_mutant = sim::engine_mutant::late_leave_forgotten;
  EXPECT_EQ(sent_after_an_outage(), (texts{"kill here:1", "subscribe", "prove"}));
}

}  // namespace
}  // namespace conch::engine
