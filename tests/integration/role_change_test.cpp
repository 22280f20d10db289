// A server and its replica change roles in good order, nothing is lost, and the clients stay connected to what is a
// replica now.

#include "integration/fixture.hpp"

#include "support/tcp_proxy.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace conch::test {
namespace {

redis_server_options with_port() {
  redis_server_options o;
  o.tcp = true;
  o.arguments = {"--repl-diskless-sync-delay", "0"};
  return o;
}

redis_server_options replica_of(redis_server const& master) {
  redis_server_options o = with_port();
  o.arguments.insert(o.arguments.end(), {"--replicaof", "127.0.0.1 " + std::to_string(master.port())});
  return o;
}

/// Two servers behind one address. New connections go to the master; old ones stay where they are.
class pair_of_servers {
 public:
  pair_of_servers() : first_{with_port()}, second_{replica_of(first_)}, address_{first_.port()} {
    wait(second_, "master_link_status:up");
    wait(first_, "state=online");
  }

  std::string url() const { return address_.url(); }
  redis_server& first() { return first_; }
  redis_server& second() { return second_; }

  bool by_hand = false;  // change_roles() by REPLICAOF, and not by FAILOVER

  /// What an operator does by hand, or Kubernetes' does, ends no connection either, and loses what is written
  /// meanwhile.
  void demote_by_hand() {
    address_.retarget(second_.port());
    redis_probe first{first_}, second{second_};
    first.command({"PUBLISH", "mark", "x"});  // is replicated: WAIT is for all before it
    EXPECT_EQ(first.command({"WAIT", "1", "5000"}), "1");
    EXPECT_EQ(second.command({"REPLICAOF", "NO", "ONE"}), "OK");
    EXPECT_EQ(first.command({"REPLICAOF", "127.0.0.1", std::to_string(second_.port())}), "OK");
    wait(first_, "role:slave");
    wait(first_, "master_link_status:up");
  }

  void change_roles() {
    if (by_hand) return demote_by_hand();
    address_.retarget(second_.port());
    redis_probe probe{first_};
    EXPECT_EQ(probe.command({"FAILOVER", "TO", "127.0.0.1", std::to_string(second_.port())}), "OK");
    wait(second_, "role:master");
    wait(first_, "role:slave");
    wait(first_, "master_link_status:up");  // it receives what is replicated
  }

 private:
  static void wait(redis_server& server, std::string const& words) {
    redis_probe probe{server};
    auto const end = steady::now() + 20s;
    while (probe.command({"INFO", "replication"}).find(words) == std::string::npos) {
      if (steady::now() > end) throw std::runtime_error{"never seen: " + words};
      std::this_thread::sleep_for(5ms);
    }
  }

  redis_server first_, second_;
  tcp_proxy address_;
};

struct grant_seen {
  int who;
  std::int64_t fence;
};

class RoleChange : public testing::Test {
 protected:
  /// A holder and the first in line are connected to the first server; the second in line comes when the roles have
  /// changed. `lock(client)` makes the lock; the lease is long, so that nobody comes back by its safety check. `others`
  /// are servers of a quorum, beside those that change roles.
  template <class Hold = hold, class Lock, class Acquire>
  void exactly_one_is_granted(Lock const& lock, Acquire const& acquire, std::span<redis_server const> others = {}) {
    auto const body = [&]() -> asio::awaitable<void> {
      config settings;  // of a user: claim 3 s, lease 30 s
      if (others.empty()) settings.url = servers.url();
      else settings.quorum.servers = {servers.url()};
      for (auto const& s : others) settings.quorum.servers.push_back(s.url());
      client holds{w.ctx.get_executor(), settings}, waits{w.ctx.get_executor(), settings},
          comes{w.ctx.get_executor(), settings};
      auto a = lock(holds), b = lock(waits), c = lock(comes);
      std::vector<grant_seen> grants;
      Hold first, second, third;
      acquire(a, [&](error_code ec, Hold h) {
        EXPECT_FALSE(ec) << ec.message();
        first = std::move(h);
      });
      // Confirmed for its lease at every server: the change of roles stops this thread for longer than a vote is good
      // for. The hold's own deadline covers a majority only, and where a vote expires the first in the queue is asked,
      // is paused as well, and loses its place.
      std::vector<redis_probe> at_others(others.begin(), others.end());
      auto const is_long = [&](redis_probe& at) {
        return others.empty() || at.integer({"PTTL", lock_key("role")}) >
                                     std::chrono::duration_cast<std::chrono::milliseconds>(settings.lease).count() / 2;
      };
      auto const held = [&] {
        return first.valid() && first.deadline() > clock::now() + settings.lease / 2 && is_long(at_first) &&
               std::ranges::all_of(at_others, is_long);
      };
      co_await until(held, "the hold");
      auto const take = [&grants](int who, Hold& mine) {
        return [&grants, who, &mine](error_code ec, Hold h) {
          EXPECT_FALSE(ec) << ec.message();
          grants.push_back({who, h.fence()});
          mine = std::move(h);
        };
      };
      acquire(b, take(1, second));
      // At every server: where one of a quorum does not know of it yet, the second in the queue is ahead of it there.
      auto const in_the_first = [&] {
        return in_line(at_first, "role") == 1 &&
               std::ranges::all_of(at_others, [](redis_probe& at) { return in_line(at, "role") == 1; });
      };
      co_await until(in_the_first, "the first in line");
      servers.change_roles();
      acquire(c, take(2, third));
      auto const in_the_second = [&] { return in_line(at_second, "role") == 2; };
      co_await until(in_the_second, "the second in line");

      auto const released = steady::now();
      bool const was_held = co_await first.async_release();
      EXPECT_TRUE(was_held);
      auto const granted = [&] { return !grants.empty(); };
      co_await until(granted, "the grant", 20s);
      // 3 ms at rest, 26 s by its safety check. The bound is for a machine that is busy with something else.
      EXPECT_LT(steady::now() - released, 5s);
      EXPECT_EQ(grants.size(), 1u);
      EXPECT_EQ(grants[0].who, 1) << "the first in the queue is served first";
      co_await pause_for(300ms);  // another client's grant would be here
      EXPECT_EQ(grants.size(), 1u);
      EXPECT_TRUE(second.valid());
      bool const was_mine = co_await second.async_release();
      EXPECT_TRUE(was_mine);
      auto const both = [&] { return grants.size() == 2; };
      co_await until(both, "the grant of the second in line");
      EXPECT_EQ(grants[1].who, 2);
      EXPECT_LT(first.fence(), grants[0].fence);
      EXPECT_LT(grants[0].fence, grants[1].fence);
      co_await third.async_release();
    };
    w.run(body, 60s);
  }

  pair_of_servers servers;
  redis_probe at_first{servers.first()}, at_second{servers.second()};
  world w;
};

auto plainly = [](auto& lock, auto told) { lock.async_acquire(std::move(told)); };

TEST_F(RoleChange, P1ThatLosesNothingGrantsAMutexOnce) {
  exactly_one_is_granted([](client& c) { return mutex{c, "role"}; }, plainly);
}

TEST_F(RoleChange, P1ThatLosesNothingGrantsAPermitOnce) {
  exactly_one_is_granted([](client& c) { return semaphore{c, "role", 1}; }, plainly);
}

TEST_F(RoleChange, P1ThatLosesNothingGrantsASegmentOnce) {
  exactly_one_is_granted(
      [](client& c) {
        return striped_mutex{c, "role", 1};
      },
      [](striped_mutex& lock, auto told) { lock.async_acquire_any(std::move(told)); });
}

TEST_F(RoleChange, P1ByReplicaOfGrantsAMutexOnce) {
  servers.by_hand = true;
  exactly_one_is_granted([](client& c) { return mutex{c, "role"}; }, plainly);
}

TEST_F(RoleChange, P1ByReplicaOfGrantsAPermitOnce) {
  servers.by_hand = true;
  exactly_one_is_granted([](client& c) { return semaphore{c, "role", 1}; }, plainly);
}

TEST_F(RoleChange, P1ByReplicaOfGrantsAWriterOnce) {
  servers.by_hand = true;
  exactly_one_is_granted([](client& c) { return shared_mutex{c, "role"}; }, plainly);
}

TEST_F(RoleChange, P1ByReplicaOfGrantsAReentrantMutexToOneOwner) {
  servers.by_hand = true;
  exactly_one_is_granted<reentrant_hold>(
      [](client& c) {
        return reentrant_mutex{c, "role"}.for_owner(owner{});
      },
      plainly);
}

TEST_F(RoleChange, P1ByReplicaOfAtOneServerOfAQuorumGrantsAMutexOnce) {
  servers.by_hand = true;
  std::array<redis_server, 2> others;
  exactly_one_is_granted([](client& c) { return mutex{c, "role"}; }, plainly, others);
}

TEST_F(RoleChange, P1AtOneServerOfAQuorumGrantsAMutexOnce) {
  std::array<redis_server, 2> others;
  exactly_one_is_granted([](client& c) { return mutex{c, "role"}; }, plainly, others);
}

TEST_F(RoleChange, AHoldIsRenewedAtTheNewMaster) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(servers.url(), 10s)};  // longer than a busy machine takes to change roles
    mutex m{c, "renewed"};
    semaphore s{c, "renewed permit", 1};
    hold h = co_await m.async_acquire();
    hold p = co_await s.async_acquire();
    servers.change_roles();
    time_point const before = clock::now();
    // Its renewals are refused where it is connected: that tells it to look for the master.
    auto const renewed = [&] { return h.deadline() > before + 10s && p.deadline() > before + 10s; };
    co_await until(renewed, "two renewals");
    EXPECT_TRUE(h.valid());
    EXPECT_GE(at_second.integer({"PTTL", lock_key("renewed")}), 1);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    bool const was_mine = co_await p.async_release();
    EXPECT_TRUE(was_mine);
  };
  w.run(body);
}

// It is the second connection that renews, and sees the change. The first one has nothing to ask.
TEST_F(RoleChange, AHoldThatReplicasHaveIsRenewedAtTheNewMaster) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = quick(servers.url(), 10s);
    settings.sync_replicas = 1;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "synced"};
    hold h = co_await m.async_acquire();
    servers.change_roles();
    time_point const before = clock::now();
    auto const renewed = [&] { return h.deadline() > before + 10s; };
    co_await until(renewed, "two renewals");
    EXPECT_TRUE(h.valid());
    EXPECT_GE(at_second.integer({"PTTL", lock_key("synced")}), 1);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
