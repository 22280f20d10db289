// The scripts at real nodes of a Cluster: which clients receive, which are counted, and what a moving slot does to
// them.

#include "resp/decoder.hpp"
#include "servers/redis/codec.hpp"
#include "servers/redis/topology/slots.hpp"
#include "support/cluster_set.hpp"
#include "support/messages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <vector>

namespace conch::test {
namespace {

using namespace std::chrono_literals;

engine::permit const a_semaphore{.kind = engine::permit_kind::semaphore, .limit = 1, .weight = 1};

/// A client at one node: what it sends with every script's source, and what it receives on its own connection.
class member {
 public:
  member(cluster_set& of, std::size_t node, std::string client)
      : digits_{of.id(node).substr(0, 8)},
        client_{std::move(client)},
        probe_{of.node(node), 10s},
        ear_{of.node(node), 10s} {}

  redis::sender who() const {
    redis::sender w{client_};
    w.node = digits_;
    return w;
  }

  std::string send(protocol::command const& c, bool asking = false) {
    std::string bytes;
    redis::encode(c, who(), bytes);
    resp::decoder in;
    auto const message = test::only_message(in, bytes);
    std::vector<std::string> words;
    for (auto const& n : message.subspan(1)) words.emplace_back(n.text);
    if (asking) probe_.command({"ASKING"});
    return probe_.command(words);
  }

  std::string subscribe(std::string const& lock) {
    channel_ = redis::channel_of(who(), redis::slot_of_lock(lock));
    return ear_.command({"SSUBSCRIBE", channel_});
  }
  std::string received() { return ear_.read_message(); }
  std::string message(std::string const& text) const { return "[smessage, " + channel_ + ", " + text + "]"; }

  std::string ask(std::string const& lock, std::uint64_t id, engine::permit const* p = nullptr, bool wait = true) {
    protocol::acquire_command c{lock, id, wait, 30s, 3s, 60s};
    c.with_source = true;
    c.permit = p;
    return send(c);
  }
  std::string give_back(std::string const& lock, std::uint64_t id, engine::permit const* p = nullptr) {
    protocol::release_command c{
        .name = lock, .id = id, .lease = 30s, .claim = 3s, .retention = 60s, .with_source = true};
    c.permit = p;
    return send(c);
  }
  std::string renew(std::string const& lock, std::uint64_t id, bool asking = false) {
    std::vector<protocol::renewal> const items{{lock, id, 30s}};
    return send(protocol::renew_command{.items = items, .with_source = true}, asking);
  }

 private:
  std::string digits_, client_, channel_;
  redis_probe probe_, ear_;
};

/// A free lock is granted with a fence alone, or in a list.
bool is_granted(std::string const& said) {
  return !said.empty() && (std::isdigit(static_cast<unsigned char>(said.front())) != 0 || said.starts_with("[1, "));
}
bool is_in_line(std::string const& said) { return said.starts_with("[0, "); }

struct ClusterScripts : testing::Test {
  cluster_set cluster;
  std::string const lock = cluster.name_at(0);
  unsigned const slot = redis::slot_of_lock(lock);
  member holder{cluster, 0, "h"}, waiter{cluster, 0, "w"};

  std::string key(std::string const& tail = {}) const { return "conch:{" + lock + "}" + tail; }
};

TEST_F(ClusterScripts, AReleaseReachesTheNextInLineAndNobodyElse) {
  ASSERT_EQ(cluster.slot_of(key()), slot);
  for (engine::permit const* const p : {static_cast<engine::permit const*>(nullptr), &a_semaphore}) {
    waiter.subscribe(lock);
    EXPECT_TRUE(is_granted(holder.ask(lock, 1, p)));
    EXPECT_TRUE(is_in_line(waiter.ask(lock, 2, p)));
    std::string const released = holder.give_back(lock, 1, p);
    EXPECT_TRUE(released.starts_with("[1, 1, ")) << "it was the owner's, and is passed on: " << released;
    std::string const grant = waiter.received();
    EXPECT_TRUE(grant.starts_with("[smessage, ")) << grant;
    EXPECT_NE(grant.find("w.2 "), std::string::npos) << grant;
    EXPECT_TRUE(grant.ends_with(" " + key() + "]")) << grant;
    (void)waiter.give_back(lock, 2, p);
  }
  // No message went to all nodes.
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    std::string const info = redis_probe{cluster.node(i)}.command({"CLUSTER", "INFO"});
    EXPECT_EQ(info.find("cluster_stats_messages_publish_sent"), std::string::npos) << info;
  }
}

TEST_F(ClusterScripts, AWaiterThatListensInTheNameOfAnotherNodeIsPassedOver) {
  // As one that has not noticed yet that the slot has another owner.
  member elsewhere{cluster, 0, "e"};
  std::string const name_of_1 = cluster.id(1).substr(0, 8);
  redis_probe ear{cluster.node(0), 10s};
  std::string const channel = "conch:{" + std::to_string(redis::tag_of_slot(slot)) + "}:e:" + name_of_1;
  EXPECT_EQ(ear.command({"SSUBSCRIBE", channel}), "[ssubscribe, " + channel + ", 1]");
  waiter.subscribe(lock);
  EXPECT_TRUE(is_granted(holder.ask(lock, 1)));
  EXPECT_TRUE(is_in_line(elsewhere.ask(lock, 2)));
  EXPECT_TRUE(is_in_line(waiter.ask(lock, 3)));
  (void)holder.give_back(lock, 1);
  EXPECT_NE(waiter.received().find("w.3 "), std::string::npos);
  EXPECT_EQ(redis_probe{cluster.node(0)}.command({"SPUBLISH", channel, "mark"}), "1");
  EXPECT_EQ(ear.read_message(), "[smessage, " + channel + ", mark]") << "it heard nothing before";
}

TEST_F(ClusterScripts, AnOperatorsOrdersReachTheOwner) {
  holder.subscribe(lock);
  EXPECT_TRUE(is_granted(holder.ask(lock, 1, nullptr, false)));
  EXPECT_EQ(waiter.send(protocol::request_command{.name = lock, .with_source = true}).substr(0, 2), "[1");
  EXPECT_EQ(holder.received(), holder.message("*h.1 " + key()));
  EXPECT_EQ(waiter.send(protocol::force_command{.name = lock, .claim = 3s, .retention = 60s, .with_source = true})
                .substr(0, 2),
            "[1");
  EXPECT_EQ(holder.received(), holder.message("!h.1 " + key()));
}

TEST_F(ClusterScripts, AWatcherIsToldThatTheLockIsFree) {
  waiter.subscribe(lock);
  EXPECT_TRUE(is_granted(holder.ask(lock, 1)));
  protocol::watch_command watch{.name = lock, .id = 5, .lease = 30s};
  watch.with_source = true;
  EXPECT_TRUE(is_in_line(waiter.send(watch)));
  EXPECT_EQ(holder.give_back(lock, 1), "1");
  EXPECT_EQ(waiter.received(), waiter.message("=w.5 " + key()));
}

TEST_F(ClusterScripts, ALimitThatGrowsLetsTheNextIn) {
  waiter.subscribe(lock);
  EXPECT_TRUE(is_granted(holder.ask(lock, 1, &a_semaphore)));
  EXPECT_TRUE(is_in_line(waiter.ask(lock, 2, &a_semaphore)));
  protocol::limit_command grow{.name = lock, .claim = 3s, .retention = 60s, .limit = 2};
  grow.with_source = true;
  EXPECT_TRUE(holder.send(grow).starts_with("[2, "));
  EXPECT_NE(waiter.received().find("w.2 "), std::string::npos);
}

/// A slot that is on its way: the source still has it, and the target has what was moved.
struct ClusterScriptsOnTheWay : ClusterScripts {
  member at_target{cluster, 1, "h"};
};

TEST_F(ClusterScriptsOnTheWay, AskForThreeKeysIsForLaterAndChangesNothing) {
  // D4: the lock is held, and there is no line; nothing has moved yet.
  EXPECT_TRUE(is_granted(holder.ask(lock, 1)));
  cluster.begin_move(slot, 1);
  EXPECT_TRUE(waiter.ask(lock, 2).starts_with("(error) TRYAGAIN"));
  EXPECT_TRUE(holder.give_back(lock, 1).starts_with("(error) TRYAGAIN"));
  EXPECT_TRUE(redis_probe{cluster.node(0)}.command({"GET", key()}).starts_with("h.1 ")) << "it is held as before";
  EXPECT_EQ(redis_probe{cluster.node(0)}.command({"EXISTS", key(":q")}).substr(0, 11), "(error) ASK")
      << "the queue is empty";
  cluster.move_keys(slot, 1);
  cluster.end_move(slot, 1);
  EXPECT_TRUE(holder.give_back(lock, 1).starts_with("(error) MOVED"));
  EXPECT_EQ(at_target.give_back(lock, 1), "1") << "released under the same id at the new owner";
}

TEST_F(ClusterScriptsOnTheWay, ARenewalFollowsAskAtAnyTime) {
  EXPECT_TRUE(is_granted(holder.ask(lock, 1)));
  cluster.begin_move(slot, 1);
  EXPECT_TRUE(holder.renew(lock, 1).ends_with(", 1]")) << "it is still here";
  EXPECT_EQ(cluster.move_keys(slot, 1), 2u) << "the lock and its fence";
  EXPECT_TRUE(holder.renew(lock, 1).starts_with("(error) ASK"));
  EXPECT_TRUE(at_target.renew(lock, 1).starts_with("(error) MOVED")) << "not without ASKING";
  EXPECT_TRUE(at_target.renew(lock, 1, true).ends_with(", 1]"));
  cluster.end_move(slot, 1);
  EXPECT_TRUE(at_target.renew(lock, 1).ends_with(", 1]"));
}

TEST_F(ClusterScriptsOnTheWay, WhoeverListensAtTheSourceIsToldOfTheEndAndMovesOn) {
  waiter.subscribe(lock);
  EXPECT_TRUE(is_granted(holder.ask(lock, 1)));
  EXPECT_TRUE(is_in_line(waiter.ask(lock, 2)));
  cluster.move_slot(slot, 1);
  EXPECT_TRUE(waiter.received().starts_with("[sunsubscribe, ")) << "without having asked for it";
  EXPECT_TRUE(waiter.ask(lock, 2).starts_with("(error) MOVED"));
  member moved{cluster, 1, "w"};
  moved.subscribe(lock);
  EXPECT_TRUE(is_in_line(moved.ask(lock, 2))) << "under the same id: its place is there";
  EXPECT_TRUE(at_target.give_back(lock, 1).starts_with("[1, 1, "));
  EXPECT_NE(moved.received().find("w.2 "), std::string::npos);
}

TEST_F(ClusterScriptsOnTheWay, APatientReleaseAtTheNewOwnerWaitsForWhoeverHasNotComeYet) {
  EXPECT_TRUE(is_granted(holder.ask(lock, 1)));
  EXPECT_TRUE(is_in_line(waiter.ask(lock, 2)));
  cluster.move_slot(slot, 1);
  protocol::release_command patient{
      .name = lock, .id = 1, .lease = 30s, .claim = 3s, .retention = 60s, .with_source = true};
  patient.patient = true;
  EXPECT_TRUE(at_target.send(patient).starts_with("[3, 0, 1, ")) << "not done: the line is not emptied";
  member moved{cluster, 1, "w"};
  moved.subscribe(lock);
  EXPECT_TRUE(at_target.send(patient).starts_with("[1, 1, "));
  EXPECT_EQ(moved.received().find("[sunsubscribe"), std::string::npos);
}

}  // namespace
}  // namespace conch::test
