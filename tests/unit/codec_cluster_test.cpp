// What is said with a node of a Cluster, where it differs from one server: the channels.

#include "resp/decoder.hpp"
#include "servers/redis/codec.hpp"
#include "servers/redis/scripts.hpp"
#include "servers/redis/topology/slots.hpp"
#include "support/messages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace conch::redis {
namespace {

using namespace std::chrono_literals;
using words = std::vector<std::string>;

std::string const node = "0a1b2c3d";

sender at_node(unsigned home = 0) {
  sender who{"c1"};
  who.node = node;
  who.home = home;
  return who;
}

words encoded(protocol::command const& c, sender const& who = at_node()) {
  std::string bytes;
  encode(c, who, bytes);
  resp::decoder in;
  test::feed(in, bytes);
  words all;
  if (in.next() != resp::decoder::progress::message) return all;
  EXPECT_EQ(in.message().front().count, in.message().size() - 1);
  for (auto const& n : in.message().subspan(1)) all.emplace_back(n.text);
  EXPECT_EQ(in.next(), resp::decoder::progress::need_more);
  return all;
}

std::string tag_of(std::string const& name) { return std::to_string(tag_of_slot(slot_of_lock(name))); }
std::string shard_of(std::string const& name) { return "{" + tag_of(name) + "}:%s:" + node; }
engine::permit const a_semaphore{.kind = engine::permit_kind::semaphore, .limit = 3, .weight = 1};

/// With the position that the script takes it from (lua/*.lua): after this many keys and other arguments.
TEST(ClusterCodec, TellsEachScriptThatPublishesTheChannelsOfTheSlot) {
  std::vector<protocol::renewal> const renewed{{"L", 1, 1s}};
  struct {
    char const* what;
    protocol::command c;
    std::size_t keys, place;
  } const table[] = {
      {"acquire", protocol::acquire_command{"L", 1, true, 1s, 1s, 1s}, 3, 9},
      {"permit_acquire", protocol::acquire_command{.name = "L", .id = 1, .permit = &a_semaphore}, 4, 13},
      {"release", protocol::release_command{"L", 1}, 3, 9},
      {"release_later", protocol::release_command{.name = "L", .id = 1, .ends_in = std::chrono::seconds{1}}, 4, 6},
      {"permit_release", protocol::release_command{.name = "L", .id = 1, .permit = &a_semaphore}, 4, 11},
      {"force", protocol::force_command{.name = "L"}, 4, 6},
      {"force that goes on", protocol::force_command{.name = "L", .last = 5, .from_us = 6}, 4, 6},
      {"permit_limit", protocol::limit_command{.name = "L", .limit = 1}, 4, 6},
      {"permit_limit that changes", protocol::limit_command{.name = "L", .limit = 1, .by = 2}, 4, 6},
      {"request", protocol::request_command{.name = "L"}, 2, 3},
      {"watch", protocol::watch_command{.name = "L", .id = 1}, 3, 3},
      {"adopt", protocol::acquire_command{.name = "L", .id = 1, .origin = "c2.9 100"}, 3, 6},
      {"renewal that keeps fences", protocol::renew_command{.items = renewed, .retention = 1s}, 3, 4},
      {"permit_renew that keeps fences", protocol::renew_command{.items = renewed, .permits = true, .retention = 1s}, 4,
       4},
  };
  for (auto const& [what, c, keys, place] : table) {
    words const all = encoded(c);
    ASSERT_EQ(all.size(), 3 + keys + place) << what;
    EXPECT_EQ(all[2], std::to_string(keys)) << what;
    EXPECT_EQ(all.back(), shard_of("L")) << what;
  }
}

TEST(ClusterCodec, LeavesWhatIsOfAVoteEmpty) {
  words const asks = encoded(protocol::acquire_command{"L", 1, true, 1s, 1s, 1s});
  EXPECT_EQ(asks[3 + 3 + 7], "");
  words const gives_back = encoded(protocol::release_command{"L", 1});
  EXPECT_EQ(gives_back[3 + 3 + 6], "");
  EXPECT_EQ(gives_back[3 + 3 + 7], "");
  words const takes = encoded(protocol::force_command{.name = "L"});
  EXPECT_EQ(takes[3 + 4 + 3], "");
  EXPECT_EQ(takes[3 + 4 + 4], "");
}

TEST(ClusterCodec, TellsOneServerNothingOfIt) {
  for (protocol::command const& c :
       {protocol::command{protocol::acquire_command{"L", 1}}, protocol::command{protocol::release_command{"L", 1}},
        protocol::command{protocol::force_command{.name = "L"}},
        protocol::command{protocol::limit_command{.name = "L", .limit = 1}},
        protocol::command{protocol::request_command{.name = "L"}},
        protocol::command{protocol::watch_command{.name = "L", .id = 1}}}) {
    for (std::string const& word : encoded(c, sender{"c1"})) EXPECT_EQ(word.find("%s"), std::string::npos) << word;
  }
}

TEST(ClusterCodec, SubscribesAndProvesInTheChannelOfTheNodesOwnSlot) {
  unsigned const home = slot_of_tag("77");
  std::string const channel = channel_of(at_node(home), home);
  EXPECT_EQ(channel, "conch:{" + std::to_string(tag_of_slot(home)) + "}:c1:" + node);
  EXPECT_EQ(encoded(protocol::subscribe_command{}, at_node(home)), (words{"SSUBSCRIBE", channel}));
  EXPECT_EQ(encoded(protocol::prove_publish_command{}, at_node(home)), (words{"SPUBLISH", channel, ""}));
}

TEST(ClusterCodec, AChannelIsInTheSlotOfItsLocks) {
  for (std::string const name : {"L", "a}b", "100%"}) {
    unsigned const slot = slot_of_lock(name);
    std::string const channel = channel_of(at_node(), slot);
    auto const open = channel.find('{'), close = channel.find('}');
    EXPECT_EQ(slot_of_tag(std::string_view{channel}.substr(open + 1, close - open - 1)), slot);
    EXPECT_EQ(slot_of_channel(channel, at_node()), slot);
  }
}

TEST(ClusterCodec, KnowsOnlyItsOwnChannels) {
  unsigned const slot = slot_of_lock("L");
  std::string const own = channel_of(at_node(), slot);
  sender other_client{"c2"}, other_node{"c1"}, other_prefix{"c1", "other:"};
  other_client.node = other_prefix.node = node;
  other_node.node = "ffffffff";
  for (sender const& who : {other_client, other_node, other_prefix, sender{"c1"}})
    EXPECT_FALSE(slot_of_channel(own, who));
  for (std::string const& channel : {own + "x", own.substr(0, own.size() - 1), std::string{"conch:c1"},
                                     std::string{"conch:{"}, std::string{"conch:{}:c1:"} + node, std::string{}}) {
    EXPECT_FALSE(slot_of_channel(channel, at_node())) << channel;
  }
  EXPECT_FALSE(slot_of_channel("conch:{00" + tag_of("L") + "}:c1:" + node, at_node()))
      << "another tag, perhaps of the same slot";
}

TEST(ClusterCodec, HearsBeforeWhatMayLeadToAPush) {
  unsigned const slot = slot_of_lock("L");
  std::vector<protocol::renewal> const items{{"L", 1, 1s}};
  EXPECT_EQ(slot_to_subscribe(protocol::acquire_command{"L", 1}), slot);
  EXPECT_EQ(slot_to_subscribe(protocol::acquire_command{"L", 1, false}), slot)
      << "the holder may be told of an operator's force";
  EXPECT_EQ(slot_to_subscribe(protocol::renew_command{.items = items}), slot);
  EXPECT_EQ(slot_to_subscribe(protocol::release_command{.name = "L", .id = 1, .new_id = 2}), slot);
  EXPECT_EQ(slot_to_subscribe(protocol::requested_command{"L", 5}), slot);
  EXPECT_EQ(slot_to_subscribe(protocol::watch_command{.name = "L", .id = 1}), slot);
  EXPECT_FALSE(slot_to_subscribe(protocol::watch_command{.name = "L"})) << "that only tells others";
  EXPECT_FALSE(slot_to_subscribe(protocol::release_command{.name = "L", .id = 1}));
  EXPECT_FALSE(slot_to_subscribe(protocol::inspect_command{.name = "L"}));
  EXPECT_FALSE(slot_to_subscribe(protocol::ping_command{}));
}

std::variant<protocol::push, notice> read(words const& texts, sender const& who) {
  std::string bytes = ">" + std::to_string(texts.size()) + "\r\n";
  for (std::string const& text : texts) bytes += "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  resp::decoder in;
  auto const message = test::only_message(in, bytes);
  std::string name;
  auto said = read_push(message, who, name);
  if (auto* const p = std::get_if<protocol::push>(&said)) {
    std::visit([](auto& one) { one.name = {}; }, *p);  // its memory goes
  }
  return said;
}

TEST(ClusterCodec, ReadsWhatIsPushedOnItsChannels) {
  std::string const own = channel_of(at_node(), slot_of_lock("L"));
  std::string const grant = "c1.1-00000000001 5 1800000000000000 3000 conch:{L}";
  auto const of_grant = read({"smessage", own, grant}, at_node()),
             of_force = read({"smessage", own, "!c1.1 conch:{L}"}, at_node());
  EXPECT_TRUE(std::holds_alternative<protocol::pushed_grant>(std::get<protocol::push>(of_grant)));
  EXPECT_TRUE(std::holds_alternative<protocol::revocation>(std::get<protocol::push>(of_force)));
  EXPECT_EQ(std::get<notice>(read({"ssubscribe", own, "1"}, at_node())), notice::shard_subscribed);
  EXPECT_EQ(std::get<notice>(read({"sunsubscribe", own, "0"}, at_node())), notice::shard_unsubscribed);
  EXPECT_EQ(std::get<notice>(read({"message", "conch:c1", grant}, at_node())), notice::other)
      << "it is subscribed to no such channel";
  EXPECT_EQ(std::get<notice>(read({"smessage", "conch:{5}:c1:ffffffff", grant}, at_node())), notice::other)
      << "of another node";
  EXPECT_EQ(std::get<notice>(read({"smessage", own, grant}, sender{"c1"})), notice::other)
      << "of a Cluster, at one server";
}

}  // namespace
}  // namespace conch::redis
