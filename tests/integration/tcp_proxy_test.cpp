// The proxy of the tests does what it says; what is tested through it proves nothing otherwise.

#include "support/tcp_proxy.hpp"

#include "support/redis_probe.hpp"
#include "support/redis_server.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace conch::test {

namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;
using towards = tcp_proxy::towards;

class TcpProxy : public testing::Test {
 protected:
  redis_server server{{.tcp = true}};
  tcp_proxy proxy{server.port(), 7};
};

}  // namespace

TEST_F(TcpProxy, PassesEverythingOn) {
  redis_probe probe{proxy.url()};
  std::string const long_text(300'000, 'x');
  EXPECT_EQ(probe.command({"SET", "k", long_text}), "OK");
  EXPECT_EQ(probe.command({"GET", "k"}), long_text);
  EXPECT_EQ(proxy.count().open, 1u);
}

TEST_F(TcpProxy, SplitsWithoutLosingOrReordering) {
  redis_probe probe{proxy.url()};
  for (auto const direction : {towards::server, towards::client}) proxy.set(direction, {.split = 3});
  std::string text;
  for (int i = 0; i < 500; ++i) text += std::to_string(i);
  EXPECT_EQ(probe.command({"ECHO", text}), text);
}

TEST_F(TcpProxy, DelaysInTheChosenDirectionOnly) {
  redis_probe probe{proxy.url()};
  proxy.set(towards::client, {.delay = 80ms});
  auto const began = steady::now();
  EXPECT_EQ(probe.command({"PING"}), "PONG");
  EXPECT_GE(steady::now() - began, 80ms);
  EXPECT_LT(steady::now() - began, 2s);
}

TEST_F(TcpProxy, KeepsWhatItStallsUntilHealed) {
  redis_probe probe{proxy.url()};
  proxy.set(towards::client, {.stalled = true});
  auto const began = steady::now();
  std::thread healer{[&] {
    std::this_thread::sleep_for(60ms);
    proxy.heal();
  }};
  EXPECT_EQ(probe.command({"PING"}), "PONG");
  EXPECT_GE(steady::now() - began, 60ms);
  healer.join();
}

TEST_F(TcpProxy, LosesWhatItSwallowsAndTellsNobody) {
  redis_probe probe{proxy.url(), 100ms};
  proxy.set(towards::client, {.swallowed = true});
  EXPECT_THROW(probe.command({"SET", "k", "v"}), std::runtime_error);  // the time-out of the probe
  EXPECT_EQ(proxy.count().open, 1u);
  EXPECT_EQ(redis_probe{server}.command({"GET", "k"}), "v") << "the other direction is whole";
}

TEST_F(TcpProxy, EndsConnectionsByResetDropAndRefusal) {
  redis_probe reset{proxy.url()};
  EXPECT_EQ(reset.command({"PING"}), "PONG");
  proxy.reset();
  EXPECT_THROW(reset.command({"PING"}), std::runtime_error);
  EXPECT_EQ(proxy.count().resets, 1u);

  redis_probe dropped{proxy.url()};
  EXPECT_EQ(dropped.command({"PING"}), "PONG");
  proxy.drop();
  EXPECT_THROW(dropped.command({"PING"}), std::runtime_error);

  proxy.refuse(true);
  EXPECT_THROW(redis_probe{proxy.url()}.command({"PING"}), std::runtime_error);
  proxy.heal();
  EXPECT_EQ(redis_probe{proxy.url()}.command({"PING"}), "PONG");
}

TEST_F(TcpProxy, ResetsAfterTheServerActedAndBeforeItsAnswerArrives) {
  redis_probe probe{proxy.url()};
  proxy.reset_after(towards::client, 1);
  EXPECT_THROW(probe.command({"SET", "k", "v"}), std::runtime_error);
  EXPECT_EQ(redis_probe{server}.command({"GET", "k"}), "v");
}

}  // namespace conch::test
