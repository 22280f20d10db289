// P11: `.wait = 0` and a try are one complete attempt, and every time-out says what it knows.
#include "engine_fixture.hpp"

#include <conch/detail/multi_plan.hpp>

#include <functional>

namespace conch::engine {
namespace {

using namespace std::string_literals;

/// Both ways to ask for one attempt, and how each says that the lock is not free.
struct way {
  char const* name;
  wanted what;
  std::string busy;
};
std::vector<way> const ways{{"a try", {.once = true}, "a busy"},
                            {"no time to wait", {.wait = 0s}, "a failed timed_out"},
                            {"less than none", {.wait = -1s}, "a failed timed_out"}};

class EngineAttempt : public engine_test {
 public:
  template <class F>
  void each_way(F f) {
    for (way const& one : ways) {
      SCOPED_TRACE(one.name);
      f(one);
    }
  }
  /// What a waiter for L gets when its time has passed.
  std::string told_after(duration wait) {
    advance(wait);
    while (!unanswered.empty())
      unanswered.front().starts_with("leave") ? removed() : answer(fault::try_later, "LOADING too late");
    return heard_message;
  }

  void on_acquired(acquisition& a, acquired how, error_code why) override {
    engine_test::on_acquired(a, how, why);
    heard_message = why ? why.message() : "";
  }

  void on_lost(acquisition& a, error_code why) override {
    engine_test::on_lost(a, why);
    lost_message = why.message();
  }

  std::string heard_message, lost_message;
};

TEST_F(EngineAttempt, NeverStandsInLineAndSaysWhetherTheLockIsFree) {
  each_way([&](way const& one) {
    start_connected();
    caller& a = ask("a", "L", one.what);
    EXPECT_EQ(sent(), texts{"try L 1"});
    advance(1s);  // the answer comes when it comes
    EXPECT_TRUE(received().empty());
    EXPECT_TRUE(sent().empty());
    grant(100);
    EXPECT_EQ(received(), texts{granted("a", 100)});
    release(a);
    released();
    expect_clean();

    start_connected();
    ask("a", "L", one.what);
    tell_busy();
    EXPECT_EQ(received(), texts{one.busy});
    EXPECT_EQ(stats.tries_busy + stats.timeouts, 1u);
    EXPECT_EQ(stats.timeouts, one.what.once ? 0u : 1u);
    EXPECT_EQ(stats.failures, 0u);
    expect_clean();
  });
}

TEST_F(EngineAttempt, P4EndsThoughEachGrantArrivesTooLateForItsLease) {
  each_way([&](way const& one) {
    start_connected();
    wanted what = one.what;
    what.lease = 100ms;
    time_point const asked = now;
    ask("a", "L", what);
    for (std::int64_t fence = 100; heard_message.empty() && now < asked + 60s; ++fence) {
      advance(200ms);
      while (unanswered.size() > 1) released();
      grant(fence);
    }
    EXPECT_NE(heard_message.find("grants of 100 ms arrive too late"), std::string::npos) << heard_message;
    EXPECT_EQ(received(), texts{"a failed unreachable"});
    EXPECT_LE(now - asked, settings.offline_timeout + 1s);
    released();
    expect_clean();
    heard_message.clear();
  });
}

TEST_F(EngineAttempt, P11WhoseGrantsAreLateFailsAloneAndOthersWaitOn) {
  each_way([&](way const& one) {
    start_connected();
    wanted what = one.what;
    what.lease = 100ms;
    time_point const asked = now;
    ask("a", "L", what);
    ask("b");
    for (std::int64_t fence = 100; heard_message.empty() && now < asked + 60s; ++fence) {
      advance(200ms);
      while (unanswered.size() > 1) released();
      grant(fence);
    }
    EXPECT_EQ(received(), texts{"a failed unreachable"});
    released();
    EXPECT_TRUE(sent().back().starts_with("acquire L ")) << sent().back();
    grant(900);
    EXPECT_EQ(received(), texts{granted("b", 900)});
    heard_message.clear();
  });
}

TEST_F(EngineAttempt, P11IsNotBusyByItsOwnGrantThatCameTooLate) {
  each_way([&](way const& one) {
    start_connected();
    wanted what = one.what;
    what.lease = 100ms;
    ask("a", "L", what);
    take_sent();
    advance(200ms);
    grant(100);
    EXPECT_EQ(sent(), (texts{"release L 1", "try L 2"}));
    answer(fault::no_script, "NOSCRIPT");
    EXPECT_EQ(sent(), texts{"source release L 1"});
    tell_busy();
    EXPECT_EQ(received(), texts{}) << "the owner is its own grant";
    released();
    advance(100ms);
    EXPECT_EQ(sent(), texts{"try L 2"});
    grant(101);
    EXPECT_EQ(received(), texts{granted("a", 101)});
  });
}

TEST_F(EngineAttempt, SendsTheScriptToAServerThatDoesNotKnowIt) {
  each_way([&](way const& one) {
    start_connected();
    ask("a", "L", one.what);
    take_sent();
    advance(5ms);
    answer(fault::no_script, "NOSCRIPT");
    EXPECT_EQ(sent(), texts{"source try L 1"});
    advance(5ms);
    grant(100);
    EXPECT_EQ(received(), texts{granted("a", 100)});
  });
}

TEST_F(EngineAttempt, ConnectsFirst) {
  each_way([&](way const& one) {
    start();
    ask("a", "L", one.what);
    EXPECT_EQ(wants, 1);
    advance(9s);
    EXPECT_TRUE(received().empty());
    connect();
    settle_connection();
    grant(100);
    EXPECT_EQ(received(), texts{granted("a", 100)});
  });
}

TEST_F(EngineAttempt, IsUnreachableWithTheReasonWhenThereIsNoConnectionInTime) {
  each_way([&](way const& one) {
    start();
    ask("a", "L", one.what);
    remote->receiver().connect_failed(fault::try_later, "no route to host", now);
    advance(10s - 1ns);
    EXPECT_TRUE(received().empty());
    advance(1ns);
    EXPECT_EQ(received(), texts{"a failed unreachable"});
    EXPECT_NE(heard_message.find("no route to host"), std::string::npos) << heard_message;
    expect_clean();
  });
}

TEST_F(EngineAttempt, ThatIsCancelledWhileItConnectsAsksNothing) {  // P6
  each_way([&](way const& one) {
    for (cancel_type const type : {cancel_type::total, cancel_type::partial, cancel_type::terminal}) {
      start();
      caller& a = ask("a", "L", one.what);
      cancel(a, type);
      EXPECT_EQ(received(), texts{"a failed cancelled"});
      connect();
      EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove"}));
      settle_connection();
      expect_clean();
    }
  });
}

TEST_F(EngineAttempt, IsOverAtOnceWhereSomebodyHereHoldsOrAsks) {
  each_way([&](way const& one) {
    start_connected();
    holding("h");
    ask("a", "L", one.what);
    EXPECT_EQ(received(), texts{one.busy});
    start_connected();
    ask("q");
    take_sent();
    ask("a", "L", one.what);
    EXPECT_EQ(received(), texts{one.busy});
    EXPECT_TRUE(sent().empty());
  });
}

TEST_F(EngineAttempt, FollowsAPlaceThatIsBeingLeft) {
  each_way([&](way const& one) {
    start_connected();
    caller& q = queued("q");
    cancel(q, cancel_type::total);
    cancel(q, cancel_type::terminal);  // nobody here wants it any more, and the server has not answered yet
    EXPECT_EQ(received(), texts{"q failed cancelled"});
    EXPECT_EQ(sent(), texts{"leave L 1"});
    ask("a", "L", one.what);
    EXPECT_TRUE(received().empty());
    removed();
    EXPECT_EQ(sent(), texts{"try L 2"});
    grant(100);
    EXPECT_EQ(received(), texts{granted("a", 100)});
  });
}

TEST_F(EngineAttempt, AtAPlaceThatIsBeingLeftTakesTheGrantThatCameMeanwhile) {
  each_way([&](way const& one) {
    start_connected();
    caller& q = queued("q");
    cancel(q, cancel_type::total);
    cancel(q, cancel_type::terminal);
    ask("a", "L", one.what);
    received();
    stay(100);
    EXPECT_EQ(received(), texts{granted("a", 100)});
  });
}

TEST_F(EngineAttempt, OfAPermitSendsTheScriptToo) {
  for (way one : ways) {
    SCOPED_TRACE(one.name);
    one.what.permit = {.kind = permit_kind::semaphore, .limit = 3, .weight = 2};
    start_connected();
    ask("a", "L", one.what);
    EXPECT_EQ(sent(), texts{"try L 1 permit 2 of 3"});
    answer(fault::no_script, "NOSCRIPT");
    EXPECT_EQ(sent(), texts{"source try L 1 permit 2 of 3"});
    answer({1, 100, server_us(), 0});
    EXPECT_EQ(received(), texts{granted("a", 100)});
  }
}

TEST_F(EngineAttempt, OfMoreThanAMomentIsEndedByItsTime) {  // a short wait, and the script is not known
  start_connected();
  ask("a", "L", {.wait = 1ms});
  advance(1ms);
  EXPECT_EQ(sent(), (texts{"acquire L 1", "leave L 1"}));
  answer(fault::no_script, "NOSCRIPT");
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), texts{"source leave L 1"});
  removed();
  EXPECT_EQ(received(), texts{"a failed timed_out"});
  expect_clean();
}

// ---- every time-out carries the last cause -------------------------------------------------------------------

TEST_F(EngineAttempt, TimeOutsSayWhatTheServerSaidLast) {
  start_connected();
  ask("a", "L", {.wait = 15ms});  // it is asked again 20 ms later at the earliest
  answer(fault::try_later, "LOADING Redis is loading");
  EXPECT_EQ(told_after(15ms), "timed out after 15 ms waiting for lock \"L\": LOADING Redis is loading");

  start_connected();
  ask("a", "L", {.wait = 1s});
  EXPECT_EQ(told_after(1100ms),
            "the lock server cannot be reached: the server has not answered for 1100 ms (waiting for lock \"L\")");

  start();  // too short a time to say that there is no server
  ask("a", "L", {.wait = 50ms});
  EXPECT_EQ(told_after(50ms), "timed out after 50 ms waiting for lock \"L\": there is no connection yet");

  start();
  attempt = "h: no answer to the TLS handshake yet";
  ask("a", "L", {.wait = 1s});
  EXPECT_EQ(told_after(1s),
            "the lock server cannot be reached: h: no answer to the TLS handshake yet (waiting for lock \"L\")");

  start();  // with the next attempt under way: how the last one ended says more
  ask("a", "L", {.wait = 1s});
  remote->receiver().connect_failed(fault::try_later, "connection refused", now);
  EXPECT_EQ(told_after(1s), "the lock server cannot be reached: connection refused (waiting for lock \"L\")");

  start_connected();
  ask("a", "L", {.wait = 1s});
  disconnect();
  EXPECT_EQ(told_after(1100ms), "the lock server cannot be reached: the connection is lost (waiting for lock \"L\")");

  start_connected();
  queued("a", "L", {.wait = 1s});
  EXPECT_EQ(told_after(1s), "timed out after 1 s waiting for lock \"L\"");  // the lock is just held
}

TEST_F(EngineAttempt, ALossSaysWhetherThisProcessHadNoTime) {
  start_connected();
  holding("a", "L", {.lease = 1s});
  sleep(1600ms);
  EXPECT_NE(lost_message.find("this process had no time to renew it for "), std::string::npos) << lost_message;
  lost_message.clear();

  start_connected();
  holding("b", "L", {.lease = 1s});
  advance(1s);
  EXPECT_NE(lost_message.find("the server has not answered for "), std::string::npos) << lost_message;
}

TEST_F(EngineAttempt, ALossSaysWhatItsCauseWas) {
  caller* a = nullptr;
  // Pings are answered. Renewals are done, or refused with these words.
  auto const answer_each = [&](std::string_view refusal = {}) {
    while (!unanswered.empty()) {
      bool const renews = unanswered.front().starts_with("renew");
      if (renews && !refusal.empty()) answer(fault::refused, refusal);
      else if (renews) renewed({1});
      else answer({});
    }
  };
  struct row {
    char const* cause;
    std::function<void()> happens;
    std::string words;  // behind "the lock was lost"
  };
  for (row const& one : std::vector<row>{
           {"the server refuses renewals",
            [&] {
              for (int i = 0; i < 200 && lost_message.empty(); ++i) {
                advance(10ms);
                answer_each("OOM command not allowed");
              }
            },
            ": OOM command not allowed"},
           {"the server is silent", [&] { advance(1s); }, ": the server has not answered for "},
           {"the connection was closed",
            [&] {
              disconnect();
              advance(1s);
            },
            ": the connection is lost"},
           {"a new connection is refused",
            [&] {
              disconnect();
              remote->receiver().connect_failed(fault::try_later, "connection refused", now);
              advance(1s);
            },
            ": connection refused"},
           {"a new connection takes too long",
            [&] {
              disconnect();
              remote->receiver().connect_failed(fault::try_later, "no answer from 10.0.0.1", now);
              advance(1s);
            },
            ": no answer from 10.0.0.1"},
           {"this process was paused", [&] { sleep(1600ms); }, ": this process had no time to renew it for "},
           {"this process was paused, and is in time again",
            [&] {
              sleep(700ms);
              advance(200ms);
            },
            ": its last confirmation is "},
           {"the server says that it is not ours",
            [&] {
              advance(400ms);
              renewed({0});
            },
            ": it is not this client's any more: "},
           {"a fixed lease ends", [&] { advance(1s); }, ": its lease is fixed, and has ended"},
           {"max_hold ends",
            [&] {
              for (int i = 0; i < 200 && lost_message.empty(); ++i) {
                advance(10ms);
                answer_each();
              }
            },
            ": max_hold has passed"},
           {"it is released too late",
            [&] {
              now += 1600ms;
              release(*a);
            },
            ": this process had no time to renew it for "},
           {"it is extended too late",
            [&] {
              now += 1600ms;
              extend(*a, 1s);
            },
            ": this process had no time to renew it for "},
           {"it is detached too late",
            [&] {
              now += 1600ms;
              detach(*a);
            },
            ": this process had no time to renew it for "},
       }) {
    SCOPED_TRACE(one.cause);
    start_connected();
    lost_message.clear();
    wanted what{.lease = 1s};
    what.fixed = one.cause == "a fixed lease ends"s;
    if (one.cause == "max_hold ends"s) what.max_hold = 500ms;
    a = &holding("a", "L", what);
    take_sent();
    one.happens();
    EXPECT_TRUE(lost_message.starts_with("the lock was lost" + one.words)) << lost_message;
    EXPECT_TRUE(lost_message.ends_with(" (holding lock \"L\")")) << lost_message;
  }
}

TEST_F(EngineAttempt, PatienceIsNotBegunAnewByAConnection) {
  settings.offline_timeout = 700ms;
  start_connected();
  ask("a");
  time_point const began = now;
  for (int i = 0; heard_message.empty() && i < 100; ++i) {
    answer(fault::try_later, "LOADING Redis is loading");
    disconnect();
    advance(50ms);
    if (heard_message.empty()) {
      connect();
      settle_connection();
    }
  }
  EXPECT_LE(now - began, 800ms);
  EXPECT_NE(heard_message.find("the connection is lost"), std::string::npos) << heard_message;
}

TEST_F(EngineAttempt, PatienceCountsFromTheFirstQuestionWithoutAnAnswer) {
  settings.offline_timeout = 700ms;
  settings.command_timeout = 600ms;
  for (bool const several : {false, true}) {
    start_connected();
    if (several) {
      try_all({"a", "b"});
    } else {
      ask("a");
    }
    advance(600ms);
    EXPECT_EQ(dropped().size(), 1u);
    disconnect();
    advance(99ms);
    EXPECT_TRUE(received().empty());
    advance(1ms);
    EXPECT_EQ(received().size(), several ? 2u : 1u);
  }
}

// ---- several at once: what conch/multi_lock.hpp does next ------------------------------------------------------

using detail::multi_plan;

TEST(MultiPlan, OfOneAttemptIsBusyWhereThatAloneIs) {
  for (bool const once : {false, true}) {
    multi_plan p{3, std::nullopt, once};
    EXPECT_EQ(p.tried({true, false, true}), (std::vector<bool>{false, false, true}));
    // one attempt: tries it alone, which says what is wrong with it
    EXPECT_EQ(p.next({}, false, true, {}), multi_plan::step::wait);
    EXPECT_EQ(p.waits_for(), 1u);
    error_code const late = make_error_code(errc::timed_out);
    EXPECT_EQ(p.next(late, false, true, {}), once ? multi_plan::step::busy : multi_plan::step::failed);
  }
  multi_plan all{2, std::nullopt, true};
  (void)all.tried({true, true});
  EXPECT_EQ(all.next({}, false, true, {}), multi_plan::step::done);
  multi_plan failed{2, std::nullopt, true};
  (void)failed.tried({true, false});
  EXPECT_EQ(failed.next(make_error_code(errc::unreachable), false, true, {}), multi_plan::step::failed);
  multi_plan wrong{2, std::nullopt, true};
  (void)wrong.tried({true, false});
  EXPECT_EQ(wrong.next(make_error_code(errc::wrong_type), false, true, {}), multi_plan::step::failed);
  multi_plan stopped{2, std::nullopt, true};
  (void)stopped.tried({true, false});
  EXPECT_EQ(stopped.next({}, true, true, {}), multi_plan::step::failed);
}

TEST(MultiPlan, P11AfterItsEndNothingMoreIsWaitedFor) {
  time_point const end{10s};
  for (bool const late : {false, true}) {
    multi_plan p{2, end};
    (void)p.tried({true, false});
    EXPECT_EQ(p.next({}, false, true, late ? end : end - 1ns),
              late ? multi_plan::step::failed : multi_plan::step::wait);
    EXPECT_EQ(p.failure(), late ? make_error_code(errc::timed_out) : error_code{});
  }
  multi_plan all{2, end};
  (void)all.tried({true, true});
  EXPECT_EQ(all.next({}, false, true, end + 1s), multi_plan::step::done) << "what is granted late is granted";
}

// ---- the ends of time -----------------------------------------------------------------------------------------

TEST(Clock, DurationsNearTheirEndsSaturate) {
  time_point const t{std::chrono::hours{100}};
  EXPECT_EQ(detail::later_by(t, duration::max()), time_point::max());
  EXPECT_EQ(detail::later_by(t, duration::max() - t.time_since_epoch() + duration{1}), time_point::max());
  EXPECT_EQ(detail::later_by(t, duration::max() - t.time_since_epoch()), time_point::max());
  EXPECT_EQ(detail::later_by(t, duration::max() - t.time_since_epoch() - duration{1}), time_point::max() - duration{1});
  EXPECT_EQ(detail::later_by(t, duration::min()), time_point::min() + t.time_since_epoch());
  EXPECT_EQ(detail::later_by(-t.time_since_epoch() + time_point{}, duration::min()), time_point::min());
  EXPECT_EQ(detail::later_by(time_point::min(), duration::min()), time_point::min());
  EXPECT_EQ(detail::later_by(time_point::max(), duration::max()), time_point::max());
  EXPECT_EQ(detail::later_by(t, duration{-1}), t - duration{1});
  EXPECT_EQ(detail::later_by(t, duration::zero()), t);
}

}  // namespace
}  // namespace conch::engine
