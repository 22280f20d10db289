// The scripts' answers, read into types: every form that docs/protocol.md names, and what is none of them.
#include "protocol/replies.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/printed_replies.hpp"

namespace conch::engine {

using namespace protocol;
namespace {

using numbers = std::vector<std::int64_t>;

constexpr std::int64_t clock_us = 1'700'000'000'000'000;

/// By a server; `n` must live as long as this.
answer sent(numbers const& n) { return {.content = std::span{n}}; }

TEST(Replies, OfAnAcquire) {
  using kind = acquire_reply::kind;
  struct row {
    numbers answer;
    kind what;
    std::int64_t fence, chosen, left_ms, ticket, server_us;
    bool passed_on, more_to_do;
  };
  row const rows[] = {
      {{500}, kind::granted, 500, 0, 0, 0, 500 + fence_epoch_us, false, false},
      {{-clock_us}, kind::granted, 42, 0, 0, 0, clock_us, false, false},
      {{1, 500, clock_us}, kind::granted, 500, 0, 0, 0, clock_us, false, false},
      {{1, 500, clock_us, 3}, kind::granted, 500, 3, 0, 0, clock_us, false, false},
      {{1, 500, clock_us, 3, unfinished_flag}, kind::granted, 500, 3, 0, 0, clock_us, false, true},
      {{1, 500, clock_us, 3, passed_on_flag}, kind::granted, 500, 3, 0, 0, clock_us, false, false},
      {{0, 400, clock_us, 77}, kind::queued, 0, 0, 400, 77, clock_us, false, false},
      {{0, 400, clock_us, 77, passed_on_flag}, kind::queued, 0, 0, 400, 77, clock_us, true, false},
      {{2, 400, clock_us}, kind::busy, 0, 0, 400, 0, clock_us, false, false},
      {{3, 0, clock_us}, kind::too_late, 0, 0, 0, 0, clock_us, false, false},
      {{4, 0, clock_us, 77}, kind::unfinished, 0, 0, 0, 77, clock_us, false, false},
      {{}, kind::malformed, 0, 0, 0, 0, 0, false, false},
      {{1, 500}, kind::malformed, 0, 0, 0, 0, 0, false, false},
      {{5, 500, clock_us}, kind::malformed, 0, 0, 0, 0, clock_us, false, false},
      {{-1, 500, clock_us}, kind::malformed, 0, 0, 0, 0, clock_us, false, false},
  };
  for (row const& r : rows) {
    SCOPED_TRACE(testing::PrintToString(r.answer));
    acquire_reply const reply = read_acquire(sent(r.answer), 42);
    EXPECT_EQ(reply.what, r.what);
    EXPECT_EQ(reply.fence, r.fence);
    EXPECT_EQ(reply.chosen, r.chosen);
    EXPECT_EQ(reply.left_ms, r.left_ms);
    EXPECT_EQ(reply.ticket, r.ticket);
    EXPECT_EQ(reply.server_us, r.server_us);
    EXPECT_EQ(reply.passed_on, r.passed_on);
    EXPECT_EQ(reply.more_to_do, r.more_to_do);
    EXPECT_FALSE(reply.seen);
  }
}

TEST(Replies, OfAnAcquireOfAVoteNameTheOwner) {
  numbers const numbers_sent{0, 400, clock_us, 77, 5, 66, 1};
  acquire_reply const reply = read_acquire(sent(numbers_sent), 42);
  EXPECT_EQ(reply.what, acquire_reply::kind::queued);
  ASSERT_TRUE(reply.seen);
  EXPECT_EQ(reply.seen->client, 5);
  EXPECT_EQ(reply.seen->ticket, 66);
  EXPECT_TRUE(reply.seen->confirmed);
  EXPECT_FALSE(reply.passed_on) << "the number in that place is the owner's client";
}

TEST(Replies, OfARelease) {
  using kind = release_reply::kind;
  struct row {
    numbers answer;
    bool asked_again;
    kind what;
    bool was_mine, passed_on, more_to_do, more_in_line;
    acquire_reply::kind again;
  };
  constexpr auto none = acquire_reply::kind::malformed;
  row const rows[] = {
      {{1}, false, kind::released, true, false, false, false, none},
      {{1}, true, kind::malformed, false, false, false, false, none},
      {{1, 1, 1, clock_us}, false, kind::released, true, true, false, true, none},
      {{0, 2, 0, clock_us}, false, kind::released, false, false, true, false, none},
      {{0, 3, 1, clock_us}, false, kind::released, false, true, true, true, none},
      {{1, 1, 1, clock_us}, true, kind::malformed, false, false, false, false, none},
      {{1, 1, 1, clock_us, 0, 400, 77}, true, kind::released, true, true, false, true, acquire_reply::kind::queued},
      {{1, 0, 0, clock_us, 1, 500}, true, kind::released, true, false, false, false, acquire_reply::kind::granted},
      {{1, 0, 0, clock_us, 9, 500}, true, kind::released, true, false, false, false, none},
      {{2, 500, 3, clock_us}, false, kind::still_owned, false, false, false, false, none},
      {{2, 500, 3, clock_us, 1}, false, kind::still_owned, false, false, true, false, none},
      {{3, 0, 1, clock_us}, false, kind::not_done, false, false, false, false, none},
      {{3, 0, 1, clock_us}, true, kind::not_done, false, false, false, false, none},
      {{}, false, kind::malformed, false, false, false, false, none},
      {{0}, false, kind::malformed, false, false, false, false, none},
      {{1, 0, 0}, false, kind::malformed, false, false, false, false, none},
  };
  for (row const& r : rows) {
    SCOPED_TRACE(testing::PrintToString(r.answer) + (r.asked_again ? " asked again" : ""));
    release_reply const reply = read_release(sent(r.answer), r.asked_again, true);
    EXPECT_EQ(reply.what, r.what);
    EXPECT_EQ(reply.was_mine, r.was_mine);
    EXPECT_EQ(reply.passed_on, r.passed_on);
    EXPECT_EQ(reply.more_to_do, r.more_to_do);
    EXPECT_EQ(reply.more_in_line, r.more_in_line);
    EXPECT_EQ(reply.again.what, r.again);
    EXPECT_EQ(reply.server_us, r.answer.size() < 4 ? 0 : clock_us);
    EXPECT_EQ(reply.fence, r.what == kind::still_owned ? 500 : 0);
    EXPECT_EQ(reply.chosen, r.what == kind::still_owned ? 3 : 0);
    EXPECT_EQ(read_release(sent(r.answer), r.asked_again, false).chosen, 0) << "a mutex has none";
  }
}

TEST(Replies, OfARenewalAndAConfirmation) {
  using kind = renew_reply::kind;
  numbers const renewed{clock_us, 1, 0, -1};
  auto const r = read_renew(sent(renewed), 3, false);
  ASSERT_TRUE(r);
  EXPECT_EQ(*r, (renew_reply{.server_us = clock_us, .locks = {{kind::renewed}, {kind::not_mine}, {kind::failed}}}));

  numbers const confirmed{clock_us, 1, 500, 2, 501, 0, 502, -1, 0};
  auto const c = read_renew(sent(confirmed), 4, true);
  ASSERT_TRUE(c);
  EXPECT_EQ(*c, (renew_reply{.server_us = clock_us,
                             .locks = {{kind::renewed, false, 500},
                                       {kind::renewed, true, 501},
                                       {kind::not_mine, false, 502},
                                       {kind::failed}}}));

  for (std::size_t n = 0; n < 6; ++n) EXPECT_EQ(read_renew(sent(numbers(n, 1)), 3, false).has_value(), n == 4) << n;
}

TEST(Replies, OfManyTries) {
  numbers const two{clock_us, 500, 501};
  auto const r = read_tries(sent(two), 3);
  ASSERT_TRUE(r);
  EXPECT_FALSE(r->too_late);
  EXPECT_EQ(r->server_us, clock_us);
  EXPECT_EQ(r->fences, (numbers{500, 501}));
  numbers const late{3, 0, clock_us};
  auto const l = read_tries(sent(late), 3);
  ASSERT_TRUE(l);
  EXPECT_TRUE(l->too_late);
  EXPECT_EQ(l->server_us, clock_us);
  EXPECT_TRUE(l->fences.empty());
  EXPECT_FALSE(read_tries(sent({}), 3));
  EXPECT_FALSE(read_tries(sent({clock_us, 1, 2, 3, 4}), 3));
}

TEST(Replies, OfInspections) {
  numbers report{clock_us, 6, 1, 2, 3, 's', 0x01020304, 0xaabbccdd, 0, 1, 500, 900, 2, 0, 1};
  auto const r = read_inspect(sent(report));
  ASSERT_TRUE(r);
  EXPECT_EQ(r->kind, permit_kind::semaphore);
  EXPECT_EQ(r->waiting, 6u);
  EXPECT_EQ(r->held, 1u);
  EXPECT_EQ(r->taken, 2u);
  EXPECT_EQ(r->limit, 3u);
  ASSERT_EQ(r->owners.size(), 1u);
  EXPECT_EQ(r->owners[0].client, (std::array<std::uint32_t, 4>{0x01020304, 0xaabbccdd, 0, 1}));
  EXPECT_EQ(r->owners[0].fence, 500);
  EXPECT_EQ(r->owners[0].left_ms, 900);
  EXPECT_EQ(r->owners[0].permits, 2u);
  EXPECT_TRUE(r->owners[0].confirmed);
  EXPECT_EQ(r->owners[0].asked_us, 0);
  numbers asked = report;
  asked.insert(asked.end(), {1, 5, 6, 7, 8, clock_us});
  auto const with_request = read_inspect(sent(asked));
  ASSERT_TRUE(with_request);
  EXPECT_EQ(with_request->owners[0].asked_by, (std::array<std::uint32_t, 4>{5, 6, 7, 8}));
  EXPECT_EQ(with_request->owners[0].asked_us, clock_us);
  asked[15] = 2;
  EXPECT_FALSE(read_inspect(sent(asked))) << "of a missing owner";
  asked.pop_back();
  EXPECT_FALSE(read_inspect(sent(asked))) << "half a request";
  numbers waiting = report;
  waiting.insert(waiting.end(), {0, 5, 6, 7, 8, clock_us, 3, 1, 9, 9, 9, 9, 70, 0, 1, 2, 3, 4, clock_us + 1, 1});
  auto const with_waiters = read_inspect(sent(waiting));
  ASSERT_TRUE(with_waiters);
  EXPECT_EQ(with_waiters->owners[0].asked_us, 70);
  EXPECT_EQ(with_waiters->waiters,
            (std::vector<lock_report::waiter>{{{5, 6, 7, 8}, clock_us, 3}, {{1, 2, 3, 4}, clock_us + 1, 1}}));
  waiting.pop_back();
  EXPECT_FALSE(read_inspect(sent(waiting))) << "half a waiter";
  report[5] = 'x';
  EXPECT_FALSE(read_inspect(sent(report))) << "no kind of lock";
  report[5] = 0;
  report.pop_back();
  EXPECT_FALSE(read_inspect(sent(report))) << "half an owner";
  EXPECT_FALSE(read_inspect(sent({clock_us, 6, 1, 2, 3})));
}

TEST(Replies, OfOrders) {
  auto const plain = read_force(sent({2, clock_us}));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->count, 2);
  EXPECT_FALSE(plain->passed_on || plain->more_to_do || plain->goes_on);

  auto const some = read_force(sent({2, clock_us, 1 + 4, 's', 9}));
  ASSERT_TRUE(some);
  EXPECT_TRUE(some->passed_on && some->more_to_do);
  EXPECT_EQ(some->permit.kind, permit_kind::semaphore);
  EXPECT_EQ(some->permit.limit, 9u);
  EXPECT_FALSE(some->goes_on);

  auto const more = read_force(sent({100, clock_us, 2, 's', 9, 500, 7000}));
  ASSERT_TRUE(more);
  EXPECT_FALSE(more->passed_on || more->more_to_do) << "what is not finished is the taking";
  ASSERT_TRUE(more->goes_on);
  EXPECT_EQ(more->goes_on->last, 500);
  EXPECT_EQ(more->goes_on->from_us, 7000);

  auto const unknown = read_force(sent({2, clock_us, 1, 'x', 9}));
  ASSERT_TRUE(unknown);
  EXPECT_FALSE(unknown->passed_on) << "of no kind of lock";

  auto const limit = read_limit(sent({5, clock_us, 3}), 7);
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->count, 5);
  EXPECT_TRUE(limit->passed_on && limit->more_to_do);
  EXPECT_EQ(limit->permit.limit, 7u);

  auto const changed = read_limit(sent({5, clock_us, 0, 9}), 7);
  ASSERT_TRUE(changed);
  EXPECT_FALSE(changed->passed_on || changed->more_to_do);
  EXPECT_EQ(changed->permit.limit, 9u);

  EXPECT_FALSE(read_force(sent({2})));
  EXPECT_FALSE(read_limit(sent({}), 7));
}

TEST(Replies, OfCommandsAboutTheConnection) {
  EXPECT_EQ(read_session(sent({2})).count, 2);
  EXPECT_EQ(read_session(sent({})).count, 0) << "PONG";
}

TEST(Replies, OfAServerInThisProcessAreTakenAsTheyAre) {
  acquire_reply acquired{.what = acquire_reply::kind::queued,
                         .left_ms = 400,
                         .ticket = 77,
                         .server_us = clock_us,
                         .seen{{5, 66, true}},
                         .passed_on = true};
  EXPECT_EQ(read_acquire({.content = &acquired}, 42), acquired);
  acquired = {
      .what = acquire_reply::kind::granted, .fence = 500, .chosen = 3, .server_us = clock_us, .more_to_do = true};
  EXPECT_EQ(read_acquire({.content = &acquired}, 42), acquired) << "its fence is not that of the proposal";

  release_reply released{
      .what = release_reply::kind::still_owned, .server_us = clock_us, .fence = 500, .chosen = 3, .again = acquired};
  EXPECT_EQ(read_release({.content = &released}, true, true), released);

  tries_reply tried{.server_us = clock_us, .fences = {500, 501}};
  auto const same_tries = tried;
  EXPECT_EQ(read_tries({.content = &tried}, 3), same_tries);

  renew_reply renewed{.server_us = clock_us,
                      .locks = {{renew_reply::kind::renewed, true, 501}, {renew_reply::kind::not_mine}}};
  auto const same_renewals = renewed;
  EXPECT_EQ(read_renew({.content = &renewed}, 2, true), same_renewals);

  lock_report report{.kind = permit_kind::semaphore,
                     .waiting = 6,
                     .held = 1,
                     .taken = 2,
                     .limit = 3,
                     .owners = {{{1, 2, 3, 4}, 500, 900, 2, 0, true}},
                     .waiters = {{{5, 6, 7, 8}, 1500, 2}}};
  auto const same_report = report;
  EXPECT_EQ(read_inspect({.content = &report}), same_report);

  order_reply ordered{.count = 2,
                      .passed_on = true,
                      .permit = {.kind = permit_kind::semaphore, .limit = 9, .weight = 1},
                      .goes_on{{500, 7000}}};
  auto const same_order = ordered;
  EXPECT_EQ(read_force({.content = &ordered}), same_order);
  ordered = same_order;
  EXPECT_EQ(read_limit({.content = &ordered}, 7), same_order);

  session_reply heard{.count = 1};
  EXPECT_EQ(read_session({.content = &heard}), heard);

  identity_reply who{"billing"};
  EXPECT_EQ(read_identity({.content = &who}), identity_reply{"billing"});
}

TEST(Replies, OfIdentifyAreATextOrNothing) {
  EXPECT_EQ(read_identity({.content = std::string_view{"billing@pod-7"}}), identity_reply{"billing@pod-7"});
  EXPECT_EQ(read_identity({.content = std::string_view{}}), identity_reply{});
  EXPECT_FALSE(read_identity(sent({1})));
  EXPECT_FALSE(read_identity({.what = fault::access_denied}));
}

TEST(Replies, OfAnotherScriptAreNone) {
  session_reply other{.count = 1};
  answer const a{.content = &other};
  EXPECT_TRUE(a.numbers().empty());
  EXPECT_EQ(read_acquire(a, 42), acquire_reply{});
  EXPECT_EQ(read_release(a, false, false), release_reply{});
  EXPECT_FALSE(read_tries(a, 1));
  EXPECT_FALSE(read_renew(a, 1, false));
  EXPECT_FALSE(read_inspect(a));
  EXPECT_FALSE(read_force(a));
  EXPECT_FALSE(read_limit(a, 7));
  order_reply order;
  EXPECT_EQ(read_session({.content = &order}).count, 0);
}

TEST(Replies, OfAFaultAreNone) {
  answer const a{.what = fault::try_later, .words = "BUSY"};
  EXPECT_EQ(read_acquire(a, 42).what, acquire_reply::kind::malformed);
  EXPECT_EQ(read_release(a, false, false).what, release_reply::kind::malformed);
  EXPECT_FALSE(read_tries(a, 1));
  EXPECT_FALSE(read_renew(a, 1, false));
  EXPECT_FALSE(read_inspect(a));
  EXPECT_FALSE(read_force(a));
  EXPECT_FALSE(read_limit(a, 7));
  EXPECT_EQ(read_session(a).count, 0);
}

}  // namespace
}  // namespace conch::engine
