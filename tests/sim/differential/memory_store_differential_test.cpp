// memory:// against the real scripts: random commands of a few clients, carried out by conch::memory::store and by
// lua/*.lua on the model of Redis. Every reply and every push must be the same.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "sim/differential/store_differential.hpp"

namespace conch::sim {
namespace {

using std::chrono::milliseconds;

/// What a client might do next, and things it would never do: answers must agree for all of them.
class random_client_side {
 public:
  random_client_side(std::uint64_t seed) : random_{seed} {
    auto const clients = static_cast<std::size_t>(pick(2, 4));
    // Not in the order of their letters, and one a prefix of another.
    std::vector<std::string> const all{"c7f", "a01", "c7f0", "b"};
    clients_.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(clients));
    std::vector<std::string> const names{"stock:{1}%7D", "}", std::string{"a\0b", 3}};
    names_.assign(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(pick(1, 3)));
  }

  std::vector<std::string> const& clients() const { return clients_; }
  std::int64_t now() const { return now_us_; }

  void step() {
    switch (pick(0, 19)) {
      case 0: now_us_ += pick(1, 40) * 100'000; break;  // a lease or two
      case 1: now_us_ += pick(0, 3) * 1'000; break;     // to the very millisecond of an expiry
      case 2: now_us_ -= pick(1, 400'000); break;
      case 3:
        if (pick(0, 9) == 0) now_us_ -= pick(1, 20) * 1'000'000;
        if (pick(0, 30) == 0) now_us_ += 30'000'000;  // everything expires
        break;
      case 4:
      case 5:
      case 6: break;  // no time at all: equal tickets
      default: now_us_ += pick(1, 60'000); break;
    }
  }

  /// An owner of a lock that an answer has told of.
  void sees(std::string_view of, std::int64_t fence) {
    seen_of_ = of;
    seen_fence_ = fence;
  }

  std::string const& client() { return clients_[static_cast<std::size_t>(pick(0, std::ssize(clients_) - 1))]; }
  std::string const& name() { return names_[static_cast<std::size_t>(pick(0, std::ssize(names_) - 1))]; }

  protocol::command command(std::string const& client) {
    auto const retention = milliseconds{pick(0, 3) == 0 ? 1 : 2'000};
    auto const claim = milliseconds{pick(1, 4) * 50};
    if (!asked_.empty() && pick(0, 11) == 0) {
      asked const& from = asked_[static_cast<std::size_t>(pick(0, std::ssize(asked_) - 1))];
      origin_ = from.origin;
      protocol::acquire_command c{pick(0, 9) == 0 ? name() : *from.name, some_id(client), false, lease(), claim, retention};
      if (pick(0, 5) == 0) c.not_after_us = now_us_ + pick(-2, 2);
      c.origin = origin_;
      return c;
    }
    if (pick(0, 9) == 0) {
      if (!watched_.empty() && pick(0, 4) == 0) {
        auto const [of, id] = watched_.front();
        watched_.pop_front();
        return protocol::unwatch_command{of, id};
      }
      protocol::watch_command const c{name(), pick(0, 5) == 0 ? engine::grant_id{} : some_id(client), lease()};
      watched_.emplace_back(c.name, c.id);
      if (watched_.size() > 3) watched_.pop_front();
      return c;
    }
    switch (pick(0, 15)) {
      case 15: return protocol::requested_command{seen_of_, pick(0, 3) == 0 ? some_fence() : seen_fence_};
      case 12: return protocol::inspect_command{name()};
      case 13:
        if (pick(0, 1) == 0) return protocol::inspect_command{name()};
        if (pick(0, 1) == 0) return protocol::request_command{name(), pick(0, 2) == 0 ? some_fence() : 0};
        return protocol::force_command{name(), claim, retention, pick(0, 4) == 0 ? some_fence() : 0};
      case 14: {
        attempts_.clear();
        for (std::int64_t n = pick(1, 3); n > 0; --n) attempts_.push_back({name(), some_id(client), lease()});
        return protocol::acquire_all_command{attempts_, retention, pick(0, 5) == 0 ? now_us_ + pick(-2, 2) : 0};
      }
      case 0:
      case 1:
      case 2:
      case 3: {
        protocol::acquire_command c{name(), some_id(client), pick(0, 4) != 0, lease(), claim, retention};
        if (pick(0, 3) == 0) c.ticket = now_us_ + pick(-300'000, 100'000);
        if (pick(0, 5) == 0) c.not_after_us = now_us_ + pick(-2, 2);
        if (pick(0, 2) == 0) {
          c.id = some_vote(client);
          c.proposal = pick(0, 1) == 0 ? 1 : some_fence();
        }
        // If it is granted at once, mostly with this fence.
        auto const at = std::find(names_.begin(), names_.end(), c.name);
        asked_.push_back({&*at, client + "." + engine::to_text(c.id) + " " + std::to_string(now_us_ - protocol::fence_epoch_us)});
        if (asked_.size() > 6) asked_.pop_front();
        return c;
      }
      case 4:
      case 5:
      case 6:
      case 7: {
        protocol::release_command c{name(), some_id(client), pick(0, 3) == 0, lease(), claim, retention};
        if (pick(0, 2) == 0) c.new_id = some_id(client);
        if (pick(0, 2) == 0) {
          c.id = some_vote(client);
          c.floor = some_fence();
          if (pick(0, 1) == 0) c.next_fence_floor = some_fence();
        }
        return c;
      }
      case 8: {
        items_.clear();
        for (std::int64_t n = pick(1, 3); n > 0; --n) items_.push_back({name(), some_id(client), lease()});
        return protocol::renew_command{items_, false, false, pick(0, 2) == 0 ? retention : milliseconds{}};
      }
      case 9:
      case 10: {
        items_.clear();
        for (std::int64_t n = pick(1, 3); n > 0; --n) items_.push_back({name(), some_vote(client), lease(), some_fence()});
        return protocol::confirm_command{items_, retention, false, pick(0, 2) == 0};
      }
      default: return protocol::prove_publish_command{};
    }
  }

  bool rarely() { return pick(0, 24) == 0; }

 private:
  std::int64_t pick(std::int64_t from, std::int64_t to) { return std::uniform_int_distribution<std::int64_t>{from, to}(random_); }
  milliseconds lease() { return milliseconds{pick(0, 5) == 0 ? 1 : pick(1, 8) * 100}; }

  /// Mostly a recent one; 9 and 10, 99 and 100 are in another order as texts.
  engine::grant_id some_id(std::string const& of) {
    auto& last = last_[of];
    if (last == 0) last = 7;
    if (pick(0, 3) == 0) ++last;
    return with_nonce(last - static_cast<std::uint64_t>(pick(0, 4)));
  }

  /// Tickets are few, so that it is often the same vote.
  engine::grant_id some_vote(std::string const& of) {
    return with_nonce(7000 + last_[of] / 16 * 1000 + static_cast<std::uint64_t>(pick(0, 9) == 0 ? 999 : 0));
  }

  std::int64_t some_fence() { return now_us_ - 1'577'836'800'000'000 + pick(-100'000, 400'000); }

  std::mt19937_64 random_;
  std::vector<std::string> clients_, names_;
  std::string seen_of_ = "stock:{1}%7D";
  std::int64_t seen_fence_ = 1;
  std::map<std::string, std::uint64_t> last_;
  struct asked {
    std::string const* name;
    std::string origin;  // of one that takes it over
  };
  std::deque<asked> asked_;
  std::deque<std::pair<std::string_view, engine::grant_id>> watched_;
  std::string origin_;
  std::vector<protocol::renewal> items_;
  std::vector<protocol::attempt> attempts_;
  std::int64_t now_us_ = 1'700'000'000'000'000;
};

class MemoryStore : public testing::TestWithParam<std::uint64_t> {};

TEST_P(MemoryStore, AnswersAndPushesWhatTheScriptsDo) {
  random_client_side side{GetParam()};
  std::map<std::string, int> happened;
  auto const note = [&](protocol::command const& command, std::vector<std::int64_t> const& answer, seen_grants const& pushed) {
    if (!pushed.empty()) ++happened["push"];
    if (auto const* const c = std::get_if<protocol::acquire_command>(&command)) {
      ++happened[(c->origin.empty() ? "acquire " : "adopt ") + std::to_string(answer[0])];
    }
    if (std::holds_alternative<protocol::acquire_all_command>(command)) {
      ++happened[answer[0] == 3 ? "tries too late" : "tries " + std::to_string(answer.size() - 1)];
    }
    if (std::holds_alternative<protocol::release_command>(command)) {
      ++happened["release " + std::to_string(answer[0]) + (answer.size() > 4 ? " and again" : "")];
    }
    if (std::holds_alternative<protocol::confirm_command>(command)) ++happened["confirm " + std::to_string(answer[1])];
    if (std::holds_alternative<protocol::release_command>(command) && answer.size() >= 4 && answer[0] < 2 && answer[1] == 2) ++happened["more"];
    if (answer.size() == 7 && answer[4] != 0 && answer[5] != 0) ++happened[answer[6] == 0 ? "rival" : "confirmed rival"];
    if (std::holds_alternative<protocol::renew_command>(command)) ++happened["renew " + std::to_string(answer[1])];
    if (std::holds_alternative<protocol::force_command>(command)) {
      ++happened["force " + std::to_string(answer[0]) + (pushed.size() > 1 ? " and pass on" : "")];
    }
    if (std::holds_alternative<protocol::inspect_command>(command)) ++happened["inspect " + std::to_string(answer[2])];
    if (auto const* const inspected = std::get_if<protocol::inspect_command>(&command); inspected != nullptr && answer.size() > 10) {
      side.sees(inspected->name, answer[10]);
    }
    if (std::holds_alternative<protocol::inspect_command>(command) && answer.size() > 15) ++happened["inspect a request"];
    if (std::holds_alternative<protocol::request_command>(command)) ++happened["request " + std::to_string(answer[0])];
    if (std::holds_alternative<protocol::watch_command>(command)) ++happened["watch " + std::to_string(answer[0])];
    if (std::holds_alternative<protocol::unwatch_command>(command)) ++happened["unwatch " + std::to_string(answer[0])];
    for (seen_grant const& one : pushed) {
      if (one.fence == freed_mark) ++happened["freed"];
      if (one.fence == freed_and_more_mark) ++happened["freed and more"];
    }
    if (std::holds_alternative<protocol::requested_command>(command)) ++happened["requested " + std::to_string(answer[0])];
  };
  ASSERT_NO_FATAL_FAILURE(compare_store_with_scripts(side, 12'000, GetParam() % 2 == 0, note));
  // A generator that never gets into a state proves nothing about it.
  for (char const* what : {"push",
                           "acquire 0",
                           "acquire 1",
                           "acquire 2",
                           "acquire 3",
                           "adopt 1",
                           "adopt 2",
                           "adopt 3",
                           "release 0",
                           "release 1",
                           "release 2",
                           "release 0 and again",
                           "release 1 and again",
                           "renew 0",
                           "watch 0",
                           "watch 1",
                           "unwatch 1",
                           "freed",
                           "renew 1",
                           "confirm 0",
                           "confirm 1",
                           "confirm 2",
                           "rival",
                           "confirmed rival",
                           "force 0",
                           "force 1",
                           "force 1 and pass on",
                           "inspect 0",
                           "inspect 1",
                           "inspect a request",
                           "request 0",
                           "request 1",
                           "requested 0",
                           "requested 1",
                           "tries 0",
                           "tries 1",
                           "tries 2",
                           "tries too late"}) {
    EXPECT_GT(happened[what], 3) << what;
  }
  if (GetParam() % 2 == 0) {
    EXPECT_GT(happened["more"] + happened["acquire 4"], 3);
  }
}

TEST_P(MemoryStore, ForgetsWhatTheServerForgets) {
  random_client_side side{GetParam() + 1000};
  scripted_server scripts{side.clients()};
  memory::store store;
  for (int step = 0; step < 500; ++step) {
    side.step();
    scripts.at(side.now());
    std::string const client = side.client();
    protocol::command const command = side.command(client);
    scripts.carry_out(command, client);
    reply_of(store, command, client, side.now());
    // A lock has up to six keys.
    ASSERT_LE(store.size(), scripts.key_count()) << "step " << step << '\n' << described(command);
    ASSERT_GE(store.size() * 6, scripts.key_count()) << "step " << step << '\n' << described(command);
  }
}

TEST(MemoryStoreTries, StopAtALockOfAnotherKindAndSayWhatTheyHave) {
  using namespace std::chrono_literals;
  constexpr std::int64_t now_us = 1'700'000'000'000'000;
  scripted_server scripts{{"c"}};
  scripts.at(now_us);
  memory::store store;
  auto const both = [&](protocol::command const& command) {
    auto const expected = scripts.carry_out(command, "c");
    EXPECT_EQ(reply_of(store, command, "c", now_us), expected.reply) << described(command);
    return expected.answer;
  };
  engine::permit const permit{engine::permit_kind::semaphore, 5, 1, 0, "-"};
  both(protocol::acquire_command{.name = "b", .id = 1, .lease = 1s, .claim = 1s, .retention = 1s, .permit = &permit});
  protocol::attempt const three[] = {{"a", 2, 1s}, {"b", 3, 1s}, {"c", 4, 1s}};
  EXPECT_EQ(both(protocol::acquire_all_command{three, 1s}).size(), 2u);
  protocol::attempt const last[] = {{"c", 5, 1s}};
  EXPECT_EQ(both(protocol::acquire_all_command{last, 1s}).size(), 2u) << "what was behind it is free";
}

INSTANTIATE_TEST_SUITE_P(Seeds, MemoryStore, testing::Range<std::uint64_t>(1, 13));

}  // namespace
}  // namespace conch::sim
