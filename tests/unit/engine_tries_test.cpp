#include "engine_fixture.hpp"

#include <algorithm>

namespace conch::engine {
namespace {

// Several tries in one script (src/protocol/server/tries.cpp).
class EngineTries : public engine_test {
 public:
  static texts in_order(texts all) {
    std::sort(all.begin(), all.end());
    return all;
  }

  void expect_all_clean(texts const& locks) {
    EXPECT_EQ(stats.waiting, 0u);
    EXPECT_EQ(stats.held, 0u);
    EXPECT_TRUE(cohort->idle());
    EXPECT_TRUE(remote->settled());
    EXPECT_TRUE(unanswered.empty());
    for (std::string const& lock : locks) EXPECT_EQ(cohort->find(lock), nullptr) << lock;
  }
};

texts const abc{"a", "b", "c"};

TEST_F(EngineTries, GoOutAsOneScriptAndAreAllGranted) {
  start_connected();
  auto const all = try_all(abc);
  auto const out = take_sent();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].text, "try all a 1 b 2 c 3");
  EXPECT_EQ(out[0].retention, 10min + 30s);
  EXPECT_EQ(stats.scripts, 1u);
  taken({100, 200, 300});
  EXPECT_EQ(received(), (texts{granted("a", 100), granted("b", 200), granted("c", 300)}));
  EXPECT_EQ(stats.grants_replied, 3u);
  for (caller* c : all) release(*c);
  EXPECT_EQ(sent(), (texts{"release a 1", "release b 2", "release c 3"}));
  for (int i = 0; i < 3; ++i) released();
  expect_all_clean(abc);
}

TEST_F(EngineTries, CountFromWhenTheyWereWrittenAndEachForItsOwnLease) {
  start_connected();
  caller& a = new_caller("a", {.once = true, .lease = 10s});
  caller& b = new_caller("b", {.once = true, .lease = 20s});
  named_acquisition const both[] = {{&a, "a"}, {&b, "b"}};
  cohort->try_all(both, now);
  time_point const written = now;
  EXPECT_EQ(take_sent()[0].leases, (std::vector<milliseconds>{10s, 20s}));
  advance(500ms);
  taken({100, 200});
  EXPECT_EQ(a.deadline(), written + 10s - drift_of(10s));
  EXPECT_EQ(b.deadline(), written + 20s - drift_of(20s));
}

TEST_F(EngineTries, AreBusyFromTheFirstThatIsNotTaken) {
  for (std::size_t const count : {0u, 1u, 2u}) {
    start_connected();
    auto const all = try_all(abc);
    take_sent();
    std::vector<std::int64_t> const fences{100, 200};
    taken({fences.begin(), fences.begin() + static_cast<std::ptrdiff_t>(count)});
    texts expected;
    for (std::size_t i = 0; i < 3; ++i) {
      expected.push_back(i < count ? granted(abc[i], static_cast<std::int64_t>(100 * (i + 1))) : abc[i] + " busy");
    }
    EXPECT_EQ(received(), expected);
    EXPECT_TRUE(sent().empty());  // nothing is there to be given back
    for (std::size_t i = 0; i < count; ++i) {
      release(*all[i]);
      released();
    }
    expect_all_clean(abc);
  }
}

TEST_F(EngineTries, DoNotAskForWhatIsBehindOneThatThisProcessHas) {
  start_connected();
  caller& h = holding("h", "b");
  auto const all = try_all(abc);
  EXPECT_EQ(sent(), texts{"try a 2"});  // alone: as any other try
  EXPECT_EQ(received(), (texts{"b busy", "c busy"}));
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  release(*all[0]);
  release(h);
  released();
  released();
  expect_all_clean(abc);
}

TEST_F(EngineTries, LeaveOthersOfTheProcessToGoOn) {
  start_connected();
  auto const all = try_all(abc);
  ask("d", "b");  // behind the try, in this process
  EXPECT_EQ(sent(), texts{"try all a 1 b 2 c 3"});
  taken({100});
  EXPECT_EQ(received(), (texts{granted("a", 100), "b busy", "c busy"}));
  EXPECT_EQ(sent(), texts{"acquire b 4"});
  grant(200);
  EXPECT_EQ(received(), texts{granted("d", 200)});
}

TEST_F(EngineTries, GrantNothingToOneThatWasGivenUpMeanwhile) {  // P6
  start_connected();
  auto const all = try_all(abc);
  take_sent();
  cancel(*all[1], cancel_type::terminal);
  EXPECT_EQ(received(), texts{"b failed cancelled"});
  EXPECT_EQ(sent(), texts{"release b 2"});
  taken({100, 200, 300});
  EXPECT_EQ(received(), (texts{granted("a", 100), granted("c", 300)}));
  released();
  EXPECT_EQ(cohort->find("b"), nullptr);
}

TEST_F(EngineTries, StillGrantToOneWhoseTimeIsOverWhenTheServerSaysSo) {
  start_connected();
  try_all(abc, {.wait = 1s});
  take_sent();
  advance(1s);
  texts const leaves = sent();
  EXPECT_EQ(in_order(leaves), (texts{"leave a 1", "leave b 2", "leave c 3"}));
  taken({100});  // written before the leaves
  EXPECT_EQ(received(), texts{granted("a", 100)});
  for (std::string const& leave : leaves) leave == "leave a 1" ? stay(100) : removed();
  EXPECT_EQ(in_order(received()), (texts{"b failed timed_out", "c failed timed_out"}));
}

TEST_F(EngineTries, AreAskedForOneByOneAfterAReconnect) {  // P8
  start_connected();
  auto const all = try_all(abc);
  take_sent();
  cancel(*all[2], cancel_type::terminal);
  disconnect();
  EXPECT_EQ(received(), texts{"c failed cancelled"});
  connect();
  EXPECT_EQ(sent(), (texts{"release c 3", "kill here:1", "subscribe", "prove", "release c 3", "try a 1", "try b 2"}));
  settle_connection();
  removed();
  grant(100);
  tell_busy();
  EXPECT_EQ(received(), (texts{granted("a", 100), "b busy"}));
  release(*all[0]);
  released();
  expect_all_clean(abc);
}

TEST_F(EngineTries, GoOutOneByOneWhenTheConnectionComes) {
  start();
  try_all(abc);
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(wants, 3);
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", "try a 1", "try b 2", "try c 3"}));
}

TEST_F(EngineTries, AreSentAgainWithTheirSourceIfTheyAreStillWanted) {
  start_connected();
  auto const all = try_all(abc);
  take_sent();
  cancel(*all[0], cancel_type::terminal);
  EXPECT_EQ(sent(), texts{"release a 1"});
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), texts{"source try all b 2 c 3"});
  released(false);
  taken({200, 300});
  EXPECT_EQ(received(), (texts{"a failed cancelled", granted("b", 200), granted("c", 300)}));
}

TEST_F(EngineTries, AreNotSentAgainWithTheirSourceIfNobodyWantsThem) {
  start_connected();
  for (caller* c : try_all(abc)) cancel(*c, cancel_type::terminal);
  take_sent();
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_TRUE(sent().empty());
  for (int i = 0; i < 3; ++i) removed();
  received();
  expect_all_clean(abc);
}

TEST_F(EngineTries, AreRepeatedOneByOneWhenTheServerSaysLater) {
  start_connected();
  try_all(abc);
  take_sent();
  answer(fault::try_later, "LOADING");
  EXPECT_EQ(notes, texts{"LOADING"});
  EXPECT_TRUE(sent().empty());
  advance(150ms);
  EXPECT_EQ(in_order(sent()), (texts{"try a 1", "try b 2", "try c 3"}));
}

TEST_F(EngineTries, FailTogetherAndAreCleanedUp) {  // P6
  start_connected();
  try_all(abc);
  take_sent();
  answer(fault::refused, "OOM");
  EXPECT_EQ(received(), (texts{"a failed server_refused", "b failed server_refused", "c failed server_refused"}));
  EXPECT_EQ(sent(), (texts{"release a 1", "release b 2", "release c 3"}));
  for (int i = 0; i < 3; ++i) removed();
  expect_all_clean(abc);
}

TEST_F(EngineTries, DropAConnectionThatAnswersNonsense) {
  for (numbers const& nonsense : {numbers{}, numbers{1, 2, 3, 4, 5}}) {
    start_connected();
    try_all(abc);
    take_sent();
    answer(nonsense);
    EXPECT_EQ(dropped().size(), 1u);
    EXPECT_TRUE(received().empty());
  }
  start_connected();
  try_all(abc);
  answer(fault::reconnect, "READONLY");
  EXPECT_EQ(dropped(), texts{"READONLY"});
  EXPECT_TRUE(received().empty());
}

TEST_F(EngineTries, CarryANotAfterWhereConnectionsCannotBeEndedAndAreAskedForAgainIfItHasPassed) {
  start_connected(false);
  try_all(abc);
  auto const out = take_sent();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_GE(out[0].not_after_us, server_us() + 1'000'000);
  for (std::string const& lock : abc) EXPECT_GT(place_of(lock).late.until, now) << lock;
  advance(2s);
  answer({3, 0, server_us()});
  EXPECT_EQ(sent(), (texts{"try a 1", "try b 2", "try c 3"}));
  EXPECT_TRUE(received().empty());
}

TEST_F(EngineTries, CleanUpOnceMoreWhatAnOldConnectionMayStillTake) {  // P6, without CLIENT KILL
  start_connected(false);
  auto const all = try_all({"a", "b"});
  take_sent();
  disconnect();
  connect();
  settle_connection(false);
  EXPECT_EQ(place_of("a").late.old_connection_until, place_of("a").late.until);
  tell_busy();
  tell_busy();
  EXPECT_EQ(received(), (texts{"a busy", "b busy"}));
  auto const out = sent();
  EXPECT_EQ((texts{out.end() - 2, out.end()}), (texts{"release a 1", "release b 2"}));
}

TEST_F(EngineTries, EndWithTheClient) {
  start_connected();
  try_all(abc);
  take_sent();
  cohort->close(now);
  EXPECT_EQ(in_order(received()), (texts{"a failed closed", "b failed closed", "c failed closed"}));
  EXPECT_EQ(in_order(sent()), (texts{"release a 1", "release b 2", "release c 3"}));
  taken({100, 200, 300});
  EXPECT_TRUE(received().empty());
  for (int i = 0; i < 3; ++i) released();
  expect_all_clean(abc);
  try_all(abc);
  EXPECT_EQ(received()[0], "a failed closed");
}

TEST_F(EngineTries, AreUnknownToWhoComesAfter) {  // gathering has an end
  start_connected();
  try_all({"a", "b"});
  take_sent();
  ask("c", "c", {.once = true});
  EXPECT_EQ(sent(), texts{"try c 3"});
}

}  // namespace
}  // namespace conch::engine
