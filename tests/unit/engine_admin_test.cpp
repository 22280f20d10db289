// Questions and orders that concern no place of this client: asked, repeated, ended; and what a revocation by another
// client does.
#include "unit/engine_fixture.hpp"

#include <algorithm>

namespace conch::engine {
namespace {

class EngineInquiry : public engine_test, public admin_events {
 protected:
  struct asked : admin_request {
    std::string label;
  };

  void SetUp() override { start_connected(); }

  asked& administer(std::string label, admin_request::kind what, std::optional<std::int64_t> fence = {}) {
    auto& i = *admin_requests.emplace_back(std::make_unique<asked>());
    i.label = std::move(label);
    i.what = what;
    i.name = "L";
    i.fence = fence;
    i.size = 7;
    remote->administer(i, *this, now);
    return i;
  }

  void on_admin_answered(admin_request& i, admin_result const& result, error_code why) override {
    std::string text = static_cast<asked&>(i).label + ' ' + to_text(why);
    if (!why) text += ' ' + std::to_string(result.status ? result.status->held : result.count);
    events.push_back(text);
  }

  /// The reply to an inspect: this many clients own it.
  std::vector<std::int64_t> held_by(std::int64_t n) const {
    std::vector<std::int64_t> report{server_us(), 0, n, n, 1, 0};
    report.resize(report.size() + 9 * static_cast<std::size_t>(n));
    return report;
  }

  using kind = admin_request::kind;
  std::deque<std::unique_ptr<asked>> admin_requests;  // outlive the server's list
};

TEST_F(EngineInquiry, IsSentAtOnceAndItsAnswerHandedOn) {
  administer("q", kind::inspect);
  EXPECT_EQ(sent(), texts{"inspect L"});
  answer(held_by(7));
  EXPECT_EQ(received(), texts{"q ok 7"});
  administer("f", kind::force, 30);
  auto const commands = take_sent();
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].text, "force L from 30");
  EXPECT_EQ(commands[0].claim, settings.claim);
  EXPECT_EQ(commands[0].retention, settings.fence_retention + settings.lease);
  answer({1, 5});
  EXPECT_EQ(received(), texts{"f ok 1"});
  administer("free", kind::force, 0);
  administer("free", kind::request, 0);
  EXPECT_EQ(sent(), (texts{"force L from 0", "request L from 0"}))
      << "the fence 0 is one that nobody has, and not all of them";
  answer({0, 5});
  answer({0, 5});
  EXPECT_EQ(received(), (texts{"free ok 0", "free ok 0"}));
  administer("l", kind::set_limit);
  EXPECT_EQ(sent(), texts{"limit L 7"});
  answer({1, 5});
  EXPECT_EQ(received(), texts{"l ok 1"});
  advance(1min);
  EXPECT_EQ(received(), texts{});
}

// P4: the client that was granted what the order has made free may be dead.
TEST_F(EngineInquiry, LooksAfterWhomAnOrderHasLetIn) {
  settings.keep_alive = 0s;
  for (bool const more : {true, false}) {
    administer("f", kind::force);
    answer({1, server_us(), more, 0, 1});
    administer("p", kind::force);
    answer({1, server_us(), more, 's', 4});
    administer("l", kind::set_limit);
    answer({2, server_us(), more});
    take_sent();
    received();
    advance(3190ms);
    texts kicks = sent();
    std::sort(kicks.begin(), kicks.end());
    EXPECT_EQ(kicks, more ? (texts{"release L 1", "release L 2 permit 1 of 4", "release L 3 permit 1 of 7"}) : texts{});
    while (!unanswered.empty()) removed();
    expect_clean();
  }
}

TEST_F(EngineInquiry, TwoAtATimeGetEachItsOwnAnswer) {
  administer("a", kind::inspect);
  administer("b", kind::inspect);
  answer(held_by(1));
  answer(held_by(2));
  EXPECT_EQ(received(), (texts{"a ok 1", "b ok 2"}));
}

TEST_F(EngineInquiry, IsSentAgainWithItsSource) {
  administer("q", kind::inspect);
  take_sent();
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), texts{"source inspect L"});
  answer(held_by(1));
  EXPECT_EQ(received(), texts{"q ok 1"});
}

TEST_F(EngineInquiry, IsAskedAgainAfterAPauseWhenTheServerIsNotReady) {
  administer("q", kind::inspect);
  take_sent();
  answer(fault::try_later, "LOADING");
  EXPECT_EQ(sent(), texts{});
  advance(100ms);
  EXPECT_EQ(sent(), texts{"inspect L"});
  answer(held_by(1));
  EXPECT_EQ(received(), texts{"q ok 1"});
}

TEST_F(EngineInquiry, EndsWithWhatTheServerSays) {
  struct {
    fault what;
    char const* told;
  } const table[] = {{fault::wrong_type, "wrong_type"},
                     {fault::access_denied, "access_denied"},
                     {fault::refused, "server_refused"},
                     {fault::malformed, "protocol"}};
  for (auto const& [what, told] : table) {
    administer("q", kind::inspect);
    answer(what, "words");
    EXPECT_EQ(received(), texts{std::string{"q "} + told});
  }
}

TEST_F(EngineInquiry, WaitsForAConnectionAndNoLongerThanThat) {
  start();
  administer("q", kind::inspect);
  EXPECT_EQ(wants, 1);
  connect();
  settle_connection();
  EXPECT_EQ(take_sent().back().text, "inspect L");
  answer(held_by(1));
  EXPECT_EQ(received(), texts{"q ok 1"});
  start();
  administer("r", kind::inspect);
  advance(settings.offline_timeout - 1ms);
  EXPECT_EQ(received(), texts{});
  advance(1ms);
  EXPECT_EQ(received(), texts{"r unreachable"});
}

TEST_F(EngineInquiry, IsRepeatedAfterAReconnectIfThatHasTheEffectOfOnce) {
  administer("inspect", kind::inspect);
  administer("one", kind::force, 30);
  administer("all", kind::force);
  administer("limit", kind::set_limit);
  take_sent();
  disconnect();
  // it may have been carried out, and another client may have the lock by now
  EXPECT_EQ(received(), texts{"all unreachable"});
  administer("later", kind::force);
  connect("1");
  settle_connection();
  auto commands = sent();
  commands.erase(commands.begin(), commands.begin() + 3);
  EXPECT_EQ(commands, (texts{"inspect L", "force L from 30", "limit L 7", "force L"}));
}

TEST_F(EngineInquiry, AChangeOfALimitIsNotRepeated) {
  admin_request* const written = &administer("written", kind::set_limit);
  written->by = 0;
  take_sent();
  answer({1, 5});
  received();
  asked& q = administer("change", kind::inspect);
  remote->withdraw(q);
  disconnect();
  asked& change = administer("later", kind::set_limit);
  change.by = 2;
  connect("1");
  settle_connection();
  EXPECT_EQ(take_sent().back().text, "limit L 7");
  disconnect();
  EXPECT_EQ(received(), texts{"later unreachable"});  // it may have been carried out
}

TEST_F(EngineInquiry, IsForgottenWhenItIsWithdrawn) {
  asked& q = administer("q", kind::inspect);
  remote->withdraw(q);
  answer(held_by(1));
  advance(1min);
  EXPECT_EQ(received(), texts{});
}

TEST_F(EngineInquiry, WhomAWithdrawnOrderHasLetInAreLookedAfter) {
  for (bool const in_time : {true, false}) {
    start_connected();
    asked& q = administer("q", kind::set_limit);
    q.size = 7;
    take_sent();
    if (in_time) {
      remote->withdraw(q);
    } else {
      advance(settings.offline_timeout);
      received();
    }
    answer({2, server_us(), unfinished_flag});
    EXPECT_EQ(sent(), texts{"release L 1 permit 1 of 7"}) << "more are to be let in";
  }
}

TEST_F(EngineInquiry, EndsWithTheRightToTakePart) {
  start();
  administer("q", kind::inspect);
  remote->receiver().connect_failed(fault::access_denied, "WRONGPASS", now);
  EXPECT_EQ(received(), texts{"q access_denied"});
}

TEST_F(EngineInquiry, ARevocationIsToldToTheHolderBeforeAnythingIsSent) {
  holding("a");
  remote->receiver().pushed(protocol::revocation{"L", 1}, now);
  EXPECT_EQ(received(), texts{"a lost lost"});
  // The script that took it may have failed before it passed it on.
  EXPECT_EQ(sent(), texts{"release L 1"});
  removed();
  EXPECT_EQ(stats.revocations, 1u);
  EXPECT_EQ(stats.losses, 1u);
  EXPECT_EQ(stats.renewals_refused, 0u);
  expect_clean();
}

TEST_F(EngineInquiry, AfterARevocationWhoWaitsHereAsksAnew) {
  holding("a");
  ask("b");
  EXPECT_EQ(sent(), texts{});
  remote->receiver().pushed(protocol::revocation{"L", 1}, now);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(sent(), (texts{"acquire L 2", "release L 1"}));
}

TEST_F(EngineInquiry, ARevocationIsFollowedByAReleaseForAsLongAsItsOwnLeaseLasts) {  // P6
  holding("a", "L", {.lease = 5min});
  caller& b = ask("b", "L", {.lease = 6s});
  remote->receiver().pushed(protocol::revocation{"L", 1}, now);
  EXPECT_EQ(received(), texts{"a lost lost"});
  take_sent();
  cancel(b, cancel_type::terminal);
  time_point const until = now + 5min;
  while (now < until) {
    while (!unanswered.empty()) answer(fault::refused, "OOM");
    ASSERT_FALSE(remote->settled()) << (until - now).count();
    advance(1s);
    take_sent();
  }
}

TEST_F(EngineInquiry, ARevocationOfSomethingElseChangesNothing) {
  caller& a = holding("a");
  remote->receiver().pushed(protocol::revocation{"L", 2}, now);
  remote->receiver().pushed(protocol::revocation{"M", 1}, now);
  EXPECT_EQ(received(), texts{});
  release(a);
  take_sent();
  remote->receiver().pushed(protocol::revocation{"L", 1}, now);  // given back before
  released();
  EXPECT_EQ(received(), texts{"a released ok"});
  expect_clean();
}

TEST_F(EngineInquiry, ARevocationTakesOnlyThePermitItNames) {
  permit const one_of_3{.kind = permit_kind::semaphore, .limit = 3, .weight = 1};
  ask("a", "L", {.permit = one_of_3});
  ask("b", "L", {.permit = one_of_3});
  answer({1, 100, server_us(), 0});
  answer({1, 101, server_us(), 0});
  received();
  take_sent();
  remote->receiver().pushed(protocol::revocation{"L", 2}, now);
  EXPECT_EQ(received(), texts{"b lost lost"});
  EXPECT_EQ(sent(), texts{"release L 2 permit 1 of 3"});
}

TEST_F(EngineInquiry, AnOrderThatDoesNotGiveUpIsSentWheneverTheServerIsBack) {
  permit const writer{.kind = permit_kind::shared, .limit = 1000, .weight = 1000};
  ask("a", "L", {.permit = writer});
  answer({1, 100, server_us(), 0});
  received();
  disconnect();
  take_sent();
  for (bool const gives_up : {true, false}) {
    auto& i = *admin_requests.emplace_back(std::make_unique<asked>());
    i.label = gives_up ? "gives up" : "goes on";
    i.what = kind::downgrade;
    i.name = "L";
    i.id = 1;
    i.size = 1;
    i.permit = writer;
    i.gives_up = gives_up;
    remote->administer(i, *this, now);
  }
  advance(settings.offline_timeout - 1ms);
  EXPECT_EQ(received(), texts{});
  advance(1ms);
  EXPECT_EQ(received(), texts{"gives up unreachable"});
  advance(settings.offline_timeout);
  EXPECT_EQ(received(), texts{});
  connect("1");
  settle_connection();
  EXPECT_EQ(sent().back(), "release L 1 permit 1000 of 1000 rest 1");
}

TEST_F(EngineInquiry, AWriterThatIsWeakenedAndHasLostItIsTold) {
  permit const writer{.kind = permit_kind::shared, .limit = 1000, .weight = 1000};
  ask("a", "L", {.permit = writer});
  answer({1, 100, server_us(), 0});
  received();
  take_sent();
  auto& i = *admin_requests.emplace_back(std::make_unique<asked>());
  i.label = "w";
  i.what = kind::downgrade;
  i.name = "L";
  i.id = 1;
  i.size = 1;
  i.permit = writer;
  remote->administer(i, *this, now);
  EXPECT_EQ(sent(), texts{"release L 1 permit 1000 of 1000 rest 1"});
  disconnect();
  connect("1");
  settle_connection();
  auto commands = sent();
  EXPECT_EQ(commands.back(), "release L 1 permit 1000 of 1000 rest 1");
  renewed({1});
  answer({0, 0, 0, server_us()});
  EXPECT_EQ(received(), (texts{"w lost", "a lost lost"}));
}

}  // namespace
}  // namespace conch::engine
