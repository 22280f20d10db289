// Attempts to connect in a world where look-ups hang, addresses are silent, refuse, or greet and are not masters, in
// any order: each attempt ends in its time, something is always under way, and the server is found.

#include "base/random.hpp"
#include "unit/connection_fsm_fixture.hpp"

namespace conch::redis {
namespace {

struct random_world {
  explicit random_world(std::uint64_t seed) : random{seed} {
    m.settings.lease = std::chrono::seconds{draw(1, 30)};
    std::size_t const count = static_cast<std::size_t>(draw(1, 6));
    for (std::size_t i = 0; i < count; ++i) all.push_back("address " + std::to_string(i));
    for (std::size_t i = 0; i < count; ++i) habits.push_back(static_cast<habit>(draw(0, 3)));
    good = static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(count) - 1));
    slowness = std::chrono::milliseconds{draw(1, 4800)};  // of the good one: connection and greeting
  }

  enum class habit { silent, refuses, accepts_and_is_silent, is_a_replica };

  std::int64_t draw(std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(to - from + 1));
  }

  /// Lets it sleep for as long as it wants to.
  std::string sleep() {
    EXPECT_NE(until, time_point::max()) << "nothing is under way, and nothing wakes it";
    m.now = std::max(m.now, until);
    return m.due();
  }

  /// Carries out what is to be done, until it is up. Returns how long that took.
  duration connect() {
    time_point const began = m.now;
    time_point attempt = m.now;
    std::string todo = m.want();
    for (int steps = 0; !m.fsm.life().is_up() && steps < 10'000; ++steps) {
      if (m.last.sleep) until = m.last.until;
      if (todo.find("resolve") != std::string::npos) attempt = m.now;
      EXPECT_LE(m.now - attempt, m.settings.connect_timeout + m.settings.reconnect_max)
          << "an attempt has taken longer than it may";
      if (todo.find("resolve") != std::string::npos && draw(0, 9) != 0) {
        m.now += std::chrono::milliseconds{draw(0, 50)};
        todo = m.resolved(all);
      } else if (todo.find("connect(") != std::string::npos) {
        todo = dial();
      } else {
        todo = sleep();  // a look-up hangs, or it pauses
      }
    }
    EXPECT_TRUE(m.fsm.life().is_up());
    return m.now - began;
  }

  std::string dial() {
    std::size_t const number = m.fsm.life().address_number();
    time_point const given_up = m.last.sleep ? m.last.until : until;
    until = given_up;
    if (number == good) {
      if (m.now + slowness >= given_up) return sleep();
      m.now += slowness;
      m.connected();
      m.written();
      return m.received(greeting_answer);
    }
    switch (habits[number]) {
      case habit::silent: return sleep();
      case habit::refuses: return m.refused("refused");
      case habit::accepts_and_is_silent: m.connected(); return sleep();
      case habit::is_a_replica:
        m.connected();
        m.written();
        return m.received("%2\r\n" + bulk("version") + bulk("7.0") + bulk("role") + bulk("replica"));
    }
    return {};
  }

  random_numbers random;
  machine m;
  texts all;
  std::vector<habit> habits;
  std::size_t good = 0;
  duration slowness{};
  time_point until{};
};

TEST(ConnectionFsmRandom, P4TheServerIsFoundWhateverTheOtherAddressesAndTheLookUpsDo) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    random_world w{seed};
    duration const first = w.connect();
    EXPECT_LT(first, 20min);
    if (HasFailure()) return;
    w.m.flush();
    // It begins there next time: nothing is lost by the others.
    w.m.now += 2s;
    w.m.failed("read: end");
    w.m.due();
    std::string const todo = w.m.resolved(w.all);
    EXPECT_NE(todo.find("connect(" + std::to_string(w.good) + ")"), std::string::npos) << todo;
    if (HasFailure()) return;
  }
}

TEST(ConnectionFsmRandom, P4AQuickServerIsFoundWithinTwoAttempts) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    random_world w{seed};
    w.slowness = 100ms;
    w.m.want();
    std::string todo = w.m.resolved(w.all);
    for (int attempts = 1; !w.m.fsm.life().is_up() && attempts <= 2;) {
      if (w.m.last.sleep) w.until = w.m.last.until;
      if (todo.find("connect(") != std::string::npos) {
        todo = w.dial();
      } else if (todo.find("resolve") != std::string::npos) {
        ++attempts;
        todo = w.m.resolved(w.all);
      } else {
        todo = w.sleep();
      }
    }
    EXPECT_TRUE(w.m.fsm.life().is_up());
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace conch::redis
