// The slots of a Cluster: of which master each is, and when that is asked for.

#include "servers/redis/topology/slot_map.hpp"
#include "support/messages.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace conch::redis {
namespace {

using namespace std::chrono_literals;

TEST(Slots, AreThoseOfRedis) {
  // CLUSTER KEYSLOT of a server.
  EXPECT_EQ(slot_of_tag("123456789"), 12739u) << "0x31c3, the check value of CRC-16/XMODEM";
  EXPECT_EQ(slot_of_tag("foo"), 12182u);
  EXPECT_EQ(slot_of_tag(""), 0u);
}

TEST(Slots, AreTheSameOfANameThatIsWrittenInAnotherWay) {
  EXPECT_EQ(slot_of_lock("foo"), slot_of_tag("foo"));
  EXPECT_EQ(slot_of_lock("a}b"), slot_of_tag("a%7Db"));
  EXPECT_EQ(slot_of_lock("100%"), slot_of_tag("100%25"));
}

TEST(Slots, HaveEachATagOfItsOwnWithSixDigitsAtMost) {
  std::set<std::uint32_t> tags;
  for (unsigned slot = 0; slot < slot_count; ++slot) {
    std::uint32_t const tag = tag_of_slot(slot);
    ASSERT_EQ(slot_of_tag(std::to_string(tag)), slot);
    ASSERT_LT(tag, 1'000'000u);
    tags.insert(tag);
  }
  EXPECT_EQ(tags.size(), slot_count);
  EXPECT_EQ(tag_of_slot(slot_of_tag("0")), 0u) << "the smallest";
}

std::vector<named_slots> thirds(std::string const& third = "c") {
  return {
      {0, 5460, "aaaaaaaa", "a", 1}, {5461, 10922, "bbbbbbbb", "b", 1}, {10923, 16383, third + "ccccccc", third, 1}};
}

struct watched {
  explicit watched(std::map<std::string, std::string> mapped = {})
      : address_map{std::move(mapped)},
        map{{.refresh = 10s, .patience = 3s}, address_map} {}

  void begin() {
    map.connected(now);
    map.update(thirds(), now);
    EXPECT_TRUE(map.take_changes());
  }
  bool asks() { return map.ask_is_due(now); }
  std::string host(unsigned slot) {
    return map.owner(slot) == slot_map::unknown_master ? "nobody" : map.host(map.owner(slot));
  }
  void moved(unsigned slot, std::string const& to, std::size_t by) { map.redirected({slot, to, 1}, by, now); }

  std::map<std::string, std::string> address_map;
  time_point now{1h};
  slot_map map;
};

TEST(SlotMap, KnowsTheMasterOfEachSlot) {
  watched w;
  EXPECT_FALSE(w.map.is_known());
  EXPECT_EQ(w.host(0), "nobody");
  w.begin();
  EXPECT_TRUE(w.map.is_known());
  EXPECT_EQ(w.host(0), "a");
  EXPECT_EQ(w.host(5460), "a");
  EXPECT_EQ(w.host(5461), "b");
  EXPECT_EQ(w.host(16383), "c");
  EXPECT_EQ(w.map.some_slot(1), 5461u);
  w.map.update(thirds(), w.now);
  EXPECT_FALSE(w.map.take_changes()) << "nothing is new";
  EXPECT_FALSE(w.asks());
}

TEST(SlotMap, KeepsTheNumberOfANodeThatHasAnotherAddressNow) {
  watched w;
  w.begin();
  auto moved = thirds();
  moved[1].host = "elsewhere";
  w.map.update(moved, w.now);
  EXPECT_FALSE(w.map.take_changes());
  EXPECT_EQ(w.map.owner(5461), 1u);
  EXPECT_EQ(w.host(5461), "elsewhere");
}

TEST(SlotMap, AFailoverGivesAllSlotsToAnotherNode) {
  watched w;
  w.begin();
  w.map.update(thirds("d"), w.now);
  EXPECT_TRUE(w.map.take_changes());
  EXPECT_EQ(w.map.owner(16383), 3u);
  EXPECT_EQ(w.map.some_slot(2), std::nullopt);
}

TEST(SlotMap, SlotsThatNobodyHasHaveNoMaster) {
  watched w;
  w.begin();
  w.map.update({thirds()[0]}, w.now);
  EXPECT_TRUE(w.map.take_changes());
  EXPECT_EQ(w.host(16383), "nobody");
}

TEST(SlotMap, MovedChangesItsOneSlotAtOnceAndAsksForTheMap) {
  watched w;
  w.begin();
  w.now += 5s;
  w.moved(7, "b", 0);
  EXPECT_TRUE(w.map.take_changes());
  EXPECT_EQ(w.host(7), "b");
  EXPECT_EQ(w.host(8), "a");
  EXPECT_TRUE(w.asks());
  EXPECT_FALSE(w.asks()) << "one request under way";
}

TEST(SlotMap, AThousandRedirectionsAskOnceAndAgainAfterASecond) {
  watched w;
  w.begin();
  w.now += 5s;
  auto const before = w.map.requests();
  for (unsigned slot = 0; slot < 1000; ++slot) {
    w.moved(slot, "b", 0);
    (void)w.asks();
  }
  EXPECT_EQ(w.map.requests(), before + 1);
  w.map.update(thirds(), w.now);
  w.moved(1, "b", 0);
  EXPECT_FALSE(w.asks()) << "the last request was a moment ago";
  EXPECT_EQ(w.map.next_due(), w.now + 1s);
  w.now += 1s;
  EXPECT_TRUE(w.asks());
}

TEST(SlotMap, TwoNodesThatNameEachOtherAreNotFollowedForEver) {
  watched w;
  w.begin();
  unsigned followed = 0;
  for (int i = 0; i < 100; ++i) {
    std::size_t const at = w.map.owner(0);
    w.moved(0, at == 0 ? "b" : "a", at);
    if (w.map.take_changes()) ++followed;
  }
  EXPECT_EQ(followed, slot_map::most_patches);
  w.map.update(thirds(), w.now);
  (void)w.map.take_changes();
  w.moved(0, "b", 0);
  EXPECT_TRUE(w.map.take_changes()) << "a new map, new trust";
}

TEST(SlotMap, WhatAnEarlierOwnerSaysLateChangesNothing) {
  watched w;
  w.begin();
  w.moved(0, "b", 0);
  w.moved(0, "c", 1);
  (void)w.map.take_changes();
  w.moved(0, "b", 0);  // the answer to an earlier request
  EXPECT_FALSE(w.map.take_changes());
  EXPECT_EQ(w.host(0), "c");
}

TEST(SlotMap, AnAddressThatNobodyKnowsWaitsForTheMap) {
  watched w;
  w.begin();
  w.now += 5s;
  w.moved(0, "new", 0);
  EXPECT_FALSE(w.map.take_changes());
  EXPECT_TRUE(w.asks());
  w.map.update(thirds(), w.now);
  w.moved(0, "new", 0);
  EXPECT_FALSE(w.asks());
  w.now += slot_map::between_urgent_requests;
  EXPECT_TRUE(w.asks()) << "the node that was asked did not know yet, and its clients find no node with the slot";
  w.map.update(thirds("d"), w.now);
  w.now += 9s;
  EXPECT_FALSE(w.asks()) << "nobody names it any more";
}

TEST(SlotMap, AMovedWithoutAHostMeansTheOneThatSaysIt) {
  watched w;
  w.map.connected(w.now);
  w.map.update({{0, 99, "aaaaaaaa", "h", 1}, {100, 16383, "bbbbbbbb", "h", 2}}, w.now);
  (void)w.map.take_changes();
  w.map.redirected({0, "", 2}, 0, w.now);
  EXPECT_EQ(w.map.owner(0), 1u);
}

TEST(SlotMap, TheAddressMapIsAppliedToBoth) {
  watched w{{{"a:1", "outside:11"}, {"b:1", "outside:12"}}};
  w.begin();
  EXPECT_EQ(w.host(0), "outside");
  EXPECT_EQ(w.map.port(0), 11);
  w.moved(0, "b", 0);
  EXPECT_EQ(w.map.owner(0), 1u);
}

TEST(SlotMap, WhileAMasterCannotBeReachedTheMapIsAskedForAgainAndAgain) {
  watched w;
  w.begin();
  w.now += 5s;
  w.map.reached(1, false, w.now);
  EXPECT_TRUE(w.asks());
  w.map.update(thirds(), w.now);
  EXPECT_FALSE(w.asks());
  w.now += slot_map::between_urgent_requests;
  EXPECT_TRUE(w.asks());
  w.map.reached(1, true, w.now);
  w.map.update(thirds(), w.now);
  w.now += 9s;
  EXPECT_FALSE(w.asks());
  w.now += 1s;
  EXPECT_TRUE(w.asks()) << "the usual time";
}

std::vector<named_slots> masters(unsigned count, unsigned from, std::string const& host = "h") {
  std::vector<named_slots> all;
  for (unsigned n = 0; n < count; ++n) {
    std::string const id = "id-" + std::to_string(100'000 + from + n);
    all.push_back({n, n, id, host + std::to_string(from + n), 7000});
  }
  return all;
}

TEST(SlotMap, ForgetsMastersThatHaveGoneHoweverManyThereWere) {
  std::map<std::string, std::string> const none;
  slot_map map{{.refresh = 10s, .patience = 3s}, none};
  time_point now{1h};
  map.connected(now);
  for (unsigned round = 0; round < 20; ++round) {
    ASSERT_TRUE(map.update(masters(1000, round * 1000), now));
    EXPECT_LE(map.nodes(), slot_map::most_nodes);
    for (unsigned slot = 0; slot < 1000; ++slot) {
      ASSERT_EQ(map.id(map.owner(slot)), "id-" + std::to_string(100'000 + round * 1000 + slot));
      ASSERT_EQ(map.host(map.owner(slot)), "h" + std::to_string(round * 1000 + slot));
    }
  }
  for (int n = 0; n < 5000; ++n) {
    std::size_t const there = map.named_by_ask({0, "ask" + std::to_string(n), 1}, map.owner(0));
    ASSERT_EQ(map.host(there), "ask" + std::to_string(n));
    ASSERT_FALSE(map.has_slots(there));
  }
  EXPECT_LE(map.nodes(), slot_map::most_nodes);
  std::size_t const second = map.owner(1);
  ASSERT_TRUE(map.update(masters(1000, 19'000), now));
  EXPECT_EQ(map.owner(1), second) << "a number stays as long as its node has slots";
}

TEST(SlotMap, OfMoreMastersThanThereCanBeChangesNothing) {
  std::map<std::string, std::string> const none;
  slot_map map{{.refresh = 10s, .patience = 3s}, none};
  time_point now{1h};
  map.connected(now);
  ASSERT_TRUE(map.update(masters(3, 0), now));
  EXPECT_FALSE(map.update(masters(slot_map::most_masters + 1, 0), now));
  EXPECT_EQ(map.nodes(), 3u);
}

TEST(SlotMap, OfAHostileNodeCostsLittleTime) {
  std::map<std::string, std::string> const none;
  slot_map map{{.refresh = 10s, .patience = 3s}, none};
  time_point now{1h};
  map.connected(now);
  auto const begin = std::clock();
  for (unsigned round = 0; round < 10; ++round) {
    EXPECT_FALSE(map.update(masters(slot_count, round * slot_count), now));
    EXPECT_TRUE(map.update(masters(slot_map::most_masters, round * slot_count), now));
  }
  // Measured: 0.05 s. With a search through all nodes for each: 15 s.
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 3.0);
}

TEST(SlotMap, AsksNobodyWithoutAConnectionAndDropsOneThatDoesNotAnswer) {
  watched w;
  w.begin();
  w.map.failed();
  w.map.doubt(w.now);
  w.now += 5s;
  EXPECT_FALSE(w.asks());
  EXPECT_EQ(w.map.next_due(), time_point::max());
  w.map.connected(w.now);
  EXPECT_FALSE(w.map.answer_is_late(w.now));
  EXPECT_EQ(w.map.next_due(), w.now + 3s);
  w.now += 3s;
  EXPECT_TRUE(w.map.answer_is_late(w.now));
}

// ------------------------------------------------------------------------------------------------------- what is read

std::optional<std::vector<named_slots>> read(std::string_view bytes) {
  resp::decoder d;
  auto const message = test::only_message(d, bytes);
  address asked;
  asked.host = "asked";
  return read_slots(message, asked);
}

std::string const first_id = "$40\r\n0123456789012345678901234567890123456789\r\n";

TEST(ReadSlots, TakesTheMasterOfEachRange) {
  auto const all =
      read("*2\r\n*4\r\n:0\r\n:9\r\n*4\r\n$9\r\n127.0.0.1\r\n:7001\r\n" + first_id +
           "*0\r\n*3\r\n$1\r\nr\r\n:7002\r\n" + first_id + "*3\r\n:10\r\n:10\r\n*3\r\n$0\r\n\r\n:7003\r\n" + first_id);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].last, 9u);
  EXPECT_EQ((*all)[0].host, "127.0.0.1");
  EXPECT_EQ((*all)[0].port, 7001);
  EXPECT_EQ((*all)[0].id.size(), 40u);
  EXPECT_EQ((*all)[1].first, 10u);
  EXPECT_EQ((*all)[1].host, "asked") << "it does not know its own name";
}

TEST(ReadSlots, AHostThatIsNullOrUnknownIsTheOneThatWasAsked) {
  for (std::string const& host : std::vector<std::string>{"_\r\n", "$-1\r\n", "$1\r\n?\r\n"}) {
    auto const all = read("*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n" + host + ":1\r\n" + first_id);
    ASSERT_TRUE(all) << host;
    EXPECT_EQ((*all)[0].host, "asked");
  }
}

TEST(ReadSlots, RefusesWhatIsNoMap) {
  for (std::string const& bytes : {std::string{"+OK\r\n"}, std::string{"*1\r\n:1\r\n"},
                                   "*1\r\n*3\r\n:0\r\n:16384\r\n*3\r\n$1\r\nh\r\n:1\r\n" + first_id,
                                   "*1\r\n*3\r\n:2\r\n:1\r\n*3\r\n$1\r\nh\r\n:1\r\n" + first_id,
                                   "*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$1\r\nh\r\n:0\r\n" + first_id,
                                   std::string{"*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$1\r\nh\r\n:1\r\n$1\r\ni\r\n"},
                                   std::string{"*1\r\n*2\r\n:0\r\n:1\r\n"}}) {
    EXPECT_FALSE(read(bytes)) << bytes;
  }
  EXPECT_TRUE(read("*0\r\n")) << "a Cluster without slots";
}

TEST(ReadMoved, TakesSlotAndAddress) {
  auto const to = read_moved("MOVED 3999 127.0.0.1:6381");
  ASSERT_TRUE(to);
  EXPECT_EQ(to->slot, 3999u);
  EXPECT_EQ(to->host, "127.0.0.1");
  EXPECT_EQ(to->port, 6381);
  EXPECT_EQ(read_moved("MOVED 1 ::1:6381")->host, "::1");
  EXPECT_EQ(read_moved("MOVED 1 :6381")->host, "");
  EXPECT_EQ(read_moved("MOVED 1 ?:6381")->host, "");
}

TEST(ReadMoved, RefusesWhatIsNone) {
  for (std::string_view const words : {"ASK 3999 127.0.0.1:6381", "MOVED", "MOVED x 127.0.0.1:1", "MOVED 16384 h:1",
                                       "MOVED 1 h", "MOVED 1 h:0", "MOVED 1 h:65536", "MOVED 1:2 h", "MOVED -1 h:1"}) {
    EXPECT_FALSE(read_moved(words)) << words;
  }
}

}  // namespace
}  // namespace conch::redis
