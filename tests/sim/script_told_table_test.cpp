// What those in line are told of an owner who follows on another, what needs no memory, and what touches no other keys
// than those that were declared: by tables (script_table.hpp).
#include "sim/script_table.hpp"

namespace conch::sim {
namespace {

std::vector<renewal> const grant_of_7{{"L", 1, ms{3000}, 0, 7}};
std::vector<renewal> const two_grants{{"L", 1, ms{3000}, 0, 7}, {"M", 2, ms{3000}, 0, 8}};
std::vector<renewal> const a_vote{{"L", 1, ms{3000}, 5}};
std::vector<attempt> const two_tries{{"L", 1, ms{3000}}, {"M", 2, ms{3000}}};

renew_command confirms(bool permits = false) {
  return {.items = grant_of_7, .permits = permits, .retention = retention};
}

acquire_command adopts(std::string_view origin, ms for_so_long) {
  return {.name = "L",
          .id = 1,
          .wait = false,
          .lease = for_so_long,
          .claim = claim,
          .retention = retention,
          .origin = origin};
}

acquire_command short_take(permit const* wanted = nullptr) {
  acquire_command c = take("L");
  c.lease = ms{3000};
  c.permit = wanted;
  return c;
}

std::vector<row> const& told() {
  static std::vector<row> const rows{
      {"a pushed claim that becomes a hold: the first three in line are told when its lease ends",
       "SET L 'a.1 7 c' PX 2000\nZADD L:q 5 b.1 6 c.1 7 d.1 8 e.1", "bcde", confirms(), "[{now} 1]",
       "L=a.1 7 h (3000)\nL:f=7 (600000)\nL:q=[b.1@5 c.1@6 d.1@7 e.1@8]\n",
       "b: ~b.1 3000 conch:{L}\nc: ~c.1 3000 conch:{L}\nd: ~d.1 3000 conch:{L}\n"},
      {"and the first watchers", "SET L 'a.1 7 c' PX 2000\nZADD L:w 5 b.9 6 c.9 7 d.9 8 e.9", "bcde", confirms(),
       "[{now} 1]", "L=a.1 7 h (3000)\nL:f=7 (600000)\nL:w=[b.9@5 c.9@6 d.9@7 e.9@8]\n",
       "b: ~b.9 3000 conch:{L}\nc: ~c.9 3000 conch:{L}\nd: ~d.9 3000 conch:{L}\n"},
      {"a hold that is renewed: nobody is told anything", "SET L 'a.1 7 h' PX 2000\nZADD L:q 5 b.1", "b", confirms(),
       "[{now} 1]", "L=a.1 7 h (3000)\nL:f=7 (600000)\nL:q=[b.1@5]\n"},
      {"behind a claim that becomes a hold: nobody is told anything either",
       "SET L 'a.1 7 c' PX 2000\nSET M 'a.2 8 h' PX 2000\nZADD M:q 5 b.1", "b",
       renew_command{.items = two_grants, .retention = retention}, "[{now} 1 1]",
       "L=a.1 7 h (3000)\nL:f=7 (600000)\nM=a.2 8 h (3000)\nM:f=8 (600000)\nM:q=[b.1@5]\n"},
      {"permits: a hold that is renewed",
       "HSET L sums 's 1 1 {now+2000000} 0 ' a.1 '1 7 h {now+2000000} 0'\nPEXPIRE L 2000\nZADD L:q 5 'b.1 1 -'", "b",
       confirms(true), "[{now} 1]",
       "L={a.1=1 7 h {now+3000000} 0, sums=s 1 1 {now+2000000} 0 } (3000)\nL:f=7 (600000)\nL:q=[b.1 1 -@5]\n"},
      {"permits: a pushed claim that becomes a hold",
       "HSET L sums 's 1 1 {now+2000000} 0 ' a.1 '1 7 c {now+2000000} 0'\nPEXPIRE L 2000\nZADD L:q 5 'b.1 1 -' 6 'c.1 "
       "1 -'\nZADD L:w 5 d.9",
       "bcd", confirms(true), "[{now} 1]",
       "L={a.1=1 7 h {now+3000000} 0, sums=s 1 1 {now+2000000} 0 } (3000)\nL:f=7 (600000)\nL:q=[b.1 1 -@5 c.1 1 "
       "-@6]\nL:w=[d.9@5]\n",
       "b: ~b.1 3000 conch:{L}\nc: ~c.1 3000 conch:{L}\nd: ~d.9 3000 conch:{L}\n"},
      {"a vote that becomes a hold", "SET L 'a.1 7 c' PX 2000\nSET L:f 7 PX 600000\nZADD L:q 5 b.1", "b",
       confirm_command{.items = a_vote, .retention = retention}, "[{now} 2 7]",
       "L=a.1 7 h (3000)\nL:f=7 (600000)\nL:q=[b.1@5]\n", "b: ~b.1 3000 conch:{L}\n"},
      {"an owner whose claim its own question makes a hold", "SET L 'a.1 7 c' PX 2000\nZADD L:q 5 b.1", "b",
       short_take(), "[1 7 {now}]", "L=a.1 7 h (3000)\nL:q=[b.1@5]\n", "b: ~b.1 3000 conch:{L}\n"},
      {"or its trying several locks, which goes on with the next", "SET L 'a.1 7 c' PX 2000\nZADD L:q 5 b.1", "b",
       acquire_all_command{.items = two_tries, .retention = retention}, "[[1 7 {now}] {clock}]",
       "L=a.1 7 h (3000)\nL:q=[b.1@5]\nM=a.2 {clock} h (3000)\nM:f={clock} (600000)\n", "b: ~b.1 3000 conch:{L}\n"},
      {"permits: the same",
       "HSET L sums 's 1 1 {now+2000000} 0 ' a.1 '1 7 c {now+2000000} 0'\nPEXPIRE L 2000\nZADD L:q 5 'b.1 1 -'", "b",
       short_take(&one_of_3), "[1 7 {now} 0]",
       "L={a.1=1 7 h {now+3000000} 0, sums=s 1 1 {now+2000000} 0 } (3000)\nL:q=[b.1 1 -@5]\n",
       "b: ~b.1 3000 conch:{L}\n"},
      {"or its leave", "SET L 'a.1 7 c' PX 2000\nZADD L:q 5 b.1", "b", give_back(1, true), "[2 7 0 {now}]",
       "L=a.1 7 h (30000)\nL:q=[b.1@5]\n", "b: ~b.1 30000 conch:{L}\n"},
      {"the first in line, who finds it free", "ZADD L:q 5 a.1 6 b.1\nPEXPIRE L:q 90000", "ab", short_take(), "{clock}",
       "L=a.1 {clock} h (3000)\nL:f={clock} (600000)\nL:q=[b.1@6] (90000)\n", "b: ~b.1 3000 conch:{L}\n"},
      {"permits: the same", "ZADD L:q 5 'a.1 2 -' 6 'b.1 2 -'\nPEXPIRE L:q 90000", "ab", short_take(&two_of_3),
       "[1 {clock} {now} 0]",
       "L={a.1=2 {clock} h {now+3000000} 0, sums=s 3 2 {now+3000000} 0 } (3000)\nL:f={clock} (600000)\nL:q=[b.1 2 -@6] "
       "(90000)\n",
       "b: ~b.1 3000 conch:{L}\n"},
      {"the adoption of what another had for longer", "SET L 'b.7 7 h' PX 40000\nZADD L:q 5 c.1", "c",
       adopts("b.7 7", ms{3000}), "[1 7 {now}]", "L=a.1 7 h (3000)\nL:f=7 (600000)\nL:q=[c.1@5]\n",
       "c: ~c.1 3000 conch:{L}\n"},
      {"the first leaves the line: the next one is first now", "SET L 'b.7 7 h' PX 2500\nZADD L:q 5 a.1 6 c.1 7 d.1",
       "cd", give_back(), "[0 0 0 {now}]", "L=b.7 7 h (2500)\nL:q=[c.1@6 d.1@7]\n", "c: ~c.1 2500 conch:{L}\n"},
      {"another one leaves it: nobody is told anything", "SET L 'b.7 7 h' PX 2500\nZADD L:q 5 c.1 6 a.1 7 d.1", "cd",
       give_back(), "[0 0 0 {now}]", "L=b.7 7 h (2500)\nL:q=[c.1@5 d.1@7]\n"},
      {"permits: the first leaves the line",
       "HSET L sums 's 3 3 {now+8000000} 0 ' b.1 '3 7 h {now+8000000} 0'\nPEXPIRE L 8000\n"
       "ZADD L:q 5 'a.1 1 -' 6 'c.1 1 -' 7 'd.1 1 -'",
       "cd", give_permit_back(one_of_3), "[0 0 1 {now}]",
       "L={b.1=3 7 h {now+8000000} 0, sums=s 3 3 {now+8000000} 0 } (8000)\n"
       "L:q=[c.1 1 -@6 d.1 1 -@7]\n",
       "c: ~c.1 8000 conch:{L}\n"},
      {"the client that passed it on no longer checks: those in the queue are told to check themselves",
       "SET L 'b.7 7 c' PX 2500\nZADD L:q 5 c.1 6 d.1", "cd", give_back(9), "[0 0 0 {now}]",
       "L=b.7 7 c (2500)\nL:q=[c.1@5 d.1@6]\n", "c: ~c.1 2500 conch:{L}\nd: ~d.1 2500 conch:{L}\n"},
      {"permits: the same",
       "HSET L sums 's 3 3 {now+2500000} 0 ' b.1 '3 7 c {now+2500000} 0'\nPEXPIRE L 2500\nZADD L:q 5 'c.1 1 -' 6 'd.1 "
       "1 -'",
       "cd", give_permit_back(one_of_3), "[0 0 1 {now}]",
       "L={b.1=3 7 c {now+2500000} 0, sums=s 3 3 {now+2500000} 0 } (2500)\nL:q=[c.1 1 -@5 d.1 1 -@6]\n",
       "c: ~c.1 2500 conch:{L}\nd: ~d.1 2500 conch:{L}\n"},
      {"a watcher that finds it free, since a lease has ended: the others are told",
       "ZADD L:w 5 a.1 6 b.2\nPEXPIRE L:w 9000\nSET L:a '' PX 9000", "b", watch_command{"L", 1, lease}, "[1 0 {now}]",
       "", "b: =b.2 conch:{L}\n"},
      {"a lock whose end somebody has taken away: as the longest lease, and not as none", "SET L 'b.7 7 h'", "",
       take("L"), "[0 86400000 {now} {now}]", "L=b.7 7 h\nL:q=[a.1@{now}] (86430000)\n"},
  };
  return rows;
}

std::vector<row> const& at_full_memory() {
  static std::vector<row> const rows{
      {"what would take more is refused", "FULL", "", take("L"), "error OOM", ""},
      {"a release that passes it on", "SET L 'a.1 7 h' PX 5000\nZADD L:q 5 c.1\nFULL", "c", give_back(),
       "[1 1 0 {now}]", "L=c.1 {clock} c (3000)\nL:f={clock} (600000)\n", "c: c.1 {clock} {now} 3000 conch:{L}\n"},
      {"and queues again", "SET L 'a.1 7 h' PX 5000\nZADD L:q 5 c.1\nPEXPIRE L:q 50000\nFULL", "c",
       give_back(1, false, 2), "[1 1 1 {now} 0 3000 {now}]",
       "L=c.1 {clock} c (3000)\nL:f={clock} (600000)\nL:q=[a.2@{now}] (50000)\n",
       "c: c.1 {clock} {now} 3000 conch:{L}\n"},
      {"and nobody waits", "SET L 'a.1 7 h' PX 5000\nFULL", "", give_back(1, false, 2), "[1 0 0 {now} 1 {clock}]",
       "L=a.2 {clock} h (30000)\nL:f={clock} (600000)\n"},
      {"a leave that finds itself the owner", "SET L 'a.1 7 c' PX 2000\nFULL", "", give_back(1, true), "[2 7 0 {now}]",
       "L=a.1 7 h (30000)\n"},
      {"a vote that is given back, and raises the fence", "SET L 'a.1 7 c' PX 2000\nFULL", "", give_back_vote(50),
       "[1 0 0 {now}]", "L:f=50 (600000)\n"},
      {"a pushed claim that becomes a hold, and its fence is kept", "SET L 'a.1 7 c' PX 2000\nFULL", "", confirms(),
       "[{now} 1]", "L=a.1 7 h (3000)\nL:f=7 (600000)\n"},
      {"a vote that becomes a hold", "SET L 'a.1 7 c' PX 2000\nFULL", "",
       confirm_command{.items = a_vote, .retention = retention}, "[{now} 1 0]", "L=a.1 7 h (3000)\nL:f=5 (600000)\n"},
      {"and the fence is high enough", "SET L 'a.1 7 c' PX 2000\nSET L:f 7 PX 600000\nFULL", "",
       confirm_command{.items = a_vote, .retention = retention}, "[{now} 2 7]", "L=a.1 7 h (3000)\nL:f=7 (600000)\n"},
      {"a claim that its owner asks for once more", "SET L 'a.1 7 c' PX 2000\nFULL", "", take("L"), "[1 7 {now}]",
       "L=a.1 7 h (30000)\n"},
      {"the adoption of what another had", "SET L 'b.7 7 h' PX 2000\nFULL", "", adopts("b.7 7", lease), "[1 7 {now}]",
       "L=a.1 7 h (30000)\nL:f=7 (600000)\n"},
      {"permits: a release that passes it on",
       "HSET L sums 's 3 3 {now+5000000} 0 ' a.1 '3 7 h {now+5000000} 0'\nPEXPIRE L 5000\nZADD L:q 5 'c.1 1 -'\nFULL",
       "c", give_permit_back(five_of_3), "[1 1 0 {now}]",
       "L={c.1=1 {clock} c {now+3000000} 0, sums=s 3 1 {now+3000000} 0 } (3000)\nL:f={clock} (600000)\n",
       "c: c.1 {clock} {now} 3000 s0 conch:{L}\n"},
      {"permits: a part that is given back",
       "HSET L sums 's 3 3 {now+5000000} 0 ' a.1 '3 7 h {now+5000000} 0'\nPEXPIRE L 5000\nFULL", "",
       give_permit_back(five_of_3, false, 1), "[1 0 0 {now}]",
       "L={a.1=1 7 h {now+5000000} 0, sums=s 3 1 {now+5000000} 0 } (5000)\n"},
      {"permits: renewed", "HSET L sums 's 3 3 {now+5000000} 0 ' a.1 '3 7 h {now+1000000} 0'\nPEXPIRE L 50000\nFULL",
       "", renew_command{.items = grant_of_7, .permits = true}, "[{now} 1]",
       "L={a.1=3 7 h {now+3000000} 0, sums=s 3 3 {now+5000000} 0 } (50000)\n"},
      {"permits: asked for once more",
       "HSET L sums 's 3 3 {now+5000000} 0 ' a.1 '3 7 c {now+5000000} 0'\nPEXPIRE L 50000\nFULL", "",
       short_take(&five_of_3), "[1 7 {now} 0]", "L={a.1=3 7 h {now+5000000} 0, sums=s 3 3 {now+5000000} 0 } (50000)\n"},
      {"permits: taken over", "HSET L sums 's 3 3 {now+5000000} 0 ' b.7 '3 7 h {now+5000000} 0'\nPEXPIRE L 50000\nFULL",
       "",
       [] {
         acquire_command c = adopts("b.7 7", lease);
         c.permit = &one_of_3;
         return c;
       }(),
       "[1 7 {now} 0]", "L={a.1=3 7 h {now+30000000} 0, sums=s 3 3 {now+5000000} 0 } (50000)\nL:f=7 (600000)\n"},
  };
  return rows;
}

std::vector<row> const& with_declared_keys() {
  static std::vector<row> const rows{
      {"taken", "STRICT", "", take("L"), "{clock}", "L=a.1 {clock} h (30000)\nL:f={clock} (600000)\n"},
      {"given back", "SET L 'a.1 7 h' PX 5000\nSTRICT", "", give_back(), "1", ""},
      {"given back by a client that leaves", "SET L 'a.1 7 h' PX 5000\nZADD L:q 5 b.1\nSTRICT", "", give_back(),
       "[1 0 0 {now}]", "L:f={clock} (600000)\n"},
      {"passed on", "SET L 'a.1 7 h' PX 5000\nZADD L:q 5 c.1\nSTRICT", "c", give_back(), "[1 1 0 {now}]",
       "L=c.1 {clock} c (3000)\nL:f={clock} (600000)\n", "c: c.1 {clock} {now} 3000 conch:{L}\n"},
      {"permits: given back",
       "HSET L sums 's 3 3 {now+5000000} 0 ' a.1 '3 7 h {now+5000000} 0'\nPEXPIRE L 5000\nSTRICT", "",
       give_permit_back(five_of_3), "[1 0 0 {now}]", ""},
      {"permits: passed on",
       "HSET L sums 's 3 3 {now+5000000} 0 ' a.1 '3 7 h {now+5000000} 0'\nPEXPIRE L 5000\nZADD L:q 5 'c.1 1 -'\nSTRICT",
       "c", give_permit_back(five_of_3), "[1 1 0 {now}]",
       "L={c.1=1 {clock} c {now+3000000} 0, sums=s 3 1 {now+3000000} 0 } (3000)\nL:f={clock} (600000)\n",
       "c: c.1 {clock} {now} 3000 s0 conch:{L}\n"},
      {"taken away", "SET L 'b.7 7 h' PX 5000\nSTRICT", "b", force(), "[1 {now}]", "", "b: !b.7 conch:{L}\n"},
      {"permits: taken away",
       "HSET L sums 's 3 3 {now+5000000} 0 ' b.7 '3 7 h {now+5000000} 0'\nPEXPIRE L 5000\nSTRICT", "b", force(),
       "[1 {now}]", "", "b: !b.7 conch:{L}\n"},
      {"a watcher asks again soon, since a release cannot tell it", "SET L 'b.7 7 h' PX 5000\nSTRICT", "",
       watch_command{"L", 1, lease}, "[0 3000 {now}]", "L=b.7 7 h (5000)\nL:a= (35000)\nL:w=[a.1@{now}] (35000)\n"},
      {"confirmed", "SET L 'a.1 7 c' PX 2000\nZADD L:q 5 b.1\nSTRICT", "b", confirms(), "[{now} 1]",
       "L=a.1 7 h (3000)\nL:f=7 (600000)\nL:q=[b.1@5]\n", "b: ~b.1 3000 conch:{L}\n"},
      {"the free lock that a dead owner leaves", "ZADD L:q 5 b.1 6 a.1\nPEXPIRE L:q 9000\nSTRICT", "b",
       take("L", true, 6), "[0 3000 {now} 6 1]", "L=b.1 {clock} c (3000)\nL:f={clock} (600000)\nL:q=[a.1@6] (33000)\n",
       "b: b.1 {clock} {now} 3000 conch:{L}\n"},
  };
  return rows;
}

TEST(ScriptTables, P4ThoseInLineAreToldWhenTheLeaseOfAnotherOwnerEnds) { expect_all(told()); }
TEST(ScriptTables, WhatGivesBackOrRenewsNeedsNoMemory) { expect_all(at_full_memory()); }
TEST(ScriptTables, ScriptsDoTheirWorkWhereTheyMayTouchDeclaredKeysOnly) { expect_all(with_declared_keys()); }

TEST(ScriptTables, EachMistakeAboutWhatIsToldAndWhatIsFullShowsInARow) {
  std::vector<row> rows = told();
  rows.insert(rows.end(), at_full_memory().begin(), at_full_memory().end());
  rows.insert(rows.end(), with_declared_keys().begin(), with_declared_keys().end());
  expect_each_to_show(
      {
          {"renew", "was_claim = true", ""},
          {"renew", "was_claim = nil\nend", "end"},
          {"renew", "tell_end(KEYS[2 * count + i], lease, 3)", ""},
          {"renew", "tell_end(key .. ':w', lease, 3)", ""},
          {"renew", "pcall('PEXPIRE', key, math.max(left, lease))", ""},
          {"permit_renew", "tell_end(KEYS[3 * count + i], lease, 3)", ""},
          {"permit_renew", "tell_end(key .. ':w', lease, 3)", ""},
          {"permit_renew", "if state == 'c' then", "if true then"},
          {"confirm", "tell_end(queue_key, lease, 3)", ""},
          {"confirm", "redis.call('PEXPIRE', key, math.max(left, lease))", ""},
          {"confirm", "redis.call('PEXPIRE', key, lives)", ""},
          {"acquire", "confirmed = tonumber(fence)\nreturn nil", ""},
          {"gathered", "mode == 'next' and not confirmed and", "mode == 'next' and"},
          {"acquire", "elseif not proposal then\ntell_end(queue_key, lease, 3)", ""},
          {"adopt", "tell_end(queue_key, lease, 3)", ""},
          {"adopt", "redis.call('ZREM', queue_key, '')", ""},
          {"permit_adopt", "redis.call('ZREM', queue_key, '')", ""},
          {"release", "was_first or state == 'c'", "was_first"},
          {"release", "was_first or state == 'c'", "state == 'c'"},
          {"release", "was_first and 1 or 3", "1"},
          {"release", "was_first and 1 or 3", "3"},
          {"release", "redis.pcall('ZREM', queue_key, '')", ""},
          {"permit_release", "was_first or left <= claim", "was_first"},
          {"permit_release", "was_first or left <= claim", "left <= claim"},
          {"permit_release", "redis.pcall('ZREM', queue_key, '')", ""},
          {"permit_acquire", "redis.pcall('ZREM', queue_key, '')", ""},
          {"permit_acquire", "if fence then\ntell_end(queue_key, lease, 3)", "if fence then"},
          {"", "ZRANGE', line_key, 0, most - 1", "ZRANGE', line_key, 0, -1"},
          {"acquire", "left == -1 and longest_lease or left", "left"},
          {"watch", "redis.call('DEL', alert_key) == 1 or id == ''", "id == ''"},
          {"watch", "left = math.min(left, 3000)", ""},
          {"release", "not freed and redis.call('DEL', lock_key) == 1", "false"},
          {"permit_release", "if not freed and deleted ~= 1 then\nredis.call('DEL', lock_key)", "if false then"},
          {"force", "elseif deleted ~= 1 then\nredis.call('DEL', lock_key)", ""},
      },
      rows);
}

}  // namespace
}  // namespace conch::sim
