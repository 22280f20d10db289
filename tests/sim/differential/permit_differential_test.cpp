// The scripts of locks with several owners, three times: on the model of Redis against conch::memory::store, answers and
// pushes; and on the model against a real server, answers, pushes and everything that is stored.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "redis/scripts.hpp"
#include "sim/differential/differential.hpp"
#include "sim/differential/store_differential.hpp"

namespace conch::sim {
namespace {

using std::chrono::milliseconds;

/// What clients might do next, and things they would never do: answers must agree for all of them.
class random_permits {
 public:
  explicit random_permits(std::uint64_t seed) : random_{seed} {}

  static std::vector<std::string> clients() { return {"c7f", "a01", "c7f0"}; }
  std::string const& client() { return clients_[static_cast<std::size_t>(pick(0, 2))]; }
  std::int64_t now() const { return now_us_; }
  bool rarely() { return pick(0, 24) == 0; }

  void step() {
    switch (pick(0, 19)) {
      case 0: now_us_ += pick(1, 40) * 100'000; break;
      case 1: now_us_ -= pick(1, 100'000); break;
      case 2:
      case 3:
      case 4: break;  // no time at all: equal tickets
      default: now_us_ += pick(1, 60'000); break;
    }
    if (pick(0, 60) == 0) now_us_ += 30'000'000;  // everything expires
  }

  protocol::command command(std::string const& client) {
    auto const retention = milliseconds{pick(0, 3) == 0 ? 1 : 2'000};
    auto const claim = milliseconds{pick(1, 4) * 50};
    if (!asked_.empty() && pick(0, 9) == 0) {
      asked const& from = asked_[static_cast<std::size_t>(pick(0, std::ssize(asked_) - 1))];
      origin_ = from.origin;
      permit_ = from.share;
      name_ = pick(0, 19) == 0 ? pick(0, 3) : from.name;
      protocol::acquire_command c{names_[static_cast<std::size_t>(name_)], some_id(client), false, lease(), claim, retention};
      if (pick(0, 9) == 0) c.not_after_us = now_us_ + pick(-2, 2);
      c.origin = origin_;
      c.permit = &permit_;
      return c;
    }
    if (pick(0, 11) == 0) return protocol::watch_command{name(), pick(0, 5) == 0 ? engine::grant_id{} : some_id(client), lease()};
    switch (pick(0, 11)) {
      case 10:
        if (pick(0, 2) == 0) return protocol::request_command{name(), pick(0, 3) == 0 ? now_us_ - 1'577'836'800'000'000 : 0};
        return protocol::inspect_command{name()};
      case 11:
        if (pick(0, 1) == 0) {
          protocol::limit_command c{pick(0, 9) == 0 ? name() : names_[0], claim, retention, static_cast<std::uint32_t>(pick(1, 7))};
          if (pick(0, 2) == 0) c.by = pick(-4, 4);
          c.if_unset = c.by == 0 && pick(0, 2) == 0;
          return c;
        }
        return protocol::force_command{name(), claim, retention, pick(0, 3) == 0 ? now_us_ - 1'577'836'800'000'000 : 0};
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: {
        auto const id = some_id(client);
        protocol::acquire_command c{name(), id, pick(0, 4) != 0, lease(), claim, retention};
        if (pick(0, 3) == 0) c.ticket = now_us_ + pick(-300'000, 100'000);
        if (pick(0, 9) == 0) c.not_after_us = now_us_ + pick(-2, 2);
        c.permit = permit(id);
        if (!c.wait && permit_.kind == engine::permit_kind::semaphore && pick(0, 2) == 0) permit_.weight = 0;
        // If it is granted at once, mostly with this fence.
        asked_.push_back({name_, permit_, client + "." + engine::to_text(id) + " " + std::to_string(now_us_ - protocol::fence_epoch_us)});
        if (asked_.size() > 6) asked_.pop_front();
        return c;
      }
      case 5:
      case 6:
      case 7:
      case 8: {
        auto const id = some_id(client);
        protocol::release_command c{name(), id, pick(0, 3) == 0, lease(), claim, retention};
        c.permit = permit(id);
        if (permit_.kind == engine::permit_kind::semaphore && pick(0, 5) == 0) permit_.weight = 0;
        if (pick(0, 4) == 0) c.rest = 1;
        return c;
      }
      default: {
        items_.clear();
        for (std::int64_t n = pick(1, 3); n > 0; --n) items_.push_back({name(), some_id(client), lease()});
        return protocol::renew_command{items_, false, true, pick(0, 2) == 0 ? retention : milliseconds{}};
      }
    }
  }

 private:
  std::int64_t pick(std::int64_t from, std::int64_t to) { return std::uniform_int_distribution<std::int64_t>{from, to}(random_); }
  milliseconds lease() { return milliseconds{pick(0, 5) == 0 ? 1 : pick(1, 8) * 100}; }

  /// One name for each kind of lock, and sometimes that of another kind.
  std::string const& name() {
    name_ = pick(0, 3);
    return names_[static_cast<std::size_t>(name_)];
  }

  /// Mostly what that id asked for before.
  engine::permit const* permit(engine::grant_id id) {
    auto const kind = pick(0, 40) == 0 ? pick(0, 3) : name_;
    auto const draw = [&](std::int64_t from, std::int64_t to) {
      return static_cast<std::uint32_t>(pick(0, 20) == 0 ? pick(from, to) : from + static_cast<std::int64_t>(id.count) % (to - from + 1));
    };
    switch (kind) {
      case 0: permit_ = {engine::permit_kind::semaphore, pick(0, 9) == 0 ? 2u : 5u, draw(1, 4), 0, "-"}; break;
      case 1: permit_ = {engine::permit_kind::shared, 1000, draw(0, 3) == 0 ? 1000u : 1u, 0, "-"}; break;
      case 3: {
        static std::string const owners[] = {"6d65", "796f75"};
        permit_ = {engine::permit_kind::reentrant, 1000, 1, 0, owners[draw(0, 1)]};
        break;
      }
      default: {
        static std::string const visits[] = {"-", ",2,", ",1,3,", "-", ",2,3,"};
        permit_ = {engine::permit_kind::segments, 3, 1, static_cast<std::uint32_t>(pick(0, 2)), visits[draw(0, 4)]};
      }
    }
    return &permit_;
  }

  engine::grant_id some_id(std::string const& of) {
    auto& last = last_[of];
    if (last == 0) last = 7;
    if (pick(0, 2) == 0) ++last;
    return with_nonce(last - static_cast<std::uint64_t>(pick(0, 6)));
  }

  std::mt19937_64 random_;
  std::vector<std::string> const clients_ = clients();
  std::vector<std::string> const names_{"permits", "a}b", "%7D", "again"};
  std::int64_t name_ = 0;
  engine::permit permit_;
  struct asked {
    std::int64_t name;
    engine::permit share;
    std::string origin;  // of one that takes it over
  };
  std::deque<asked> asked_;
  std::string origin_;
  std::map<std::string, std::uint64_t> last_;
  std::vector<protocol::renewal> items_;
  std::int64_t now_us_ = 1'700'000'000'000'000;
};

class Permits : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Permits, TheMemoryStoreAnswersAndPushesWhatTheScriptsDo) {
  bool const small = GetParam() % 2 == 0;
  random_permits side{GetParam()};
  std::map<std::string, int> happened;
  auto const note = [&](protocol::command const& command, std::vector<std::int64_t> const& answer, seen_grants const& pushed) {
    happened["several pushes"] += pushed.size() > 1 ? 1 : 0;
    for (auto const& g : pushed) {
      if (g.fence == freed_mark || g.fence == freed_and_more_mark) ++happened[g.fence == freed_mark ? "freed" : "freed and more"];
      happened[g.fence == 0 ? std::string{"revocation"} : std::string{"push "} + static_cast<char>(g.kind)] += 1;
    }
    if (std::holds_alternative<protocol::release_command>(command) && answer.size() >= 4 && answer[0] < 2 && (answer[1] & 2) != 0) ++happened["more"];
    if (std::holds_alternative<protocol::force_command>(command) && answer.size() == 7) ++happened["more to take"];
    if (answer.empty()) {
      ++happened["another kind"];
    } else if (auto const* const c = std::get_if<protocol::acquire_command>(&command)) {
      ++happened[(c->origin.empty() ? "acquire " : "adopt ") + std::to_string(answer[0])];
    } else if (std::holds_alternative<protocol::release_command>(command)) {
      ++happened["release " + std::to_string(answer[0])];
    } else if (std::holds_alternative<protocol::force_command>(command)) {
      ++happened["force " + std::to_string(std::min<std::int64_t>(answer[0], 2))];
      if (pushed.size() > static_cast<std::size_t>(answer[0])) ++happened["force and pass on"];
    } else if (std::holds_alternative<protocol::inspect_command>(command)) {
      ++happened["inspect " + std::to_string(std::min<std::int64_t>(answer[2], 2))];
    } else if (std::holds_alternative<protocol::request_command>(command)) {
      ++happened["request " + std::to_string(std::min<std::int64_t>(answer[0], 2))];
    } else if (std::holds_alternative<protocol::watch_command>(command)) {
      ++happened["watch " + std::to_string(answer[0])];
    } else if (std::holds_alternative<protocol::limit_command>(command)) {
      ++happened[pushed.empty() ? "limit" : "limit and pass on"];
    } else {
      ++happened["renew " + std::to_string(answer[1])];
    }
  };
  ASSERT_NO_FATAL_FAILURE(compare_store_with_scripts(side, 12000, small, note));
  // A generator that never gets into a state proves nothing about it.
  for (char const* what : {"several pushes",
                           "watch 0",
                           "watch 1",
                           "freed",
                           "push s",
                           "push r",
                           "push g",
                           "push e",
                           "acquire 0",
                           "acquire 1",
                           "adopt 1",
                           "adopt 2",
                           "adopt 3",
                           "acquire 2",
                           "acquire 3",
                           "release 0",
                           "release 1",
                           "release 2",
                           "renew 0",
                           "renew 1",
                           "another kind",
                           "revocation",
                           "force 0",
                           "force 1",
                           "force 2",
                           "force and pass on",
                           "inspect 0",
                           "inspect 1",
                           "inspect 2",
                           "limit",
                           "limit and pass on",
                           "request 0",
                           "request 1",
                           "request 2"}) {
    EXPECT_GT(happened[what], 3) << what;
  }
  for (char const* what : {"more", "acquire 4"}) {
    if (small) {
      EXPECT_GT(happened[what], 0) << what;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Permits, testing::Range<std::uint64_t>(1, 13));

// ---- against a real server: the scripts are told the time, so that both sides see the same -----------------------------

// Keys live as long as the test: what ends, ends by the time the scripts are told.
std::string told_the_time(std::string source) {
  std::pair<std::string, std::string> const changes[] = {
      {"redis.call('TIME')", "{ARGV[#ARGV - 1], ARGV[#ARGV]}"},
      {"redis.call('PEXPIRE', lock_key, lease)", "redis.call('PEXPIRE', lock_key, 3600000)"},
      {"redis.call('PEXPIRE', queue_key, lives)", "redis.call('PEXPIRE', queue_key, 3600000)"},
      {"redis.call('PEXPIRE', key, lease, 'GT')", "redis.call('PEXPIRE', key, 3600000, 'GT')"},
      {"redis.call('PEXPIRE', ends_key, lease + retention)", "redis.call('PEXPIRE', ends_key, 3600000)"},
      {"redis.call('PEXPIRE', ends_key, math.max(redis.call('PTTL', lock_key), 0) + retention)", "redis.call('PEXPIRE', ends_key, 3600000)"},
      {"redis.call('PEXPIRE', KEYS[2 * count + i], lease + retention)", "redis.call('PEXPIRE', KEYS[2 * count + i], 3600000)"},
      {"redis.pcall('PEXPIRE', requests_key, longest)", "redis.pcall('PEXPIRE', requests_key, 3600000)"},
      {"redis.call('PEXPIRE', key, lease)", "redis.call('PEXPIRE', key, 3600000)"}};
  for (auto const& [from, to] : changes) {
    for (auto at = source.find(from); at != std::string::npos; at = source.find(from, at + to.size())) source.replace(at, from.size(), to);
  }
  EXPECT_EQ(source.find("'TIME'"), std::string::npos);
  return source;
}

TEST(PermitsDifferential, AModelAndARealServerDoTheSame) {
  differential both;
  for (std::size_t i = 0; i < both.size(); ++i) both.run_same(i, {"SUBSCRIBE", "conch:" + random_permits::clients()[i]});
  random_permits side{42};
  for (int step = 0; step < 1500 && !testing::Test::HasFailure(); ++step) {
    side.step();
    std::string const client = side.client();
    protocol::command command = side.command(client);
    bool const acquires = std::holds_alternative<protocol::acquire_command>(command);
    bool const releases = std::holds_alternative<protocol::release_command>(command);
    std::string bytes;
    redis::encode(command, client, bytes);
    resp::decoder in;
    auto const room = in.prepare(bytes.size());
    std::copy(bytes.begin(), bytes.end(), room.begin());
    in.commit(bytes.size());
    ASSERT_EQ(in.next(), resp::decoder::progress::message);
    differential::words argv;
    for (auto const& node : in.message().subspan(1)) argv.emplace_back(node.text);
    argv[0] = "EVAL";
    bool const forces = std::holds_alternative<protocol::force_command>(command);
    bool const limits = std::holds_alternative<protocol::limit_command>(command);
    bool const requests = std::holds_alternative<protocol::request_command>(command);
    bool const watches = std::holds_alternative<protocol::watch_command>(command);
    bool const inspects = std::holds_alternative<protocol::inspect_command>(command);
    std::size_t const keys = 3 + static_cast<std::size_t>(std::stoi(argv[2]));
    auto const* const acquire = std::get_if<protocol::acquire_command>(&command);
    bool const adopts = acquire != nullptr && !acquire->origin.empty();
    if (adopts) {
      argv[keys + 2] = "3600000";
    } else if (acquires || releases) {
      argv[keys + 4] = "3600000";
    }
    if (forces || limits || watches) argv[keys + 1] = "3600000";
    use_small_steps(step % 2 == 0);
    argv[1] = told_the_time(std::string{mutated_source(adopts     ? "permit_adopt"
                                                       : acquires ? "permit_acquire"
                                                       : releases ? "permit_release"
                                                       : forces   ? "force"
                                                       : limits   ? "permit_limit"
                                                       : inspects ? "inspect"
                                                       : requests ? "request"
                                                       : watches  ? "watch"
                                                                  : "permit_renew")});
    argv.push_back(std::to_string(side.now() / 1'000'000));
    argv.push_back(std::to_string(side.now() % 1'000'000));
    std::size_t who = 0;
    while (random_permits::clients()[who] != client) ++who;
    ASSERT_TRUE(both.run_same(who, argv)) << "step " << step;
    std::string const key = argv[3];
    ASSERT_TRUE(both.run_same(who, {"HGETALL", key})) << "step " << step;
    ASSERT_TRUE(both.run_same(who, {"ZRANGE", key + ":q", "0", "-1", "WITHSCORES"})) << "step " << step;
    ASSERT_TRUE(both.run_same(who, {"GET", key + ":f"})) << "step " << step;
    ASSERT_TRUE(both.run_same(who, {"HGETALL", key + ":r"})) << "step " << step;
    ASSERT_TRUE(both.run_same(who, {"ZRANGE", key + ":w", "0", "-1"})) << "step " << step;
    ASSERT_TRUE(both.run_same(who, {"EXISTS", key + ":a"})) << "step " << step;
    ASSERT_TRUE(both.run_same(who, {"ZRANGE", key + ":e", "0", "-1", "WITHSCORES"})) << "step " << step;
  }
  use_small_steps(false);
}

}  // namespace
}  // namespace conch::sim
