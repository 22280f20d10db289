// The rules of a lock that its owner may acquire again: which acquire nests, is refused, asks the server or waits, and
// what a level's end leaves.
#include "engine/levels.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace conch::engine {
namespace {

using namespace std::chrono_literals;
using step = owner_levels::step;
using wait_end = owner_levels::wait_end;
using after_exit = owner_levels::after_exit;

constexpr time_point noon{std::chrono::hours{12}};
constexpr auto read = level_use::read;
constexpr auto write = level_use::write;

int const client = 0, other_client = 0;
level_lock const shared{&client, "stock", permit_kind::shared};
level_lock const plain{&client, "stock", permit_kind::reentrant};

struct a_hold final : leveled_hold {
  explicit a_hold(level_use first) noexcept : leveled_hold{first} {}
  time_point deadline() const noexcept override { return until; }
  time_point until = noon + 10s;
};

struct a_waiter final : waiting_level {
  void wake() noexcept override { ++wakes; }
  int wakes = 0;
};

/// An owner that has this many levels of a lock.
struct an_owner {
  owner_levels levels;
  std::shared_ptr<a_hold> hold;

  std::shared_ptr<a_hold> take(level_lock const& lock, level_use use) {
    EXPECT_EQ(levels.enter(lock, use, false, noon).next, step::asks);
    hold = std::make_shared<a_hold>(use);
    levels.granted(lock, hold);
    return hold;
  }
  void have(level_lock const& lock, std::uint32_t writes, std::uint32_t reads) {
    take(lock, writes != 0 ? write : read);
    while (hold->writes < writes) EXPECT_EQ(levels.enter(lock, write, false, noon).next, step::nests);
    while (hold->reads < reads) EXPECT_EQ(levels.enter(lock, read, false, noon).next, step::nests);
  }
};

// ------------------------------------------------------------------------------------------------------------ an
// acquire

struct enter_row {
  std::string what;
  std::uint32_t writes, reads;  // 0 and 0: it has no hold
  bool lost, asks;              // the hold; another acquire of the owner
  level_use use;
  bool attempt;
  step expected;
};

std::vector<enter_row> const& enter_rows() {
  static std::vector<enter_row> const rows{
      {"nobody holds: a reader", 0, 0, false, false, read, false, step::asks},
      {"nobody holds: a writer", 0, 0, false, false, write, false, step::asks},
      {"nobody holds: an attempt", 0, 0, false, false, write, true, step::asks},
      {"write in write", 1, 0, false, false, write, false, step::nests},
      {"read in write", 1, 0, false, false, read, false, step::nests},
      {"read in read", 0, 1, false, false, read, false, step::nests},
      {"write in a read of a writer", 1, 1, false, false, write, false, step::nests},
      {"an attempt to write in write", 2, 0, false, false, write, true, step::nests},
      {"an attempt to read in read", 0, 2, false, false, read, true, step::nests},
      {"write in read", 0, 1, false, false, write, false, step::refused},
      {"an attempt to write in read", 0, 3, false, false, write, true, step::refused},
      {"write, the readers have lost it", 0, 1, true, false, write, false, step::asks},
      {"write, the writers have lost it", 1, 0, true, false, write, false, step::asks},
      {"read, the writers have lost it", 1, 1, true, false, read, true, step::asks},
      {"a reader, another acquire asks", 0, 0, false, true, read, false, step::waits},
      {"a writer, another acquire asks", 0, 0, false, true, write, false, step::waits},
      {"an attempt, another acquire asks", 0, 0, false, true, read, true, step::busy},
      {"a lost hold, another acquire asks", 1, 2, true, true, write, false, step::waits},
      {"an attempt with a lost hold, another acquire asks", 1, 2, true, true, write, true, step::busy},
  };
  return rows;
}

TEST(Levels, DecideWhatAnAcquireDoes) {
  for (enter_row const& row : enter_rows()) {
    SCOPED_TRACE(row.what);
    an_owner o;
    if (row.writes + row.reads != 0) o.have(shared, row.writes, row.reads);
    if (row.lost) o.hold->until = noon;
    if (row.asks) {
      EXPECT_EQ(o.levels.enter(shared, write, false, noon).next, step::asks);
    }
    auto const entered = o.levels.enter(shared, row.use, row.attempt, noon);
    EXPECT_EQ(entered.next, row.expected);
    EXPECT_EQ(entered.in != nullptr, row.expected == step::nests);
    if (o.hold == nullptr) continue;
    std::uint32_t const more = row.expected == step::nests ? 1 : 0;
    EXPECT_EQ(o.hold->writes, row.writes + (row.use == write ? more : 0));
    EXPECT_EQ(o.hold->reads, row.reads + (row.use == read ? more : 0));
  }
}

TEST(Levels, OfAReentrantMutexNestOrAskAndNeverWait) {
  an_owner o;
  EXPECT_EQ(o.levels.enter(plain, write, false, noon).next, step::asks);
  EXPECT_EQ(o.levels.enter(plain, write, true, noon).next, step::asks) << "the server lets an owner nest";
  EXPECT_TRUE(o.levels.empty()) << "nothing is to be remembered of that";
  auto const first = o.take(plain, write);
  EXPECT_EQ(o.levels.enter(plain, write, false, noon).in, first);
  auto const younger = std::make_shared<a_hold>(write);
  EXPECT_EQ(o.levels.granted(plain, younger), first);
  EXPECT_EQ(o.levels.enter(plain, write, true, noon).in, younger) << "the younger of two holds";
  EXPECT_EQ(o.levels.exit(plain, *first, write, noon), after_exit::nothing);
  EXPECT_EQ(o.levels.exit(plain, *first, write, noon), after_exit::release);
  EXPECT_TRUE(o.levels.has(plain, write, noon)) << "the end of the elder is not that of the younger";
  EXPECT_EQ(o.levels.exit(plain, *younger, write, noon), after_exit::nothing);
  EXPECT_EQ(o.levels.exit(plain, *younger, write, noon), after_exit::release);
  EXPECT_TRUE(o.levels.empty());
}

TEST(Levels, OfOtherLocksAreOthers) {
  std::array<level_lock, 4> const locks{{shared,
                                         {&client, "other", permit_kind::shared},
                                         {&other_client, "stock", permit_kind::shared},
                                         {&client, "stock", permit_kind::reentrant}}};
  for (level_lock const& held : locks) {
    an_owner o;
    o.take(held, write);
    for (level_lock const& lock : locks) {
      EXPECT_EQ(o.levels.has(lock, write, noon), lock == held);
      EXPECT_EQ(o.levels.enter(lock, write, true, noon).next, lock == held ? step::nests : step::asks);
    }
  }
}

TEST(Levels, AnswerWhetherTheirOwnerHolds) {
  struct row {
    std::uint32_t writes, reads;
    bool lost, reads_now, writes_now;
  };
  for (row const r : {row{1, 0, false, true, true},
                      {2, 1, false, true, true},
                      {0, 1, false, true, false},
                      {1, 1, true, false, false}}) {
    an_owner o;
    o.have(shared, r.writes, r.reads);
    if (r.lost) o.hold->until = time_point::min();
    EXPECT_EQ(o.levels.has(shared, read, noon), r.reads_now) << r.writes << r.reads;
    EXPECT_EQ(o.levels.has(shared, write, noon), r.writes_now) << r.writes << r.reads;
  }
}

// ---------------------------------------------------------------------------------------------------------- the
// server's line

TEST(Levels, PassTheTurnOnInOrderUntilNobodyWaits) {
  an_owner o;
  EXPECT_EQ(o.levels.enter(shared, write, false, noon).next, step::asks);
  std::array<a_waiter, 3> line;
  for (a_waiter& one : line) {
    EXPECT_EQ(o.levels.enter(shared, read, false, noon).next, step::waits);
    o.levels.wait(shared, one);
  }
  for (std::size_t i = 0; i < line.size(); ++i) {
    o.levels.not_granted(shared);
    for (std::size_t other = 0; other < line.size(); ++other) EXPECT_EQ(line[other].wakes, other <= i ? 1 : 0);
    EXPECT_EQ(o.levels.end_wait(shared, line[i], false), wait_end::asks);
    EXPECT_EQ(o.levels.enter(shared, read, true, noon).next, step::busy) << "somebody asks";
  }
  o.levels.not_granted(shared);
  EXPECT_TRUE(o.levels.empty());
}

TEST(Levels, CallAllThatWaitAfterAGrant) {
  an_owner o;
  EXPECT_EQ(o.levels.enter(shared, read, false, noon).next, step::asks);
  std::array<a_waiter, 3> line;
  for (a_waiter& one : line) o.levels.wait(shared, one);
  auto const hold = std::make_shared<a_hold>(read);
  EXPECT_EQ(o.levels.granted(shared, hold), nullptr);
  for (a_waiter& one : line) {
    EXPECT_EQ(one.wakes, 1);
    EXPECT_EQ(o.levels.end_wait(shared, one, false), wait_end::looks_anew);
  }
  EXPECT_EQ(o.levels.enter(shared, read, false, noon).in, hold);
  EXPECT_EQ(o.levels.enter(shared, write, false, noon).next, step::refused);
}

TEST(Levels, EndTheirWaitInFourWays) {
  struct row {
    std::string what;
    enum class call { none, to_ask, to_look } called;
    bool cancelled;
    wait_end expected;
    bool next_has_turn;
  };
  using call = row::call;
  for (row const& r : {row{"its time is over", call::none, false, wait_end::timed_out, false},
                       {"it is cancelled", call::none, true, wait_end::is_cancelled, false},
                       {"it has the turn", call::to_ask, false, wait_end::asks, false},
                       {"it is cancelled when it has the turn", call::to_ask, true, wait_end::is_cancelled, true},
                       {"a hold is there", call::to_look, false, wait_end::looks_anew, false},
                       {"it is cancelled when a hold is there", call::to_look, true, wait_end::is_cancelled, false}}) {
    SCOPED_TRACE(r.what);
    an_owner o;
    EXPECT_EQ(o.levels.enter(shared, write, false, noon).next, step::asks);
    a_waiter one, next;
    o.levels.wait(shared, one);
    o.levels.wait(shared, next);
    if (r.called == call::to_ask) o.levels.not_granted(shared);
    if (r.called == call::to_look) o.levels.granted(shared, std::make_shared<a_hold>(write));
    EXPECT_EQ(o.levels.end_wait(shared, one, r.cancelled), r.expected);
    EXPECT_EQ(next.has_turn, r.next_has_turn);
    EXPECT_FALSE(one.linked());
    EXPECT_EQ(o.levels.end_wait(shared, next, true), wait_end::is_cancelled);
    EXPECT_FALSE(next.linked());
  }
}

TEST(Levels, ACancelledTurnThatNobodyWaitsForIsOver) {
  an_owner o;
  EXPECT_EQ(o.levels.enter(shared, write, false, noon).next, step::asks);
  a_waiter one;
  o.levels.wait(shared, one);
  o.levels.not_granted(shared);
  EXPECT_EQ(o.levels.end_wait(shared, one, true), wait_end::is_cancelled);
  EXPECT_TRUE(o.levels.empty());
  EXPECT_EQ(o.levels.enter(shared, write, true, noon).next, step::asks);
}

// --------------------------------------------------------------------------------------------------------------- the
// end

struct exit_row {
  std::uint32_t writes, reads;
  bool lost;
  level_use use;
  after_exit expected;
};

TEST(Levels, DecideWhatTheirEndLeaves) {
  for (exit_row const& r : {exit_row{1, 0, false, write, after_exit::release},
                            {0, 1, false, read, after_exit::release},
                            {2, 0, false, write, after_exit::nothing},
                            {0, 2, false, read, after_exit::nothing},
                            {1, 1, false, read, after_exit::nothing},
                            {2, 1, false, write, after_exit::nothing},
                            {1, 1, false, write, after_exit::becomes_reader},
                            {1, 3, false, write, after_exit::becomes_reader},
                            {1, 1, true, write, after_exit::nothing},
                            {1, 0, true, write, after_exit::release}}) {
    SCOPED_TRACE(std::to_string(r.writes) + " write, " + std::to_string(r.reads) + " read" + (r.lost ? ", lost" : ""));
    an_owner o;
    o.have(shared, r.writes, r.reads);
    if (r.lost) o.hold->until = noon;
    EXPECT_EQ(o.levels.exit(shared, *o.hold, r.use, noon), r.expected);
    EXPECT_EQ(o.hold->writes + o.hold->reads, r.writes + r.reads - 1);
    EXPECT_EQ(o.levels.empty(), r.expected == after_exit::release);
  }
}

TEST(Levels, OfALostHoldEndBesideTheNextHold) {
  an_owner o;
  o.have(shared, 1, 1);
  auto const lost = o.hold;
  lost->until = noon;
  EXPECT_EQ(o.levels.enter(shared, write, false, noon).next, step::asks);
  EXPECT_EQ(o.levels.exit(shared, *lost, read, noon), after_exit::nothing);
  auto const next = std::make_shared<a_hold>(write);
  EXPECT_EQ(o.levels.granted(shared, next), lost) << "the caller ends it with the owner unlocked";
  EXPECT_EQ(o.levels.exit(shared, *lost, write, noon), after_exit::release);
  EXPECT_EQ(o.levels.enter(shared, read, false, noon).in, next);
  EXPECT_EQ(o.levels.exit(shared, *next, write, noon), after_exit::becomes_reader);
  EXPECT_EQ(o.levels.exit(shared, *next, read, noon), after_exit::release);
  EXPECT_TRUE(o.levels.empty());
}

TEST(Levels, OfALostHoldMayEndWhileAnotherAcquireAsks) {
  an_owner o;
  o.have(shared, 1, 0);
  o.hold->until = noon;
  EXPECT_EQ(o.levels.enter(shared, write, false, noon).next, step::asks);
  EXPECT_EQ(o.levels.exit(shared, *o.hold, write, noon), after_exit::release);
  EXPECT_EQ(o.levels.enter(shared, write, true, noon).next, step::busy) << "the turn stays";
  o.levels.not_granted(shared);
  EXPECT_TRUE(o.levels.empty());
}

TEST(Levels, AreToldOfTheirWayDownWhatTheServerSaid) {
  struct row {
    error_code why;
    bool given_back, valid;
    error_code told;
    bool was_held, again;
  };
  error_code const none{}, unreachable = make_error_code(errc::unreachable), lost = make_error_code(errc::lost),
                           not_held = make_error_code(errc::not_held), denied = make_error_code(errc::access_denied),
                           unable = make_error_code(errc::not_supported);
  for (row const& r : {row{none, false, true, none, true, false},
                       {none, false, false, none, false, false},
                       {none, true, false, none, true, false},
                       {lost, false, true, none, false, false},
                       {lost, true, false, none, false, false},
                       {not_held, true, false, none, true, false},
                       {not_held, false, false, none, false, false},
                       {denied, false, true, denied, true, false},
                       {denied, false, false, none, false, false},
                       {unable, false, true, none, true, false},
                       {unable, false, false, none, false, false},
                       {unreachable, false, true, unreachable, true, true},
                       {unreachable, false, false, none, false, false},
                       {unreachable, true, false, unreachable, true, false}}) {
    auto const end = end_of_reader_order(r.why, r.given_back, r.valid);
    EXPECT_EQ(end.told, r.told) << r.why.message() << r.given_back << r.valid;
    EXPECT_EQ(end.was_held, r.was_held) << r.why.message() << r.given_back << r.valid;
    EXPECT_EQ(end.again, r.again) << r.why.message() << r.given_back << r.valid;
  }
}

TEST(Levels, AskForAllOrForOneOrForTheirOwner) {
  permit const reads = permit_of_level(permit_kind::shared, "me", read);
  EXPECT_EQ(reads, (permit{.kind = permit_kind::shared, .limit = most_permits, .weight = 1}));
  permit const writes = permit_of_level(permit_kind::shared, "me", write);
  EXPECT_EQ(writes, (permit{.kind = permit_kind::shared, .limit = most_permits, .weight = most_permits}));
  permit const owned = permit_of_level(permit_kind::reentrant, std::string{"a\0\xff", 3}, write);
  EXPECT_EQ(owned, (permit{.kind = permit_kind::reentrant, .limit = most_permits, .weight = 1, .detail = "6100ff"}));
}

}  // namespace
}  // namespace conch::engine
