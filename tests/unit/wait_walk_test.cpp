// The chain of waits (engine/wait_walk.hpp): single answers, and random worlds in which everything changes while the
// walk asks.
#include "engine/wait_walk.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace conch::engine {
namespace {

using ending = wait_walk::ending;
using words = std::array<std::uint32_t, 4>;

words client(std::uint32_t number) { return {number, 0, 0, 7}; }
std::string id(std::uint32_t number) { return detail::id_of(client(number)); }

/// Locks, clients and tasks as the servers show them at one moment.
struct shown {
  std::map<std::string, lock_report> locks;
  std::map<std::string, introduction> told;  // by the id of a client or a task

  void holds(std::uint32_t who, std::string const& lock, std::int64_t fence, std::string const& task) {
    locks[lock].held = 1;
    locks[lock].owners = {{client(who), fence, 1000, 1, 0, true}};
    told[id(who)].label = "client " + std::to_string(who);
    told[id(who)].uses.push_back({lock, "note", fence, task});
  }
  void waits(std::uint32_t who, std::string const& lock, std::int64_t since, std::string const& task) {
    locks[lock].waiters.push_back({client(who), since, 1});
    locks[lock].waiting = locks[lock].waiters.size();
    told[task].uses.push_back({lock, "", 0, id(who)});
  }
  void answer(wait_walk& w) const {
    auto const q = *w.next();
    if (q.what == wait_walk::question::of::lock) {
      auto const found = locks.find(q.name);
      w.answer(found == locks.end() ? lock_report{} : found->second);
    } else {
      auto const found = told.find(q.name);
      w.answer(found == told.end() ? introduction{} : found->second);
    }
  }
  wait_walk walk(std::string const& lock) const {
    wait_walk w{lock};
    while (w.next()) answer(w);
    return w;
  }
};

TEST(WaitWalk, KnowsThatAReentrantLockIsForOneOwner) {
  shown s;
  s.holds(1, "a", 10, "task 1");
  s.holds(2, "b", 20, "task 2");
  s.waits(1, "b", 5, "task 1");
  s.waits(2, "a", 6, "task 2");
  for (char const* const lock : {"a", "b"}) {
    s.locks[lock].kind = permit_kind::reentrant;
    s.locks[lock].taken = 1;
    s.locks[lock].limit = 1'000'000;
  }
  EXPECT_EQ(s.walk("a").how(), ending::deadlock);
}

TEST(WaitWalk, EndsAtWhoDoesNotWait) {
  shown s;
  EXPECT_EQ(s.walk("free").how(), ending::free);
  EXPECT_TRUE(s.walk("free").links().empty());
  s.holds(1, "a", 10, "task 1");
  s.waits(1, "b", 5, "task 1");
  s.holds(2, "b", 20, "task 2");
  wait_walk const w = s.walk("a");
  EXPECT_EQ(w.how(), ending::works);
  ASSERT_EQ(w.links().size(), 2u);
  EXPECT_EQ(w.links()[0].lock, "a");
  EXPECT_EQ(w.links()[0].label, "client 1");
  EXPECT_EQ(w.links()[0].note, "note");
  EXPECT_EQ(w.links()[1].client, id(2));
}

TEST(WaitWalk, FindsCirclesOfOneTwoAndThree) {
  for (std::uint32_t const size : {1u, 2u, 3u}) {
    shown s;
    auto const lock = [](std::uint32_t i) { return "lock " + std::to_string(i); };
    for (std::uint32_t i = 0; i < size; ++i) {
      std::string const task = "task " + std::to_string(i);
      s.holds(i, lock(i), 10 + i, task);
      if (size == 1) s.told[task].uses.push_back({lock(0), "", 0, id(0)});  // not in the queue: it holds the mutex
      else s.waits(i, lock((i + 1) % size), 5, task);
    }
    s.holds(7, "outside", 70, "task 7");
    s.waits(7, lock(0), 6, "task 7");
    EXPECT_EQ(s.walk(lock(0)).how(), ending::deadlock) << size;
    EXPECT_EQ(s.walk(lock(0)).links().size(), size);
    wait_walk const from_outside = s.walk("outside");
    EXPECT_EQ(from_outside.how(), ending::deadlock);
    EXPECT_EQ(from_outside.circle(), 1u);
    EXPECT_EQ(from_outside.links().size(), size + 1);
  }
}

TEST(WaitWalk, KnowsNothingOfWhoNamesNoTask) {
  shown s;
  s.holds(1, "a", 10, "");
  EXPECT_EQ(s.walk("a").how(), ending::unknown);
  s.told[id(1)].uses[0].with = "task";
  EXPECT_EQ(s.walk("a").how(), ending::works);
  s.told[id(1)].uses[0].fence = 9;
  EXPECT_EQ(s.walk("a").how(), ending::unknown) << "of an earlier hold";
  s = {};
  s.holds(1, "a", 10, "task");
  s.waits(1, "b", 5, "task");
  s.waits(1, "c", 5, "task");
  EXPECT_EQ(s.walk("a").how(), ending::unknown) << "it waits for one of two";
}

TEST(WaitWalk, EndsAtALockOfSeveralAndAtWhoWaitsNoMore) {
  shown s;
  s.holds(1, "a", 10, "task");
  s.waits(1, "b", 5, "task");
  s.holds(2, "b", 20, "other");
  s.locks["b"].held = 2;
  EXPECT_EQ(s.walk("a").how(), ending::several);
  s.locks["b"].held = 1;
  s.locks["b"].waiters.clear();
  s.locks["b"].waiting = 0;
  EXPECT_EQ(s.walk("a").how(), ending::works) << "what it told is old";
  s.locks["b"].waiting = 500;
  EXPECT_EQ(s.walk("a").how(), ending::unknown) << "not all that wait are named";
}

/// Tasks "one" and "two" have "a" and "b", and each wants the other one's lock.
shown circle_of_two() {
  shown s;
  s.holds(1, "a", 10, "one");
  s.holds(2, "b", 20, "two");
  s.waits(1, "b", 5, "one");
  s.waits(2, "a", 5, "two");
  return s;
}

TEST(WaitWalk, APermitThatIsFreeIsNotWaitedForByItsHolder) {
  shown s = circle_of_two();
  s.locks["b"].kind = permit_kind::semaphore;
  s.locks["b"].taken = 1;
  s.locks["b"].limit = 2;
  EXPECT_EQ(s.walk("a").how(), ending::unknown) << "it waits behind a dead client, for which the server cares";
  s.locks["b"].limit = 1;
  EXPECT_EQ(s.walk("a").how(), ending::deadlock);
}

TEST(WaitWalk, ACircleThatIsAnotherEachTimeIsNoDeadlock) {
  shown const at_rest = circle_of_two();
  ASSERT_EQ(at_rest.walk("a").how(), ending::deadlock);
  using change = void (*)(shown&, int);
  for (change const one : {
           change{[](shown&s, int n) { s.locks["b"].owners[0].fence = s.told[id(2)].uses[0].fence = 20 + n; }},
           change{[](shown&s, int n) { s.locks["b"].waiters[0].since_us = 5 + n; }},
           change{[](shown&s, int n) {
             s.told[id(2)].uses[0].with = "two " + std::to_string(n);
             s.told[s.told[id(2)].uses[0].with] = s.told["two"];
           }},
       }) {
    shown s = at_rest;
    wait_walk w{"a"};
    for (int n = 0; w.next() && n < 100; ++n) {
      // Between two looks at b.
      if (w.next()->what == wait_walk::question::of::lock && w.next()->name == "a") one(s, n);
      s.answer(w);
    }
    EXPECT_EQ(w.how(), ending::unknown);
    EXPECT_FALSE(w.next());
  }
}

/// Tasks that take and leave mutexes at random, and in time give up waiting. What they tell may arrive one step late:
/// a deadlock that ended in the step before still counts.
class random_world {
 public:
  explicit random_world(std::uint64_t seed) : random_{static_cast<std::mt19937::result_type>(seed)} {
    for (std::uint32_t i = 0; i < 4; ++i) tasks_.push_back({.number = i, .of = draw(2) ? i : i % 2});
  }

  /// "": nothing wrong was reported.
  std::string run() {
    unsigned const pace = 1 + draw(12);
    patience_ = 2 + draw(12);
    std::set<std::string> real;
    for (int i = 0; i < 20; ++i) {
      real.clear();
      note_circles(real);
      step();
    }
    wait_walk w{lock_name(draw(lock_count))};
    for (int answers = 0; w.next() && answers < 200; ++answers) {
      for (unsigned i = draw(pace); i > 0; --i) {
        step();
        note_circles(real);
      }
      note_circles(real);
      now_.answer(w);
    }
    if (w.next()) return "the walk does not end";
    if (w.how() != ending::deadlock) return {};
    ++found;
    std::string const circle = signature(w);
    return real.contains(circle) ? std::string{} : "no such deadlock: " + circle;
  }

  static inline int found = 0;

 private:
  static constexpr unsigned lock_count = 3;

  struct task {
    std::uint32_t number, of;  // of that client
    std::set<std::string> held = {};
    std::optional<std::string> wanted = {};
  };
  struct lock {
    task* holder = nullptr;
    std::int64_t fence = 0;
    std::deque<task*> line = {};
  };

  unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }
  static std::string lock_name(unsigned i) { return std::string(1, static_cast<char>('a' + i)); }
  static std::string task_name(task const& t) { return "task " + std::to_string(t.number); }

  void step() {
    task& t = tasks_[draw(static_cast<unsigned>(tasks_.size()))];
    if (t.wanted) {
      if (draw(patience_) == 0) give_up(t);
    } else if (!t.held.empty() && draw(3) == 0) {
      release(t);
    } else {
      want(t, lock_name(draw(lock_count)));
    }
    show_locks();
    owes_ = !owes_ && draw(2) == 0;
    if (!owes_) tell();
  }

  void want(task& t, std::string const& name) {
    if (t.held.contains(name) && draw(4) != 0) return;
    lock& l = locks_[name];
    if (l.holder == nullptr) return grant(l, name, t);
    t.wanted = name;
    l.line.push_back(&t);
    if (l.holder->of != t.of) joined(name, t.of);
  }
  void joined(std::string const& name, std::uint32_t of) { since_.try_emplace({name, of}, ++clock_); }
  void grant(lock& l, std::string const& name, task& t) {
    l.holder = &t;
    l.fence = ++clock_;
    t.held.insert(name);
    t.wanted.reset();
    since_.erase({name, t.of});
    for (task const* other : l.line)
      if (other->of != t.of) joined(name, other->of);
  }
  void release(task& t) {
    std::string const name = *t.held.begin();
    t.held.erase(name);
    lock& l = locks_[name];
    l.holder = nullptr;
    if (l.line.empty()) return;
    task& next = *l.line.front();
    l.line.pop_front();
    grant(l, name, next);
  }
  void give_up(task& t) {
    std::string const name = *t.wanted;
    std::erase(locks_[name].line, &t);
    t.wanted.reset();
    bool const others =
        std::any_of(locks_[name].line.begin(), locks_[name].line.end(), [&](task* o) { return o->of == t.of; });
    if (!others) since_.erase({name, t.of});
  }

  void show_locks() {
    now_.locks.clear();
    for (auto const& [name, l] : locks_) {
      lock_report& r = now_.locks[name];
      if (l.holder == nullptr) continue;
      r.held = 1;
      r.owners = {{client(l.holder->of), l.fence, 1000, 1, 0, true}};
    }
    for (auto const& [at, since] : since_) now_.locks[at.first].waiters.push_back({client(at.second), since, 1});
    for (auto& [name, r] : now_.locks) r.waiting = r.waiters.size();
  }
  void tell() {
    now_.told.clear();
    for (task const& t : tasks_) {
      for (std::string const& name : t.held)
        now_.told[id(t.of)].uses.push_back({name, "", locks_[name].fence, task_name(t)});
      if (t.wanted) now_.told[task_name(t)].uses.push_back({*t.wanted, "", 0, id(t.of)});
    }
  }

  /// Each circle of tasks that wait for each other now, by the locks and fences along it.
  void note_circles(std::set<std::string>& all) {
    for (task const& first : tasks_) {
      std::vector<std::string> circle;
      task const* t = &first;
      for (std::size_t i = 0; i < tasks_.size() && t != nullptr && t->wanted; ++i) {
        lock const& l = locks_[*t->wanted];
        circle.push_back(*t->wanted + std::to_string(l.fence));
        t = l.holder;
        if (t == &first) {
          std::sort(circle.begin(), circle.end());
          all.insert(joined_text(circle));
          break;
        }
      }
    }
  }
  static std::string signature(wait_walk const& w) {
    std::vector<std::string> circle;
    for (std::size_t i = w.circle(); i < w.links().size(); ++i)
      circle.push_back(w.links()[i].lock + std::to_string(w.links()[i].holder.fence));
    std::sort(circle.begin(), circle.end());
    return joined_text(circle);
  }
  static std::string joined_text(std::vector<std::string> const& all) {
    std::string text;
    for (std::string const& one : all) text += one + ' ';
    return text;
  }

  std::mt19937 random_;
  std::vector<task> tasks_;
  std::map<std::string, lock> locks_;
  std::map<std::pair<std::string, std::uint32_t>, std::int64_t> since_;  // places of clients
  std::int64_t clock_ = 0;
  unsigned patience_ = 12;
  bool owes_ = false;  // not all is told
  shown now_;
};

TEST(WaitWalk, ReportsNoDeadlockThatIsNone) {
  // CONCH_WAIT_WORLDS=200000 takes 20 s.
  char const* const wanted = std::getenv("CONCH_WAIT_WORLDS");
  std::uint64_t const worlds = wanted != nullptr ? std::stoull(wanted) : 20'000;
  random_world::found = 0;
  for (std::uint64_t seed = 0; seed < worlds; ++seed) {
    std::string const wrong = random_world{seed}.run();
    ASSERT_EQ(wrong, "") << "seed " << seed;
  }
  EXPECT_GT(random_world::found, 100) << "worlds without deadlocks prove nothing";
}

}  // namespace
}  // namespace conch::engine
