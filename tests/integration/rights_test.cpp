// A user with exactly the rights of docs/servers/redis.md.
#include "integration/fixture.hpp"
#include "integration/places.hpp"
#include "integration/replicas_fixture.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
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
    std::ifstream file{redis_page};
    std::string const guide{std::istreambuf_iterator<char>{file}, {}};
    auto const begin = guide.find("ACL SETUSER");
    auto const end = guide.find("```", begin);
    if (end == std::string::npos) throw std::runtime_error{"no ACL SETUSER in docs/servers/redis.md"};
    std::istringstream words{guide.substr(begin, end - begin)};
    std::vector<std::string> command;
    for (std::string word; words >> word;)
      command.push_back(word == "orders" ? user : word == ">PASSWORD" ? ">pw" : word);
    return command;
  }

  std::string url(std::string const& user) {
    return "redis://" + user + ":pw@127.0.0.1:" + std::to_string(server().port()) + "/1";
  }
  config settings(std::string const& user) {
    config c = often_renewed(url(user));
    c.claim = 1500ms;  // confirmed after a third of it
    c.keep_alive = 100ms;
    c.log = [this, also = log.hook()](log_level level, std::string_view line) {
      also(level, line);
      bool const of_a_loss = line.starts_with("the lock was lost");  // an operator takes locks away here
      if (level >= log_level::warning && !of_a_loss) warnings.append(line).append("\n");
    };
    return c;
  }

  /// With a lease so short that a waiter asks again, which ZSCORE is for.
  config short_lived(std::string const& user) {
    config c = quick(url(user), 600ms);
    c.keep_alive = 300ms;
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

  /// What the server has refused to that user, from ACL LOG.
  std::set<std::string> refused_commands(std::string const& user) {
    std::set<std::string> found;
    std::string const entries = probe.command({"ACL", "LOG", "100000"});
    std::string const of_user = ", username, " + user + ",";
    for (auto at = entries.find(of_user); at != std::string::npos; at = entries.find(of_user, at + 1)) {
      auto const object = entries.rfind("object, ", at) + 8;
      found.insert(entries.substr(object, at - object));
    }
    return found;
  }

  journal log;
  std::string warnings;
};

/// As the servers that demand declared keys: the user may touch only those that the scripts of these locks are given.
TEST_F(Rights, EverythingWorksForAUserWhoMayTouchDeclaredKeysOnly) {
  std::vector<std::string> command = of_guide("strict");
  std::erase_if(command, [](std::string const& word) { return word.starts_with("~"); });
  for (std::string const name : {"mutex", "semaphore", "shared", "striped", "again", "one", "two", "permits"}) {
    for (std::string const tail : {"", ":q", ":f", ":e", ":r"}) command.push_back("~conch:{" + name + "}" + tail);
  }
  command.push_back("~conch:{*}:i");  // of SET and GET, which every server sees
  ASSERT_EQ(probe.command(command), "OK");
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), settings("strict")}, b{w.ctx.get_executor(), settings("strict")};
    co_await hand_over([](client& c) { return mutex{c, "mutex"}.async_acquire(); }, a, b);
    co_await hand_over([](client& c) { return semaphore{c, "semaphore", 2}.async_acquire(2); }, a, b);
    co_await hand_over([](client& c) { return shared_mutex{c, "shared"}.async_acquire(); }, a, b);
    co_await hand_over([](client& c) { return striped_mutex{c, "striped", 1}.async_acquire_any(); }, a, b);
    auto const began = steady::now();
    for (int i = 0; i < 10; ++i) {
      mutex one{a, "one"}, two{a, "two"};
      std::vector<mutex> const both{one, two};
      multi_lock all{both};
      multi_hold held = co_await all.async_acquire();
      co_await held.async_release();
      owner me;
      reentrant_mutex again{b, "again"};
      reentrant_hold outer = co_await again.async_acquire(me);
      co_await outer.async_release();
    }
    EXPECT_LT(steady::now() - began, 10s) << "no release waits for the end of a lease";
    mutex one{a, "one"};
    semaphore permits{b, "permits", 3};
    hold h = co_await one.async_acquire();
    hold some = co_await permits.async_acquire(2);
    lock_status const seen = co_await one.async_inspect();
    EXPECT_EQ(seen.holders.size(), 1u);
    std::uint32_t const asked = co_await permits.async_request_release();
    EXPECT_EQ(asked, 1u);
    co_await some.async_requested();
    std::uint32_t const from_one = co_await one.async_force_release();
    std::uint32_t const from_permits = co_await permits.async_force_release();
    EXPECT_EQ(from_one + from_permits, 2u);
  };
  w.run(body, 60s);
  // All that is refused is the mark of the watchers of a lock, and the watchers themselves.
  std::string const entries = probe.command({"ACL", "LOG", "100000"});
  for (auto at = entries.find("object, conch:"); at != std::string::npos; at = entries.find("object, conch:", at + 1)) {
    std::string const key = entries.substr(at + 8, entries.find(',', at + 8) - at - 8);
    EXPECT_TRUE(key.ends_with("}:a") || key.ends_with("}:w")) << key;
  }
}

TEST_F(Rights, OfTheGuideAreEnoughForEverything) {
  ASSERT_EQ(probe.command(of_guide("orders")), "OK");
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
    auto const tried = co_await ones.async_acquire({.wait = short_wait}, as_tuple);
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
    std::uint32_t const asked = co_await permits.async_request_release();
    EXPECT_EQ(asked, 1u);
    co_await some.async_requested();
    lock_status const permits_now = co_await permits.async_inspect();
    EXPECT_EQ(permits_now.holders.size(), 1u);
    std::uint32_t const taken = co_await permits.async_force_release();
    EXPECT_EQ(taken, 1u);
    shared_mutex shared{a, "downgraded"};
    hold writer = co_await shared.async_acquire();
    co_await shared.async_downgrade(writer);
    co_await writer.async_release();

    config votes = settings("orders");
    votes.quorum.servers = {url("orders")};
    votes.quorum.vote_claim = 2s;
    client q{w.ctx.get_executor(), votes}, r{w.ctx.get_executor(), votes};
    co_await hand_over([](client& c) { return mutex{c, "vote"}.async_acquire(); }, q, r);
  };
  w.run(body);
  EXPECT_EQ(refused_commands("orders"), std::set<std::string>{"client|kill"});
  EXPECT_TRUE(log.contains("CLIENT KILL")) << *log.text;
  EXPECT_EQ(warnings, "") << "the user of the guide lacks nothing";
}

TEST_F(Rights, WithClientKillNothingIsRefused) {
  std::vector<std::string> rights = of_guide("own-server");
  rights.emplace_back("+client|kill");
  ASSERT_EQ(probe.command(rights), "OK");
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), settings("own-server")}, b{w.ctx.get_executor(), settings("own-server")};
    co_await hand_over([](client& c) { return mutex{c, "with kill"}.async_acquire(); }, a, b);
  };
  w.run(body);
  EXPECT_EQ(refused_commands("own-server"), std::set<std::string>{});
  EXPECT_FALSE(log.contains("CLIENT KILL")) << *log.text;
}

// ---------------------------------------------------------------------------------- what that user must not be able to
// do

TEST_F(Rights, OfTheGuideGiveNothingAway) {
  probe.command({"CONFIG", "SET", "requirepass", "of the administrator"});
  probe.command({"AUTH", "of the administrator"});
  probe.command({"SET", "secret", "42"});
  ASSERT_EQ(probe.command(of_guide("curious")), "OK");
  redis_probe curious{server().url()};
  ASSERT_EQ(curious.command({"AUTH", "curious", "pw"}), "OK");
  // CLIENT KILL of the probe's own connection would end it: nothing here may work.
  std::vector<std::string> const refused{"CONFIG GET requirepass",
                                         "CONFIG GET masterauth",
                                         "CONFIG GET *",
                                         "CONFIG GET maxmemory-policy",
                                         "CONFIG SET requirepass x",
                                         "CONFIG SET dir /tmp",
                                         "CONFIG REWRITE",
                                         "CONFIG RESETSTAT",
                                         "ACL LIST",
                                         "ACL GETUSER curious",
                                         "ACL SETUSER curious +@all",
                                         "ACL SETUSER other on nopass +@all",
                                         "ACL DELUSER default",
                                         "ACL WHOAMI",
                                         "ACL USERS",
                                         "ACL LOG",
                                         "ACL SAVE",
                                         "ACL LOAD",
                                         "SHUTDOWN",
                                         "SHUTDOWN NOSAVE",
                                         "FLUSHALL",
                                         "FLUSHDB",
                                         "SWAPDB 0 1",
                                         "KEYS conch:*",
                                         "KEYS *",
                                         "SCAN 0",
                                         "RANDOMKEY",
                                         "DBSIZE",
                                         "DEBUG SLEEP 0",
                                         "DEBUG SEGFAULT",
                                         "DEBUG OBJECT conch:{x}",
                                         "MODULE LIST",
                                         "MODULE LOAD /tmp/x.so",
                                         "REPLICAOF NO ONE",
                                         "REPLICAOF 127.0.0.1 1",
                                         "SLAVEOF NO ONE",
                                         "FAILOVER",
                                         "PSYNC ? -1",
                                         "SYNC",
                                         "REPLCONF listening-port 1",
                                         "CLUSTER INFO",
                                         "SAVE",
                                         "BGSAVE",
                                         "BGREWRITEAOF",
                                         "LASTSAVE",
                                         "MONITOR",
                                         "SLOWLOG GET",
                                         "LATENCY LATEST",
                                         "MEMORY STATS",
                                         "MEMORY DOCTOR",
                                         "CLIENT LIST",
                                         "CLIENT KILL TYPE normal",
                                         "CLIENT KILL TYPE master",
                                         "CLIENT PAUSE 1000",
                                         "CLIENT NO-EVICT on",
                                         "CLIENT UNBLOCK 1",
                                         "CLIENT TRACKING on",
                                         "CLIENT SETNAME administrator",
                                         "COMMAND",
                                         "SCRIPT FLUSH",
                                         "SCRIPT KILL",
                                         "SCRIPT LOAD x",
                                         "FUNCTION LIST",
                                         "FUNCTION FLUSH",
                                         "PUBSUB CHANNELS",
                                         "PUBSUB NUMPAT",
                                         "PSUBSCRIBE *",
                                         "PSUBSCRIBE conch:*",
                                         "SUBSCRIBE news",
                                         "PUBLISH news x",
                                         "SPUBLISH conch:x x",
                                         "SUBSCRIBE __keyspace@0__:secret",
                                         "SUBSCRIBE __sentinel__:hello",
                                         "PUBLISH __sentinel__:hello x",
                                         "GET secret",
                                         "MGET conch:{x} secret",
                                         "SET secret x",
                                         "DEL secret",
                                         "EXISTS secret",
                                         "TYPE secret",
                                         "PTTL secret",
                                         "PEXPIRE secret 1",
                                         "HGETALL secret",
                                         "ZRANGE secret 0 -1",
                                         "GETSET conch:{x} y",
                                         "GETDEL conch:{x}",
                                         "DUMP conch:{x}",
                                         "RESTORE conch:{x} 0 x",
                                         "COPY conch:{x} x",
                                         "RENAME conch:{x} x",
                                         "MOVE conch:{x} 2",
                                         "OBJECT FREQ conch:{x}",
                                         "EXPIRE conch:{x} 1",
                                         "PERSIST conch:{x}",
                                         "APPEND conch:{x} y",
                                         "LPUSH conch:{x} y",
                                         "MIGRATE 127.0.0.1 1 conch:{x} 0 10",
                                         "SORT conch:{x} STORE secret",
                                         "MULTI",
                                         "WATCH conch:{x}",
                                         "WAIT 0 0"};
  for (std::string const& words : refused) {
    std::vector<std::string> command;
    std::istringstream stream{words};
    for (std::string word; stream >> word;) command.push_back(word);
    std::string const answer = curious.command(command);
    // Some are off for every user, and some a server of another version does not have.
    EXPECT_TRUE(answer.starts_with("(error) NOPERM") || answer.find("command not allowed") != std::string::npos ||
                answer.starts_with("(error) ERR unknown command"))
        << words << ": " << answer;
  }
  // Nor by a script, whatever keys it says that it uses.
  for (std::string const call :
       {"'GET', 'secret'", "'GET', KEYS[1]", "'SET', 'secret', 'x'", "'DEL', 'secret'", "'PUBLISH', 'news', 'x'",
        "'CONFIG', 'GET', 'requirepass'", "'ACL', 'LIST'", "'KEYS', '*'", "'FLUSHALL'", "'RANDOMKEY'", "'SCAN', '0'",
        "'REPLICAOF', 'NO', 'ONE'", "'DEBUG', 'SLEEP', '0'"}) {
    std::string const source = "return redis.call(" + call + ")";
    EXPECT_TRUE(curious.command({"EVAL", source, "0"}).starts_with("(error)")) << call;
    EXPECT_TRUE(curious.command({"EVAL", source, "1", "conch:{x}"}).starts_with("(error)") || call == "'GET', KEYS[1]")
        << call;
    EXPECT_TRUE(curious.command({"EVAL", source, "1", "secret"}).starts_with("(error) NOPERM")) << call;
  }
  // this one works: the others did say no
  EXPECT_EQ(curious.command({"EVAL", "return redis.call('GET', KEYS[1])", "1", "conch:{x}"}), "(nil)");
  EXPECT_EQ(probe.command({"GET", "secret"}), "42");
  EXPECT_TRUE(curious.command({"AUTH", "default", "guessed"}).starts_with("(error) WRONGPASS"));
  probe.command({"CONFIG", "SET", "requirepass", ""});
}

TEST_F(Rights, OfSomeNamesAreEnoughForThemAndForNoOther) {
  std::vector<std::string> rights = of_guide("apart");
  ASSERT_EQ(std::erase(rights, "~conch:*"), 1u);
  rights.emplace_back("~conch:{orders:*");
  ASSERT_EQ(probe.command(rights), "OK");
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), settings("apart")}, b{w.ctx.get_executor(), settings("apart")};
    co_await hand_over([](client& c) { return mutex{c, "orders:7"}.async_acquire(); }, a, b);
    co_await hand_over([](client& c) { return semaphore{c, "orders:8", 2}.async_acquire(2); }, a, b);
    mutex others{a, "stock:7"};
    auto const result = co_await others.async_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(result), errc::access_denied);
    semaphore permits{a, "stock:8", 2};
    auto const permit = co_await permits.async_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(permit), errc::access_denied);
  };
  w.run(body);
}

// ------------------------------------------------------------------------------------------- what each right is there
// for

/// All that may ask the server for something, each with its own names; says what was refused. (Inlined, g++ 12 warns of
/// Asio's own allocation.)
[[gnu::noinline]] asio::awaitable<std::set<std::string>> workout(client& a, client& b, std::string const& user) {
  std::set<std::string> denied;
  auto const look = [&denied](error_code ec) {
    if (ec == errc::access_denied) denied.insert(ec.message());
  };
  constexpr acquire_options bounded{.wait = 5s};
  mutex first{a, user + " mutex"}, second{b, user + " mutex"};
  auto held = co_await first.async_acquire(bounded, as_tuple);
  look(std::get<0>(held));
  bool ended = false;
  auto const wait = [&](mutex& behind) -> asio::awaitable<void> {
    auto waited = co_await behind.async_acquire(bounded, as_tuple);
    look(std::get<0>(waited));
    if (std::get<1>(waited)) {
      auto const released = co_await std::get<1>(waited).async_release(as_tuple);
      look(std::get<0>(released));
    }
    ended = true;
  };
  asio::co_spawn(co_await asio::this_coro::executor, wait(second), asio::detached);
  if (std::get<1>(held)) std::get<1>(held).async_requested([](error_code) {});
  auto const asked = co_await second.async_request_release(as_tuple);
  look(std::get<0>(asked));
  co_await pause_for(700ms);  // renewals and a ping
  auto const seen = co_await first.async_inspect(as_tuple);
  look(std::get<0>(seen));
  if (std::get<1>(held)) {
    auto const released = co_await std::get<1>(held).async_release(as_tuple);
    look(std::get<0>(released));
  }
  auto const over = [&ended] { return ended; };
  co_await until(over, "the waiter's end");

  semaphore permits{a, user + " semaphore", 3}, more{b, user + " semaphore", 3};
  auto two = co_await permits.async_acquire(2, bounded, as_tuple);
  look(std::get<0>(two));
  auto const three = co_await more.async_acquire(3, {.wait = 100ms}, as_tuple);
  look(std::get<0>(three));
  auto const limit = co_await permits.async_set_permits(4, as_tuple);
  look(std::get<0>(limit));
  auto const holders = co_await permits.async_inspect(as_tuple);
  look(std::get<0>(holders));
  co_await pause_for(300ms);
  auto const taken = co_await permits.async_force_release(as_tuple);
  look(std::get<0>(taken));
  auto again = co_await permits.async_acquire(bounded, as_tuple);
  look(std::get<0>(again));
  if (std::get<1>(again)) {
    auto const released = co_await std::get<1>(again).async_release(as_tuple);
    look(std::get<0>(released));
  }
  auto owned = co_await second.async_acquire(bounded, as_tuple);
  look(std::get<0>(owned));
  ended = false;
  asio::co_spawn(co_await asio::this_coro::executor, wait(first), asio::detached);
  co_await pause_for(100ms);
  auto const forced = co_await first.async_force_release(as_tuple);
  look(std::get<0>(forced));
  co_await until(over, "the end of the client that was queued when it was taken away");
  co_return denied;
}

TEST_F(Rights, EachOfTheGuideIsNeededAsItSays) {
  probe.command({"CONFIG", "SET", "acllog-max-len", "100000"});
  probe.command({"SCRIPT", "FLUSH"});
  // What is answered by a refusal is enough: of a ping, that there is an answer.
  std::set<std::string> const missed_by_nobody{"mget", "info", "client|info", "ping", "pubsub|numsub", "hexists"};
  std::vector<std::string> rights;
  for (std::string const& word : of_guide("x")) {
    if (word.starts_with('+')) rights.push_back(word.substr(1));
  }
  ASSERT_GE(rights.size(), 20u);
  auto const user_without = [](std::string const& right) {
    std::string user = "no-" + right;
    std::replace(user.begin(), user.end(), '|', '-');
    return user;
  };
  for (std::string const& right : rights) {
    std::vector<std::string> all = of_guide(user_without(right));
    std::erase(all, "+" + right);
    ASSERT_EQ(probe.command(all), "OK");
  }
  std::map<std::string, std::set<std::string>> denied;
  auto const without = [&](std::string const& right) -> asio::awaitable<void> {
    std::string const user = user_without(right);
    config c = short_lived(user);
    c.url.replace(c.url.rfind('/'), 2, right == "select" ? "/1" : "/0");
    client a{w.ctx.get_executor(), c}, b{w.ctx.get_executor(), c};
    // What only a safety check needs may not be asked for the first time. And the refused request may have been a
    // clean-up, which tells nobody.
    std::set<std::string> found;
    auto const seen = [&] {
      return refused_commands(user).contains(right) && found.empty() == missed_by_nobody.contains(right);
    };
    for (int i = 0; i < 10 && !seen(); ++i) found.merge(co_await workout(a, b, user));
    denied[right] = std::move(found);
  };
  constexpr auto most = 240s;  // ten rounds, in which some acquires wait in vain for all of their 5 s
  // Without EVAL first, while no script is there yet.
  auto const alone = [&]() -> asio::awaitable<void> { co_await without("eval"); };
  w.run(alone, most);
  auto const together = [&]() -> asio::awaitable<void> {
    for (std::string const& right : rights) {
      if (right != "eval") asio::co_spawn(w.ctx, without(right), asio::detached);
    }
    auto const all = [&] { return denied.size() == rights.size(); };
    co_await until(all, "all have tried", most);
  };
  w.run(together, most);
  for (std::string const& right : rights) {
    EXPECT_TRUE(refused_commands(user_without(right)).contains(right)) << right << " was never asked for";
    EXPECT_EQ(denied[right].empty(), missed_by_nobody.contains(right)) << right;
  }
}

// Every user may call AUTH and HELLO.
TEST_F(Rights, OfTheGuideAreEnoughForCredentialsThatChange) {
  std::vector<std::string> rights = of_guide("renewing");
  rights.emplace_back(">other");
  ASSERT_EQ(probe.command(rights), "OK");
  config c = settings("renewing");
  c.url = "redis://127.0.0.1:" + std::to_string(server().port()) + "/1";
  int asked = 0;
  c.credentials_provider = [&](std::string const&, credentials_handler const& done) {
    done({}, {.user = "renewing", .password = ++asked % 2 == 0 ? "other" : "pw", .refresh_after = 50ms});
  };
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), c}, b{w.ctx.get_executor(), c};
    co_await hand_over([](client& through) { return mutex{through, "renewing"}.async_acquire(); }, a, b);
    auto const renewed = [&] { return a.stats().reauthentications > 3 && b.stats().reauthentications > 3; };
    co_await until(renewed, "renewals of the credentials");
    EXPECT_EQ(a.stats().reauthentications_failed + b.stats().reauthentications_failed, 0u);
    EXPECT_EQ(a.stats().disconnects + b.stats().disconnects, 0u);
  };
  w.run(body);
  EXPECT_EQ(refused_commands("renewing"), std::set<std::string>{"client|kill"});
}

/// The server's replica, which acknowledges.
class RightsForReplicas : public Rights {
 protected:
  void SetUp() override {
    wait_for_answer(server(), {"INFO", "replication"}, {"state=online"});
    wait_for_acknowledgements(server(), 1);
  }

  config settings_of(std::string const& user) {
    config c = settings(user);
    c.sync_replicas = 1;
    return c;
  }

  redis_server const replica{{.arguments = {"--replicaof", "127.0.0.1 " + std::to_string(server().port()),
                                            "--repl-diskless-sync-delay", "0"}}};
};

TEST_F(RightsForReplicas, OfTheGuideAndToWaitAreEnough) {
  std::vector<std::string> rights = of_guide("synced");
  rights.emplace_back("+wait");
  ASSERT_EQ(probe.command(rights), "OK");
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), settings_of("synced")}, b{w.ctx.get_executor(), settings_of("synced")};
    co_await hand_over([](client& c) { return mutex{c, "synced mutex"}.async_acquire(); }, a, b);
    co_await hand_over([](client& c) { return semaphore{c, "synced semaphore", 2}.async_acquire(2); }, a, b);
  };
  w.run(body, 120s);
  EXPECT_EQ(refused_commands("synced"), std::set<std::string>{"client|kill"});
}

// What the second connection says beside the scripts. All others are those of the first.
TEST_F(RightsForReplicas, WithoutToWaitOrToPublishNoLockIsGranted) {
  for (std::string const right : {"wait", "publish"}) {
    std::string const user = "synced-no-" + right;
    std::vector<std::string> rights = of_guide(user);
    rights.emplace_back("+wait");
    ASSERT_EQ(std::erase(rights, "+" + right), 1u);
    ASSERT_EQ(probe.command(rights), "OK");
    auto const body = [&]() -> asio::awaitable<void> {
      client c{w.ctx.get_executor(), settings_of(user)};
      mutex m{c, user};
      auto got = co_await m.async_acquire(as_tuple);
      EXPECT_EQ(std::get<0>(got), errc::access_denied) << std::get<0>(got).message();
      EXPECT_NE(std::get<0>(got).message().find(right), std::string::npos) << std::get<0>(got).message();
      // A try finds the lock taken until what was granted before is given back.
      error_code refused;
      while (!refused) {
        auto tried = co_await m.async_try_acquire(as_tuple);
        refused = std::get<0>(tried);
        CO_ASSERT(!std::get<1>(tried));
        co_await pause_for(1ms);
      }
      EXPECT_EQ(refused, errc::access_denied) << refused.message();
      auto const free = [&] { return is_free(probe, user); };
      co_await until(free, "the lock given back");
    };
    w.run(body, 60s);
    EXPECT_TRUE(refused_commands(user).contains(right)) << right;
  }
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

/// The command of the guide, with another prefix than conch's.
std::vector<std::string> with_prefix(std::vector<std::string> command, std::string const& prefix) {
  for (std::string& word : command) {
    if (word == "~conch:*" || word == "&conch:*") word = word.substr(0, 1) + prefix + "*";
  }
  return command;
}

class Prefixes : public Rights {
 protected:
  config with(std::string const& user, std::string const& prefix) {
    config c = settings(user);
    c.key_prefix = prefix;
    return c;
  }
};

TEST_F(Prefixes, ClientsWithAnotherDoNotSeeTheLock) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://prefixes"}}) {
      config mine = quick(url);
      mine.key_prefix = "mine:";
      config others = quick(url);
      client a{w.ctx.get_executor(), mine}, b{w.ctx.get_executor(), others};
      mutex one{a, "stock"}, other{b, "stock"};
      hold h = co_await one.async_acquire();
      hold beside = co_await other.async_try_acquire();
      EXPECT_TRUE(h.valid() && beside.valid()) << url;
      if (url == server().url()) {
        std::string const written = probe.command(guarded_set(h.guard(), "resource", "41"));
        EXPECT_EQ(written, "OK");
      }
      std::uint32_t const from = co_await other.async_force_release();
      EXPECT_EQ(from, 1u);
      auto lost = co_await beside.async_lost(as_tuple);
      EXPECT_EQ(std::get<0>(lost), errc::lost);
      EXPECT_TRUE(h.valid()) << url;
      lock_status const seen = co_await other.async_inspect();
      EXPECT_EQ(seen.held, 0u) << url;
    }
  };
  w.run(body);
}

TEST_F(Prefixes, AnAclKeepsApplicationsApart) {
  ASSERT_EQ(probe.command(with_prefix(of_guide("one"), "one:")), "OK");
  ASSERT_EQ(probe.command(with_prefix(of_guide("two"), "a/2#")), "OK");
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), with("one", "one:")}, b{w.ctx.get_executor(), with("one", "one:")};
    client c{w.ctx.get_executor(), with("two", "a/2#")}, d{w.ctx.get_executor(), with("two", "a/2#")};
    co_await hand_over([](client& through) { return mutex{through, "m"}.async_acquire(); }, a, b);
    co_await hand_over([](client& through) { return mutex{through, "m"}.async_acquire(); }, c, d);
    co_await hand_over([](client& through) { return semaphore{through, "s", 2}.async_acquire(2); }, c, d);
    co_await hand_over([](client& through) { return striped_mutex{through, "g", 1}.async_acquire(); }, c, d);
    EXPECT_EQ(refused_commands("one"), std::set<std::string>{"client|kill"});
    EXPECT_EQ(refused_commands("two"), std::set<std::string>{"client|kill"});

    client intruder{w.ctx.get_executor(), with("one", "a/2#")};
    mutex theirs{intruder, "m"};
    auto denied = co_await theirs.async_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(denied), errc::access_denied);
    auto not_seen = co_await theirs.async_inspect(as_tuple);
    EXPECT_EQ(std::get<0>(not_seen), errc::access_denied);
    auto not_taken = co_await theirs.async_force_release(as_tuple);
    EXPECT_EQ(std::get<0>(not_taken), errc::access_denied);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
