// A user who may do on the server what docs/guide.md says, and no more.
#include "integration/places.hpp"
#include "integration/fixture.hpp"

#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace conch::test {
namespace {

class Rights : public with_server<Rights> {
 public:
  static void SetUpTestSuite() { start_server({.tcp = true}); }

 protected:
  /// The command of the guide, for a user of that name.
  static std::vector<std::string> of_guide(std::string const& user) {
    std::ifstream file{guide_file};
    std::string const guide{std::istreambuf_iterator<char>{file}, {}};
    auto const begin = guide.find("ACL SETUSER");
    auto const end = guide.find("```", begin);
    if (end == std::string::npos) throw std::runtime_error{"no ACL SETUSER in the guide"};
    std::istringstream words{guide.substr(begin, end - begin)};
    std::vector<std::string> command;
    for (std::string word; words >> word;) command.push_back(word == "orders" ? user : word == ">PASSWORD" ? ">pw" : word);
    return command;
  }

  std::string url(std::string const& user) { return "redis://" + user + ":pw@127.0.0.1:" + std::to_string(server().port()) + "/1"; }
  config settings(std::string const& user) {
    config c = often_renewed(url(user));
    c.claim = 1500ms;  // confirmed after a third of it
    c.keep_alive = 100ms;
    c.log = log.hook();
    return c;
  }

  long pings() {
    auto const all = probe.commandstats();
    auto const found = all.find("ping");
    return found == all.end() ? 0 : found->second;
  }

  /// One has it and renews it, another waits and pings, is handed it, confirms and renews it.
  template <class Acquire>
  asio::awaitable<void> hand_over(Acquire const& acquire, client& one, client& two) {
    hold first = co_await acquire(one);
    hold second;
    auto const get = [&]() -> asio::awaitable<void> { second = co_await acquire(two); };
    asio::co_spawn(w.ctx, get(), asio::detached);
    auto const pinged = pings();
    auto const renewed = one.stats().renewals;
    auto const kept = [&] { return one.stats().renewals > renewed + 2 && pings() > pinged; };
    co_await until(kept, "renewals by the one, a ping by the other");
    EXPECT_TRUE(first.valid());
    EXPECT_FALSE(second.valid());
    co_await first.async_release();
    auto const handed = [&] { return second.valid(); };
    co_await until(handed, "handed over");
    auto const confirmed = two.stats().renewals;
    auto const kept_too = [&] { return two.stats().renewals > confirmed + 2; };
    co_await until(kept_too, "renewals by the other");
    EXPECT_TRUE(second.valid());
    bool const was_held = co_await second.async_release();
    EXPECT_TRUE(was_held);
  }

  journal log;
};

TEST_F(Rights, OfTheGuideAreEnoughForEverything) {
  ASSERT_EQ(probe.command(of_guide("orders")), "OK");
  probe.command({"ACL", "LOG", "RESET"});
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), settings("orders")}, b{w.ctx.get_executor(), settings("orders")};
    co_await hand_over([](client& c) { return mutex{c, "mutex"}.async_acquire(); }, a, b);
    co_await hand_over([](client& c) { return semaphore{c, "semaphore", 2}.async_acquire(2); }, a, b);
    co_await hand_over([](client& c) { return shared_mutex{c, "shared"}.async_acquire(); }, a, b);
    co_await hand_over([](client& c) { return striped_mutex{c, "striped", 1}.async_acquire_any(); }, a, b);

    mutex one{a, "one"}, two{a, "two"}, ones{b, "one"};
    std::vector<mutex> const both{one, two};
    multi_lock all{both};
    multi_hold held = co_await all.async_acquire();
    hold const busy = co_await ones.async_try_acquire();
    EXPECT_FALSE(busy);
    auto const tried = co_await ones.async_acquire({.wait = 20ms}, as_tuple);
    EXPECT_EQ(std::get<0>(tried), errc::timed_out);
    lock_status const seen = co_await ones.async_inspect();
    EXPECT_EQ(seen.holders.size(), 1u);
    std::uint32_t const from = co_await ones.async_force_release();
    EXPECT_EQ(from, 1u);
    auto const lost = [&] { return !held.valid(); };
    co_await until(lost, "lost");

    owner me;
    reentrant_mutex again{a, "again"};
    reentrant_hold outer = co_await again.async_acquire(me);
    co_await outer.async_release();
    semaphore permits{a, "permits", 3};
    co_await permits.async_set_permits(2);
    hold some = co_await permits.async_acquire(2);
    lock_status const permits_now = co_await permits.async_inspect();
    EXPECT_EQ(permits_now.holders.size(), 1u);
    std::uint32_t const taken = co_await permits.async_force_release();
    EXPECT_EQ(taken, 1u);
    shared_mutex shared{a, "downgraded"};
    hold writer = co_await shared.async_acquire();
    co_await shared.async_downgrade(writer);
    co_await writer.async_release();

    config votes = settings("orders");
    votes.servers = {url("orders")};
    votes.vote_claim = 2s;
    client q{w.ctx.get_executor(), votes}, r{w.ctx.get_executor(), votes};
    co_await hand_over([](client& c) { return mutex{c, "vote"}.async_acquire(); }, q, r);
  };
  w.run(body);
  EXPECT_EQ(probe.command({"ACL", "LOG"}), "[]");
  EXPECT_FALSE(log.contains("CLIENT KILL")) << *log.text;
}

TEST_F(Rights, WithoutMgetRenewalsGoOn) {
  std::vector<std::string> rights = of_guide("slow");
  ASSERT_EQ(std::erase(rights, "+mget"), 1u);
  ASSERT_EQ(probe.command(rights), "OK");
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), settings("slow")}, b{w.ctx.get_executor(), settings("slow")};
    co_await hand_over([](client& c) { return mutex{c, "without mget"}.async_acquire(); }, a, b);
    EXPECT_GT(a.stats().renewals, 2u);
    EXPECT_EQ(a.stats().renewals_refused, 0u);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
