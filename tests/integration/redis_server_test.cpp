// The server that the other tests rely on.

#include "support/redis_server.hpp"
#include "support/free_port.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace {

using namespace std::chrono_literals;
using conch::test::redis_probe;
using conch::test::redis_server;

std::string failure_of(auto&& action) {
  try {
    action();
  } catch (std::runtime_error const& error) {
    return error.what();
  }
  return "it did not fail";
}

TEST(RedisServer, IsPrivateAndLeavesNothingBehind) {
  std::filesystem::path directory;
  pid_t pid = 0;
  {
    redis_server one;
    redis_server other;
    redis_probe probe(one);
    EXPECT_EQ(probe.command({"SET", "key", "value"}), "OK");
    EXPECT_EQ(redis_probe(other).command({"GET", "key"}), "(nil)");
    EXPECT_EQ(one.url(), "unix://" + one.socket_path());
    EXPECT_EQ(one.port(), 0);
    directory = one.directory();
    pid = one.pid();
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_FALSE(std::filesystem::exists(directory));
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST(RedisServer, ListensOnALoopbackPortWhenAsked) {
  redis_server server({.tcp = true});
  EXPECT_EQ(server.url(), "redis://127.0.0.1:" + std::to_string(server.port()));
  EXPECT_EQ(redis_probe(server.url()).command({"PING"}), "PONG");
  EXPECT_EQ(redis_probe(server).command({"PING"}), "PONG");
}

/// Both look at the same ports in the same order.
TEST(FreePort, IsGivenToOneProcessOnlyAsLongAsThatRuns) {
  int report[2], wait[2];
  ASSERT_EQ(::pipe(report), 0);
  ASSERT_EQ(::pipe(wait), 0);
  pid_t const other = ::fork();
  if (other == 0) {
    std::uint16_t const its = conch::test::find_free_port();
    ::close(wait[1]);
    char nothing;
    bool const is_well = ::write(report[1], &its, sizeof its) == sizeof its && ::read(wait[0], &nothing, 1) == 0;
    ::_exit(is_well ? 0 : 1);
  }
  std::uint16_t its = 0;
  ASSERT_EQ(::read(report[0], &its, sizeof its), sizeof its);
  EXPECT_NE(conch::test::find_free_port(), its);
  for (int const fd : {report[0], report[1], wait[0], wait[1]}) ::close(fd);
  int status = -1;
  EXPECT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
}

TEST(RedisServer, RestartKeepsOrDropsTheDataAndTheAddress) {
  redis_server server({.tcp = true});
  std::string const url = server.url();
  redis_probe(url).command({"SET", "key", "value"});

  server.restart(true);
  EXPECT_EQ(server.url(), url);
  EXPECT_EQ(redis_probe(url).command({"GET", "key"}), "value");

  server.restart(false);
  EXPECT_EQ(server.url(), url);
  EXPECT_EQ(redis_probe(url).command({"GET", "key"}), "(nil)");
}

TEST(RedisServer, AppendonlySurvivesAKill) {
  redis_server server({.appendonly = true});
  redis_probe(server).command({"SET", "key", "value"});
  server.kill();
  EXPECT_EQ(server.pid(), 0);
  EXPECT_NE(failure_of([&] { redis_probe{server}; }).find("connect"), std::string::npos);
  server.restart(true);
  EXPECT_EQ(redis_probe(server).command({"GET", "key"}), "value");
}

TEST(RedisServer, AnswersNobodyWhileStopped) {
  redis_server server;
  redis_probe patient(server);
  redis_probe impatient(server, 50ms);
  server.stop();
  EXPECT_NE(failure_of([&] { impatient.command({"PING"}); }).find("no answer"), std::string::npos);
  server.cont();
  EXPECT_EQ(patient.command({"PING"}), "PONG");
}

TEST(RedisServer, SaysWhyItDidNotStart) {
  std::string const bad_option = failure_of([] { redis_server({.arguments = {"--no-such-option", "1"}}); });
  EXPECT_NE(bad_option.find("no-such-option"), std::string::npos) << bad_option;
  std::string const no_program = failure_of([] { redis_server({.executable = "no-such-redis-server"}); });
  EXPECT_NE(no_program.find("no-such-redis-server"), std::string::npos) << no_program;
}

TEST(RedisServer, DiesWithTheProcessThatStartedIt) {
  int to_test[2];
  int to_child[2];
  ASSERT_EQ(::pipe(to_test), 0);
  ASSERT_EQ(::pipe(to_child), 0);
  pid_t const child = ::fork();
  if (child == 0) {
    ::close(to_child[1]);
    redis_server server;
    std::string const path = server.directory().string();
    char byte = 0;
    if (::write(to_test[1], path.data(), path.size()) < 0 || ::read(to_child[0], &byte, 1) != 0) {
      ::_exit(1);
    }
    ::_exit(0);  // no destructor
  }
  ::close(to_test[1]);
  char buffer[256];
  auto const size = ::read(to_test[0], buffer, sizeof buffer);
  ASSERT_GT(size, 0);
  std::filesystem::path const directory(std::string(buffer, static_cast<std::size_t>(size)));

  redis_probe probe("unix://" + (directory / "redis.sock").string());
  ASSERT_EQ(probe.command({"PING"}), "PONG");  // a connection in the backlog would be reset instead
  ::close(to_child[1]);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_NE(failure_of([&] { probe.read_message(); }).find("closed"), std::string::npos);

  ::close(to_test[0]);
  ::close(to_child[0]);
  std::filesystem::remove_all(directory);
}

TEST(RedisProbe, PrintsEveryKindOfReply) {
  redis_server server;
  redis_probe probe(server);
  EXPECT_EQ(probe.command({"NO-SUCH-COMMAND"}).substr(0, 11), "(error) ERR");
  EXPECT_EQ(probe.integer({"INCR", "counter"}), 1);
  EXPECT_THROW(probe.integer({"GET", "counter"}), std::runtime_error);
  std::string const bytes("a\r\n\0b", 5);
  EXPECT_EQ(probe.command({"ECHO", bytes}), bytes);
  EXPECT_EQ(probe.command({"ECHO", ""}), "");
  EXPECT_EQ(probe.command({"EVAL", "return {1, 'two', {3, false}}", "0"}), "[1, two, [3, (nil)]]");

  probe.command({"HELLO", "3"});
  probe.command({"HSET", "hash", "field", "value"});
  probe.command({"SADD", "set", "member"});
  EXPECT_EQ(probe.command({"HGETALL", "hash"}), "{field: value}");
  EXPECT_EQ(probe.command({"SMEMBERS", "set"}), "~[member]");
  EXPECT_EQ(probe.command({"GET", "missing"}), "(nil)");
  EXPECT_EQ(probe.command({"EVAL", "redis.setresp(3); return {double = 1.5}", "0"}), "1.5");
}

TEST(RedisProbe, KeepsPushesApartFromReplies) {
  redis_server server;
  redis_probe probe(server);
  probe.command({"HELLO", "3"});
  probe.command({"CLIENT", "TRACKING", "on", "BCAST"});
  redis_probe speaker(server);
  speaker.command({"SET", "key", "one"});
  EXPECT_EQ(probe.command({"PING"}), "PONG");
  EXPECT_EQ(probe.read_push(), ">[invalidate, [key]]");
  speaker.command({"SET", "key", "two"});
  EXPECT_EQ(probe.read_push(), ">[invalidate, [key]]");
}

TEST(RedisProbe, CountsTheCallsOfEveryCommand) {
  redis_server server;
  redis_probe probe(server);
  probe.command({"CONFIG", "RESETSTAT"});
  probe.command({"SET", "key", "1"});
  probe.command({"SET", "key", "2"});
  probe.command({"EVAL", "return redis.call('GET', KEYS[1])", "1", "key"});
  auto const calls = probe.commandstats();
  EXPECT_EQ(calls.at("set"), 2);
  EXPECT_EQ(calls.at("get"), 1);
  EXPECT_EQ(calls.at("eval"), 1);
  EXPECT_FALSE(calls.contains("del"));
}

}  // namespace
