// More to do than the server can do within a lease, in many ways: how long a request takes it, how far away it is, how
// many are asked for and held, and with which leases. All that is promised is progress: every wait ends in a grant that
// is still valid, as soon as such a server can have answered it, and no hold is lost. Where more is held than can be
// renewed in time, the first holds stay. One seed decides everything.
#include "engine_mutants.hpp"
#include "unit/engine_fixture.hpp"

#include <algorithm>
#include <deque>
#include <random>

namespace conch::engine {
namespace {

class LoadSimulation : public engine_test {
 public:
  void TestBody() override {}

  /// What went wrong; empty: nothing.
  std::string run(std::uint64_t seed) {
    random_.seed(seed);
    lease_ = milliseconds{pick(300, 3'000)};
    // So slow that what may be in flight at first is not granted in time: the client learns it by that. Otherwise
    // nothing comes too late.
    bool const slow = pick(0, 3) == 0;
    each_ = slow ? lease_ / pick(8, 50) : std::chrono::microseconds{pick(20, static_cast<int>(lease_.count()))};
    way_ = std::chrono::microseconds{pick(50, static_cast<int>(lease_.count()) * 50)};  // up to 1/20
    int const held = pick(0, 20);
    begin_holding(held);
    int const burst =
        slow ? pick(300, 400) : static_cast<int>(std::clamp<std::int64_t>(lease_ * pick(1, 10) / each_, 300, 4'000));
    milliseconds const lease_of_burst = lease_ * (pick(0, 1) == 0 ? 1 : 10);
    ask_burst(burst, {.fixed = true, .lease = lease_of_burst});
    if (pick(0, 1) == 0) {
      serve(lease_ / 2);
      reconnect();
    }
    // Each is asked for and released, and a late one once more.
    serve(8 * burst * each_ + 40 * lease_ + 40 * way_);
    if (auto const granted = told("burst granted"); granted != burst) {
      return "P4: " + std::to_string(granted) + " of " + std::to_string(burst) + " are granted";
    }
    if (slow) return {};
    if (auto const lost = told("kept lost"); lost != 0)
      return "P9: " + std::to_string(lost) + " of " + std::to_string(held) + " holds are lost";
    if (answered_ != burst) return "P4: " + std::to_string(answered_ - burst) + " grants came too late";
    return {};
  }

  /// Far more is asked for at once than can be granted in a lease, all that is granted is kept, and the client is about
  /// as busy as the server, which now and then has no processor. What went wrong; empty: nothing.
  std::string run_flood(std::uint64_t seed) {
    random_.seed(seed);
    lease_ = milliseconds{pick(900, 1'500)};
    each_ = std::chrono::microseconds{pick(60, 150)};
    per_renewal_ = each_ / 3;
    per_answer_ = each_ / 2;
    way_ = std::chrono::microseconds{pick(50, 500)};
    begin_holding(100);
    serve(lease_);
    auto const burst = static_cast<int>(lease_ / each_);
    ask_burst(burst, {.lease = lease_});
    stalls_ = true;
    serve(12 * lease_);
    if (told("kept lost") != 0) return "P9: " + std::to_string(told("kept lost")) + " of the first holds are lost";
    if (told("burst granted") < burst)
      return "P4: " + std::to_string(told("burst granted")) + " of " + std::to_string(burst) + " are granted";
    return {};
  }

  /// Three times as many are held as the server can renew in time. What went wrong; empty: nothing.
  std::string run_held(std::uint64_t seed) {
    random_.seed(seed);
    lease_ = milliseconds{pick(300, 900)};
    each_ = std::chrono::microseconds{pick(20, 60)};
    per_renewal_ = each_ / 2;
    way_ = std::chrono::microseconds{pick(50, 2'000)};
    begin_holding(100);
    auto const most = static_cast<int>(lease_ / 3 / per_renewal_);
    ask_burst(3 * most, {.lease = lease_});
    serve(12 * lease_);
    if (told("kept lost") != 0) return "P9: " + std::to_string(told("kept lost")) + " of the first holds are lost";
    if (told("burst lost") == 0) return "nothing is lost: there were not too many";
    return {};
  }

 private:
  struct under_way {
    time_point arrives;  // the answer
    std::string what;
  };

  int pick(int least, int most) { return std::uniform_int_distribution<int>{least, most}(random_); }

  /// With this many holds of that lease.
  void begin_holding(int count) {
    settings.keep_alive = 0s;
    settings.lease = lease_;
    settings.claim = std::min<duration>(settings.claim, lease_);
    start_connected();
    server_free_at_ = now;
    for (int i = 0; i < count; ++i) holding("kept", "kept" + std::to_string(i), {.lease = lease_});
    received();
  }

  void ask_burst(int count, wanted const& w) {
    for (int i = 0; i < count; ++i) ask("burst", "burst" + std::to_string(i), w);
  }

  /// How often the callers have received an error that begins like this.
  int told(std::string_view what) const {
    return static_cast<int>(
        std::count_if(told_.begin(), told_.end(), [&](std::string const& one) { return one.starts_with(what); }));
  }

  /// The server takes one request after another.
  void take_in() {
    for (auto const& c : take_sent()) {
      bool const renews = per_renewal_ != duration::zero() && c.text.starts_with("renew");
      duration const takes = renews ? per_renewal_ * (std::count(c.text.begin(), c.text.end(), ' ') / 2) : each_;
      server_free_at_ = std::max(server_free_at_, now + way_ / 2) + takes;
      while (stalls_ && server_free_at_ >= next_stall_) {
        server_free_at_ += lease_ / pick(20, 200);
        next_stall_ = server_free_at_ + lease_ / pick(4, 100);
      }
      answers_.push_back({server_free_at_ + way_ / 2, c.text});
    }
  }

  /// What the server has not read of the connection before is gone with it.
  void reconnect() {
    answers_.clear();
    server_free_at_ = now;
    disconnect();
    advance(way_);
    connect();
    take_in();
  }

  void serve(duration how_long) {
    time_point const until = now + how_long;
    for (;;) {
      take_in();
      if (!dropped().empty()) reconnect();
      time_point const next = answers_.empty() ? until : std::min(answers_.front().arrives, until);
      // Timers first, one after another: each may send something.
      if (timers.next() <= next) {
        now = std::max(now, timers.next());
        cohort->tick(now);
        continue;
      }
      now = std::max(now, next);
      if (answers_.empty() || answers_.front().arrives > until) break;
      now += per_answer_;
      reply(answers_.front().what);
      answers_.pop_front();
      for (std::string& one : received()) told_.push_back(std::move(one));
    }
  }

  void reply(std::string const& what) {
    if (what.starts_with("renew")) {
      renewed(std::vector<int>(static_cast<std::size_t>(std::count(what.begin(), what.end(), ' ')) / 2, 1));
    } else if (what.starts_with("release")) {
      released();
    } else if (what.starts_with("kill")) {
      answer({0});
    } else if (what == "subscribe") {
      answer({});
    } else if (what == "prove") {
      answer({1});
    } else {
      if (what.starts_with("acquire burst")) ++answered_;
      grant(100);
    }
  }

  std::mt19937_64 random_;
  milliseconds lease_{};
  duration each_{}, way_{};
  duration per_renewal_{};  // zero: a renewal takes as long as any other request
  duration per_answer_{};   // time of the client
  bool stalls_ = false;
  time_point next_stall_{};
  time_point server_free_at_{};
  std::deque<under_way> answers_;
  texts told_;
  int answered_ = 0;  // acquires of the burst
};

/// The first of this many seeds that shows it.
std::string first_violation(std::string (LoadSimulation::*run)(std::uint64_t), std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    LoadSimulation one;
    std::string const wrong = (one.*run)(seed);
    if (!wrong.empty()) return "seed " + std::to_string(seed) + ": " + wrong;
  }
  return {};
}

/// The same with a deliberate fault.
std::string first_violation(std::string (LoadSimulation::*run)(std::uint64_t), std::uint64_t seeds,
                            sim::engine_mutant with) {
  sim::active_engine_mutant = with;
  std::string const wrong = first_violation(run, seeds);
  sim::active_engine_mutant = sim::engine_mutant::none;
  return wrong;
}

TEST(LoadSimulations, EveryWaitEndsInAGrantAndNoHoldIsLost) {
  EXPECT_EQ(first_violation(&LoadSimulation::run, 60), "");
}  // P4, P9

TEST(LoadSimulations, InAFloodOfNewHoldsTheFirstStay) {  // P4, P9
  EXPECT_EQ(first_violation(&LoadSimulation::run_flood, 8), "");
  for (sim::engine_mutant const one :
       {sim::engine_mutant::later_holds_renewed_first, sim::engine_mutant::later_renewals_ahead,
        sim::engine_mutant::later_renewals_unbounded, sim::engine_mutant::window_doubles_too_long}) {
    EXPECT_NE(first_violation(&LoadSimulation::run_flood, 8, one), "") << static_cast<int>(one);
  }
}

TEST(LoadSimulations, WhereTooManyAreHeldTheFirstStay) {  // P9
  EXPECT_EQ(first_violation(&LoadSimulation::run_held, 4), "");
  for (sim::engine_mutant const one :
       {sim::engine_mutant::later_holds_renewed_first, sim::engine_mutant::later_renewals_ahead}) {
    EXPECT_NE(first_violation(&LoadSimulation::run_held, 1, one), "") << static_cast<int>(one);
  }
}

struct fault_of_load {
  char const* what;
  sim::engine_mutant point;
};

class LoadMutants : public testing::TestWithParam<fault_of_load> {};

TEST_P(LoadMutants, IsFound) {
  EXPECT_NE(first_violation(&LoadSimulation::run, 60, GetParam().point), "") << GetParam().what;
}

INSTANTIATE_TEST_SUITE_P(
    All, LoadMutants,
    testing::Values(fault_of_load{"what is in flight is not bounded", sim::engine_mutant::window_ignored},
                    fault_of_load{"the window does not shrink", sim::engine_mutant::window_never_shrinks},
                    fault_of_load{"renewals wait for room", sim::engine_mutant::renewals_wait_for_room},
                    fault_of_load{"what waits for room is not gone on with", sim::engine_mutant::room_not_used}),
    [](auto const& one) { return "N" + std::to_string(static_cast<int>(one.param.point)); });

}  // namespace
}  // namespace conch::engine
