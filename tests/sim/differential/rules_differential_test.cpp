// lua/*.lua on the model of Redis against src/rules, the definition: random commands of a few clients, which now and
// then lose their connection. Each reply as the client reads it, each push and all that is kept of a lock must be the
// same.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "sim/differential/random_client_side.hpp"
#include "sim/differential/random_permits.hpp"
#include "sim/differential/rules_allowances.hpp"
#include "sim/differential/rules_server.hpp"
#include "sim/differential/scripted_server.hpp"

namespace conch::sim {
namespace {

/// CONCH_DIFFERENTIAL_STEPS: of each seed.
int steps_of_a_seed(int usual) {
  char const* const said = std::getenv("CONCH_DIFFERENTIAL_STEPS");
  return said != nullptr ? std::atoi(said) : usual;
}

/// The scripts and the rules, with the same clients.
struct both_servers {
  explicit both_servers(std::vector<std::string> const& clients) : scripts{clients} {
    for (std::string const& client : clients) change(client);
  }

  /// The client subscribes, or does so no more.
  void change(std::string const& client) {
    bool const on = listening.insert(client).second;
    if (!on) listening.erase(client);
    scripts.subscribe(client, on);
    rules.subscribe(client, on);
  }
  template <class Time>
  void at(Time now) {
    scripts.at(now);
    rules.at(now);
  }

  scripted_server scripts;
  rules_server rules;
  std::set<std::string> listening;
};

template <class Side>
void compare(Side& side, int steps, std::map<std::string, int>& happened) {
  both_servers both{side.clients()};
  scripted_server& scripts = both.scripts;
  rules_server& rules = both.rules;

  for (int step = 0; step < steps; ++step) {
    side.step();
    both.at(side.now());
    std::string const client = side.client();
    if (side.rarely()) both.change(client);
    protocol::command command = side.command(client);
    // No client is patient where it asks again.
    if (auto* const release = std::get_if<protocol::release_command>(&command); release != nullptr && release->patient)
      release->new_id = 0;

    std::vector<compared_state> before;
    for (std::string const& name : names_of(command)) before.push_back(state_of(rules.locks[name], side.now()));
    auto got = scripts.carry_out(command, client);
    auto expected = rules.carry_out(command, client);
    auto const where = [&] {
      return "at step " + std::to_string(step) + " at " + std::to_string(side.now()) + ", " + client + " sends\n" +
             described(command) + "\nanswer: " + testing::PrintToString(got.answer) +
             "\nbefore: " + testing::PrintToString(before);
    };
    allow(command, got.reply, expected.reply);
    ASSERT_EQ(allow(command, got.pushes, expected.pushes), "") << where();
    ASSERT_EQ(got.reply, expected.reply) << where();
    ASSERT_EQ(got.pushes, expected.pushes) << where();
    for (std::string const& name : names_of(command)) {
      rules::lock& l = rules.locks[name];
      compared_state const is = read_state(scripts, key_of(name), side.now());
      compared_state should = state_of(l, side.now());
      if (should.limit_is_set && is.kept > should.kept) {
        // The scripts remember a limit that was set somewhat longer, from whenever they look at its owners, and with it
        // the line.
        l.kept += (is.kept - should.kept) * 1000;
        if (is.line_kept > should.line_kept) l.line_kept += (is.line_kept - should.line_kept) * 1000;
        should = state_of(l, side.now());
        ++happened["a limit kept longer"];
      }
      ASSERT_EQ(is, should) << where();
      ++happened["states"];
      happened["owners"] += static_cast<int>(should.owners.size());
      happened["in line"] += static_cast<int>(should.line.size());
    }
    happened["pushes"] += static_cast<int>(got.pushes.size());
    ++happened[kind_of(got.reply)];
  }
}

// ---- scripts that do a little at once, repeated until they report that all is done
// ------------------------------------------------------------

/// The next command of a client that this answer, or these pushes, told that there is more to do. Nothing: it is
/// finished.
struct next_command {
  std::string client;
  std::optional<protocol::command> command;
};

next_command next_of(protocol::command const& c, std::string const& client, any_reply const& reply,
                     seen_grants const& pushes) {
  auto const kick = [&](std::string_view name, engine::permit const* permit) {
    protocol::release_command r{
        .name = name, .id = 1'000'000, .lease = std::chrono::seconds{1}, .claim = {}, .retention = {}};
    std::visit(
        [&](auto const& one) {
          if constexpr (requires { one.claim; }) r.claim = one.claim;
          if constexpr (requires { one.retention; }) r.retention = one.retention;
        },
        c);
    r.permit = permit;
    return next_command{client, r};
  };
  static engine::permit of_order;
  if (auto const* const r = std::get_if<protocol::acquire_reply>(&reply)) {
    auto asked = std::get<protocol::acquire_command>(c);
    if (r->what == protocol::acquire_reply::kind::unfinished) {
      if (asked.wait) asked.ticket = r->ticket;
      return {client, asked};
    }
    if (r->more_to_do) return kick(asked.name, asked.permit);
  }
  if (auto const* const r = std::get_if<protocol::release_reply>(&reply); r != nullptr && r->more_to_do) {
    auto same = std::get<protocol::release_command>(c);
    same.new_id = 0;
    return {client, same};
  }
  if (auto const* const r = std::get_if<protocol::order_reply>(&reply)) {
    if (r->goes_on) {
      auto asked = std::get<protocol::force_command>(c);
      asked.last = r->goes_on->last;
      asked.from_us = r->goes_on->from_us;
      return {client, asked};
    }
    of_order = r->permit;
    if (r->more_to_do) return kick(name_of(c), of_order ? &of_order : nullptr);
  }
  for (seen_grant const& g : pushes) {
    if (g.fence != freed_and_more_mark) continue;
    return {g.client, protocol::watch_command{.name = name_of(c)}};
  }
  return {};
}

/// Which client is granted what, and which are told something, in any order: without fences and the ends of leases,
/// which more scripts report oftener.
std::multiset<std::string> told(seen_grants const& all) {
  std::multiset<std::string> told;
  for (seen_grant const& g : all) {
    if (g.fence == end_mark) continue;
    std::string const what = g.fence > 0                 ? "granted"
                             : g.fence == 0              ? "revoked"
                             : g.fence == requested_mark ? "requested"
                                                         : "freed";
    told.insert(g.client + '.' + engine::to_text(g.id) + ' ' + what + ' ' + g.name);
  }
  return told;
}

/// The owners in the order of their fences.
std::vector<std::string> in_order_of_fences(compared_state const& s) {
  std::map<std::int64_t, std::string> by_fence;
  for (auto const& [id, fence] : s.fences) by_fence[fence] = id;
  std::vector<std::string> all;
  for (auto const& [fence, id] : by_fence) all.push_back(id);
  return all;
}

/// No id is used again. A lease is longer than a claim, and the retention longer than all leases; else the set of ends
/// goes before the owners, and a script in several parts misses one.
template <class Command>
void as_clients_do(Command& c) {
  if constexpr (requires { c.retention; }) c.retention = std::chrono::seconds{2};
  if constexpr (requires { c.new_id; }) {
    c.lease = std::max(c.lease, c.claim);
    if (c.new_id == c.id) c.new_id = 0;
  }
}

template <class Side>
void compare_until_finished(Side& side, int steps, std::map<std::string, int>& happened) {
  both_servers both{side.clients()};
  scripted_server& scripts = both.scripts;
  rules_server& rules = both.rules;

  for (int step = 0; step < steps; ++step) {
    side.step();
    both.at(side.now());
    std::string const client = side.client();
    if (side.rarely()) both.change(client);
    protocol::command command = side.command(client);
    std::visit([](auto& c) { as_clients_do(c); }, command);
    // No client is patient where it asks again.
    if (auto* const release = std::get_if<protocol::release_command>(&command); release != nullptr && release->patient)
      release->new_id = 0;
    std::vector<compared_state> before;
    std::map<std::string, std::int64_t> fences_before;
    for (std::string const& name : names_of(command)) {
      before.push_back(state_of(rules.locks[name], side.now()));
      fences_before[name] = before.back().fence;
    }

    next_command next{client, command};
    seen_grants got, expected;
    any_reply reply, should;
    std::optional<std::string> asks_again;
    int scripts_needed = 0;
    std::int64_t taken = 0, should_take = 0;
    while (next.command) {
      ASSERT_LT(++scripts_needed, 100) << described(command);
      auto const is = scripts.carry_out(*next.command, next.client);
      auto const ought = rules.carry_out(*next.command, next.client);
      got.insert(got.end(), is.pushes.begin(), is.pushes.end());
      expected.insert(expected.end(), ought.pushes.begin(), ought.pushes.end());
      bool const is_the_same =
          next.command->index() == command.index() && !std::holds_alternative<protocol::watch_command>(command);
      if (scripts_needed == 1 || (is_the_same && !std::holds_alternative<protocol::release_command>(command))) {
        reply = is.reply;
        should = ought.reply;
      }
      if (std::holds_alternative<protocol::force_command>(*next.command)) {
        taken += std::get<protocol::order_reply>(is.reply).count;
        should_take += std::get<protocol::order_reply>(ought.reply).count;
      }
      next = next_of(*next.command, next.client, is.reply, is.pushes);
      // A client that queues anew asks again: it may have been granted the lock by a push instead of the answer, or
      // have lost its place as one that is not subscribed.
      auto const* const released = std::get_if<protocol::release_reply>(&reply);
      if (!next.command && scripts_needed > 1 && released != nullptr &&
          released->again.what == protocol::acquire_reply::kind::queued) {
        auto const& c = std::get<protocol::release_command>(command);
        next = {client, protocol::acquire_command{.name = c.name,
                                                  .id = c.new_id,
                                                  .lease = c.lease,
                                                  .claim = c.claim,
                                                  .retention = c.retention,
                                                  .ticket = released->again.ticket}};
        std::get<protocol::release_reply>(reply).again = {};
        asks_again = client + '.' + engine::to_text(c.new_id) + " granted " + std::string{c.name};
        ++happened["again by a push"];
      }
      // The client that was to notify the next watchers was not told; they would ask by themselves.
      std::string const name{name_of(command)};
      if (!next.command && !name.empty() && rules.locks[name].watchers.empty() &&
          !read_state(scripts, key_of(name), side.now()).watchers.empty()) {
        next = {client, protocol::watch_command{.name = name_of(command)}};
        ++happened["nobody told the next watchers"];
      }
    }
    bool const was_repeated = scripts_needed > 1;
    if (was_repeated) ++happened["repeated"];
    if (side.now() < protocol::fence_epoch_us) ++happened["before 2020"];
    if (kind_of(reply) == "not done") ++happened["not done"];

    auto const where = [&] {
      return "at step " + std::to_string(step) + " at " + std::to_string(side.now()) + " after " +
             std::to_string(scripts_needed) + " scripts, " + client + " sends\n" + described(command) +
             "\nbefore: " + testing::PrintToString(before) + "\nreply " + testing::PrintToString(reply) +
             "\nby the rules " + testing::PrintToString(should);
    };
    ASSERT_EQ(reply.index(), should.index()) << where();
    ASSERT_EQ(taken, should_take) << where();
    if (auto const* const r = std::get_if<protocol::acquire_reply>(&reply)) {
      auto const& s = std::get<protocol::acquire_reply>(should);
      ASSERT_EQ(r->what, s.what) << where();
      ASSERT_EQ(r->ticket, s.ticket) << where();
    }
    if (auto const* const r = std::get_if<protocol::release_reply>(&reply)) {
      auto const& s = std::get<protocol::release_reply>(should);
      ASSERT_EQ(r->what, s.what) << where();
      ASSERT_EQ(r->was_mine, s.was_mine) << where();
    }
    if (std::holds_alternative<protocol::renew_reply>(reply) || std::holds_alternative<protocol::watch_reply>(reply) ||
        std::holds_alternative<engine::lock_report>(reply) || std::holds_alternative<protocol::session_reply>(reply)) {
      ASSERT_EQ(reply, should) << where();
    }
    auto is_told = told(got), ought_to_be_told = told(expected);
    if (was_repeated) {
      // Between two scripts the lock may be without an owner: then the watchers are told.
      std::erase_if(is_told, [](std::string const& one) { return one.find(" freed ") != std::string::npos; });
      std::erase_if(ought_to_be_told, [](std::string const& one) { return one.find(" freed ") != std::string::npos; });
    }
    if (asks_again) is_told.erase(*asks_again);
    ASSERT_EQ(is_told, ought_to_be_told) << where();
    for (std::string const& name : names_of(command)) {
      rules::lock& l = rules.locks[name];
      compared_state const is = read_state(scripts, key_of(name), side.now());
      compared_state ought = state_of(l, side.now());
      ASSERT_EQ(in_order_of_fences(is), in_order_of_fences(ought))
          << testing::PrintToString(is) << testing::PrintToString(ought) << where();
      ASSERT_TRUE(is.fence >= fences_before[name] || is.fence == 0) << where();
      if (was_repeated && std::all_of(is.watchers.begin(), is.watchers.end(), [&](auto const& w) {
            return std::count(ought.watchers.begin(), ought.watchers.end(), w) != 0;
          })) {
        ought.watchers = is.watchers;
        ought.watchers_kept = is.watchers_kept;
      }
      if (was_repeated) {
        // A client that asks again shows a ticket, and so checks whether the first in the queue are there.
        auto const is_gone = [&](auto const& w) {
          return std::find(is.line.begin(), is.line.end(), w) == is.line.end() &&
                 !rules.is_listening(w.second.substr(0, w.second.find('.')));
        };
        happened["in line and deaf"] += static_cast<int>(std::erase_if(ought.line, is_gone));
        if (ought.line.empty()) ought.line_kept = -1;
      }
      bool const fences_differ = is.fences != ought.fences || is.fence != ought.fence;
      if (is.fence != ought.fence) ought.fence_kept = is.fence_kept;
      ought.fences = is.fences;
      ought.fence = is.fence;
      if (is.limit_is_set && is.kept > ought.kept) {
        ought.kept = is.kept;
        ought.line_kept = is.line_kept;
        ++happened["a limit kept longer"];
      }
      ASSERT_EQ(is, ought) << where();
      if (fences_differ) ++happened["other fences"];
      copy_what_may_differ(is, l, side.now());
    }
    ++happened["commands"];
  }
  use_small_steps(false);
}

class RulesDifferential : public testing::TestWithParam<std::uint64_t> {
 protected:
  template <class Side>
  void compare_with(generator_options const& o) {
    use_small_steps(false);
    Side side{GetParam(), o};
    compare(side, steps_of_a_seed(12'000), happened_);
    for (char const* const what : {"states", "owners", "in line", "pushes"}) EXPECT_GT(happened_[what], 50) << what;
    for (char const* const what :
         {"granted", "queued", "busy", "too late", "still owned", "released", "left", "renewed", "not renewed", "order",
          "order about nobody", "free", "not free", "report", "report of nobody"}) {
      EXPECT_GT(happened_[what], 3) << what;
    }
  }

  /// Every other seed with patient clients, every third about 2020.
  static generator_options small_steps(bool owners_act) {
    return {.patience = GetParam() % 2 == 0,
            .many_names = GetParam() % 4 == 1,
            .near_2020 = GetParam() % 3 == 0,
            .owners_act = owners_act};
  }

  void expect_what_was_drawn() {
    EXPECT_EQ(happened_["not done"] > 0, GetParam() % 2 == 0) << "a patient release waits for the first in line";
    EXPECT_EQ(happened_["before 2020"] > 0, GetParam() % 3 == 0);
  }

  std::map<std::string, int> happened_;
};

TEST_P(RulesDifferential, TheScriptsDoWithAMutexWhatTheRulesSay) {
  compare_with<random_client_side>(
      {.patience = GetParam() % 2 == 0, .many_names = GetParam() % 4 == 1, .near_2020 = GetParam() % 3 == 0});
}

TEST_P(RulesDifferential, TheScriptsDoWithALockOfSeveralOwnersWhatTheRulesSay) {
  compare_with<random_permits>({.patience = GetParam() % 2 == 0,
                                .many_names = GetParam() % 4 == 1,
                                .near_2020 = GetParam() % 3 == 0,
                                .owners_act = true});
  EXPECT_GT(happened_["wrong type"], 10);
  EXPECT_EQ(happened_["not done"] > 0, GetParam() % 2 == 0) << "a patient release waits for the first in line";
}

/// In small steps, so that many scripts have more to do than they may.
TEST_P(RulesDifferential, ScriptsThatAreRepeatedUntilTheyAreFinishedDoWithAMutexWhatTheRulesSay) {
  use_small_steps(true);
  random_client_side side{GetParam(), small_steps(GetParam() % 2 == 0)};
  compare_until_finished(side, steps_of_a_seed(8'000), happened_);
  for (auto const& [what, times] : happened_) RecordProperty(what, times);
  EXPECT_GT(happened_["repeated"], 0);
  expect_what_was_drawn();
}

TEST_P(RulesDifferential, ScriptsThatAreRepeatedUntilTheyAreFinishedDoWithALockOfSeveralOwnersWhatTheRulesSay) {
  use_small_steps(true);
  random_permits side{GetParam(), small_steps(true)};
  compare_until_finished(side, steps_of_a_seed(8'000), happened_);
  for (auto const& [what, times] : happened_) RecordProperty(what, times);
  EXPECT_GT(happened_["repeated"], 10);
  expect_what_was_drawn();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RulesDifferential, testing::Range<std::uint64_t>(1, 13));

}  // namespace
}  // namespace conch::sim
