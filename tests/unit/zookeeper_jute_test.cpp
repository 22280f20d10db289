// The bytes are those of ZooKeeper 3.8.0 and of its own client in Java, as they went between the two.
#include "servers/zookeeper/jute.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::zookeeper {
namespace {

std::string from_hex(std::string_view text) {
  auto const value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<char>(value(text[i]) * 16 + value(text[i + 1])));
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (char const c : bytes) {
    auto const b = static_cast<unsigned char>(c);
    text.append({"0123456789abcdef"[b / 16], "0123456789abcdef"[b % 16]});
  }
  return text;
}

std::string written(std::int32_t xid, request const& r) {
  std::string to;
  append(to, xid, r);
  return to_hex(to);
}

/// Without the length in front.
std::string frame_of(std::string_view hex) { return from_hex(hex.substr(8)); }

/// Header and answer of a frame.
std::pair<reply_header, reply> answer(std::string_view hex, op asked) {
  std::string const all = frame_of(hex);
  std::string_view rest = all;
  std::pair<reply_header, reply> got;
  EXPECT_EQ(read(rest, got.first), "");
  EXPECT_EQ(read(rest, got.first, asked, got.second), "");
  return got;
}

// ---- what is written

TEST(ZookeeperJute, AsksForASession) {
  std::string to;
  append(to, connect_request{0, 30000, 0, {}});
  EXPECT_EQ(to_hex(to),
            "0000002d000000000000000000000000000075300000000000000000000000100000000000000000000000000000000000");
}

TEST(ZookeeperJute, AsksForItsSessionAgain) {
  std::string to;
  append(to, connect_request{.last_seen = 9,
                             .timeout_ms = 4000,
                             .session = 0x10001ebe3d60000,
                             .password = from_hex("a83671701567c476c68d99ebe689eb41")});
  EXPECT_EQ(to_hex(to),
            "0000002d00000000000000000000000900000fa0010001ebe3d6000000000010a83671701567c476c68d99ebe689eb4100");
}

TEST(ZookeeperJute, WritesRequestsAsTheClientOfZooKeeperDoes) {
  EXPECT_EQ(written(7, ping{}), "00000008fffffffe0000000b");
  EXPECT_EQ(written(7, add_auth{"digest", "me:word"}),
            "00000021fffffffc000000640000000000000006646967657374000000076d653a776f7264");
  EXPECT_EQ(written(5, get_data{"/locks/root", true}), "0000001800000005000000040000000b2f6c6f636b732f726f6f7401");
  EXPECT_EQ(written(10, get_data{"/locks/none"}), "000000180000000a000000040000000b2f6c6f636b732f6e6f6e6500");
  EXPECT_EQ(written(6, set_data{"/locks/root", "more"}),
            "0000002300000006000000050000000b2f6c6f636b732f726f6f74000000046d6f7265ffffffff");
  EXPECT_EQ(written(8, sync{"/locks"}), "000000120000000800000009000000062f6c6f636b73");
  EXPECT_EQ(written(9, remove{"/locks/root"}), "0000001b00000009000000020000000b2f6c6f636b732f726f6f74ffffffff");
  EXPECT_EQ(written(2, get_children{"/locks"}), "000000130000000200000008000000062f6c6f636b7300");
  EXPECT_EQ(written(3, get_acl{"/locks"}), "000000120000000300000006000000062f6c6f636b73");
  EXPECT_EQ(written(12, close_session{}), "000000080000000cfffffff5");
}

TEST(ZookeeperJute, MakesNodesOfEachKindForEverybodyOrForTheUser) {
  // That client says null where there is no data, and asks for a node without its stat, which has another number: 1
  // instead of 15.
  EXPECT_EQ(written(1, create{"/locks", "", node_kind::container}),
            "000000350000000100000013000000062f6c6f636b7300000000000000010000001f00000005776f726c6400000006616e796f6e65"
            "00000004");
  EXPECT_EQ(written(2, create{"/locks/root", "data"}),
            "0000003e000000020000000f0000000b2f6c6f636b732f726f6f740000000464617461000000010000001f00000005776f726c6400"
            "000006616e796f6e6500000000");
  EXPECT_EQ(written(3, create{"/locks/a-", "", node_kind::ephemeral_sequential}),
            "00000038000000030000000f000000092f6c6f636b732f612d00000000000000010000001f00000005776f726c6400000006616e79"
            "6f6e6500000003");
  EXPECT_EQ(
      written(4, create{"/locks/a-", "", node_kind::ephemeral_sequential, access::creator_only}),
      "00000031000000040000000f000000092f6c6f636b732f612d00000000000000010000001f00000004617574680000000000000003");
  EXPECT_EQ(
      written(4, create{"/locks/a-", "", node_kind::ephemeral, access::creator_only}),
      "00000031000000040000000f000000092f6c6f636b732f612d00000000000000010000001f00000004617574680000000000000001");
}

TEST(ZookeeperJute, AppendsFrameToFrame) {
  std::string to = "before";
  append(to, 1, ping{});
  append(to, 12, close_session{});
  EXPECT_EQ(to, "before" + from_hex("00000008fffffffe0000000b") + from_hex("000000080000000cfffffff5"));
}

TEST(ZookeeperJute, NumbersTheKindsOfRequestsAsTheyAre) {
  for (auto const& [r, number] : std::initializer_list<std::pair<request, op>>{{ping{}, op::ping},
                                                                               {add_auth{}, op::add_auth},
                                                                               {create{}, op::create},
                                                                               {remove{}, op::remove},
                                                                               {get_data{}, op::get_data},
                                                                               {get_children{}, op::get_children},
                                                                               {set_data{}, op::set_data},
                                                                               {sync{}, op::sync},
                                                                               {get_acl{}, op::get_acl},
                                                                               {close_session{}, op::close_session}}) {
    EXPECT_EQ(op_of(r), number);
  }
}

// ---- what is read

TEST(ZookeeperJute, ReadsTheAnswerToTheFirstMessage) {
  connect_response c;
  EXPECT_EQ(read(frame_of("000000250000000000000fa0010001ebe3d6000000000010a83671701567c476c68d99ebe689eb4100"), c),
            "");
  EXPECT_EQ(c, (connect_response{4000, 0x10001ebe3d60000, from_hex("a83671701567c476c68d99ebe689eb41")}));
}

TEST(ZookeeperJute, ReadsItAlsoWithoutTheLastByte) {
  connect_response c;
  EXPECT_EQ(read(frame_of("000000240000000000000fa0010001ebe3d6000000000010a83671701567c476c68d99ebe689eb41"), c), "");
  EXPECT_EQ(c.timeout_ms, 4000);
  EXPECT_EQ(c.password.size(), 16u);
}

TEST(ZookeeperJute, ReadsThatTheSessionHasEnded) {
  connect_response c{1, 2, "3"};
  EXPECT_EQ(read(frame_of("0000002500000000000000000000000000000000000000100000000000000000000000000000000000"), c),
            "");
  EXPECT_EQ(c.timeout_ms, 0);
  EXPECT_EQ(c.session, 0);
}

TEST(ZookeeperJute, ReadsWhatWasMade) {
  auto const [header, got] = answer(
      "0000005e00000001000000000000000200000000000000062f6c6f636b7300000000000000020000000000000002000001a2129758540000"
      "01a212975854000000000000000000"
      "0000"
      "00000000000000000000000000000000000000000000000002",
      op::create);
  EXPECT_EQ(header, (reply_header{1, 2, status::ok}));
  EXPECT_EQ(got,
            (reply{2, status::ok,
                   created{"/locks",
                           {.created = 2, .created_ms = 0x1a212975854, .modified = 2, .modified_ms = 0x1a212975854}}}));
}

TEST(ZookeeperJute, ReadsTheDataOfANode) {
  auto const [header, got] = answer(
      "0000005c00000005000000000000000500000000000000046461746100000000000000030000000000000003000001a212975881000001a2"
      "129758810000000000000000000000"
      "0000"
      "0000000000000000000004000000000000000000000003",
      op::get_data);
  EXPECT_EQ(header, (reply_header{5, 5, status::ok}));
  EXPECT_EQ(
      got,
      (reply{5, status::ok,
             data{"data", {.created = 3, .created_ms = 0x1a212975881, .modified = 3, .modified_ms = 0x1a212975881}}}));
}

TEST(ZookeeperJute, ReadsEveryFieldOfAStat) {
  auto const [header, got] = answer(
      "00000058"
      "00000005"
      "0000000000000009"
      "00000000"
      "00000000"
      "0000000000000003"
      "0000000000000004"
      "000001a212975881"
      "000001a212975882"
      "00000005"
      "00000006"
      "00000007"
      "0100020000000008"
      "00000009"
      "0000000a"
      "000000000000000b",
      op::get_data);
  EXPECT_EQ(got, (reply{9, status::ok,
                        data{"",
                             {.created = 3,
                              .created_ms = 0x1a212975881,
                              .modified = 4,
                              .version = 5,
                              .owner = 0x100020000000008,
                              .children = 10,
                              .modified_ms = 0x1a212975882}}}));
}

TEST(ZookeeperJute, ReadsNames) {
  // Its own client asks for the stat too; that follows the names, and is ignored like anything there.
  auto const [header, got] = answer(
      "0000008000000007000000000000000600000000000000030000000c612d303030303030303030310000000c612d30303030303030303032"
      "00000004726f6f7400000000000000"
      "020000"
      "000000000002000001a212975854000001a21297585400000000000000030000000000000000000000000000000000000003000000000000"
      "0005",
      op::get_children);
  EXPECT_EQ(got, (reply{6, status::ok, children{{"a-0000000001", "a-0000000002", "root"}}}));
}

TEST(ZookeeperJute, ReadsAnswersThatSayNothingMore) {
  EXPECT_EQ(answer("0000001000000009000000000000000700000000", op::remove),
            (std::pair{reply_header{9, 7, status::ok}, reply{7, status::ok, {}}}));
  EXPECT_EQ(answer("0000001a00000008000000000000000600000000000000062f6c6f636b73", op::sync).second,
            (reply{6, status::ok, {}}));
  EXPECT_EQ(answer("00000010fffffffc000000000000000000000000", op::add_auth).first,
            (reply_header{auth_xid, 0, status::ok}));
  EXPECT_EQ(answer("000000100000000c000000000000000900000000", op::close_session).second, (reply{9, status::ok, {}}));
  EXPECT_EQ(answer("000000540000000600000000000000060000000000000000000000030000000000000006000001a212975881000001a2129"
                   "7589600000001000000000000000000"
                   "0000000000000000000004000000000000000000000003",
                   op::set_data)
                .second,
            (reply{6, status::ok, {}}));
}

TEST(ZookeeperJute, ReadsWhoMayDoWhat) {
  std::string const head = "0000006d00000003000000000000000500000000", stat(136, '0');
  EXPECT_EQ(answer(head + "000000010000001f0000000664696765737400000003753a78" + stat, op::get_acl).second,
            (reply{5, status::ok, rights{{{31, "digest", "u:x"}}}}));
}

TEST(ZookeeperJute, ReadsErrorsWhateverWasAsked) {
  for (op const asked : {op::create, op::get_data, op::get_children, op::set_data, op::sync, op::remove}) {
    EXPECT_EQ(answer("000000100000000a0000000000000007ffffff9b", asked).second, (reply{7, status::no_node, {}}));
    EXPECT_EQ(answer("000000100000000b0000000000000008ffffff99", asked).second, (reply{8, status::bad_version, {}}));
    EXPECT_EQ(answer("000000100000000b0000000000000008fffff999", asked).second.what, static_cast<status>(-1639))
        << "one that is not known here";
  }
}

TEST(ZookeeperJute, ReadsThatAWatchHasFired) {
  std::string const all =
      frame_of("00000027ffffffffffffffffffffffff0000000000000003000000030000000b2f6c6f636b732f726f6f74");
  std::string_view rest = all;
  reply_header header;
  notice n;
  EXPECT_EQ(read(rest, header), "");
  EXPECT_EQ(header.xid, notice_xid);
  EXPECT_EQ(read(rest, n), "");
  EXPECT_EQ(n, (notice{notice::event::changed, 3, "/locks/root"}));
}

// ---- what is malformed

TEST(ZookeeperJute, TellsFieldsThatAreNotThere) {
  std::string const node = frame_of(
      "0000005e00000001000000000000000200000000000000062f6c6f636b7300000000000000020000000000000002000001a2129758540000"
      "01a212975854000000000000000000"
      "0000"
      "00000000000000000000000000000000000000000000000002");
  for (std::size_t size = 0; size < node.size(); ++size) {
    std::string_view rest = std::string_view{node}.substr(0, size);
    reply_header header;
    reply r;
    std::string_view wrong = read(rest, header);
    if (wrong.empty()) wrong = read(rest, header, op::create, r);
    EXPECT_EQ(wrong, "a frame that ends within a field") << size;
    EXPECT_TRUE(std::holds_alternative<std::monostate>(r.content)) << size;
  }
  std::string const greeting =
      frame_of("000000240000000000000fa0010001ebe3d6000000000010a83671701567c476c68d99ebe689eb41");
  for (std::size_t size = 0; size < greeting.size(); ++size) {
    connect_response c;
    EXPECT_EQ(read(std::string_view{greeting}.substr(0, size), c), "a frame that ends within a field") << size;
  }
}

TEST(ZookeeperJute, TellsLengthsThatCannotBe) {
  reply_header const ok{};
  reply r;
  notice n;
  EXPECT_EQ(read(from_hex("fffffffe"), ok, op::get_children, r), "a field of negative length");
  EXPECT_EQ(read(from_hex("80000000"), ok, op::get_data, r), "a field of negative length");
  EXPECT_EQ(read(from_hex("7fffffff0000001f"), ok, op::get_acl, r), "a list that is longer than its frame");
  EXPECT_EQ(read(from_hex("00000101" + std::string(257 * 24, '0')), ok, op::get_acl, r),
            "an ACL of more than 256 entries");
  EXPECT_EQ(read(from_hex("00000100" + std::string(256 * 24 + 136, '0')), ok, op::get_acl, r), "");
  EXPECT_EQ(read(from_hex("7fffffff"), ok, op::get_data, r), "a frame that ends within a field");
  EXPECT_EQ(read(from_hex("7fffffff"), ok, op::get_children, r), "a list that is longer than its frame")
      << "and no memory was asked for";
  EXPECT_EQ(read(from_hex("0000000200000000"), ok, op::get_children, r), "a list that is longer than its frame");
  EXPECT_EQ(read(from_hex("000000020000000100000000"), ok, op::get_children, r), "a frame that ends within a field");
  EXPECT_EQ(read(from_hex("0000000100000003ffffffff"), n), "") << "a null is an empty one";
  EXPECT_EQ(read(from_hex("0000000100000003fffffffe"), n), "a field of negative length");
}

// ---- frames

using progress = frame_reader::progress;

void give(frame_reader& to, std::string_view bytes) {
  while (!bytes.empty()) {
    auto const room = to.room();
    std::size_t const n = std::min(room.size(), bytes.size());
    std::copy_n(bytes.begin(), n, room.begin());
    to.received(n);
    bytes.remove_prefix(n);
  }
}

std::string framed(std::string const& body) {
  auto const n = static_cast<std::uint32_t>(body.size());
  return std::string{static_cast<char>(n >> 24U), static_cast<char>(n >> 16U), static_cast<char>(n >> 8U),
                     static_cast<char>(n)} +
         body;
}

TEST(ZookeeperFrames, AreTheSameInWhateverPiecesTheyCome) {
  std::mt19937 random{1};
  std::vector<std::string> sent;
  std::string all;
  for (std::size_t const size : {std::size_t{0}, std::size_t{1}, std::size_t{8000}, std::size_t{3}, std::size_t{300000},
                                 std::size_t{16}, std::size_t{8192}}) {
    sent.emplace_back(size, static_cast<char>('a' + size % 26));
    all += framed(sent.back());
  }
  for (std::size_t const piece : {1u, 3u, 4096u, 1u << 20U}) {
    frame_reader in;
    std::vector<std::string> got;
    for (std::string_view rest = all; !rest.empty();) {
      std::size_t const n = std::min(rest.size(), 1 + random() % piece);
      give(in, rest.substr(0, n));
      rest.remove_prefix(n);
      while (in.next() == progress::frame) got.emplace_back(in.frame());
    }
    EXPECT_EQ(got, sent) << piece;
    EXPECT_EQ(in.next(), progress::need_more);
  }
}

TEST(ZookeeperFrames, OfALengthThatCannotBeAreMalformed) {
  for (std::string_view const length : {"ffffffff", "80000000", "00000011"}) {
    frame_reader in{16};
    give(in, from_hex("0000000000000010000102030405060708090a0b0c0d0e0f"));
    give(in, from_hex(length));
    EXPECT_EQ(in.next(), progress::frame);
    EXPECT_EQ(in.next(), progress::frame) << "as long as one may be";
    EXPECT_EQ(in.next(), progress::malformed) << length;
    EXPECT_EQ(in.next(), progress::malformed) << "for good";
    in.reset();
    EXPECT_EQ(in.next(), progress::need_more);
    give(in, framed("x"));
    EXPECT_EQ(in.next(), progress::frame);
    EXPECT_EQ(in.frame(), "x");
  }
}

TEST(ZookeeperFrames, TakeMemoryForWhatHasComeAndGiveItBack) {
  frame_reader in;
  give(in, from_hex("00ffffff"));
  EXPECT_EQ(in.next(), progress::need_more);
  EXPECT_LT(in.room().size(), 64u << 10U) << "not what it says that it is";
  std::size_t const all = 0xffffff;
  std::string const piece(4096, 'x');
  for (std::size_t got = 0; got < all;) {
    std::size_t const n = std::min(piece.size(), all - got);
    give(in, std::string_view{piece}.substr(0, n));
    got += n;
    EXPECT_LE(in.capacity(), 2 * got + (64u << 10U));
  }
  EXPECT_EQ(in.next(), progress::frame);
  EXPECT_EQ(in.frame().size(), all);
  (void)in.room();
  EXPECT_LE(in.capacity(), 64u << 10U);
}

TEST(ZookeeperFrames, HoldTheNodesOfTenThousandWaiters) {
  std::string body = from_hex("0000000700000000000000060000000000002710");
  for (int i = 0; i < 10000; ++i) body += framed(std::string(70, 'n'));
  frame_reader in;
  give(in, framed(body));
  ASSERT_EQ(in.next(), progress::frame);
  std::string_view rest = in.frame();
  reply_header header;
  reply r;
  EXPECT_EQ(read(rest, header), "");
  EXPECT_EQ(read(rest, header, op::get_children, r), "");
  EXPECT_EQ(std::get<children>(r.content).names.size(), 10000u);
}

}  // namespace
}  // namespace conch::zookeeper
