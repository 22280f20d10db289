// Watchers, which wait until a lock is free, and the scripts that notify them, by tables (script_table.hpp).
#include "sim/script_table.hpp"

namespace conch::sim {
namespace {

std::vector<row> const& watchers() {
  static std::vector<row> const rows{
      {"watch: free", "", "", watch_command{"L", 1, lease}, "[1 0 {now}]", ""},
      {"watch: taken, and written down", "SET L 'b.7 {clock-9} h' PX 5000", "", watch_command{"L", 1, lease},
       "[0 5000 {now}]", "L=b.7 {clock-9} h (5000)\nL:a= (35000)\nL:w=[a.1@{now}] (35000)\n"},
      {"watch: once more, and free: forgotten", "ZADD L:w 5 a.1 6 b.2\nPEXPIRE L:w 9000", "",
       watch_command{"L", 1, lease}, "[1 0 {now}]", "L:w=[b.2@6] (9000)\n"},
      {"watch: once more, and taken: others are kept for as long as they were",
       "SET L 'b.7 {clock-9} c' PX 5000\nZADD L:w 5 a.1 6 b.2\nPEXPIRE L:w 90000", "", watch_command{"L", 1, lease},
       "[0 5000 {now}]", "L=b.7 {clock-9} c (5000)\nL:a= (90000)\nL:w=[b.2@6 a.1@{now}] (90000)\n"},
      {"watch: of several owners until the last lease ends",
       "HSET L sums 's 3 2 {now+1000000} 0 ' b.1 '1 9 h {now+1000000} 0' c.1 '1 8 h {now+4000000} 0'\nPEXPIRE L 9000",
       "", watch_command{"L", 1, lease}, "[0 4000 {now}]",
       "L={b.1=1 9 h {now+1000000} 0, c.1=1 8 h {now+4000000} 0, sums=s 3 2 {now+1000000} 0 } (9000)\nL:a= "
       "(34000)\nL:w=[a.1@{now}] (34000)\n"},
      {"watch: free where all leases are over, and where only a limit is set",
       "HSET L sums 's 3 1 {now} 1 ' b.1 '1 9 h {now} 0'\nPEXPIRE L 9000", "", watch_command{"L", 1, lease},
       "[1 0 {now}]", "L={b.1=1 9 h {now} 0, sums=s 3 1 {now} 1 } (9000)\n"},
      {"watch: going on tells the rest", "SET L:a '' PX 9000\nZADD L:w 5 b.2 6 c.3\nPEXPIRE L:w 9000", "bc",
       watch_command{"L", 0, lease}, "[1 0 {now}]", "", "b: =b.2 conch:{L}\nc: =c.3 conch:{L}\n"},
      {"watch: going on while it is taken tells nobody",
       "SET L 'b.7 {clock-9} h' PX 5000\nZADD L:w 5 b.2\nPEXPIRE L:w 9000", "b", watch_command{"L", 0, lease},
       "[0 5000 {now}]", "L=b.7 {clock-9} h (5000)\nL:w=[b.2@5] (9000)\n"},
      {"watch: something else", "SET L 'something else'", "", watch_command{"L", 1, lease}, "error WRONGTYPE",
       "L=something else\n"},
      {"release: all are told",
       "SET L 'a.1 {clock-9} h' PX 5000\nSET L:a '' PX 9000\nZADD L:w 5 b.2 6 c.3\nPEXPIRE L:w 9000", "bc", give_back(),
       "1", "", "b: =b.2 conch:{L}\nc: =c.3 conch:{L}\n"},
      {"release: nobody is told of a hand-over",
       "SET L 'a.1 {clock-9} h' PX 5000\nZADD L:q 5 b.1\nSET L:a '' PX 9000\nZADD L:w 5 c.3\nPEXPIRE L:w 9000", "bc",
       give_back(), "[1 1 0 {now}]", "L=b.1 {clock} c (3000)\nL:a= (9000)\nL:f={clock} (600000)\nL:w=[c.3@5] (9000)\n",
       "b: b.1 {clock} {now} 3000 conch:{L}\n"},
      {"release: nobody in line hears, so it is free",
       "SET L 'a.1 {clock-9} h' PX 5000\nZADD L:q 5 b.1\nSET L:a '' PX 9000\nZADD L:w 5 c.3\nPEXPIRE L:w 9000", "c",
       give_back(), "[1 0 0 {now}]", "L:f={clock} (600000)\n", "c: =c.3 conch:{L}\n"},
      {"release: a kick that finds nobody tells them", "SET L:a '' PX 9000\nZADD L:w 5 c.3\nPEXPIRE L:w 9000", "c",
       give_back(), "[0 0 0 {now}]", "", "c: =c.3 conch:{L}\n"},
      {"release: of a permit, the last",
       "HSET L sums 's 3 2 {now+9000000} 0 ' a.1 '2 9 h {now+9000000} 0'\nPEXPIRE L 9000\nSET L:a '' PX 9000\nZADD L:w "
       "5 c.3\nPEXPIRE L:w 9000",
       "c", give_permit_back(two_of_3), "[1 0 0 {now}]", "", "c: =c.3 conch:{L}\n"},
      {"release: of a permit, not the last",
       "HSET L sums 's 3 3 {now+9000000} 0 ' a.1 '2 9 h {now+9000000} 0' b.1 '1 8 h {now+9000000} 0'\nPEXPIRE L "
       "9000\nSET L:a '' PX 9000\nZADD L:w 5 "
       "c.3\n"
       "PEXPIRE L:w 9000",
       "c", give_permit_back(two_of_3), "[1 0 0 {now}]",
       "L={b.1=1 8 h {now+9000000} 0, sums=s 3 1 {now+9000000} 0 } (9000)\nL:a= (9000)\nL:w=[c.3@5] (9000)\n"},
      {"release: of a permit, the last where a limit was set",
       "HSET L sums 's 3 2 {now+9000000} 1 ' a.1 '2 9 h {now+9000000} 0'\nPEXPIRE L 900000\nSET L:a '' PX 9000\nZADD "
       "L:w 5 c.3\nPEXPIRE L:w 9000",
       "c", give_permit_back(two_of_3), "[1 0 0 {now}]", "L={sums=s 3 0 {now+9000000} 1 } (900000)\n",
       "c: =c.3 conch:{L}\n"},
      {"force: told behind the owner",
       "SET L 'b.7 {clock-9} h' PX 5000\nSET L:a '' PX 9000\nZADD L:w 5 c.3\nPEXPIRE L:w 9000", "bc", force(),
       "[1 {now}]", "", "b: !b.7 conch:{L}\nc: =c.3 conch:{L}\n"},
      {"force: of all permits",
       "HSET L sums 's 3 2 {now+9000000} 0 ' b.1 '2 9 h {now+9000000} 0'\nPEXPIRE L 9000\nSET L:a '' PX 9000\nZADD L:w "
       "5 c.3\nPEXPIRE L:w 9000",
       "bc", force(), "[1 {now}]", "", "b: !b.1 conch:{L}\nc: =c.3 conch:{L}\n"},
  };
  return rows;
}

/// More than one script tells.
std::vector<row> many_watchers() {
  std::string line = "SET L 'a.1 {clock-9} h' PX 5000\nSET L:a '' PX 9000", pushes;
  for (int n = 1; n <= 101; ++n) line += "\nZADD L:w " + std::to_string(n) + " b." + std::to_string(n);
  for (int n = 1; n <= 99; ++n) pushes += "b: =b." + std::to_string(n) + " conch:{L}\n";
  return {{"release: of many the first hundred, and the last of these goes on", line + "\nPEXPIRE L:w 7000", "b",
           give_back(), "1", "L:a= (7000)\nL:w=[b.101@101] (7000)\n", pushes + "b: +b.100 conch:{L}\n"}};
}

TEST(ScriptTables, Watch) {
  expect_all(watchers());
  expect_all(many_watchers());
}

TEST(ScriptTables, EachMistakeAboutWatchersShowsInARow) {
  std::vector<row> rows = watchers();
  for (row& r : many_watchers()) rows.push_back(std::move(r));
  expect_each_to_show(
      {
          {"watch", "redis.call('ZREM', watchers_key, id)", ""},
          {"watch", "owners.held == 0", "owners.held <= 1"},
          {"watch", "math.max(left, owner.left)", "owner.left + 1"},
          {"watch", "redis.call('DEL', alert_key) == 1 or id == ''", "true"},
          {"release", "redis.pcall('DEL', lock_key, lock_key .. ':a')", "redis.pcall('DEL', lock_key)"},
          {"release", "> was_owner then", "> 1 then"},
          {"permit_release", "redis.pcall('DEL', lock_key, lock_key .. ':a')", "redis.pcall('DEL', lock_key)"},
          {"permit_release", "redis.pcall('DEL', alert_key) == 1", "false"},
          {"force", "redis.pcall('DEL', lock_key, alert_key)", "redis.pcall('DEL', lock_key)"},
          {"force", "redis.pcall('DEL', alert_key) == 1", "false"},
          {"", "redis.pcall('SET', alert_key, '', 'PX', left)", ""},
          {"", "left > 0 and i == #told - 1", "false"},
      },
      rows);
}

}  // namespace
}  // namespace conch::sim
