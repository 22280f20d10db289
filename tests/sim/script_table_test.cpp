// lua/*.lua by tables (script_table.hpp), but for watch.lua: script_watch_table_test.cpp.
#include "sim/script_table.hpp"

namespace conch::sim {
namespace {

std::vector<attempt> const three_tries{{"L", 1, lease}, {"M", 2, lease}, {"N", 3, lease}};
std::vector<renewal> const two_renewals{{"L", 1, lease}, {"M", 2, lease}};
std::vector<renewal> const one_renewal{{"L", 1, lease}};
std::vector<renewal> const renewal_of_7{{"L", 1, lease, 0, 7}};
std::vector<renewal> const two_votes{{"L", 1, lease, clock_us + 50}, {"M", 2, lease, clock_us + 50}};

renew_command lasting(std::vector<renewal> const& items, bool permits = false) {
  renew_command c{.items = items};
  c.permits = permits;
  c.retention = retention;
  return c;
}

limit_command change_limit(std::uint32_t otherwise, std::int64_t by) {
  return {.name = "L", .claim = claim, .retention = retention, .limit = otherwise, .by = by};
}
limit_command limit_if_unset(std::uint32_t permits) {
  return {.name = "L", .claim = claim, .retention = retention, .limit = permits, .if_unset = true};
}
limit_command limit(std::uint32_t permits) {
  return {.name = "L", .claim = claim, .retention = retention, .limit = permits};
}

// ---- the tables ----

std::vector<row> const& acquires() {
  static std::vector<row> const rows{
      {"free: granted, the fence is the clock", "", "", take("L"), "{clock}",
       "L=a.1 {clock} h (30000)\nL:f={clock} (600000)\n"},
      {"a fence was given that the clock has not reached: above it, and kept until the clock has passed it",
       "SET L:f {clock+500000} PX 1000", "", take("L"), "[1 {clock+500001} {now}]",
       "L=a.1 {clock+500001} h (30000)\nL:f={clock+500001} (600501)\n"},
      {"an older fence does not count", "SET L:f {clock-1} PX 1000", "", take("L"), "{clock}",
       "L=a.1 {clock} h (30000)\nL:f={clock} (600000)\n"},
      {"held: in line, which outlives the lock by the asker's lease", "SET L 'b.7 {clock-9} h' PX 20000", "", take("L"),
       "[0 20000 {now} {now}]", "L=b.7 {clock-9} h (20000)\nL:q=[a.1@{now}] (50000)\n"},
      {"a ticket is above the highest in line",
       "SET L 'b.7 {clock-9} h' PX 20000\nZADD L:q {now+10} c.1\nPEXPIRE L:q 90000", "", take("L"),
       "[0 20000 {now} {now+11}]", "L=b.7 {clock-9} h (20000)\nL:q=[c.1@{now+10} a.1@{now+11}] (90000)\n"},
      {"a ticket that is shown counts", "SET L 'b.7 {clock-9} h' PX 20000\nZADD L:q {now-5} c.1\nPEXPIRE L:q 1000", "",
       take("L", true, now_us - 6), "[0 20000 {now} {now-6}]",
       "L=b.7 {clock-9} h (20000)\nL:q=[a.1@{now-6} c.1@{now-5}] (50000)\n"},
      {"of two places the earlier counts", "SET L 'b.7 {clock-9} h' PX 20000\nZADD L:q {now-5} a.1\nPEXPIRE L:q 90000",
       "", take("L", true, now_us - 3), "[0 20000 {now} {now-5}]",
       "L=b.7 {clock-9} h (20000)\nL:q=[a.1@{now-5}] (90000)\n"},
      {"held: busy for a try", "SET L 'b.7 {clock-9} h' PX 20000", "", take("L", false), "[2 20000 {now}]",
       "L=b.7 {clock-9} h (20000)\n"},
      {"mine: renewed and granted again", "SET L 'a.1 {clock-9} h' PX 5000", "", take("L"), "[1 {clock-9} {now}]",
       "L=a.1 {clock-9} h (30000)\n"},
      {"mine: never shortened", "SET L 'a.1 {clock-9} h' PX 40000", "", take("L"), "[1 {clock-9} {now}]",
       "L=a.1 {clock-9} h (40000)\n"},
      {"mine, a claim: held, for the lease", "SET L 'a.1 {clock-9} c' PX 2000", "", take("L"), "[1 {clock-9} {now}]",
       "L=a.1 {clock-9} h (30000)\n"},
      {"an id that is the beginning of mine is not mine", "SET L 'a.12 {clock-9} h' PX 20000", "", take("L", false),
       "[2 20000 {now}]", "L=a.12 {clock-9} h (20000)\n"},
      {"free, and others wait: in line behind them, and it goes to the head", "ZADD L:q {now-9} b.1\nPEXPIRE L:q 60000",
       "b", take("L"), "[0 3000 {now} {now} 1]",
       "L=b.1 {clock} c (3000)\nL:f={clock} (600000)\nL:q=[a.1@{now}] (60000)\n",
       "b: b.1 {clock} {now} 3000 conch:{L}\n"},
      {"free for a try, and others wait: it goes to the head", "ZADD L:q {now-9} b.1\nPEXPIRE L:q 60000", "b",
       take("L", false), "[2 3000 {now} 0 0]", "L=b.1 {clock} c (3000)\nL:f={clock} (600000)\n",
       "b: b.1 {clock} {now} 3000 conch:{L}\n"},
      {"a waiter that is not subscribed is passed over", "ZADD L:q {now-9} b.1\nPEXPIRE L:q 60000", "", take("L"),
       "{clock}", "L=a.1 {clock} h (30000)\nL:f={clock} (600000)\n"},
      {"at its not-after: done", "", "", late(now_us), "{clock}", "L=a.1 {clock} h (30000)\nL:f={clock} (600000)\n"},
      {"after its not-after: not done", "ZADD L:q {now-9} b.1", "b", late(now_us - 1), "[3 0 {now}]",
       "L:q=[b.1@{now-9}]\n"},
      {"something else", "SET L 'something else'", "", take("L"), "error WRONGTYPE", "L=something else\n"},
      {"another type", "HSET L what else", "", take("L", false), "error WRONGTYPE", "L={what=else}\n"},
      {"a vote that is free: a claim with the fence that was proposed", "", "", vote(clock_us + 100), "-{now}",
       "L=a.1 {clock+100} c (30000)\nL:f={clock+100} (600001)\n"},
      {"a vote below a fence that was given", "SET L:f {clock+200} PX 1000", "", vote(clock_us + 100),
       "[1 {clock+201} {now}]", "L=a.1 {clock+201} c (30000)\nL:f={clock+201} (600001)\n"},
      {"a vote that another has: who, its ticket, confirmed", "SET L 'b.5001 {clock-9} h' PX 20000", "",
       vote(clock_us, false), "[2 20000 {now} 0 11 5 1]", "L=b.5001 {clock-9} h (20000)\n"},
      {"a vote that another has, whose id has a nonce", "SET L 'b.5001-0123456789A {clock-9} h' PX 20000", "",
       vote(clock_us, false), "[2 20000 {now} 0 11 5 1]", "L=b.5001-0123456789A {clock-9} h (20000)\n"},
      {"a vote that another has, not confirmed", "SET L 'b.5001 {clock-9} c' PX 20000", "", vote(clock_us, true),
       "[0 20000 {now} {now} 11 5 0]", "L=b.5001 {clock-9} c (20000)\nL:q=[a.1@{now}] (50000)\n"},
  };
  return rows;
}

acquire_command adopt(std::string_view origin, permit const* share = nullptr, std::int64_t not_after = 0) {
  acquire_command c = take("L", false);
  c.not_after_us = not_after;
  c.permit = share;
  c.origin = origin;
  return c;
}

std::vector<row> const& adoptions() {
  static std::vector<row> const rows{
      {"the origin's: mine from now on, with its fence, for the lease",
       "SET L 'b.7 {clock-9} h' PX 20000\nSET L:f {clock-9} PX 50000", "", adopt("b.7 999999999991"),
       "[1 {clock-9} {now}]", "L=a.1 {clock-9} h (30000)\nL:f={clock-9} (600000)\n"},
      {"the origin's, a claim: held", "SET L 'b.7 {clock-9} c' PX 2000", "", adopt("b.7 999999999991"),
       "[1 {clock-9} {now}]", "L=a.1 {clock-9} h (30000)\nL:f={clock-9} (600000)\n"},
      {"the line stays as it is, and the first in it is told of the new lease",
       "SET L 'b.7 {clock-9} h' PX 20000\nZADD L:q {now-9} c.1\nPEXPIRE L:q 60000", "c", adopt("b.7 999999999991"),
       "[1 {clock-9} {now}]", "L=a.1 {clock-9} h (30000)\nL:f={clock-9} (600000)\nL:q=[c.1@{now-9}] (60000)\n",
       "c: ~c.1 30000 conch:{L}\n"},
      {"mine already: renewed, and answered as before", "SET L 'a.1 {clock-9} h' PX 20000", "",
       adopt("b.7 999999999991"), "[1 {clock-9} {now}]", "L=a.1 {clock-9} h (30000)\nL:f={clock-9} (600000)\n"},
      {"somebody has taken it over", "SET L 'c.3 {clock-9} h' PX 20000", "", adopt("b.7 999999999991"), "[2 0 {now}]",
       "L=c.3 {clock-9} h (20000)\n"},
      {"the origin with another fence: it was granted anew since", "SET L 'b.7 {clock-8} h' PX 20000", "",
       adopt("b.7 999999999991"), "[2 0 {now}]", "L=b.7 {clock-8} h (20000)\n"},
      {"an id that begins like the origin is not it", "SET L 'b.71 {clock-9} h' PX 20000", "",
       adopt("b.7 999999999991"), "[2 0 {now}]", "L=b.71 {clock-9} h (20000)\n"},
      {"free: not the origin's", "ZADD L:q {now-9} c.1\nPEXPIRE L:q 60000", "c", adopt("b.7 999999999991"),
       "[2 0 {now}]", "L:q=[c.1@{now-9}] (60000)\n"},
      {"after its not-after: not done", "SET L 'b.7 {clock-9} h' PX 20000", "",
       adopt("b.7 999999999991", nullptr, now_us - 1), "[3 0 {now}]", "L=b.7 {clock-9} h (20000)\n"},
      {"something else", "SET L 'something else'", "", adopt("b.7 999999999991"), "error WRONGTYPE",
       "L=something else\n"},
      {"another kind", "HSET L sums 's 3 0 {now+9} 0 '", "", adopt("b.7 999999999991"), "error WRONGTYPE",
       "L={sums=s 3 0 {now+9} 0 }\n"},
  };
  return rows;
}

std::vector<row> const& adoptions_of_permits() {
  static std::vector<row> const rows{
      {"the origin's share: mine, with its weight and fence",
       "HSET L sums 's 3 3 {now+9} 0 ' b.7 '2 {clock-9} c {now+9} 0' c.1 '1 {clock-8} h {now+9} 0'\nPEXPIRE L 1000", "",
       adopt("b.7 999999999991", &two_of_3), "[1 {clock-9} {now} 0]",
       "L={a.1=2 {clock-9} h {now+30000000} 0, c.1=1 {clock-8} h {now+9} 0, sums=s 3 3 {now+9} 0 } "
       "(30000)\nL:f={clock-9} (600000)\n"},
      {"a segment", "HSET L sums 'g 3 1 {now+9} 0 010' b.7 '1 {clock-9} h {now+9} 2'\nPEXPIRE L 90000", "",
       adopt("b.7 999999999991", &segment_of_3), "[1 {clock-9} {now} 2]",
       "L={a.1=1 {clock-9} h {now+30000000} 2, sums=g 3 1 {now+9} 0 010} (90000)\nL:f={clock-9} (600000)\n"},
      {"one of many: in the set of ends in place of the origin",
       "HSET L sums 's 3 2 0{now+9} 0 ' b.7 '1 {clock-9} h {now+9} 0' c.1 '1 {clock-8} h {now+9} 0'\nPEXPIRE L "
       "1000\nZADD L:e {now+9} b.7 {now+9} "
       "c.1\nPEXPIRE L:e 1000",
       "", adopt("b.7 999999999991", &one_of_3), "[1 {clock-9} {now} 0]",
       "L={a.1=1 {clock-9} h {now+30000000} 0, c.1=1 {clock-8} h {now+9} 0, sums=s 3 2 0{now+9} 0 } "
       "(30000)\nL:e=[c.1@{now+9} a.1@{now+30000000}] "
       "(630000)\nL:f={clock-9} (600000)\n"},
      {"mine already: renewed, and answered as before",
       "HSET L sums 's 3 1 {now+9} 0 ' a.1 '1 {clock-9} h {now+9} 0'\nPEXPIRE L 1000", "",
       adopt("b.7 999999999991", &one_of_3), "[1 {clock-9} {now} 0]",
       "L={a.1=1 {clock-9} h {now+30000000} 0, sums=s 3 1 {now+9} 0 } (30000)\nL:f={clock-9} (600000)\n"},
      {"its lease is over, and nobody has ended it yet",
       "HSET L sums 's 3 1 {now} 0 ' b.7 '1 {clock-9} h {now} 0'\nPEXPIRE L 1000", "",
       adopt("b.7 999999999991", &one_of_3), "[2 0 {now}]",
       "L={b.7=1 {clock-9} h {now} 0, sums=s 3 1 {now} 0 } (1000)\n"},
      {"the origin with another fence", "HSET L sums 's 3 1 {now+9} 0 ' b.7 '1 {clock-8} h {now+9} 0'\nPEXPIRE L 1000",
       "", adopt("b.7 999999999991", &one_of_3), "[2 0 {now}]",
       "L={b.7=1 {clock-8} h {now+9} 0, sums=s 3 1 {now+9} 0 } (1000)\n"},
      {"somebody has taken it over", "HSET L sums 's 3 1 {now+9} 0 ' c.1 '1 {clock-9} h {now+9} 0'\nPEXPIRE L 1000", "",
       adopt("b.7 999999999991", &one_of_3), "[2 0 {now}]",
       "L={c.1=1 {clock-9} h {now+9} 0, sums=s 3 1 {now+9} 0 } (1000)\n"},
      {"nothing there", "", "", adopt("b.7 999999999991", &one_of_3), "[2 0 {now}]", ""},
      {"after its not-after: not done", "HSET L sums 's 3 1 {now+9} 0 ' b.7 '1 {clock-9} h {now+9} 0'\nPEXPIRE L 1000",
       "", adopt("b.7 999999999991", &one_of_3, now_us - 1), "[3 0 {now}]",
       "L={b.7=1 {clock-9} h {now+9} 0, sums=s 3 1 {now+9} 0 } (1000)\n"},
      {"another kind", "HSET L sums 's 3 1 {now+9} 0 ' b.7 '1 {clock-9} h {now+9} 0'\nPEXPIRE L 1000", "",
       adopt("b.7 999999999991", &reader), "error WRONGTYPE",
       "L={b.7=1 {clock-9} h {now+9} 0, sums=s 3 1 {now+9} 0 } (1000)\n"},
      {"a mutex", "SET L 'b.7 {clock-9} h' PX 20000", "", adopt("b.7 999999999991", &one_of_3), "error WRONGTYPE",
       "L=b.7 {clock-9} h (20000)\n"},
  };
  return rows;
}

std::vector<row> const& acquires_of_all() {
  acquire_all_command const all{.items = three_tries, .retention = retention};
  acquire_all_command const too_late{.items = three_tries, .retention = retention, .not_after_us = now_us - 1};
  static std::vector<row> const rows{
      {"all free: all taken", "", "", all, "[{clock} {clock} {clock}]",
       "L=a.1 {clock} h (30000)\nL:f={clock} (600000)\nM=a.2 {clock} h (30000)\nM:f={clock} (600000)\n"
       "N=a.3 {clock} h (30000)\nN:f={clock} (600000)\n"},
      {"up to the first that is somebody's; what is behind it is not touched", "SET M 'b.7 {clock-9} h' PX 20000", "",
       all, "[{clock} [2 20000 {now}] [2 0 {now}]]",
       "L=a.1 {clock} h (30000)\nL:f={clock} (600000)\nM=b.7 {clock-9} h (20000)\n"},
      {"up to the first with a waiter, which is granted nothing here", "ZADD M:q {now-9} b.1\nPEXPIRE M:q 1000", "b",
       all, "[{clock} [2 0 {now}] [2 0 {now}]]",
       "L=a.1 {clock} h (30000)\nL:f={clock} (600000)\nM:q=[b.1@{now-9}] (1000)\n"},
      {"up to the first that cannot be read", "HSET M what else", "", all, "[{clock} [2 0 {now}] [2 0 {now}]]",
       "L=a.1 {clock} h (30000)\nL:f={clock} (600000)\nM={what=else}\n"},
      {"one that is mine counts as taken", "SET L 'a.1 {clock-9} h' PX 100\nSET M 'b.7 {clock-9} h' PX 20000", "", all,
       "[[1 {clock-9} {now}] [2 20000 {now}] [2 0 {now}]]", "L=a.1 {clock-9} h (30000)\nM=b.7 {clock-9} h (20000)\n"},
      {"after its not-after: not done", "", "", too_late, "[[3 0 {now}] [3 0 {now}] [3 0 {now}]]", ""},
  };
  return rows;
}

std::vector<row> const& releases() {
  static std::vector<row> const rows{
      {"mine, and nobody waits", "SET L 'a.1 {clock-9} h' PX 5000\nSET L:f {clock-9} PX 1000", "", give_back(), "1",
       "L:f={clock-9} (1000)\n"},
      {"mine, and somebody waits: handed on as a claim, told by a push",
       "SET L 'a.1 {clock-9} h' PX 5000\nSET L:f {clock-9} PX 1000\nZADD L:q 5 b.1 6 c.1\nPEXPIRE L:q 60000", "b",
       give_back(), "[1 1 1 {now}]", "L=b.1 {clock} c (3000)\nL:f={clock} (600000)\nL:q=[c.1@6] (60000)\n",
       "b: b.1 {clock} {now} 3000 conch:{L}\n"},
      {"the fence is above the one that was held, also where its key is gone",
       "SET L 'a.1 {clock+70} h' PX 5000\nZADD L:q 5 b.1", "b", give_back(), "[1 1 0 {now}]",
       "L=b.1 {clock+71} c (3000)\nL:f={clock+71} (600001)\n", "b: b.1 {clock+71} {now} 3000 conch:{L}\n"},
      {"past those who do not hear", "SET L 'a.1 {clock-9} h' PX 5000\nZADD L:q 5 b.1 6 c.1 7 d.1", "c", give_back(),
       "[1 1 1 {now}]", "L=c.1 {clock} c (3000)\nL:f={clock} (600000)\nL:q=[d.1@7]\n",
       "c: c.1 {clock} {now} 3000 conch:{L}\n"},
      {"nobody hears: free", "SET L 'a.1 {clock-9} h' PX 5000\nZADD L:q 5 b.1", "", give_back(), "[1 0 0 {now}]",
       "L:f={clock} (600000)\n"},
      {"somebody's: changes nothing", "SET L 'b.7 {clock-9} h' PX 5000", "", give_back(), "[0 0 0 {now}]",
       "L=b.7 {clock-9} h (5000)\n"},
      {"only the grant that is named", "SET L 'a.1 {clock-9} h' PX 5000", "", renew_command{.items = renewal_of_7},
       "[{now} 0]", "L=a.1 {clock-9} h (5000)\n"},
      {"the grant that is named", "SET L 'a.1 7 h' PX 5000", "", renew_command{.items = renewal_of_7}, "[{now} 1]",
       "L=a.1 7 h (30000)\n"},
      {"an id that mine begins with is not mine", "SET L 'a.12 {clock-9} h' PX 5000", "", give_back(), "[0 0 0 {now}]",
       "L=a.12 {clock-9} h (5000)\n"},
      {"in line: leaves it", "SET L 'b.7 {clock-9} h' PX 5000\nZADD L:q 5 a.1 6 c.1\nPEXPIRE L:q 60000", "",
       give_back(), "[0 0 0 {now}]", "L=b.7 {clock-9} h (5000)\nL:q=[c.1@6] (60000)\n"},
      {"a kick: free, and somebody waits", "ZADD L:q 5 a.1 6 c.1", "c", give_back(), "[0 1 0 {now}]",
       "L=c.1 {clock} c (3000)\nL:f={clock} (600000)\n", "c: c.1 {clock} {now} 3000 conch:{L}\n"},
      {"keep: an owner stays owner", "SET L 'a.1 {clock-9} h' PX 5000\nZADD L:q 5 b.1", "b", give_back(1, true),
       "[2 {clock-9} 0 {now}]", "L=a.1 {clock-9} h (30000)\nL:q=[b.1@5]\n"},
      {"keep: in line, leaves it", "SET L 'b.7 {clock-9} h' PX 5000\nZADD L:q 5 a.1", "", give_back(1, true),
       "[0 0 0 {now}]", "L=b.7 {clock-9} h (5000)\n"},
      {"again: handed on, and behind everybody",
       "SET L 'a.1 {clock-9} h' PX 5000\nZADD L:q 5 b.1 6 c.1\nPEXPIRE L:q 100", "b", give_back(1, false, 2),
       "[1 1 1 {now} 0 3000 {now}]", "L=b.1 {clock} c (3000)\nL:f={clock} (600000)\nL:q=[c.1@6 a.2@{now}] (33000)\n",
       "b: b.1 {clock} {now} 3000 conch:{L}\n"},
      {"again, and nobody waits: its own once more, under the new id",
       "SET L 'a.1 {clock-9} h' PX 5000\nSET L:f {clock-9} PX 1000", "", give_back(1, false, 2),
       "[1 0 0 {now} 1 {clock}]", "L=a.2 {clock} h (30000)\nL:f={clock} (600000)\n"},
      {"a vote raises the floor", "SET L 'a.1 {clock-9} h' PX 5000\nSET L:f {clock-9} PX 1000", "",
       give_back_vote(clock_us + 50), "[1 0 0 {now}]", "L:f={clock+50} (600001)\n"},
      {"a vote whose floor is passed already", "SET L 'a.1 {clock-9} h' PX 5000\nSET L:f {clock+50} PX 1000", "",
       give_back_vote(clock_us + 50), "1", "L:f={clock+50} (1000)\n"},
      {"a vote of somebody else's: the floor is raised all the same", "SET L 'b.7 {clock-9} h' PX 5000", "",
       give_back_vote(clock_us + 50), "[0 0 0 {now}]", "L=b.7 {clock-9} h (5000)\nL:f={clock+50} (600001)\n"},
      {"a vote that is passed on: ahead of what it says", "SET L 'a.1 {clock-9} h' PX 5000\nZADD L:q 5 b.1", "b",
       give_back_vote(clock_us + 50, clock_us + 80), "[1 1 0 {now}]",
       "L=b.1 {clock+81} c (3000)\nL:f={clock+81} (600001)\n", "b: b.1 {clock+81} {now} 3000 conch:{L}\n"},
      {"something else", "SET L 'something else'", "", give_back(), "error WRONGTYPE", "L=something else\n"},
  };
  return rows;
}

std::vector<row> const& renewals() {
  static std::vector<row> const rows{
      {"mine is extended, somebody's is not", "SET L 'a.1 {clock-9} h' PX 5000\nSET M 'b.7 {clock-9} h' PX 5000", "",
       renew_command{.items = two_renewals}, "[{now} 1 0]", "L=a.1 {clock-9} h (30000)\nM=b.7 {clock-9} h (5000)\n"},
      {"never shortened; what is gone is not made", "SET L 'a.1 {clock-9} h' PX 50000", "",
       renew_command{.items = two_renewals}, "[{now} 1 0]", "L=a.1 {clock-9} h (50000)\n"},
      {"a claim becomes a hold", "SET L 'a.1 {clock-9} c' PX 2000", "", renew_command{.items = one_renewal},
       "[{now} 1]", "L=a.1 {clock-9} h (30000)\n"},
      {"a claim that lasts longer is not shortened", "SET L 'a.1 {clock-9} c' PX 50000", "",
       renew_command{.items = one_renewal}, "[{now} 1]", "L=a.1 {clock-9} h (50000)\n"},
      {"a key of another type is not mine, and fails alone", "HSET L what else\nSET M 'a.2 {clock-9} h' PX 5000", "",
       renew_command{.items = two_renewals}, "[{now} 0 1]", "L={what=else}\nM=a.2 {clock-9} h (30000)\n"},
      {"an id that mine begins with is not mine", "SET L 'a.12 {clock-9} h' PX 5000", "",
       renew_command{.items = one_renewal}, "[{now} 0]", "L=a.12 {clock-9} h (5000)\n"},
      {"a hold that has lasted long keeps its fence", "SET L 'a.1 {clock-9} h' PX 5000\nSET L:f {clock-9} PX 1000", "",
       lasting(one_renewal), "[{now} 1]", "L=a.1 {clock-9} h (30000)\nL:f={clock-9} (600000)\n"},
      {"also where its key is gone, and until the clock has passed it", "SET L 'a.1 {clock+500000} h' PX 5000", "",
       lasting(one_renewal), "[{now} 1]", "L=a.1 {clock+500000} h (30000)\nL:f={clock+500000} (600500)\n"},
      {"but no other's, and none that is kept for longer",
       "SET L 'a.1 {clock-9} h' PX 5000\nSET L:f {clock-9} PX 900000\nSET M 'b.7 {clock-9} h' PX 5000\nSET M:f "
       "{clock-9} PX 1000",
       "", lasting(two_renewals), "[{now} 1 0]",
       "L=a.1 {clock-9} h (30000)\nL:f={clock-9} (900000)\nM=b.7 {clock-9} h (5000)\nM:f={clock-9} (1000)\n"},
      {"permits: one that has lasted long keeps its fence",
       "HSET L sums 's 3 1 {now+1000000} 0 ' a.1 '1 {clock-9} h {now+1000000} 0'\nPEXPIRE L 2000", "",
       lasting(one_renewal, true), "[{now} 1]",
       "L={a.1=1 {clock-9} h {now+30000000} 0, sums=s 3 1 {now+1000000} 0 } (30000)\nL:f={clock-9} (600000)\n"},
      {"permits: mine, somebody's",
       "HSET L sums 's 3 2 {now+1000000} 0 ' a.1 '1 7 c {now+2000000} 0' b.1 '1 8 h {now+1000000} 0'\nPEXPIRE L 2000",
       "", renew_command{.items = two_renewals, .permits = true}, "[{now} 1 0]",
       "L={a.1=1 7 h {now+30000000} 0, b.1=1 8 h {now+1000000} 0, sums=s 3 2 {now+1000000} 0 } (30000)\n"},
      {"permits: only the grant that is named",
       "HSET L sums 's 3 1 {now+1000000} 0 ' a.1 '1 8 h {now+1000000} 0'\nPEXPIRE L 2000", "",
       renew_command{.items = renewal_of_7, .permits = true}, "[{now} 0]",
       "L={a.1=1 8 h {now+1000000} 0, sums=s 3 1 {now+1000000} 0 } (2000)\n"},
      {"permits: the grant that is named",
       "HSET L sums 's 3 1 {now+1000000} 0 ' a.1 '1 7 h {now+1000000} 0'\nPEXPIRE L 2000", "",
       renew_command{.items = renewal_of_7, .permits = true}, "[{now} 1]",
       "L={a.1=1 7 h {now+30000000} 0, sums=s 3 1 {now+1000000} 0 } (30000)\n"},
      {"permits: one whose lease is over is not mine",
       "HSET L sums 's 3 1 {now} 0 ' a.1 '1 7 h {now} 0'\nPEXPIRE L 2000", "",
       renew_command{.items = one_renewal, .permits = true}, "[{now} 0]",
       "L={a.1=1 7 h {now} 0, sums=s 3 1 {now} 0 } (2000)\n"},
      {"permits: never shortened", "HSET L sums 's 3 1 {now+1000000} 0 ' a.1 '1 7 h {now+90000000} 0'\nPEXPIRE L 90000",
       "", renew_command{.items = one_renewal, .permits = true}, "[{now} 1]",
       "L={a.1=1 7 h {now+90000000} 0, sums=s 3 1 {now+1000000} 0 } (90000)\n"},
      {"permits: a key of another type is not mine, and fails alone",
       "SET L x\nHSET M sums 's 3 1 {now+1000000} 0 ' a.2 '1 7 h {now+1000000} 0'\nPEXPIRE M 2000", "",
       renew_command{.items = two_renewals, .permits = true}, "[{now} 0 1]",
       "L=x\nM={a.2=1 7 h {now+30000000} 0, sums=s 3 1 {now+1000000} 0 } (30000)\n"},
  };
  return rows;
}

std::vector<row> const& confirmations() {
  confirm_command const votes{.items = two_votes, .retention = retention};
  static std::vector<row> const rows{
      {"mine, no longer a claim; not mine: in both the floor is raised",
       "SET L 'a.1 {clock+50} c' PX 500\nSET L:f {clock+50} PX 1000", "", votes, "[{now} 1 {clock+50} 0 0]",
       "L=a.1 {clock+50} h (30000)\nL:f={clock+50} (1000)\nM:f={clock+50} (600001)\n"},
      {"mine, but a fence above the floor was given",
       "SET L 'a.1 {clock+90} h' PX 500\nSET L:f {clock+90} PX 1000\nSET M 'a.2 {clock} h' PX 50000\nSET M:f {clock} "
       "PX 1000",
       "", votes, "[{now} 2 {clock+90} 1 {clock}]",
       "L=a.1 {clock+90} h (30000)\nL:f={clock+90} (1000)\nM=a.2 {clock} h (50000)\nM:f={clock+50} (600001)\n"},
      {"a key of another type is not mine, and fails alone",
       "HSET L what else\nSET M 'a.2 {clock} c' PX 500\nSET M:f {clock} PX 1000", "", votes, "[{now} 0 0 1 {clock}]",
       "L={what=else}\nL:f={clock+50} (600001)\nM=a.2 {clock} h (30000)\nM:f={clock+50} (600001)\n"},
  };
  return rows;
}

std::vector<row> const& orders() {
  static std::vector<row> const rows{
      {"inspect: nothing", "", "", inspect_command{.name = "L"}, "[{now} 0 0 0 1 0]", ""},
      {"inspect: a mutex", "SET L 'ab.7 {clock-9} c' PX 5000\nZADD L:q 5 a.1 6 c.1", "", inspect_command{.name = "L"},
       "[{now} 2 1 1 1 0 171 0 0 0 {clock-9} 5000 1 0 0 0 10 0 0 0 5 1 0 12 0 0 0 6 1]",
       "L=ab.7 {clock-9} c (5000)\nL:q=[a.1@5 c.1@6]\n"},
      {"inspect: what waiters of a semaphore ask for", "ZADD L:q 5 'a.1 3 -'", "", inspect_command{.name = "L"},
       "[{now} 1 0 0 1 0 0 10 0 0 0 5 3]", "L:q=[a.1 3 -@5]\n"},
      {"inspect: permits by their fences, without one whose lease is over",
       "HSET L sums 's 5 4 {now} 1 ' b.1 '2 9 h {now+5000000} 0' c.1 '1 8 c {now+2000000} 0' d.1 '1 7 h {now} 0'", "",
       inspect_command{.name = "L"}, "[{now} 0 2 3 5 115 12 0 0 0 8 2000 1 0 0 11 0 0 0 9 5000 2 0 1]",
       "L={b.1=2 9 h {now+5000000} 0, c.1=1 8 c {now+2000000} 0, d.1=1 7 h {now} 0, sums=s 5 4 {now} 1 }\n"},
      {"inspect: something else", "SET L x", "", inspect_command{.name = "L"}, "error WRONGTYPE", "L=x\n"},
      {"force: the lock is free", "ZADD L:q 5 b.1", "b", force(), "[0 {now}]", "L:q=[b.1@5]\n"},
      {"force: the owner that loses it is told first, then the next", "SET L 'b.7 {clock-9} h' PX 5000\nZADD L:q 5 c.1",
       "bc", force(), "[1 {now} 0 0 1]", "L=c.1 {clock} c (3000)\nL:f={clock} (600000)\n",
       "b: !b.7 conch:{L}\nc: c.1 {clock} {now} 3000 conch:{L}\n"},
      {"force: nobody waits", "SET L 'b.7 {clock-9} h' PX 5000", "b", force(), "[1 {now}]", "", "b: !b.7 conch:{L}\n"},
      {"force: the fence goes on above the one that was held", "SET L 'b.7 {clock+40} h' PX 5000\nZADD L:q 5 c.1", "c",
       force(), "[1 {now} 0 0 1]", "L=c.1 {clock+41} c (3000)\nL:f={clock+41} (600001)\n",
       "c: c.1 {clock+41} {now} 3000 conch:{L}\n"},
      {"force: and above that of the owner of a permit",
       "HSET L sums 's 3 3 {now+9000000} 0 ' b.1 '3 {clock+40} h {now+9000000} 0'\nPEXPIRE L 9000\nZADD L:q 5 'c.1 1 "
       "-'",
       "bc", force(), "[1 {now} 0 115 3]",
       "L={c.1=1 {clock+41} c {now+3000000} 0, sums=s 3 1 {now+3000000} 0 } (3000)\nL:f={clock+41} (600001)\n",
       "b: !b.1 conch:{L}\nc: c.1 {clock+41} {now} 3000 s0 conch:{L}\n"},
      {"force: only from the one it names", "SET L 'b.7 {clock-9} h' PX 5000", "b", force(clock_us - 8), "[0 {now}]",
       "L=b.7 {clock-9} h (5000)\n"},
      {"force: nobody has the fence 0", "SET L 'b.7 {clock-9} h' PX 5000\nZADD L:q 5 c.1", "bc", force(0), "[0 {now}]",
       "L=b.7 {clock-9} h (5000)\nL:q=[c.1@5]\n"},
      {"force: one of several",
       "HSET L sums 's 3 3 {now+1000000} 0 ' b.1 '2 9 h {now+5000000} 0' c.1 '1 8 h {now+1000000} 0'\nPEXPIRE L "
       "5000\nZADD L:q 5 'd.1 2 -'",
       "bcd", force(9), "[1 {now} 0 115 3]",
       "L={c.1=1 8 h {now+1000000} 0, d.1=2 {clock} c {now+3000000} 0, sums=s 3 3 {now+1000000} 0 } "
       "(5000)\nL:f={clock} (600000)\n",
       "b: !b.1 conch:{L}\nd: d.1 {clock} {now} 3000 s0 conch:{L}\n"},
      {"limit: set for a lock that nobody uses, and kept for the retention", "", "", limit(5), "[0 {now}]",
       "L={sums=s 5 0 0 1 } (600000)\n"},
      {"limit: a greater one lets those in for whom it is enough, in order",
       "HSET L sums 's 1 1 {now+1000000} 0 ' b.1 '1 9 h {now+1000000} 0'\nPEXPIRE L 1000\nZADD L:q 5 'c.1 1 -' 6 'd.1 "
       "3 -' 7 'e.1 1 -'",
       "cde", limit(3), "[2 {now} 1]",
       "L={b.1=1 9 h {now+1000000} 0, c.1=1 {clock} c {now+3000000} 0, sums=s 3 2 {now+1000000} 1 } "
       "(600000)\nL:f={clock} (600000)\n"
       "L:q=[d.1 3 -@6 e.1 1 -@7]\n",
       "c: c.1 {clock} {now} 3000 s0 conch:{L}\n"},
      {"limit: a smaller one takes nothing from anybody",
       "HSET L sums 's 3 3 {now+1000000} 0 ' b.1 '3 9 h {now+1000000} 0'\nPEXPIRE L 1000", "", limit(1), "[3 {now}]",
       "L={b.1=3 9 h {now+1000000} 0, sums=s 1 3 {now+1000000} 1 } (600000)\n"},
      {"limit: changed for a lock that nobody uses, from what the asker has", "", "", change_limit(5, 2),
       "[0 {now} 0 7]", "L={sums=s 7 0 0 1 } (600000)\n"},
      {"limit: changed from what it is, and lets those in for whom it is enough",
       "HSET L sums 's 2 2 {now+1000000} 0 ' b.1 '2 9 h {now+1000000} 0'\nPEXPIRE L 1000\nZADD L:q 5 'c.1 1 -' 6 'd.1 "
       "1 -'",
       "cd", change_limit(7, 1), "[3 {now} 1 3]",
       "L={b.1=2 9 h {now+1000000} 0, c.1=1 {clock} c {now+3000000} 0, sums=s 3 3 {now+1000000} 1 } "
       "(600000)\nL:f={clock} (600000)\n"
       "L:q=[d.1 1 -@6]\n",
       "c: c.1 {clock} {now} 3000 s0 conch:{L}\n"},
      {"limit: never less than 1", "HSET L sums 's 3 0 0 1 '\nPEXPIRE L 600000", "", change_limit(5, -4),
       "[0 {now} 0 1]", "L={sums=s 1 0 0 1 } (600000)\n"},
      {"limit: set if it was not", "", "", limit_if_unset(5), "[0 {now} 0 5]", "L={sums=s 5 0 0 1 } (600000)\n"},
      {"limit: not set where it was", "HSET L sums 's 3 0 0 1 '\nPEXPIRE L 600000", "", limit_if_unset(5),
       "[0 {now} 0 3]", "L={sums=s 3 0 0 1 } (600000)\n"},
      {"limit: of a lock of another kind", "HSET L sums 'r 1000000 1 {now+1000000} 0 ' b.1 '1 9 h {now+1000000} 0'", "",
       limit(1), "error WRONGTYPE", "L={b.1=1 9 h {now+1000000} 0, sums=r 1000000 1 {now+1000000} 0 }\n"},
  };
  return rows;
}

std::vector<row> const& permits() {
  static std::vector<row> const rows{
      {"free: granted", "", "", take_permit(two_of_3), "[1 {clock} {now} 0]",
       "L={a.1=2 {clock} h {now+30000000} 0, sums=s 3 2 {now+30000000} 0 } (30000)\nL:f={clock} (600000)\n"},
      {"enough is free: granted beside another",
       "HSET L sums 's 3 1 {now+1000000} 0 ' b.1 '1 9 h {now+1000000} 0'\nPEXPIRE L 1000", "", take_permit(two_of_3),
       "[1 {clock} {now} 0]",
       "L={a.1=2 {clock} h {now+30000000} 0, b.1=1 9 h {now+1000000} 0, sums=s 3 3 {now+1000000} 0 } "
       "(30000)\nL:f={clock} (600000)\n"},
      {"not enough is free: in line, until the first lease ends",
       "HSET L sums 's 3 2 {now+9000000} 0 ' b.1 '2 9 h {now+9000000} 0'\nPEXPIRE L 9000", "", take_permit(two_of_3),
       "[0 9000 {now} {now}]",
       "L={b.1=2 9 h {now+9000000} 0, sums=s 3 2 {now+9000000} 0 } (9000)\nL:q=[a.1 2 -@{now}] (39000)\n"},
      {"not enough is free: busy for a try",
       "HSET L sums 's 3 2 {now+9000000} 0 ' b.1 '2 9 h {now+9000000} 0'\nPEXPIRE L 9000", "",
       take_permit(two_of_3, false), "[2 9000 {now} 0]",
       "L={b.1=2 9 h {now+9000000} 0, sums=s 3 2 {now+9000000} 0 } (9000)\n"},
      {"more than the limit is all of it", "", "", take_permit(five_of_3), "[1 {clock} {now} 0]",
       "L={a.1=3 {clock} h {now+30000000} 0, sums=s 3 3 {now+30000000} 0 } (30000)\nL:f={clock} (600000)\n"},
      {"the limit is that of the first client",
       "HSET L sums 's 1 1 {now+9000000} 0 ' b.1 '1 9 h {now+9000000} 0'\nPEXPIRE L 9000", "",
       take_permit(one_of_3, false), "[2 9000 {now} 0]",
       "L={b.1=1 9 h {now+9000000} 0, sums=s 1 1 {now+9000000} 0 } (9000)\n"},
      {"of a lock that nobody has it is the asker's, unless one was set", "HSET L sums 's 5 0 0 1 '\nPEXPIRE L 1000",
       "", take_permit(five_of_3), "[1 {clock} {now} 0]",
       "L={a.1=5 {clock} h {now+30000000} 0, sums=s 5 5 {now+30000000} 1 } (600000)\nL:f={clock} (600000)\n"},
      {"a lease that is over is ended first", "HSET L sums 's 3 3 {now} 0 ' b.1 '3 9 h {now} 0'\nPEXPIRE L 9000", "",
       take_permit(one_of_3, false), "[1 {clock} {now} 0]",
       "L={a.1=1 {clock} h {now+30000000} 0, sums=s 3 1 {now+30000000} 0 } (30000)\nL:f={clock} (600000)\n"},
      {"mine: renewed and granted again",
       "HSET L sums 's 3 1 {now+9000000} 0 ' a.1 '1 9 c {now+9000000} 0'\nPEXPIRE L 9000", "", take_permit(one_of_3),
       "[1 9 {now} 0]", "L={a.1=1 9 h {now+30000000} 0, sums=s 3 1 {now+9000000} 0 } (30000)\n"},
      {"a small request does not pass a large one in line",
       "HSET L sums 's 3 2 {now+9000000} 0 ' b.1 '2 9 h {now+9000000} 0'\nPEXPIRE L 9000\nZADD L:q 5 'c.1 2 -'", "c",
       take_permit(one_of_3), "[0 9000 {now} {now}]",
       "L={b.1=2 9 h {now+9000000} 0, sums=s 3 2 {now+9000000} 0 } (9000)\nL:q=[c.1 2 -@5 a.1 1 -@{now}] (39000)\n"},
      {"nor does a try",
       "HSET L sums 's 3 2 {now+9000000} 0 ' b.1 '2 9 h {now+9000000} 0'\nPEXPIRE L 9000\nZADD L:q 5 'c.1 2 -'", "c",
       take_permit(one_of_3, false), "[2 9000 {now} 0]",
       "L={b.1=2 9 h {now+9000000} 0, sums=s 3 2 {now+9000000} 0 } (9000)\nL:q=[c.1 2 -@5]\n"},
      {"asked again: a large request of a dead client at the head is found out",
       "HSET L sums 's 3 2 {now+9000000} 0 ' b.1 '2 9 h {now+9000000} 0'\nPEXPIRE L 9000\nZADD L:q 5 'c.1 2 -' 6 'a.1 "
       "1 -'",
       "", take_permit(one_of_3, true, 6), "[1 {clock} {now} 0]",
       "L={a.1=1 {clock} h {now+30000000} 0, b.1=2 9 h {now+9000000} 0, sums=s 3 3 {now+9000000} 0 } "
       "(30000)\nL:f={clock} (600000)\n"},
      {"asked again: one that lives is left where it is, and is sent an empty message",
       "HSET L sums 's 3 2 {now+9000000} 0 ' b.1 '2 9 h {now+9000000} 0'\nPEXPIRE L 9000\nZADD L:q 5 'c.1 2 -' 6 'a.1 "
       "1 -'\nPEXPIRE L:q 90000",
       "c", take_permit(one_of_3, true, 6), "[0 9000 {now} 6]",
       "L={b.1=2 9 h {now+9000000} 0, sums=s 3 2 {now+9000000} 0 } (9000)\nL:q=[c.1 2 -@5 a.1 1 -@6] (90000)\n",
       "c: \n"},
      {"a mutex's key", "SET L 'b.7 {clock-9} h' PX 5000", "", take_permit(one_of_3), "error WRONGTYPE",
       "L=b.7 {clock-9} h (5000)\n"},
      {"a hash that is not a lock", "HSET L what else", "", take_permit(one_of_3), "error WRONGTYPE",
       "L={what=else}\n"},
      {"another kind", "HSET L sums 'r 1000000 1 {now+9000000} 0 ' b.1 '1 9 h {now+9000000} 0'", "",
       take_permit(one_of_3), "error WRONGTYPE", "L={b.1=1 9 h {now+9000000} 0, sums=r 1000000 1 {now+9000000} 0 }\n"},
      {"readers together", "HSET L sums 'r 1000000 1 {now+9000000} 0 ' b.1 '1 9 h {now+9000000} 0'\nPEXPIRE L 9000", "",
       take_permit(reader), "[1 {clock} {now} 0]",
       "L={a.1=1 {clock} h {now+30000000} 0, b.1=1 9 h {now+9000000} 0, sums=r 1000000 2 {now+9000000} 0 } "
       "(30000)\nL:f={clock} (600000)\n"},
      {"a writer not beside a reader",
       "HSET L sums 'r 1000000 1 {now+9000000} 0 ' b.1 '1 9 h {now+9000000} 0'\nPEXPIRE L 9000", "",
       take_permit(writer, false), "[2 9000 {now} 0]",
       "L={b.1=1 9 h {now+9000000} 0, sums=r 1000000 1 {now+9000000} 0 } (9000)\n"},
      {"segments: from its start on", "", "", take_permit(segment_of_3), "[1 {clock} {now} 2]",
       "L={a.1=1 {clock} h {now+30000000} 2, sums=g 3 1 {now+30000000} 0 010} (30000)\nL:f={clock} (600000)\n"},
      {"segments: none that it does not want",
       "HSET L sums 'g 3 1 {now+9000000} 0 001' b.1 '1 9 h {now+9000000} 3'\nPEXPIRE L 9000", "",
       take_permit(not_segment_2), "[1 {clock} {now} 1]",
       "L={a.1=1 {clock} h {now+30000000} 1, b.1=1 9 h {now+9000000} 3, sums=g 3 2 {now+9000000} 0 101} "
       "(30000)\nL:f={clock} (600000)\n"},
      {"segments: only an unwanted one is free: in line",
       "HSET L sums 'g 3 2 {now+9000000} 0 101' b.1 '1 9 h {now+9000000} 3' c.1 '1 8 h {now+9000000} 1'\nPEXPIRE L "
       "9000",
       "", take_permit(not_segment_2), "[0 9000 {now} {now}]",
       "L={b.1=1 9 h {now+9000000} 3, c.1=1 8 h {now+9000000} 1, sums=g 3 2 {now+9000000} 0 101} (9000)\nL:q=[a.1 1 "
       ",2,@{now}] (39000)\n"},
      {"reentrant: the owner's next permit passes those in line",
       "HSET L sums 'e 1000000 1 {now+9000000} 0 6f' b.1 '1 9 h {now+9000000} 0'\nPEXPIRE L 9000\nZADD L:q 5 'c.1 1 "
       "70'",
       "c", take_permit(of_owner, false), "[1 {clock} {now} 0]",
       "L={a.1=1 {clock} h {now+30000000} 0, b.1=1 9 h {now+9000000} 0, sums=e 1000000 2 {now+9000000} 0 6f, walked=5} "
       "(30000)\nL:f={clock} "
       "(600000)\n"
       "L:q=[c.1 1 70@5]\n"},
      {"reentrant: another's",
       "HSET L sums 'e 1000000 1 {now+9000000} 0 70' b.1 '1 9 h {now+9000000} 0'\nPEXPIRE L 9000", "",
       take_permit(of_owner, false), "[2 9000 {now} 0]",
       "L={b.1=1 9 h {now+9000000} 0, sums=e 1000000 1 {now+9000000} 0 70} (9000)\n"},

      {"given back, and nobody waits",
       "HSET L sums 's 3 1 {now+9000000} 0 ' a.1 '1 9 h {now+9000000} 0'\nPEXPIRE L 9000", "",
       give_permit_back(one_of_3), "[1 0 0 {now}]", ""},
      {"given back: a limit that was set stays",
       "HSET L sums 's 5 1 {now+9000000} 1 ' a.1 '1 9 h {now+9000000} 0'\nPEXPIRE L 9000", "",
       give_permit_back(one_of_3), "[1 0 0 {now}]", "L={sums=s 5 0 {now+9000000} 1 } (600000)\n"},
      {"given back: to all for whom it is enough, each with a fence of its own",
       "HSET L sums 's 3 3 {now+9000000} 0 ' a.1 '3 9 h {now+9000000} 0'\nPEXPIRE L 9000\nZADD L:q 5 'b.1 1 -' 6 'c.1 "
       "1 -' 7 'd.1 2 -' 8 'e.1 1 -'",
       "bcde", give_permit_back(one_of_3), "[1 1 1 {now}]",
       "L={b.1=1 {clock} c {now+3000000} 0, c.1=1 {clock+1} c {now+3000000} 0, sums=s 3 2 {now+3000000} 0 } "
       "(3000)\nL:f={clock+1} (600001)\n"
       "L:q=[d.1 2 -@7 e.1 1 -@8]\n",
       "b: b.1 {clock} {now} 3000 s0 conch:{L}\nc: c.1 {clock+1} {now} 3000 s0 conch:{L}\n"},
      {"given back: past a waiter that is not subscribed",
       "HSET L sums 's 3 3 {now+9000000} 0 ' a.1 '3 9 h {now+9000000} 0'\nPEXPIRE L 9000\nZADD L:q 5 'b.1 3 -' 6 'c.1 "
       "3 -'",
       "c", give_permit_back(one_of_3), "[1 1 0 {now}]",
       "L={c.1=3 {clock} c {now+3000000} 0, sums=s 3 3 {now+3000000} 0 } (3000)\nL:f={clock} (600000)\n",
       "c: c.1 {clock} {now} 3000 s0 conch:{L}\n"},
      {"given back: the fence is above the one that was held",
       "HSET L sums 's 1 1 {now+9000000} 0 ' a.1 '1 {clock+60} h {now+9000000} 0'\nPEXPIRE L 9000\nZADD L:q 5 'b.1 1 "
       "-'",
       "b", give_permit_back(one_of_3), "[1 1 0 {now}]",
       "L={b.1=1 {clock+61} c {now+3000000} 0, sums=s 1 1 {now+3000000} 0 } (3000)\nL:f={clock+61} (600001)\n",
       "b: b.1 {clock+61} {now} 3000 s0 conch:{L}\n"},
      {"given back: one in line that wants more than there is gets all of it",
       "HSET L sums 's 2 2 {now+9000000} 0 ' a.1 '2 9 h {now+9000000} 0'\nPEXPIRE L 9000\nZADD L:q 5 'b.1 3 -' 6 'c.1 "
       "1 -'",
       "bc", give_permit_back(two_of_3), "[1 1 1 {now}]",
       "L={b.1=2 {clock} c {now+3000000} 0, sums=s 2 2 {now+3000000} 0 } (3000)\nL:f={clock} (600000)\nL:q=[c.1 1 "
       "-@6]\n",
       "b: b.1 {clock} {now} 3000 s0 conch:{L}\n"},
      {"somebody's: changes nothing",
       "HSET L sums 's 3 1 {now+9000000} 0 ' b.1 '1 9 h {now+9000000} 0'\nPEXPIRE L 9000", "",
       give_permit_back(one_of_3), "[0 0 0 {now}]",
       "L={b.1=1 9 h {now+9000000} 0, sums=s 3 1 {now+9000000} 0 } (9000)\n"},
      {"in line: leaves it, and what it kept from others goes to them",
       "HSET L sums 's 3 2 {now+9000000} 0 ' b.1 '2 9 h {now+9000000} 0'\nPEXPIRE L 9000\nZADD L:q 5 'a.1 2 -' 6 'c.1 "
       "1 -'",
       "c", give_permit_back(two_of_3), "[0 1 0 {now}]",
       "L={b.1=2 9 h {now+9000000} 0, c.1=1 {clock} c {now+3000000} 0, sums=s 3 3 {now+3000000} 0 } "
       "(9000)\nL:f={clock} (600000)\n",
       "c: c.1 {clock} {now} 3000 s0 conch:{L}\n"},
      {"keep: an owner stays owner", "HSET L sums 's 3 1 {now+9000000} 0 ' a.1 '1 9 c {now+9000000} 0'\nPEXPIRE L 9000",
       "", give_permit_back(one_of_3, true), "[2 9 0 {now}]",
       "L={a.1=1 9 h {now+30000000} 0, sums=s 3 1 {now+9000000} 0 } (30000)\n"},
      {"a downgrade: keeps fence and lease, and lets readers in",
       "HSET L sums 'r 1000000 1000000 {now+9000000} 0 ' a.1 '1000000 9 h {now+9000000} 0'\nPEXPIRE L 9000\nZADD L:q 5 "
       "'b.1 1 -' 6 'c.1 1000000 -'",
       "bc", give_permit_back(writer, false, 1), "[1 1 1 {now}]",
       "L={a.1=1 9 h {now+9000000} 0, b.1=1 {clock} c {now+3000000} 0, sums=r 1000000 2 {now+3000000} 0 } "
       "(9000)\nL:f={clock} (600000)\n"
       "L:q=[c.1 1000000 -@6]\n",
       "b: b.1 {clock} {now} 3000 r0 conch:{L}\n"},
      {"a downgrade, the second time: nothing",
       "HSET L sums 'r 1000000 1 {now+9000000} 0 ' a.1 '1 9 h {now+9000000} 0'\nPEXPIRE L 9000", "",
       give_permit_back(writer, false, 1), "[1 0 0 {now}]",
       "L={a.1=1 9 h {now+9000000} 0, sums=r 1000000 1 {now+9000000} 0 } (9000)\n"},
      {"a segment given back: past a waiter that does not want it",
       "HSET L sums 'g 3 3 {now+9000000} 0 111' a.1 '1 9 h {now+9000000} 2' b.1 '1 8 h {now+9000000} 1' c.1 '1 7 h "
       "{now+9000000} 3'\nPEXPIRE L 9000\n"
       "ZADD L:q 5 'd.1 1 ,2,' 6 'e.1 1 -'",
       "de", give_permit_back(segment_of_3), "[1 1 1 {now}]",
       "L={b.1=1 8 h {now+9000000} 1, c.1=1 7 h {now+9000000} 3, e.1=1 {clock} c {now+3000000} 2, sums=g 3 3 "
       "{now+3000000} 0 111, walked=5} (9000)\n"
       "L:f={clock} (600000)\nL:q=[d.1 1 ,2,@5]\n",
       "e: e.1 {clock} {now} 3000 g2 conch:{L}\n"},
      {"a reentrant lock given back: all that wait for the next owner come in together",
       "HSET L sums 'e 1000000 1 {now+9000000} 0 6f' a.1 '1 9 h {now+9000000} 0'\nPEXPIRE L 9000\nZADD L:q 5 'b.1 1 "
       "70' 6 'c.1 1 71' 7 'd.1 1 70'",
       "bcd", give_permit_back(of_owner), "[1 1 1 {now}]",
       "L={b.1=1 {clock} c {now+3000000} 0, d.1=1 {clock+1} c {now+3000000} 0, sums=e 1000000 2 {now+3000000} 0 70, "
       "walked=6} (3000)\nL:f={clock+1} "
       "(600001)\n"
       "L:q=[c.1 1 71@6]\n",
       "b: b.1 {clock} {now} 3000 e0 conch:{L}\nd: d.1 {clock+1} {now} 3000 e0 conch:{L}\n"},
  };
  return rows;
}

std::vector<row> const& releases_within_an_interval() {
  static std::vector<row> const rows{
      {"mine, and nobody waits", "SET L 'a.1 {clock-9} h' PX 30000\nSET L:f {clock-9} PX 1000", "",
       give_back_later(ms{4'000}), "[1 0 0 {now}]", "L=a.1 {clock-9} h (4000)\nL:f={clock-9} (1000)\n"},
      {"the lease ends earlier than the interval", "SET L 'a.1 {clock-9} h' PX 100", "", give_back_later(ms{4'000}),
       "[1 0 0 {now}]", "L=a.1 {clock-9} h (4000)\n"},
      {"the first three in line, and the watchers, are told",
       "SET L 'a.1 {clock-9} h' PX 30000\nZADD L:q 5 b.1 6 c.1 7 d.1 8 e.1\nZADD L:w 5 f.1", "bcdef",
       give_back_later(ms{4'000}), "[1 0 0 {now}]",
       "L=a.1 {clock-9} h (4000)\nL:q=[b.1@5 c.1@6 d.1@7 e.1@8]\nL:w=[f.1@5]\n",
       "b: ~b.1 4000 conch:{L}\nc: ~c.1 4000 conch:{L}\nd: ~d.1 4000 conch:{L}\nf: ~f.1 4000 conch:{L}\n"},
      {"a vote that is not confirmed becomes a hold, and its floor counts", "SET L 'a.1 {clock-9} c' PX 500", "",
       give_back_later(ms{4'000}, clock_us + 5), "[1 0 0 {now}]", "L=a.1 {clock-9} h (4000)\nL:f={clock+5} (600001)\n"},
      {"full memory", "SET L 'a.1 {clock-9} c' PX 500\nFULL", "", give_back_later(ms{4'000}), "[1 0 0 {now}]",
       "L=a.1 {clock-9} h (4000)\n"},
      {"a server that demands each key beforehand", "SET L 'a.1 {clock-9} h' PX 30000\nZADD L:w 5 f.1\nSTRICT", "f",
       give_back_later(ms{4'000}), "[1 0 0 {now}]", "L=a.1 {clock-9} h (4000)\nL:w=[f.1@5]\n",
       "f: ~f.1 4000 conch:{L}\n"},
      {"somebody's: changes nothing", "SET L 'b.7 {clock-9} h' PX 5000", "", give_back_later(ms{4'000}),
       "[0 0 0 {now}]", "L=b.7 {clock-9} h (5000)\n"},
      {"an id that mine begins with is not mine", "SET L 'a.12 {clock-9} h' PX 5000", "", give_back_later(ms{4'000}),
       "[0 0 0 {now}]", "L=a.12 {clock-9} h (5000)\n"},
      {"in line: leaves it", "SET L 'b.7 {clock-9} h' PX 5000\nZADD L:q 5 a.1 6 c.1", "", give_back_later(ms{4'000}),
       "[0 0 0 {now}]", "L=b.7 {clock-9} h (5000)\nL:q=[c.1@6]\n"},
      {"nobody has it: passed on, as by any release", "ZADD L:q 5 a.1 6 c.1", "c", give_back_later(ms{4'000}),
       "[0 1 0 {now}]", "L=c.1 {clock} c (3000)\nL:f={clock} (600000)\n", "c: c.1 {clock} {now} 3000 conch:{L}\n"},
      {"something else", "SET L 'something else'", "", give_back_later(ms{4'000}), "error WRONGTYPE",
       "L=something else\n"},
  };
  return rows;
}

std::vector<row> all_rows() {
  std::vector<row> all;
  for (auto const* table : {&acquires(), &acquires_of_all(), &releases(), &releases_within_an_interval(), &renewals(),
                            &confirmations(), &orders(), &permits(), &adoptions(), &adoptions_of_permits()}) {
    all.insert(all.end(), table->begin(), table->end());
  }
  return all;
}

TEST(ScriptTables, Acquire) { expect_all(acquires()); }
TEST(ScriptTables, AcquireAll) { expect_all(acquires_of_all()); }
TEST(ScriptTables, Release) { expect_all(releases()); }
TEST(ScriptTables, ReleaseWithinAnInterval) { expect_all(releases_within_an_interval()); }
TEST(ScriptTables, Renew) { expect_all(renewals()); }
TEST(ScriptTables, Confirm) { expect_all(confirmations()); }
TEST(ScriptTables, InspectForceAndLimit) { expect_all(orders()); }
TEST(ScriptTables, Permits) { expect_all(permits()); }
TEST(ScriptTables, Adopt) { expect_all(adoptions()); }
TEST(ScriptTables, AdoptAPermit) { expect_all(adoptions_of_permits()); }

TEST(ScriptTables, EachMistakeShowsInARow) {
  expect_each_to_show(
      {
          {"", "math.min(before + 1, 9007199254740991)", "before"},
          {"", "text(retention + math.ceil((fence - clock) / 1000))", "retention"},
          {"", "local lives = lock_left + lease", "local lives = lease"},
          {"", "ticket = last[2] + 1", "ticket = last[2]"},
          {"", "'LT', ", ""},
          {"", "math.max(left, lease)", "lease"},
          {"", "if before < floor then", "if before <= floor then"},
          {"acquire", "now > tonumber(not_after)", "now >= tonumber(not_after)"},
          {"acquire", "state == 'h' and 1 or 0", "1"},
          {"acquire", "tonumber(owners_ticket) or 0", "0"},
          {"gathered", "return stopped and {2, 0, now} or nil", "return nil"},
          {"gathered", "not answer or answer.err", "false"},
          {"release", "math.max(floor, tonumber(fence))", "floor"},
          {"release", "enqueue(new_id, 0, claim, lease)", "enqueue(new_id, 1, claim, lease)"},
          {"release_later", "owner ~= id", "not owner"},
          {"release_later", "redis.call('PEXPIRE', lock_key, ends_in)\n", ""},
          {"release_later", "if vote_floor then\nraise_fence(fence_key, vote_floor, retention)\nend\nif state",
           "if state"},
          {"release_later", "if state == 'c' then\nredis", "if false then\nredis"},
          {"release_later", "tell_end(queue_key, ends_in, 3)", ""},
          {"release_later", "tell_end(watchers_key, ends_in, 3)", ""},
          {"confirm", "before > floor and 2 or 1", "1"},
          {"inspect", "owner.ends > now", "owner.ends >= now"},
          {"inspect", "taken = taken + owner.weight", "taken = taken + 1"},
          {"force", "tonumber(fence) ~= only", "tonumber(fence) > only"},
          {"force", "#chosen > 0 and chosen[#chosen][2].fence or 0", "0"},
          {"", "size = math.min(tonumber(size), limit)", "size = tonumber(size)"},
          {"", "limit = was_set and limit or asked_limit", "limit = asked_limit"},
          {"", "its_kind ~= kind", "false"},
          {"permit_release", "math.max(mine.weight - rest, 0)", "mine.weight"},
          {"", "local lives = kept_for + math.max(0, math.ceil((math.max(before, fence) - clock) / 1000))",
           "local lives = kept_for"},
          {"renew", "retention and answer[i + 1] == 1", "retention"},
          {"permit_renew", "keep_fence(KEYS[count + i], tonumber(match(before, ' (%d+)')), retention)", ""},
          {"permit_renew", "ends <= now", "ends < now"},
          {"permit_renew", "match(before, ' (%d+) ') ~= fence", "false"},
          {"permit_renew", "fence ~= ''", "true"},
          {"adopt", "owner == id", "false"},
          {"adopt", "owner .. ' ' .. fence == origin", "string.find(origin, owner, 1, true)"},
          {"adopt", "own(id, fence, 'h', lease)", "own(owner, fence, 'h', lease)"},
          {"adopt", "keep_fence(fence_key, tonumber(fence), retention)", ""},
          {"permit_adopt", "part.ends > now", "part.ends >= now"},
          {"permit_adopt", "text(part.fence) == its_fence", "true"},
          {"permit_adopt", "redis.call('HDEL', lock_key, from)", ""},
          {"permit_adopt", "redis.call('ZADD', ends_key, text(mine.ends), id)", ""},
          {"permit_adopt", "redis.call('ZREM', ends_key, from)", ""},
          {"permit_renew", "max(ends, now + lease * 1000)", "now + lease * 1000"},
      },
      all_rows());
}

}  // namespace
}  // namespace conch::sim
