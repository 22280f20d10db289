// Deliberate faults in sql/*.sql, each of which a comparison with the rules, of answers, pushes and rows, must show. A
// mutant that survives is a rule that nothing proves.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "postgresql/rules/cases.hpp"
#include "postgresql/rules/sql_server.hpp"
#include "sim/differential/random_client_side.hpp"
#include "sim/differential/random_permits.hpp"
#include "sim/judges/observer.hpp"

namespace conch::sim {
namespace {

struct sql_mutant {
  std::string_view name;
  std::string_view words;  // what is wrong
  std::string_view from;   // once in the script, at least
  std::string_view to;
};

constexpr sql_mutant mutants[] = {
    // ---- renewals
    {"renew-any-grant", "a renewal of a mutex ignores the fence",
     " and (fences[i] is null or x.owner_fence = fences[i])", ""},
    {"renew-any-share", "a renewal of a share ignores the fence", " and (fences[i] is null or p.fence = fences[i])",
     ""},
    {"renew-may-shorten", "a renewal makes the end earlier", "owner_until = greatest(x.owner_until, ms + leases[i])",
     "owner_until = ms + leases[i]"},
    {"renew-share-may-shorten", "a renewal makes the end of a share earlier",
     "ends = greatest(p.ends, t + leases[i] * 1000) from", "ends = t + leases[i] * 1000 from"},
    {"renew-of-others", "a renewal does not ask whose the lock is", "where x.key = ks[i] and x.owner = ids[i] and",
     "where x.key = ks[i] and"},
    {"renew-what-has-ended", "a renewal brings an owner back", "x.owner = ids[i] and x.owner_until >= ms and",
     "x.owner = ids[i] and"},
    {"renew-keeps-no-fence", "a renewal of a long hold does not keep its fence", "if ok > 0 and retention <> 0 then",
     "if false then"},
    {"claim-stays", "a renewal does not confirm", "update conch.lock x set claimed = false, owner_until = greatest",
     "update conch.lock x set owner_until = greatest"},
    // ---- releases within the minimum interval
    {"interval-ends-at-once", "a release within the interval frees the lock", "l.owner_until := ms + ends_in;",
     "l.owner_until := -1;"},
    {"interval-not-shortened", "a release within the interval leaves a longer lease", "l.owner_until := ms + ends_in;",
     "l.owner_until := greatest(l.owner_until, ms + ends_in);"},
    {"interval-of-others", "any client ends the lease with the interval",
     "if l.owner_until = -1 or l.owner <> me then return conch.release(",
     "if l.owner_until = -1 then return conch.release("},
    {"interval-tells-nobody", "those in line are not told when the interval ends",
     "perform conch.tell_end(k, ends_in, 3);", ""},
    // ---- fences
    {"sweep-takes-fences", "the sweep deletes kept fences",
     "l.line_until, l.fence_until, l.requests_until, l.watchers_until, l.alert_until) < ms",
     "l.line_until, l.requests_until, l.watchers_until, l.alert_until) < ms"},
    {"sweep-takes-shares", "the sweep deletes a lock with several owners",
     "greatest(l.owner_until, l.hash_until, l.line_until", "greatest(l.owner_until, l.line_until"},
    {"kept-fence-lowered", "a fence that is kept gives way to an earlier one",
     "kept := case when l.fence_until <> -1 then greatest(f, l.fence) else f end;", "kept := f;"},
    {"fence-by-clock-alone", "the last fence is not looked at",
     "if l.fence_until <> -1 and l.fence >= f then f := l.fence + 1; end if;", ""},
    {"short-way-by-clock-alone", "the short way of an acquire does not look at the last fence",
     "and (x.fence_until < c.t / 1000 or x.fence < c.t - 1577836800000000)", ""},
    {"short-way-before-2020", "the short way of an acquire grants a fence of 0 or less", " and c.t > 1577836800000000",
     ""},
    {"fence-not-kept-ahead", "a fence ahead of the clock is forgotten before the clock has passed it",
     "l.fence_until := t / 1000 + retention + (f - clock + 999) / 1000;", "l.fence_until := t / 1000 + retention;"},
    // ---- patience
    {"patience-for-one", "of a share only the first in line is awaited", "limit greatest(least(room, 100), 0)",
     "limit 1"},
    {"impatient-leave", "a patient leave of a share passes over waiters who are not there",
     "r := conch.let_in(l, '', me, patient, 0, floor,", "r := conch.let_in(l, '', me, false, 0, floor,"},
    {"impatient-acquire", "a patient acquire of a share passes over waiters who are not there",
     "r := conch.let_in(l, me, me, patient,", "r := conch.let_in(l, me, me, false,"},
    {"patient-poll", "a patient question at a full lock is to be repeated at once",
     "if l.waiting and l.used < l.lim and conch.quiet(0, t) = 0 then\n    if patient and conch.awaits_any(l.key, me, "
     "l.lim - l.used)",
     "if l.waiting and conch.quiet(0, t) = 0 then\n    if patient and conch.awaits_any(l.key, me, 1)"},
    {"patient-drops-heads", "a patient question drops the disconnected head", "if shown > 0 and not patient then",
     "if shown > 0 then"},
    {"impatient-release", "a patient release of a mutex does not wait",
     "if patient and l.waiting and conch.awaits_any(k, null, 1) then", "if false then"},
    {"awaits-itself", "a patient asker waits for itself", "where x.id is distinct from me and not", "where not"},
    // ---- the line
    {"short-way-overtakes", "the short way of an acquire does not see the line",
     "and x.hash_until = -1 and not x.waiting", "and x.hash_until = -1"},
    {"short-way-over-expired-shares",
     "the short way of an acquire leaves expired shares, which come back with the clock",
     "and x.hash_until = -1 and not x.waiting", "and x.hash_until < c.t / 1000 and not x.waiting"},
    {"line-by-name", "the line is in the order of ids", "order by x.ticket, x.id, x.rest loop\n      exit when l.used",
     "order by x.id, x.rest loop\n      exit when l.used"},
    {"ticket-not-behind", "a new ticket may be that of another", "greatest(t, max(q.ticket) + 1)", "t"},
    {"place-lost", "a waiter who shows its ticket loses its place", "if known <= tk then return known; end if;", ""},
    {"line-lives-short", "the line does not outlive the owner by a lease",
     "if conch.left_of(l.line_until, ms) < lives then l.line_until := ms + lives; end if;",
     "if conch.left_of(l.line_until, ms) < lives / 4 then l.line_until := ms + lives / 4; end if;"},
    {"deaf-is-granted", "a waiter that is not connected becomes the owner", "if conch.hears(head.id) then",
     "if true then"},
    {"deaf-share-is-granted", "a waiter that is not connected becomes an owner of a share",
     "elsif conch.hears(q.id) then", "else"},
    {"tries-overtake", "a try of many locks does not see the line",
     "if l.owner_until = -1 and l.hash_until = -1 and not l.waiting then",
     "if l.owner_until = -1 and l.hash_until = -1 then"},
    // ---- owners
    {"release-of-others", "a release does not ask whose the lock is", "mine := l.owner_until <> -1 and l.owner = me;",
     "mine := l.owner_until <> -1;"},
    {"adopt-any-fence", "an adoption does not look at the fence", "l.owner || ' ' || l.owner_fence = origin",
     "l.owner = split_part(origin, ' ', 1)"},
    {"adopt-any-share", "an adoption of a share does not look at the fence",
     " and p.fence::text = split_part(origin, ' ', 2)", ""},
    {"greater-than-all", "a share larger than the limit never fits", "when l.used + least(size, l.lim) <= l.lim then 0",
     "when l.used + size <= l.lim then 0"},
    {"segments-twice", "a segment is given twice", "if get_byte(free, (s - 1)::int) = 48 and s <> all (refused) then",
     "if s <> all (refused) then"},
    {"force-of-all", "an order about one owner is about all", "x.weight > 0 and (everyone or x.fence = f)",
     "x.weight > 0"},
    {"limit-of-nothing", "a limit may be 0", "least(greatest(l.lim + by, 1), 1000000)",
     "least(greatest(l.lim + by, 0), 1000000)"},
    // ---- rows
    {"row-not-put", "what has expired is deleted, and its lock's row does not say so",
     "if gone then perform conch.put(l); end if;", ""},
    {"line-left-behind", "a line that has expired leaves its rows",
     "if l.waiting then\n      delete from conch.line q where q.key = l.key;\n", "if l.waiting then\n"},
    {"shares-left-behind", "owners that have expired leave their rows",
     "delete from conch.part p where p.key = l.key;\n    l.hash_until := -1;\n    l.used := 0;",
     "l.hash_until := -1;\n    l.used := 0;"},
    {"sum-not-lowered", "a share that is given back still counts", "l.used := l.used - p.weight;\n", ""},
    {"freed-untold", "the short way of a release does not tell the watchers",
     "and not x.waiting and x.alert_until = -1;", "and not x.waiting;"},
    // ---- moments
    {"free-at-its-end", "the short way of an acquire takes the lock in the last ms of a lease",
     "where x.key = k and x.owner_until < c.t / 1000 and", "where x.key = k and x.owner_until <= c.t / 1000 and"},
    {"ends-a-ms-early", "a mutex ends a ms before its lease", "if l.owner_until < ms then l.owner_until := -1; end if;",
     "if l.owner_until <= ms then l.owner_until := -1; end if;"},
    {"share-ends-late", "a share is there at the end of its lease", "p.ends <= t returning p.segment",
     "p.ends < t returning p.segment"},
    {"late-by-nothing", "a request is too late at the very moment", "if not_after <> 0 and t > not_after",
     "if not_after <> 0 and t >= not_after"},
    // ---- the hand-over in one statement
    {"hand-over-by-clock", "a hand-over gives a fence by the clock alone", "f := greatest(clock, f + 1);",
     "f := clock;"},
    {"hand-over-forgets", "a fence ahead of the clock is forgotten early after a hand-over",
     "fence_until = ms + retention + (f - clock + 999) / 1000, waiting", "fence_until = ms + retention, waiting"},
    {"hand-over-is-no-claim", "a hand-over makes a hold and no claim", "owner = head, owner_fence = f, claimed = true,",
     "owner = head, owner_fence = f, claimed = false,"},
    {"hand-over-for-a-lease", "a hand-over is for a lease", "claimed = true, owner_until = ms + claim, fence = f,",
     "claimed = true, owner_until = ms + lease, fence = f,"},
    {"hand-over-leaves-head", "the new owner stays in the queue", "delete from conch.line q where q.ctid = place;", ""},
    {"hand-over-to-the-last", "the line seems to go on behind the last waiter", "waiting = others, line_until",
     "waiting = true, line_until"},
    {"hand-over-to-a-share", "a hand-over does not ask whether the first in line wants a mutex", " and q.rest = ''\n",
     "\n"},
    {"hand-over-to-the-deaf", "a hand-over does not ask whether the first in line is there",
     "if found and conch.hears(head) then", "if found then"},
    {"hand-over-late", "a hand-over takes an expired line", " and x.waiting and x.line_until >= ms and",
     " and x.waiting and"},
    // ---- shares
    {"sum-of-the-rest", "what a share gives back is what it keeps",
     "l.used := l.used - greatest(mine.weight - keeps, 0);", "l.used := l.used - least(mine.weight, keeps);"},
    {"rest-grows", "a share may keep more than it has", "set weight = least(p.weight, keeps)", "set weight = keeps"},
    {"rest-forgets-fence", "what is passed on of a share has a fence by the clock",
     "elsif keeps > 0 then\n    floor := mine.fence;", "elsif keeps > 0 then"},
    {"adoption-shortens", "an adoption makes the end of a share earlier",
     "false, greatest(mine.ends, t + lease * 1000), mine.segment)", "false, t + lease * 1000, mine.segment)"},
    {"adoption-loses-segment", "an adoption forgets the segment",
     "greatest(mine.ends, t + lease * 1000), mine.segment);", "greatest(mine.ends, t + lease * 1000), 0);"},
    {"segment-not-freed", "a segment that is given back counts as taken",
     "l.map := conch.mark(l.map, p.segment, '0');\n", ""},
    {"expired-segment-not-freed", "a segment whose lease has ended counts as taken",
     "l.map := conch.mark(l.map, s, '0');\n", "null;\n"},
    {"first-end-stays", "a shorter lease does not bring the first end forward", "else least(l.first_end, e) end",
     "else l.first_end end"},
    {"joins-any-owner", "a reentrant lock is for anybody", "case when l.used = 0 or l.map = unwanted then 0 end", "0"},
    {"all-that-is-there", "a request for all that is free gets the limit",
     "case when weight = 0 then l.lim - l.used else", "case when weight = 0 then l.lim else"},
    {"large-is-overtaken", "a request for less overtakes one for more", "exit when in_order;", ""},
    {"striped-in-order", "of segments nobody is passed over", "in_order boolean := l.kind in (114, 115)",
     "in_order boolean := true"},
    {"gone-still-waits", "a share that is given back stays in line", "if q.rest = '' or (q.id = me and who = '') then",
     "if q.rest = '' then"},
    {"row-ends-before-share", "a renewal of a share does not prolong the row", "l := conch.live(l, leases[i], t);\n",
     ""},
    {"renew-share-keeps-no-fence", "a renewal of a long share does not keep its fence",
     "if retention <> 0 then l := conch.keep_fence(conch.without_expired(l, ms), f, retention, t); end if;", ""},
    {"mutex-beside-shares", "a share is granted beside a mutex",
     "if l.owner_until <> -1 or (l.hash_until <> -1 and l.kind <> wanted) then",
     "if l.hash_until <> -1 and l.kind <> wanted then"},
    // ---- limits and orders
    {"limit-again", "a limit that is set already is set anew", "if not (l.limit_set and if_unset) then",
     "if true then"},
    {"limit-forgotten", "a limit that was set goes with the last owner",
     "if l.used = 0 and not l.limit_set then\n    delete from", "if l.used = 0 then\n    delete from"},
    {"force-passes-nothing-on", "what was taken by force stays free", "if n > 0 then\n    r := conch.let_in(",
     "if n < 0 then\n    r := conch.let_in("},
    {"force-forgets-fence", "what was taken by force is passed on with a fence by the clock",
     "conch.pass_on(l, null, 0, claim, retention, l.owner_fence, t)",
     "conch.pass_on(l, null, 0, claim, retention, 0, t)"},
    {"requests-end-early", "a request to let go shortens those before it",
     "l.requests_until := greatest(l.requests_until, ms + longest);", "l.requests_until := ms + longest;"},
    {"watches-twice", "a client that watches again is told twice", "l := conch.forget_watcher(l, me);\n  remains",
     "remains"},
    {"watch-shortens", "a watcher shortens how long those before it are kept",
     "ms + greatest(longest + lease, conch.left_of(l.watchers_until, ms))", "ms + longest + lease"},
    {"unwatch-of-all", "a watcher that stops ends all others",
     "delete from conch.watcher w where w.key = l.key and w.id = me;",
     "delete from conch.watcher w where w.key = l.key;"},
    {"tries-go-on", "a try of many locks goes on behind one that is not free", "else\n      exit;\n    end if;",
     "else\n      continue;\n    end if;"},
    // ---- sweeps and kept fences
    {"sweep-takes-lines", "the sweep deletes lines", "l.hash_until, l.line_until, l.fence_until, l.requests_until",
     "l.hash_until, l.fence_until, l.requests_until"},
    {"sweep-takes-owners", "the sweep deletes mutexes", "greatest(l.owner_until, l.hash_until, l.line_until",
     "greatest(l.hash_until, l.line_until"},
    {"sweep-leaves-rows", "the sweep leaves what belongs to a lock",
     "l := conch.without_expired(l, ms);\n      delete from conch.lock k", "delete from conch.lock k"},
    {"kept-fence-shortened", "a renewal shortens how long a fence is kept",
     "if l.fence_until <> -1 and l.fence >= f and conch.left_of(l.fence_until, t / 1000) >= lives then return l; end "
     "if;",
     ""},
    {"kept-fence-ahead", "a kept fence ahead of the clock is forgotten before the clock has passed it",
     "lives := retention + greatest(0, (kept - clock + 999) / 1000);", "lives := retention;"},
};

std::string mutated(std::string_view script, sql_mutant const& m) {
  std::string all{script};
  for (auto at = all.find(m.from); at != std::string::npos; at = all.find(m.from, at + m.to.size()))
    all.replace(at, m.from.size(), m.to);
  return all;
}

class PostgresqlMutants : public testing::TestWithParam<sql_mutant> {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<test::postgresql_server>(test::postgresql_options{.settings = {"fsync=off"}});
  }
  static void TearDownTestSuite() { server_.reset(); }

  template <class Side>
  static std::string seen(std::string const& script, Side&& side, bool sweeps, int steps) try {
    sql_server sql{*server_, side.clients(), script, sweeps};
    rules_server rules{sweeps};
    std::map<std::string, int> happened;
    return difference(side, sql, rules, steps, happened);
  } catch (violation const& e) {
    return e.what();  // of the rules, which were told what the rows say
  }

  /// What shows it first. Empty: nothing.
  static std::string seen(std::string const& script) {
    constexpr generator_options ways[] = {
        {.patience = true, .many_names = true, .owners_act = true},
        {.patience = true, .many_names = true, .may_go_back = false, .owners_act = true},
        {.patience = true, .near_2020 = true, .owners_act = true},
        {.many_names = true, .comes_back = true, .owners_act = true}};
    for (told_case const& one : told_cases()) {
      told_side side{one};
      if (std::string how = seen(script, side, one.sweeps, side.steps()); !how.empty()) return how;
    }
    constexpr int steps = 500;
    for (std::uint64_t seed = 11; seed < 14; ++seed) {
      for (generator_options const& o : ways) {
        bool const sweeps = o.may_go_back && !o.comes_back;
        if (std::string how = seen(script, random_client_side{seed, o}, sweeps, steps); !how.empty()) return how;
        if (std::string how = seen(script, random_permits{seed, o}, sweeps, steps); !how.empty()) return how;
      }
    }
    return {};
  }

 private:
  static inline std::unique_ptr<test::postgresql_server> server_;
};

TEST_P(PostgresqlMutants, IsSeen) {
  sql_mutant const& m = GetParam();
  std::string const script = mutated(postgresql::schema(), m);
  ASSERT_NE(script, postgresql::schema()) << "it matches nothing in the script";
  std::string const how = seen(script);
  EXPECT_NE(how, "") << m.words;
  std::cout << how.substr(0, how.find('\n')).substr(0, 200) << std::endl;
}

std::string name_of(testing::TestParamInfo<sql_mutant> const& info) {
  std::string name{info.param.name};
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Each, PostgresqlMutants, testing::ValuesIn(mutants), name_of);

class PostgresqlWithoutAMutant : public PostgresqlMutants {};

TEST_P(PostgresqlWithoutAMutant, NothingIsSeen) { EXPECT_EQ(seen(std::string{postgresql::schema()}), ""); }

INSTANTIATE_TEST_SUITE_P(The, PostgresqlWithoutAMutant, testing::Values(sql_mutant{"none", "", "", ""}), name_of);

}  // namespace
}  // namespace conch::sim
