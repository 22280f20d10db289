// A process that forks, or executes another program, while it has clients: over every kind of server.

#include "integration/each_server.hpp"
#include "support/in_child.hpp"

#include <conch/blocking.hpp>
#include <conch/conch.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace conch::test {
namespace {

/// The descriptors that a program would get which this process executes.
std::string inherited_by_a_program() {
  int from[2];
  if (::pipe2(from, O_CLOEXEC) != 0) return "pipe2";
  pid_t const child = ::fork();
  if (child == 0) {
    ::dup2(from[1], STDOUT_FILENO);
    ::execl("/bin/sh", "sh", "-c",
            "cd /proc/$$/fd && for one in *; do echo \"$one $(readlink $one | cut -d[ -f1)\"; done", nullptr);
    ::_exit(127);
  }
  ::close(from[1]);
  std::string all = all_from(from[0]);
  ::waitpid(child, nullptr, 0);
  return all;
}

void expect_refused(error_code ec, char const* what, std::string& wrong) {
  if (ec != errc::closed || ec.message().find("fork") == std::string::npos)
    wrong += std::string{what} + ": " + ec.message() + "\n";
}

class ForkOf : public with_each_server<ForkOf> {
 protected:
  /// Longer than a busy machine needs for a test, and renewed often.
  config settings() {
    config c = often_renewed(server());
    c.single_threaded = false;
    return c;
  }
};

INSTANTIATE_TEST_SUITE_P(Of, ForkOf, testing::ValuesIn(servers_under_test()), server_name);

TEST_P(ForkOf, AnExecutedProgramInheritsNoDescriptor) {
  std::string const before = inherited_by_a_program();
  ASSERT_NE(before.find('0'), std::string::npos) << before;
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings()};
    mutex m{c, "executed"};
    hold h = co_await m.async_acquire();
    blocking::client threads{settings()};
    blocking::mutex of_threads{threads, "executed by a thread"};
    of_threads.lock();
    EXPECT_EQ(inherited_by_a_program(), before);
    of_threads.unlock();
    co_await h.async_release();
  };
  w.run(body);
}

TEST_P(ForkOf, TheChildOfABlockingClientIsToldWhyAndTheParentGoesOn) {
  auto threads = std::make_unique<blocking::client>(settings());
  auto m = std::make_unique<blocking::shared_mutex>(*threads, "blocking");
  m->lock();
  ASSERT_TRUE(m->valid());
  std::string const said = in_child([&](std::string& wrong) {
    if (m->valid() || m->deadline() != time_point::min()) wrong += "the child has a valid hold\n";
    for (auto const& call :
         std::vector<std::function<void()>>{[&] { m->lock(); }, [&] { (void)m->try_lock(); },
                                            [&] { (void)m->try_lock_for(2s); }, [&] { (void)m->lock_shared({}); }}) {
      try {
        call();
        wrong += "a call went well\n";
      } catch (boost::system::system_error const& e) {
        expect_refused(e.code(), "a call", wrong);
      }
    }
    try {
      mutex of_async{threads->async(), "blocking"};
      (void)of_async.async_acquire(asio::use_future).get();
      wrong += "an acquire went well\n";
    } catch (boost::system::system_error const& e) {
      expect_refused(e.code(), "a future", wrong);
    }
    m->unlock();
    m->on_lost({});
    m.reset();
    threads.reset();
    blocking::client own{settings()};
    blocking::mutex another{own, "of the child"};
    another.lock();
    if (!another.valid()) wrong += "a client of the child's own has no lock\n";
    another.unlock();
  });
  EXPECT_EQ(said, "");
  // The child's end has not touched it: it is renewed, and then given back.
  time_point const before = m->deadline();
  for (int i = 0; i < 100 && m->deadline() == before; ++i) std::this_thread::sleep_for(100ms);
  EXPECT_GT(m->deadline(), before);
  EXPECT_TRUE(m->valid());
  m->unlock();
  EXPECT_TRUE(m->try_lock_for(10s));
  m->unlock();
}

/// What a child makes of a context and of a client that it has inherited.
struct inherited {
  asio::io_context& ctx;
  std::string& wrong;

  template <class... Results>
  auto refusal(char const* what) {
    ++*left;
    return [this, what, n = left](error_code ec, Results const&...) {
      --*n;
      expect_refused(ec, what, wrong);
    };
  }
  void all_answered() {
    ctx.run_for(2s);
    if (*left != 0) wrong += std::to_string(*left) + " operations were not answered\n";
  }

  std::shared_ptr<int> left = std::make_shared<int>(0);
};

TEST_P(ForkOf, TheChildThatRunsAnInheritedContextAsksTheServerNothing) {
  auto const ctx = std::make_unique<asio::io_context>(1);
  auto c = std::make_unique<client>(ctx->get_executor(), settings());
  mutex m{*c, "context"}, other{*c, "context, other"};
  multi_lock both{{m, other}};
  lock_options fixed;
  if (server().can().own_leases) fixed = {.lease = 60s, .renew = false};
  reentrant_mutex again{*c, "context, again", fixed};
  owner const me;
  hold h;
  reentrant_hold level;
  m.async_acquire([&](error_code ec, hold got) {
    EXPECT_FALSE(ec) << ec.message();
    h = std::move(got);
  });
  again.async_acquire(me, [&](error_code ec, reentrant_hold got) {
    EXPECT_FALSE(ec) << ec.message();
    level = std::move(got);
  });
  auto const end = steady::now() + 20s;
  while (!(h && level) && steady::now() < end) ctx->run_one_for(1s);
  bool const counts = server().can().counts && !server().is_here();
  // Only one lock is renewed. When that was answered, nothing is under way that a busy server would read when the child
  // is there already.
  auto const renewed = [&, n = c->stats().renewals] { return c->stats().renewals != n; };
  while (counts && !renewed() && steady::now() < end) ctx->run_one_for(1s);
  ASSERT_TRUE(h.valid() && level.valid());
  if (counts) server().begin_to_count({c->id()});
  ctx->notify_fork(asio::io_context::fork_prepare);
  std::string const said = in_child([&](std::string& wrong) {
    ctx->notify_fork(asio::io_context::fork_child);
    if (h.valid() || level.valid() || h.deadline() != time_point::min()) wrong += "the child has a valid hold\n";
    if (again.held_by(me)) wrong += "the child has a level\n";
    inherited of{*ctx, wrong};
    m.async_acquire(of.refusal<hold>("acquire"));
    m.async_try_acquire(of.refusal<hold>("try"));
    both.async_acquire(of.refusal<multi_hold>("several"));
    again.async_acquire(me, of.refusal<reentrant_hold>("level"));
    m.async_inspect(of.refusal<lock_status>("inspect"));
    m.async_wait_free(1s, of.refusal<>("wait_free"));
    h.async_lost(of.refusal<>("lost"));
    h.async_extend(30s, of.refusal<bool>("extend"));
    h.async_detach(of.refusal<std::string>("detach"));
    h.async_release(of.refusal<bool>("release"));
    level.async_release(of.refusal<bool>("release of a level"));
    c->async_close(1s, of.refusal<>("close"));
    of.all_answered();
    h = {};
    level = {};
    c.reset();
    asio::io_context fresh{1};
    client own{fresh.get_executor(), settings()};
    mutex of_own{own, "context, of the child"};
    bool granted = false;
    if (!counts) {  // else it would be counted
      of_own.async_acquire([&](error_code ec, hold got) {
        granted = !ec && got.valid();
        fresh.stop();
      });
      fresh.run_for(20s);
      if (!granted) wrong += "a client of the child's own has no lock\n";
    }
  });
  ctx->notify_fork(asio::io_context::fork_parent);
  EXPECT_EQ(said, "");
  if (counts) {
    EXPECT_EQ(server().counted().requests, 0);
  }
  time_point const before = h.deadline();
  while (h.deadline() == before && steady::now() < end + 20s) ctx->run_one_for(1s);
  EXPECT_GT(h.deadline(), before) << "the parent's renewals go on";
  EXPECT_EQ(c->stats().connects, 1u) << "and so does its connection";
  std::optional<bool> was_held;
  h.async_release([&](error_code, bool held) { was_held = held; });
  while (!was_held && steady::now() < end + 40s) ctx->run_one_for(1s);
  EXPECT_EQ(was_held, true);
}

// The end of a child that returns from main() ends everything that it has inherited.
TEST_P(ForkOf, AllThatAChildHasInheritedMayBeDestroyedThere) {
  struct program {
    explicit program(config const& settings) : c{ctx.get_executor(), settings} {}

    asio::io_context ctx{1};
    client c;
    mutex m{c, "destroyed"};
    std::optional<hold> h;
    bool told = false;
  };
  auto all = std::make_unique<program>(settings());
  all->m.async_acquire([&](error_code, hold got) { all->h = std::move(got); });
  auto const end = steady::now() + 20s;
  while (!all->h && steady::now() < end) all->ctx.run_one_for(1s);
  ASSERT_TRUE(all->h && all->h->valid());
  all->m.async_acquire([&](error_code, hold) { all->told = true; });  // under way at the fork
  all->ctx.poll();
  std::string const said = in_child([&](std::string& wrong) {
    bool& told = all->told;
    all->h.reset();
    if (told) wrong += "what was under way has ended in the child\n";
    all.reset();
  });
  EXPECT_EQ(said, "");
  EXPECT_TRUE(all->h->valid());
  all->h.reset();
  while (!all->told && steady::now() < end + 20s) all->ctx.run_one_for(1s);
  EXPECT_TRUE(all->told) << "the parent's own waiter is granted the lock";
}

}  // namespace
}  // namespace conch::test
