// A user that may publish to a client's channel can forge messages: which are believed, and for how long.
#include "engine_fixture.hpp"

#include "base/entropy.hpp"

#include <set>

namespace conch::engine {
namespace {

class EngineForged : public engine_test {
 protected:
  void SetUp() override { nonces.nonce = 4711; }

  void push_permit(grant_id id, permit_kind kind, std::uint32_t segment, std::string_view lock = "L") {
    remote->receiver().pushed(protocol::pushed_grant{lock, id, 100, server_us(), 3s, kind, segment}, now);
  }
  caller& queued_permit(std::string label, permit what) {
    wanted w;
    w.permit = std::move(what);
    caller& a = ask(std::move(label), "L", w);
    take_sent();
    queue(30'000);
    return a;
  }
  /// The server's clock, as a fence.
  std::int64_t clock() const { return server_us() - fence_epoch_us; }
};

TEST_F(EngineForged, WhoDoesNotKnowTheNonceGrantsAndTakesNothing) {
  start_connected();
  queued("a");
  caller& b = ask("b", "M");
  take_sent();
  grant(100);
  received();
  for (std::uint64_t const nonce : {0u, 1u, 4710u, 4712u}) {
    push({1, nonce}, 100);
    remote->receiver().pushed(protocol::revocation{"M", {2, nonce}}, now);
    remote->receiver().pushed(protocol::missed_turn{"L", {1, nonce}}, now);
    EXPECT_TRUE(received().empty());
    for (std::string const& text : sent()) EXPECT_TRUE(text.starts_with("release L")) << text;
  }
  EXPECT_GT(b.deadline(), now);
  push({1, 4711}, 100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
}

TEST_F(EngineForged, EveryIdOfAClientHasANonceOfItsOwn) {
  start_connected();
  ask("a");
  nonces.nonce = 4712;
  ask("b", "M");
  auto const asked = take_sent();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].id, (grant_id{1, 4711}));
  EXPECT_EQ(asked[1].id, (grant_id{2, 4712}));
}

TEST_F(EngineForged, AClaimCountsForAtMostOnesOwn) {  // P1: within one claim
  start_connected();
  caller& a = queued("a");
  push({1, 4711}, 100, 24h);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  EXPECT_EQ(a.deadline(), now + 3s - 32ms);
  advance(3s);
  EXPECT_EQ(received(), texts{"a lost lost"}) << "nobody has confirmed it";
}

TEST_F(EngineForged, IsFoundOutByTheFirstConfirmation) {
  start_connected();
  queued("a");
  push({1, 4711}, 100, 24h);
  received();
  take_sent();
  advance(1s);
  EXPECT_EQ(sent(), texts{"renew L " + to_text({1, 4711})});
  renewed({0});
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(sent(), texts{"release L " + to_text({1, 4711})}) << "it is still queued, since it was never granted";
}

// P2: the resource would refuse all clients for that long
TEST_F(EngineForged, AFenceFarAheadOfTheServersClockIsAskedAgain) {
  start_connected();
  queued("a");
  advance(10s);
  for (std::int64_t const fence : {clock() + 3'200'000, clock() + 3'600'000'000, fence_limit - 1}) {
    push({1, 4711}, fence);
    EXPECT_TRUE(received().empty());
    EXPECT_EQ(sent(), texts{"acquire L " + to_text({1, 4711})});
    queue(20'000);
  }
  EXPECT_EQ(stats.pushes_doubted, 3u);
  // From a server whose clock was set back a little, or a quorum whose clocks differ.
  push({1, 4711}, clock() + 2'900'000);
  EXPECT_EQ(received(), texts{granted("a", clock() + 2'900'000)});
}

TEST_F(EngineForged, AFenceFarAheadThatTheServerConfirmsIsUsed) {  // its clock was set back
  start_connected();
  queued("a");
  std::int64_t const fence = clock() + 3'600'000'000;
  push({1, 4711}, fence);
  take_sent();
  grant(fence);
  EXPECT_EQ(received(), texts{granted("a", fence)});
}

TEST_F(EngineForged, ManyPushesThatAreNotBelievedAreOneQuestion) {
  start_connected();
  queued("a");
  for (int i = 0; i < 20'000; ++i) {
    push({1, 4711}, fence_limit - 1);
    remote->receiver().pushed(protocol::missed_turn{"L", {1, 4711}}, now);
  }
  EXPECT_EQ(sent(), texts{"acquire L " + to_text({1, 4711})});
  queue(20'000);
  remote->receiver().pushed(protocol::missed_turn{"L", {1, 4711}}, now);
  EXPECT_EQ(sent(), texts{"acquire L " + to_text({1, 4711})}) << "answered: the next one is asked for";
}

TEST_F(EngineForged, AQuestionThatGoesOnceMoreWithItsSourceIsTheSameOne) {
  start_connected();
  queued("a");
  push({1, 4711}, fence_limit - 1);
  take_sent();
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), texts{"source acquire L " + to_text({1, 4711})});
  push({1, 4711}, fence_limit - 1);
  EXPECT_EQ(sent(), texts{});
  queue(20'000);
  push({1, 4711}, fence_limit - 1);
  EXPECT_EQ(sent(), texts{"acquire L " + to_text({1, 4711})});
}

TEST_F(EngineForged, AQuestionThatIsLostWithItsConnectionDoesNotStandForTheNext) {
  start_connected();
  queued("a");
  push({1, 4711}, fence_limit - 1);
  disconnect();
  connect();
  settle_connection();
  take_sent();
  queue(20'000);
  push({1, 4711}, fence_limit - 1);
  EXPECT_EQ(sent(), texts{"acquire L " + to_text({1, 4711})});
}

TEST_F(EngineForged, WithVerifyPushesNoneIsBelievedBeforeTheServerSaysSo) {
  settings.verify_pushes = true;
  start_connected();
  queued("a");
  push({1, 4711}, 100);
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(sent(), texts{"acquire L " + to_text({1, 4711})});
  queue(20'000);
  EXPECT_TRUE(received().empty()) << "it was forged";
  push({1, 4711}, 101);
  take_sent();
  grant(101);
  EXPECT_EQ(received(), texts{granted("a", 101)});
  EXPECT_EQ(callers.back()->deadline(), now + 30s - 302ms) << "confirmed by the same answer";
  EXPECT_EQ(stats.grants_pushed, 1u);
  EXPECT_EQ(stats.pushes_late + stats.pushes_doubted, 0u) << "nothing to worry about";
}

TEST_F(EngineForged, WithVerifyPushesAPermitIsAskedForAgainToo) {
  settings.verify_pushes = true;
  start_connected();
  caller& a = queued_permit("a", {.kind = permit_kind::segments, .limit = 3, .weight = 1});
  push_permit({1, 4711}, permit_kind::segments, 2);
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(sent(), texts{"acquire L " + to_text({1, 4711}) + " permit 1 of 3"});
  answer({1, 100, server_us(), 3});
  EXPECT_EQ(received(), texts{granted("a", 100)});
  EXPECT_EQ(a.segment, 3u);
}

TEST_F(EngineForged, APermitOfAnotherKindNameOrSegmentIsAskedAgain) {
  struct {
    permit_kind asked;
    permit_kind pushed;
    std::uint32_t segment;
    std::string_view lock;
  } const bad[] = {
      {permit_kind::segments, permit_kind::segments, 4'000'000'000, "L"},
      {permit_kind::segments, permit_kind::segments, 4, "L"},
      {permit_kind::segments, permit_kind::segments, 0, "L"},
      {permit_kind::segments, permit_kind::semaphore, 1, "L"},
      {permit_kind::segments, permit_kind::segments, 1, "M"},
      {permit_kind::semaphore, permit_kind::semaphore, 1, "L"},
      {permit_kind::semaphore, permit_kind::shared, 0, "L"},
      {permit_kind::shared, permit_kind::reentrant, 0, "L"},
  };
  for (auto const& one : bad) {
    start_connected();
    queued_permit("a", {.kind = one.asked, .limit = 3, .weight = 1});
    push_permit({1, 4711}, one.pushed, one.segment, one.lock);
    EXPECT_TRUE(received().empty()) << static_cast<char>(one.pushed) << one.segment;
    EXPECT_EQ(sent(), texts{"acquire L " + to_text({1, 4711}) + " permit 1 of 3"});
    queue(20'000);
    push_permit({1, 4711}, one.asked, one.asked == permit_kind::segments ? 3 : 0);
    EXPECT_EQ(received(), texts{granted("a", 100)});
  }
}

TEST_F(EngineForged, ARevocationOfAPermitUnderAnotherNameChangesNothing) {
  start_connected();
  queued_permit("a", {.kind = permit_kind::semaphore, .limit = 3, .weight = 1});
  push_permit({1, 4711}, permit_kind::semaphore, 0);
  received();
  remote->receiver().pushed(protocol::revocation{"M", {1, 4711}}, now);
  EXPECT_TRUE(received().empty());
  remote->receiver().pushed(protocol::revocation{"L", {1, 4711}}, now);
  EXPECT_EQ(received(), texts{"a lost lost"});
}

// Two objects of one name with different numbers of segments, as while a new version is rolled out.
TEST_F(EngineForged, ASegmentBeyondOnesOwnNumberIsGivenBackWithAClearError) {
  for (bool const pushed : {false, true}) {
    start_connected();
    permit const segment{.kind = permit_kind::segments, .limit = 3, .weight = 1};
    if (pushed) {
      queued_permit("a", segment);
      push_permit({1, 4711}, permit_kind::segments, 7);
    } else {
      wanted w;
      w.permit = segment;
      ask("a", "L", w);
    }
    take_sent();
    answer({1, 100, server_us(), 7});
    EXPECT_EQ(received(), texts{"a failed invalid_config"});
    EXPECT_NE(last_failure.message().find("granted segment 7, and this object was made with 3 segments ("),
              std::string::npos)
        << last_failure.message();
    EXPECT_EQ(sent(), texts{"release L " + to_text({1, 4711}) + " permit 1 of 3"});
    released();
    expect_clean();
  }
}

TEST_F(EngineForged, ASegmentThatIsNoneIsAProtocolError) {
  for (std::int64_t const segment : {std::int64_t{0}, std::int64_t{-1}, (std::int64_t{1} << 32) + 4}) {
    start_connected();
    wanted w;
    w.permit = {.kind = permit_kind::segments, .limit = 3, .weight = 1};
    ask("a", "L", w);
    take_sent();
    answer({1, 100, server_us(), segment});
    EXPECT_EQ(received(), texts{segment > 0 ? "a failed invalid_config" : "a failed protocol"}) << segment;
    released();
    expect_clean();
  }
}

TEST_F(EngineForged, ASegmentInAnAnswerToALeaveThatIsTooLargeIsGivenBack) {
  start_connected();
  wanted w;
  w.permit = {.kind = permit_kind::segments, .limit = 3, .weight = 1};
  caller& a = ask("a", "L", w);
  queue(30'000);
  cancel(a, cancel_type::total);
  take_sent();
  answer({2, 100, 9, server_us()});
  EXPECT_EQ(received(), texts{"a failed cancelled"});
  EXPECT_EQ(sent(), texts{"release L " + to_text({1, 4711}) + " permit 1 of 3"});
  released();
  expect_clean();
}

TEST_F(EngineForged, OfManyGrantsThatNobodyWaitsForSomeASecondAreGivenBack) {
  start_connected();
  for (std::uint64_t i = 1; i <= 20'000; ++i) push({i, 99}, 100, 3s, "of nobody");
  EXPECT_EQ(take_sent().size(), 100u);
  EXPECT_EQ(stats.pushes_stray, 20'000u);
  EXPECT_EQ(notes, texts{"too many grants that were not asked for: another user publishes to our channel"});
  for (int i = 0; i < 100; ++i) removed();
  advance(1s);
  push({1, 99}, 100, 3s, "of nobody");
  EXPECT_EQ(take_sent().size(), 1u) << "a second later they are looked at again";
  EXPECT_EQ(notes.size(), 1u);
}

// ------------------------------------------------------------------------------------------------------------ the text

TEST(GrantId, IsReadAsItWasWritten) {
  for (grant_id const id :
       {grant_id{1, 0}, grant_id{7, 1}, grant_id{~std::uint64_t{0}, ~std::uint64_t{0}},
        grant_id{42, std::uint64_t{1} << 63}, grant_id{1'763'812'345'678'901'123, 0x0123456789abcdef}}) {
    std::string const text = to_text(id);
    std::string_view rest = text;
    grant_id read;
    EXPECT_TRUE(read_grant_id(rest, read)) << text;
    EXPECT_EQ(read, id) << text;
    EXPECT_TRUE(rest.empty());
  }
  EXPECT_EQ(to_text({17, 0}), "17");
  EXPECT_EQ(to_text({17, 1}), "17-00000000001");
}

TEST(GrantId, RefusesWhatNobodyWrites) {
  for (std::string_view const bad : {"", " 1", "0", "-1", "x", "0-00000000001", "1-", "1-0000000000", "1-000000000001",
                                     "1-0000000000 ", "1-00000000000", "1-0000000000.", "1-zzzzzzzzzzz",
                                     "1-~~~~~~~~~~~", "1x", "18446744073709551616", "1 -00000000001x-"}) {
    std::string_view rest = bad;
    grant_id read{5, 5};
    if (bad.starts_with("1 ")) {
      EXPECT_TRUE(read_grant_id(rest, read));
      EXPECT_EQ(read, (grant_id{1, 0}));
      EXPECT_EQ(rest, "-00000000001x-");
    } else {
      EXPECT_FALSE(read_grant_id(rest, read)) << bad;
    }
  }
}

TEST(Entropy, NeverRepeatsAndIsNeverNothing) {
  detail::system_entropy one, other;
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_TRUE(seen.insert(one.next()).second);
    EXPECT_TRUE(seen.insert(other.next()).second);
  }
  EXPECT_FALSE(seen.contains(0));
}

}  // namespace
}  // namespace conch::engine
