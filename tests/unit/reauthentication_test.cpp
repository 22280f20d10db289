// The renewal of a provider's credentials on the live connection: when, and whose answer is whose.

#include <gtest/gtest.h>

#include <string>

#include "servers/redis/reauthentication.hpp"

namespace conch::redis {
namespace {

using namespace std::chrono_literals;

config with_provider() {
  config c;
  c.credentials_provider = [](std::string const&, credentials_handler const&) {};
  c.connect_timeout = 5s;
  c.reconnect_max = 2s;
  return c;
}

credentials good_for(duration time) { return {.user = {}, .password = "secret", .refresh_after = time}; }

struct Reauthentication : testing::Test {
  std::string sent(std::int64_t answers_before, std::string user = {}) {
    address as;
    as.user = std::move(user);
    as.password = "secret";
    std::string out;
    renewal.send(as, answers_before, out);
    return out;
  }

  time_point const now{1000s};
  config settings = with_provider();
  reauthentication renewal{settings, true};
};

TEST_F(Reauthentication, NothingIsDueBeforeTheFirstConnection) {
  EXPECT_EQ(renewal.next_due(), time_point::max());
  EXPECT_FALSE(renewal.is_asking());
  EXPECT_FALSE(renewal.is_sent());
  EXPECT_FALSE(renewal.is_own_answer());
}

TEST_F(Reauthentication, AsksAgainWhenNineTenthsOfTheTimeHavePassed) {
  renewal.found(good_for(100s));
  EXPECT_TRUE(renewal.accepted(now));
  EXPECT_EQ(renewal.next_due(), now + 90s);
}

TEST_F(Reauthentication, CredentialsThatAreGoodForEverAreNotRenewed) {
  renewal.found(good_for(duration::max()));
  EXPECT_FALSE(renewal.accepted(now));
  EXPECT_EQ(renewal.next_due(), time_point::max());
}

TEST_F(Reauthentication, AnImpossiblyShortTimeIsTenMilliseconds) {
  renewal.found(good_for(-1s));
  EXPECT_TRUE(renewal.accepted(now));
  EXPECT_EQ(renewal.next_due(), now + 9ms);
}

TEST_F(Reauthentication, WithoutAProviderNothingIsRenewed) {
  config const without;
  reauthentication none{without, true};
  none.found(good_for(100s));
  EXPECT_FALSE(none.accepted(now));
  EXPECT_EQ(none.next_due(), time_point::max());
}

TEST_F(Reauthentication, AConnectionThatDoesNotRenewIsLeftAlone) {
  reauthentication none{settings, false};
  none.found(good_for(100s));
  EXPECT_FALSE(none.accepted(now));
  EXPECT_EQ(none.next_due(), time_point::max());
}

TEST_F(Reauthentication, TheProviderHasAsLongAsAnAttemptToConnect) {
  renewal.ask(now);
  EXPECT_TRUE(renewal.is_asking());
  EXPECT_EQ(renewal.next_due(), now + settings.connect_timeout);
}

TEST_F(Reauthentication, AsksLaterOnceMoreIfItWasRefused) {
  renewal.ask(now);
  renewal.refused(now);
  EXPECT_FALSE(renewal.is_asking());
  EXPECT_EQ(renewal.next_due(), now + settings.reconnect_max);
}

TEST_F(Reauthentication, SendsTheUserAndThePassword) {
  EXPECT_EQ(sent(0, "me"), "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$6\r\nsecret\r\n");
  EXPECT_EQ(sent(0), "*3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$6\r\nsecret\r\n");
}

TEST_F(Reauthentication, TheAnswerBehindThoseThatWereOwedIsItsOwn) {
  renewal.ask(now);
  sent(2);
  EXPECT_TRUE(renewal.is_sent());
  EXPECT_FALSE(renewal.is_asking());
  EXPECT_EQ(renewal.next_due(), time_point::max()) << "the server answers in time, or the connection ends";
  EXPECT_FALSE(renewal.is_own_answer());
  EXPECT_FALSE(renewal.is_own_answer());
  EXPECT_TRUE(renewal.is_own_answer());
  EXPECT_FALSE(renewal.is_own_answer()) << "there is one";
}

TEST_F(Reauthentication, AcceptsWhatTheServerHasAccepted) {
  renewal.found(good_for(10s));
  sent(0);
  EXPECT_TRUE(renewal.is_own_answer());
  EXPECT_TRUE(renewal.accepted(now));
  EXPECT_FALSE(renewal.is_sent());
  EXPECT_FALSE(renewal.is_own_answer());
  EXPECT_EQ(renewal.next_due(), now + 9s);
}

TEST_F(Reauthentication, TriesAgainWhatTheServerHasRefused) {
  sent(0);
  EXPECT_TRUE(renewal.is_own_answer());
  renewal.refused(now);
  EXPECT_FALSE(renewal.is_sent());
  EXPECT_EQ(renewal.next_due(), now + settings.reconnect_max);
}

TEST_F(Reauthentication, EndsWithTheConnection) {
  renewal.ask(now);
  renewal.end();
  EXPECT_FALSE(renewal.is_asking());
  EXPECT_EQ(renewal.next_due(), time_point::max());
  sent(0);
  renewal.end();
  EXPECT_FALSE(renewal.is_sent());
  EXPECT_FALSE(renewal.is_own_answer());
}

}  // namespace
}  // namespace conch::redis
