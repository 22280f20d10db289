// Names, URLs, settings, users and servers that will not do: each is refused with its cause.

#include "integration/fixture.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <optional>
#include <vector>

namespace conch::test {
namespace {

class BadInput : public with_server<BadInput> {
 protected:
  static void SetUpTestSuite() { start_server({.tcp = true}); }

  /// What an acquire with these settings ends in.
  error_code outcome(config settings, std::string name = "lock") {
    error_code result;
    auto const body = [&]() -> asio::awaitable<void> {
      client c{w.ctx.get_executor(), settings};
      mutex m{c, name};
      auto r = co_await m.async_acquire(as_tuple);
      result = std::get<0>(r);
      if (!result) co_await std::get<1>(r).async_release();
    };
    w.run(body);
    return result;
  }

  error_code outcome(std::string url, std::string name = "lock") {
    return outcome(quick(std::move(url)), std::move(name));
  }
};

std::string words_of(error_code ec) { return ec.message(); }

#define EXPECT_SAYS(text, words) EXPECT_NE((text).find(words), std::string::npos) << (text)

TEST_F(BadInput, NamesThatAreEmptyOrTooLongAreRefused) {
  client c{w.ctx.get_executor(), server().url()};
  std::string what;
  EXPECT_EQ(error_of([&] { mutex(c, ""); }, &what), errc::invalid_name);
  EXPECT_SAYS(what, "empty");
  EXPECT_EQ(error_of([&] { mutex(c, std::string(513, 'n')); }, &what), errc::invalid_name);
  EXPECT_SAYS(what, "513");
  EXPECT_EQ(error_of([&] { mutex(c, ""); }), condition::invalid_request);
  EXPECT_FALSE(error_of([&] { mutex(c, std::string(512, 'n')); }));
}

TEST_F(BadInput, NamesOfAnyBytesAreDistinctLocksInOneSlotEach) {
  using namespace std::string_literals;
  std::vector<std::string> const names{"plain",
                                       "}",
                                       "{",
                                       "{}",
                                       "}{",
                                       "a}b",
                                       "a%7Db",
                                       "a%b",
                                       "a%25b",
                                       "%",
                                       "%7D",
                                       "%257D",
                                       "a\0b"s,
                                       "a"s,
                                       "\0"s,
                                       "a\nb",
                                       "a\r\nb",
                                       " ",
                                       "a b",
                                       "ü",
                                       std::string(512, '}'),
                                       std::string(512, '%'),
                                       "x:q",
                                       "x",
                                       "x:f"};
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()};
    client two{w.ctx.get_executor(), server().url()};
    std::vector<hold> held;
    for (std::string const& name : names) {
      mutex m{one, name};
      EXPECT_EQ(m.name(), name);
      held.push_back(co_await m.async_try_acquire());
      EXPECT_TRUE(held.back().valid()) << testing::PrintToString(name);
    }
    // Each is handed over by a push, which carries the name.
    std::vector<error_code> results;
    std::vector<hold> next;
    for (std::string const& name : names) {
      mutex m{two, name};
      m.async_acquire([&](error_code ec, hold h) {
        results.push_back(ec);
        next.push_back(std::move(h));
      });
    }
    auto const queued = [&] { return probe.integer({"EVAL", "return #redis.call('KEYS', 'conch:{*}:q')", "0"}) == 25; };
    co_await until(queued, "all in line");
    held.clear();
    auto const all = [&] { return results.size() == names.size(); };
    co_await until(all, "all handed over");
    for (error_code const ec : results) EXPECT_FALSE(ec) << ec.message();
    EXPECT_EQ(two.stats().grants_pushed, names.size());
    next.clear();
    auto const freed = [&] {
      return probe.integer({"EVAL",
                            "local n = 0 for _, k in ipairs(redis.call('KEYS', 'conch:*')) do if k:sub(-2) ~= ':f' "
                            "and k:sub(-3) ~= '}:i' then n = n + 1 end end return n",
                            "0"}) <= 1;
    };
    co_await until(freed, "all free");  // the lock "x" makes a key that ends like a fence's; "x:f" does
  };
  w.run(body);
}

TEST_F(BadInput, EveryRefusedUrlSaysWhy) {
  struct bad {
    char const* url;
    char const* words;
  };
  for (auto const& [url, words] : std::vector<bad>{
           {"", "begins with"},
           {"localhost:6379", "begins with"},
           {"http://localhost", "scheme"},
           {"redis://", "host"},
           {"redis://:6379", "host"},
           {"redis://host:", "port"},
           {"redis://host:0", "port"},
           {"redis://host:65536", "port"},
           {"redis://host:6379x", "port"},
           {"redis://host:-1", "port"},
           {"redis://::1", "brackets"},
           {"redis://[::1", "]"},
           {"redis://[::1]6379", "]"},
           {"redis://[]", "host"},
           {"redis://ho st", "space"},
           {"redis://host\n", "control"},
           {"redis://host/x", "database"},
           {"redis://host/-1", "database"},
           {"redis://host/1/2", "database"},
           {"redis://host?db=1", "'?'"},
           {"redis://host#frag", "'#'"},
           {"redis://user@host", "password"},
           {"redis://user:@host", "password"},
           {"redis://user:%zz@host", "hexadecimal"},
           {"redis://user:%4@host", "hexadecimal"},
           {"redis://user:%@host", "hexadecimal"},
           {"unix://relative.sock", "absolute"},
           {"unix://", "absolute"},
           {"unix:///s?x=1", "db="},
           {"unix:///s?db=one", "database"},
           {"redlock://", "host"},
           {"redlock://a,,b", "host"},
           {"redlock://a:1,b:x", "port"},
           {"redlock://a,b,a:6379", "same"},
           {"redlock://a,b,c,d,e,f,g,h,i,j", "1 to 9"},
       }) {
    std::string what;
    EXPECT_EQ(error_of([&] { client(w.ctx.get_executor(), std::string{url}); }, &what), errc::invalid_url) << url;
    EXPECT_SAYS(what, words);
  }
  std::string what;
  EXPECT_EQ(error_of([&] { client(w.ctx.get_executor(), "unix:///" + std::string(108, 's')); }, &what),
            errc::invalid_url);
  EXPECT_SAYS(what, "107");
  for (char const* url : {"redis://user:sekret@host:bad", "redis://user:sekret@", "redis://:sekret@host/x"}) {
    EXPECT_EQ(error_of([&] { client(w.ctx.get_executor(), url); }, &what), errc::invalid_url);
    EXPECT_EQ(what.find("sekret"), std::string::npos) << what;
  }
}

TEST_F(BadInput, EveryRefusedSettingIsNamed) {
  struct bad {
    char const* member;
    std::function<void(config&)> spoil;
  };
  for (auto const& [member, spoil] : std::vector<bad>{
           {"lease", [](config& c) { c.lease = 99ms; }},
           {"lease", [](config& c) { c.lease = 25h; }},
           {"lease", [](config& c) { c.lease = -1s; }},
           {"quorum.servers",
            [](config& c) {
              c.quorum.servers = {"redis://a", "unix://relative"};
            }},
           {"quorum.servers",
            [](config& c) {
              c.quorum.servers = {"redis://a", "redlock://b,c"};
            }},
           {"quorum.votes_needed",
            [](config& c) {
              c.url = "redlock://a,b,c";
              c.quorum.votes_needed = 1;
            }},
           {"quorum.votes_needed",
            [](config& c) {
              c.url = "redlock://a,b,c";
              c.quorum.votes_needed = 4;
            }},
           {"quorum.votes_needed",
            [](config& c) {
              c.quorum.servers = {"redis://a", "redis://b"};
              c.quorum.votes_needed = 1;
            }},
           {"quorum.vote_claim",
            [](config& c) {
              c.url = "redlock://a,b,c";
              c.quorum.vote_claim = 49ms;
            }},
           {"quorum.min_validity",
            [](config& c) {
              c.url = "redlock://a,b,c";
              c.quorum.min_validity = 251ms;
            }},
           {"quorum.min_validity",
            [](config& c) {
              c.url = "redlock://a,b,c";
              c.quorum.min_validity = -1ms;
            }},
           {"min_server_uptime",
            [](config& c) {
              c.url = "redlock://a,b,c";
              c.quorum.min_server_uptime = -1s;
            }},
           {"renew_every", [](config& c) { c.renew_every = 16s; }},
           {"renew_every", [](config& c) { c.renew_every = -1s; }},
           {"renew_every must be 0, or 10 ms to 15 s (half of the lease), got 1 ns",
            [](config& c) { c.renew_every = 1ns; }},
           {"renew_every must be 0, or 10 ms to 15 s (half of the lease), got 15001 ms",
            [](config& c) { c.renew_every = 15001ms; }},
           {"stop_margin", [](config& c) { c.stop_margin = -1s; }},
           {"max_hold", [](config& c) { c.max_hold = 0s; }},
           {"local_slice", [](config& c) { c.local_slice = 31s; }},
           {"local_slice", [](config& c) { c.local_slice = -1s; }},
           {"claim", [](config& c) { c.claim = 49ms; }},
           {"fence_retention", [](config& c) { c.fence_retention = 999ms; }},
           {"fence_retention", [](config& c) { c.fence_retention = 24h * 31; }},
           {"command_timeout", [](config& c) { c.command_timeout = 9ms; }},
           {"connect_timeout", [](config& c) { c.connect_timeout = 9ms; }},
           {"offline_timeout", [](config& c) { c.offline_timeout = -1ms; }},
           {"reconnect_min", [](config& c) { c.reconnect_min = 0ms; }},
           {"reconnect_max", [](config& c) { c.reconnect_max = 1ms; }},
           {"keep_alive", [](config& c) { c.keep_alive = -1s; }},
           {"keep_alive must be 0, or 10 ms to 1 d, got 1 ns", [](config& c) { c.keep_alive = 1ns; }},
           {"keep_alive", [](config& c) { c.keep_alive = 25h; }},
           {"lease must be 100 ms to 1 d, got 99999 us", [](config& c) { c.lease = 99999us; }},
           {"min_server_uptime",
            [](config& c) {
              c.url = "redlock://a,b,c";
              c.quorum.min_server_uptime = duration::max();
            }},
           {"quorum.votes_needed must be 0, or 2 to 3 (a majority to all of the servers), got 4",
            [](config& c) {
              c.url = "redlock://a,b,c";
              c.quorum.votes_needed = 4;
            }},
           {"offline_timeout must be 0 to 30 d, got 31 d", [](config& c) { c.offline_timeout = 24h * 31; }},
           {"reconnect_max must be 1 h to 1 h (not less than reconnect_min), got 2 h",
            [](config& c) {
              c.reconnect_min = 1h;
              c.reconnect_max = 2h;
            }},
           {"client_name must have 1 to 64 characters, got 0", [](config& c) { c.client_name = ""; }},
           {"client_name must have 1 to 64 characters, got 65",
            [](config& c) { c.client_name = std::string(65, 'n'); }},
           {"byte 32 at 3", [](config& c) { c.client_name = "two words"; }},
           {"byte 195 at 1", [](config& c) { c.client_name = "d\xc3\xa9j\xc3\xa0"; }},
           {"client_name", [](config& c) { c.client_name = "two words"; }},
           {"client_name", [](config& c) { c.client_name = "line\n"; }},
           {"key_prefix must have 1 to 64 characters, got 0", [](config& c) { c.key_prefix = ""; }},
           {"key_prefix must have 1 to 64 characters, got 65", [](config& c) { c.key_prefix = std::string(65, 'n'); }},
           {"without spaces and braces, and has byte 123 at 1", [](config& c) { c.key_prefix = "a{b}"; }},
           {"byte 32 at 1", [](config& c) { c.key_prefix = "a b"; }},
       }) {
    config c;
    spoil(c);
    std::string what;
    EXPECT_EQ(error_of([&] { client(w.ctx.get_executor(), c); }, &what), errc::invalid_config) << member;
    EXPECT_SAYS(what, member);
  }
  client c{w.ctx.get_executor(), server().url()};
  std::string what;
  EXPECT_EQ(error_of([&] { mutex(c, "m", {.lease = 99ms}); }, &what), errc::invalid_config);
  EXPECT_SAYS(what, "lock_options::lease must be 100 ms to 1 d, got 99 ms");
  client voted_for{w.ctx.get_executor(), "redlock://a,b,c"};
  EXPECT_EQ(error_of([&] { mutex(voted_for, "m", {.lease = 499ms}); }, &what), errc::invalid_config);
  EXPECT_SAYS(what, "lock_options::lease must not be shorter than quorum_config::vote_claim (500 ms), and is 499 ms");
  EXPECT_EQ(error_of([&] { mutex(voted_for, "m", {.lease = 500ms}); }), error_code{});
  EXPECT_EQ(error_of([&] { mutex(c, "m", {.lease = 25h}); }, &what), errc::invalid_config);
  EXPECT_EQ(error_of([&] { mutex(c, "m", {.max_hold = 0s}); }, &what), errc::invalid_config);
  EXPECT_SAYS(what, "max_hold");
  EXPECT_SAYS(what, "1 ms, got 0");
  EXPECT_EQ(error_of([&] { semaphore(c, "s", 0); }, &what), errc::invalid_config);
  EXPECT_SAYS(what, "the permits of a semaphore must be 1 to 1000000, got 0");
  EXPECT_EQ(error_of([&] { striped_mutex(c, "s", 1001); }, &what), errc::invalid_config);
  EXPECT_SAYS(what, "1 to 1000, got 1001");
}

TEST_F(BadInput, TheLimitsOfSettingsThemselvesAreAccepted) {
  for (auto const& spoil : std::vector<std::function<void(config&)>>{
           [](config& c) { c.renew_every = 10ms; },
           [](config& c) { c.renew_every = 15s; },
           [](config& c) { c.keep_alive = 0s; },
           [](config& c) { c.keep_alive = 10ms; },
           [](config& c) { c.keep_alive = 24h; },
           [](config& c) { c.client_name = "n"; },
           [](config& c) { c.client_name = std::string(64, '~'); },
           [](config& c) { c.max_hold = duration::max(); },
           [](config& c) { c.stop_margin = duration::max(); },
           [](config& c) { c.claim = duration::max(); },
           [](config& c) { c.command_timeout = duration::max(); },
       }) {
    config c;
    c.url = "memory://";
    spoil(c);
    EXPECT_EQ(error_of([&] { client(w.ctx.get_executor(), c); }), error_code{});
  }
}

TEST_F(BadInput, AShortLeaseBringsTheTimesThatDependOnItDown) {
  asio::io_context ctx;
  config c;
  c.url = "memory://";
  c.lease = 600ms;
  client short_lived{ctx.get_executor(), c};
  EXPECT_EQ(short_lived.settings().claim, 600ms);
  EXPECT_EQ(short_lived.settings().command_timeout, 200ms);
  EXPECT_EQ(short_lived.settings().stop_margin, 300ms);
}

TEST_F(BadInput, AWrongPasswordIsToldAtOnceAndNeverRepeated) {
  redis_server guarded{{.tcp = true, .arguments = {"--requirepass", "the-right-one"}}};
  std::string const host = "127.0.0.1:" + std::to_string(guarded.port());
  journal log;
  config settings = quick("redis://:the-wrong-one@" + host);
  settings.log = log.hook();
  auto const began = steady::now();
  error_code ec = outcome(settings);
  EXPECT_LT(steady::now() - began, 3s);
  EXPECT_EQ(ec, errc::access_denied) << words_of(ec);
  EXPECT_SAYS(words_of(ec), "WRONGPASS");
  EXPECT_EQ(words_of(ec).find("the-wrong-one"), std::string::npos);
  EXPECT_FALSE(log.contains("the-wrong-one")) << *log.text;
  EXPECT_TRUE(log.contains(host)) << *log.text;

  ec = outcome("redis://" + host);  // none at all
  EXPECT_EQ(ec, errc::access_denied) << words_of(ec);
  EXPECT_SAYS(words_of(ec), "NOAUTH");
  ec = outcome("redis://nobody:x@" + host);
  EXPECT_EQ(ec, errc::access_denied) << words_of(ec);
  EXPECT_FALSE(outcome("redis://:the-right-one@" + host));
  EXPECT_FALSE(outcome("redis://default:the%2Dright%2Done@" + host));
  EXPECT_FALSE(outcome("unix://:the-right-one@" + guarded.socket_path()));
}

TEST_F(BadInput, AUserWithoutARightIsToldWhichOne) {
  struct lacks {
    char const* rule;
    char const* words;
  };
  int n = 0;
  for (auto const& [rule, words] : std::vector<lacks>{
           {"-publish", "publish"},
           {"-subscribe", "subscribe"},
           {"-evalsha -eval", "evalsha"},
           {"resetchannels", "channel"},
           {"resetkeys", "key"},
           {"-exists", "script"},  // 7.0 does not say which command of a script it was
           {"-time", "time"},
       }) {
    std::string const user = "user" + std::to_string(n++);
    std::vector<std::string> acl{"ACL", "SETUSER", user, "on", ">pw", "~*", "&*", "+@all"};
    std::istringstream rules{rule};
    for (std::string one; rules >> one;) acl.push_back(one);
    ASSERT_EQ(probe.command(acl), "OK");
    config settings = quick("redis://" + user + ":pw@127.0.0.1:" + std::to_string(server().port()));
    settings.offline_timeout = 5s;
    auto const began = steady::now();
    error_code const ec = outcome(settings, "denied");
    EXPECT_LT(steady::now() - began, 3s) << rule;
    EXPECT_EQ(ec, errc::access_denied) << rule << ": " << words_of(ec);
    EXPECT_SAYS(words_of(ec), words);
    w.run_until([&] { return is_free(probe, "denied"); }, std::string{"free without "} + rule, 5s);
  }
}

TEST_F(BadInput, AUserWhoIsGivenTheRightLaterIsServedByTheSameClient) {
  ASSERT_EQ(probe.command({"ACL", "SETUSER", "later", "on", ">pw", "~*", "&*", "+@all", "-publish"}), "OK");
  config settings = quick("redis://later:pw@127.0.0.1:" + std::to_string(server().port()));
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "later"};
    auto r = co_await m.async_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::access_denied);
    probe.command({"ACL", "SETUSER", "later", "+publish"});
    hold h;
    for (int i = 0; i < 100 && !h; ++i) {
      r = co_await m.async_acquire(as_tuple);
      h = std::move(std::get<1>(r));
      co_await pause_for(10ms);
    }
    EXPECT_TRUE(h.valid());
    EXPECT_LE(c.stats().connects, 4u);
    co_await h.async_release();
  };
  w.run(body);
}

TEST_F(BadInput, AUserWithoutClientKillIsWarnedAndServed) {
  for (char const* rule : {"-client", "-client|kill", "-config", "-client|info", "-client|setname"}) {
    ASSERT_EQ(probe.command({"ACL", "SETUSER", "modest", "reset", "on", ">pw", "~*", "&*", "+@all", rule}), "OK");
    journal log;
    config settings = quick("redis://modest:pw@127.0.0.1:" + std::to_string(server().port()));
    settings.log = log.hook();
    auto const body = [&]() -> asio::awaitable<void> {
      client one{w.ctx.get_executor(), settings};
      client two{w.ctx.get_executor(), settings};
      mutex a{one, "modest"};
      mutex b{two, "modest"};
      hold h = co_await a.async_acquire({.wait = 5s});
      EXPECT_TRUE(h.valid()) << rule;
      hold next;
      b.async_acquire([&](error_code ec, hold mine) {
        EXPECT_FALSE(ec) << ec.message();
        next = std::move(mine);
      });
      auto const queued = [&] { return in_line(probe, "modest") == 1; };
      co_await until(queued, "in line");
      co_await h.async_release();
      auto const handed = [&] { return next.valid(); };
      co_await until(handed, "handed over");
      co_await next.async_release();
      if (std::string_view{rule} == "-client" || std::string_view{rule} == "-client|kill") {
        EXPECT_TRUE(log.contains("CLIENT KILL")) << *log.text;
      }
    };
    w.run(body);
  }
}

TEST_F(BadInput, AKeyOfTheWrongTypeIsReportedAndLeftAlone) {
  struct wrong {
    char const* what;
    std::vector<std::string> made_by;
  };
  for (auto const& [what, made_by] : std::vector<wrong>{
           {"a string", {"SET", lock_key("occupied"), "somebody's note"}},
           {"an empty string", {"SET", lock_key("occupied"), ""}},
           {"a list", {"RPUSH", lock_key("occupied"), "one"}},
           {"a hash", {"HSET", lock_key("occupied"), "owner", "me"}},
           {"a queue that is a string", {"SET", queue_key("occupied"), "x"}},
           {"a fence that is a list", {"RPUSH", fence_key("occupied"), "x"}},
       }) {
    probe.command({"DEL", lock_key("occupied"), queue_key("occupied"), fence_key("occupied")});
    probe.command(made_by);
    std::string const before = probe.command({"DUMP", made_by[1]});
    error_code const ec = outcome(quick(server()), "occupied");
    EXPECT_EQ(ec, errc::wrong_type) << what << ": " << words_of(ec);
    EXPECT_SAYS(words_of(ec), "WRONGTYPE");
    EXPECT_EQ(probe.command({"DUMP", made_by[1]}), before) << what;
  }
  probe.command({"DEL", lock_key("occupied"), queue_key("occupied"), fence_key("occupied")});
  EXPECT_FALSE(outcome(quick(server()), "occupied"));
}

TEST_F(BadInput, AFenceThatIsNoNumberDoesNotStopTheLock) {
  probe.command({"SET", fence_key("garbled"), "not a number"});
  error_code const ec = outcome(quick(server()), "garbled");
  EXPECT_FALSE(ec) << words_of(ec);
}

TEST_F(BadInput, OneLockOfTheWrongTypeHarmsNoOther) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server(), 3s)};
    mutex good{c, "good"};
    mutex bad{c, "bad"};
    hold g = co_await good.async_acquire();
    hold b = co_await bad.async_acquire();
    probe.command({"DEL", lock_key("bad")});
    probe.command({"RPUSH", lock_key("bad"), "x"});
    auto r = co_await b.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::lost);
    auto const renewals = c.stats().renewals;
    auto const more = [&] { return c.stats().renewals > renewals + 3; };
    co_await until(more, "renewals of the good one");
    EXPECT_TRUE(g.valid());
    co_await g.async_release();
    probe.command({"DEL", lock_key("bad")});
  };
  w.run(body);
}

// P9: what became of the key is known at the next renewal. Before that another client may take the lock.
TEST_F(BadInput, P9AKeyOfAnotherTypeIsToldAtTheNextRenewal) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = quick(server(), 30s);
    settings.renew_every = 200ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "other type"};
    semaphore s{c, "other type of a semaphore", 2};
    hold h = co_await m.async_acquire();
    hold p = co_await s.async_acquire();
    for (std::string const name : {"other type", "other type of a semaphore"}) {
      probe.command({"DEL", lock_key(name)});
      probe.command({"RPUSH", lock_key(name), "x"});
    }
    auto const began = steady::now();
    auto r = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::lost);
    r = co_await p.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::lost);
    EXPECT_LT(steady::now() - began, 10s) << "not at the deadline";
    for (std::string const name : {"other type", "other type of a semaphore"}) probe.command({"DEL", lock_key(name)});
  };
  w.run(body);
}

// P11: one bad key harms one lock. 2251799813685247 is the last fence of which a token can be made.
TEST_F(BadInput, AFenceAtItsLimitFailsThatLockAlone) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    mutex good{c, "good beside it"};
    hold g = co_await good.async_acquire();
    for (std::string const written : {"2251799813685247", "9007199254740993", "1e300", "inf"}) {
      for (std::string const kind : {"mutex", "semaphore", "several"}) {
        std::string const name = "spoilt " + kind + " " + written;
        auto const acquire = [&]() -> asio::awaitable<error_code> {
          if (kind == "mutex") {
            mutex m{c, name};
            auto r = co_await m.async_acquire(as_tuple);
            co_return std::get<0>(r);
          }
          if (kind == "semaphore") {
            semaphore s{c, name, 2};
            auto r = co_await s.async_acquire(as_tuple);
            co_return std::get<0>(r);
          }
          multi_lock both{{mutex{c, name}, mutex{c, name + " too"}}};
          auto r = co_await both.async_acquire(as_tuple);
          co_return std::get<0>(r);
        };
        probe.command({"SET", fence_key(name), written});
        auto const began = steady::now();
        error_code const ec = co_await acquire();
        EXPECT_EQ(ec, errc::protocol) << name << ": " << words_of(ec);
        EXPECT_LT(steady::now() - began, 5s) << "at once";
        auto const nothing = [&] {
          return is_free(probe, name) && is_free(probe, name + " too") && c.stats().cleanups_pending == 0;
        };
        co_await until(nothing, "nothing left of " + name);
        probe.command({"DEL", fence_key(name)});
      }
    }
    mutex bad{c, "spoilt at last"};
    probe.command({"SET", fence_key("spoilt at last"), "2251799813685247"});
    auto r = co_await bad.async_acquire(as_tuple);
    EXPECT_SAYS(words_of(std::get<0>(r)), "spoilt at last");
    // A value that is not a number is overwritten.
    probe.command({"SET", fence_key("spoilt at last"), "none"});
    hold h = co_await bad.async_acquire();
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
    // With another type the lock cannot be acquired.
    probe.command({"DEL", fence_key("spoilt at last")});
    probe.command({"RPUSH", fence_key("spoilt at last"), "x"});
    r = co_await bad.async_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::wrong_type) << words_of(std::get<0>(r));
    EXPECT_SAYS(words_of(std::get<0>(r)), "spoilt at last");
    probe.command({"DEL", fence_key("spoilt at last")});
    EXPECT_EQ(c.stats().connects, 1u);
    EXPECT_TRUE(g.valid());
    bool const was_held = co_await g.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body);
}

TEST_F(BadInput, AFenceAtItsLimitFailsWhoeverWaitsForThatLock) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), quick(server(), 30s)};
    client b{w.ctx.get_executor(), quick(server(), 30s)};
    mutex ma{a, "spoilt while held"};
    mutex mb{b, "spoilt while held"};
    hold h = co_await ma.async_acquire();
    std::optional<error_code> told;
    mb.async_acquire([&](error_code ec, hold) { told = ec; });
    auto const waits = in_lines("spoilt while held", 1);
    co_await until(waits, "the other in line");
    probe.command({"SET", fence_key("spoilt while held"), "1e300"});
    co_await h.async_release();
    auto const done = [&] { return told.has_value(); };
    co_await until(done, "the other told");
    EXPECT_EQ(*told, errc::protocol) << words_of(*told);
    auto const nothing = [&] { return is_free(probe, "spoilt while held") && b.stats().cleanups_pending == 0; };
    co_await until(nothing, "nothing left of it");
    EXPECT_EQ(b.stats().connects, 1u);
    probe.command({"DEL", fence_key("spoilt while held")});
  };
  w.run(body);
}

TEST_F(BadInput, DatabasesAreSelectedByBothFormsOfTheUrl) {
  auto const count = [&](char const* db) {
    redis_probe look{server()};
    look.command({"SELECT", db});
    return look.integer({"EXISTS", fence_key("in a database")});
  };
  EXPECT_FALSE(outcome("redis://127.0.0.1:" + std::to_string(server().port()) + "/3", "in a database"));
  EXPECT_EQ(count("3"), 1);
  EXPECT_EQ(count("0"), 0);
  EXPECT_FALSE(outcome("unix://" + server().socket_path() + "?db=4", "in a database"));
  EXPECT_EQ(count("4"), 1);
  error_code const ec = outcome("unix://" + server().socket_path() + "?db=9999", "in a database");
  EXPECT_EQ(ec, errc::server_refused) << words_of(ec);
  EXPECT_SAYS(words_of(ec), "DB index");
}

TEST_F(BadInput, IPv6AndNamesOfHostsWork) {
  redis_server six{{.tcp = true, .arguments = {"--bind", "127.0.0.1", "-::1"}}};
  std::string const port = std::to_string(six.port());
  EXPECT_FALSE(outcome("redis://127.0.0.1:" + port));
  EXPECT_FALSE(outcome("redis://localhost:" + port));
  asio::ip::tcp::socket attempt{w.ctx};
  error_code none;
  attempt.connect({asio::ip::address_v6::loopback(), six.port()}, none);
  if (none) GTEST_SKIP() << "this machine has no IPv6: " << none.message();
  EXPECT_FALSE(outcome("redis://[::1]:" + port));
}

TEST_F(BadInput, AHostThatDoesNotExistIsUnreachableAndNamed) {
  journal log;
  config settings = quick("redis://no-such-host.invalid:1");
  settings.offline_timeout = 300ms;
  settings.log = log.hook();
  error_code const ec = outcome(settings);
  EXPECT_EQ(ec, errc::unreachable);
  EXPECT_SAYS(words_of(ec), "no-such-host.invalid");
  EXPECT_TRUE(log.contains("no-such-host.invalid")) << *log.text;
}

TEST_F(BadInput, AReplicaIsNoLockServer) {
  redis_server replica{{.arguments = {"--replicaof", "127.0.0.1", std::to_string(server().port())}}};
  config settings = quick(replica);
  settings.offline_timeout = 500ms;
  error_code const ec = outcome(settings, "replica");
  EXPECT_EQ(ec, errc::unreachable) << words_of(ec);
  EXPECT_SAYS(words_of(ec), "replica");
}

TEST_F(BadInput, AMasterThatBecomesAReplicaIsLeftAndTheWaiterServedWhenItIsAMasterAgain) {
  redis_server demoted;
  auto const body = [&]() -> asio::awaitable<void> {
    redis_probe its{demoted};
    client c{w.ctx.get_executor(), quick(demoted)};
    mutex m{c, "demoted"};
    hold h = co_await m.async_acquire();
    co_await h.async_release();
    its.command({"REPLICAOF", "127.0.0.1", "1"});
    error_code failure;
    m.async_acquire([&](error_code ec, hold mine) {
      failure = ec;
      h = std::move(mine);
    });
    auto const left = [&] { return c.stats().disconnects > 0; };
    co_await until(left, "the replica left");
    its.command({"REPLICAOF", "NO", "ONE"});
    auto const granted = [&] { return h.valid(); };
    co_await until(granted, "granted by the master");
    EXPECT_FALSE(failure);
    co_await h.async_release();
  };
  w.run(body);
}

TEST_F(BadInput, AnEvictionPolicyThatMayDropALockIsWarnedOf) {
  redis_server evicting{{.arguments = {"--maxmemory-policy", "allkeys-lru"}}};
  journal log;
  config settings = quick(evicting);
  settings.log = log.hook();
  EXPECT_FALSE(outcome(settings));
  EXPECT_TRUE(log.contains("noeviction")) << *log.text;
}

TEST_F(BadInput, TheClientsNameIsShownByTheServer) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = quick(server());
    settings.client_name = "orders-7";
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "named"};
    hold h = co_await m.async_acquire();
    EXPECT_NE(probe.command({"CLIENT", "LIST"}).find("name=orders-7"), std::string::npos);
    co_await h.async_release();
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
