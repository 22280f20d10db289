// D33: users, passwords and TLS of the Sentinels are not those of the servers; and Sentinels that are wrong, played by
// the test.

#include "integration/sentinel_fixture.hpp"
#include "integration/tls_fixture.hpp"

#include <map>

namespace conch::test {
namespace {

#if CONCH_TLS

struct files_of_both : tls_files {
  files_of_both() {
    authority("other");
    signed_by("other", "sentinel", "IP:127.0.0.1");
  }
};

/// A master of the authority "ca" and the user "app", and a Sentinel of the authority "other" and the user "watch",
/// which has the rights of the guide.
struct SentinelAndServer : testing::TestWithParam<std::tuple<bool, bool>> {
  bool server_over_tls() const { return std::get<0>(GetParam()); }
  bool sentinel_over_tls() const { return std::get<1>(GetParam()); }

  redis_server_options of_server() const {
    redis_server_options o = server_over_tls() ? files.options() : redis_server_options{.tcp = true};
    return with(o, {"--requirepass", "nobody knows it", "--user", "app", "on", ">of-servers", "~*", "&*", "+@all"});
  }
  redis_server_options of_sentinel(redis_server const& master) const {
    redis_server_options o;
    o.tls = sentinel_over_tls();
    o.sentinel = {
        "sentinel monitor m 127.0.0.1 " + std::to_string(master.port()) + " 1",
        "sentinel auth-user m app",
        "sentinel auth-pass m of-servers",
        "tls-cert-file " + files.certificate("sentinel"),
        "tls-key-file " + files.key("sentinel"),
        "tls-ca-cert-file " + files.certificate("ca"),
        "tls-auth-clients no",
        std::string{"tls-replication "} + (server_over_tls() ? "yes" : "no"),
        "requirepass \"nobody knows it\"",
        "user watch on >of-sentinels resetkeys resetchannels &+switch-master -@all +hello +auth +ping +subscribe "
        "+sentinel|get-master-addr-by-name +sentinel|master +sentinel|sentinels +sentinel|myid"};
    return o;
  }
  config settings() const {
    config c =
        quick((server_over_tls() ? "rediss-sentinel" : "redis-sentinel") + std::string{"://app:of-servers@127.0.0.1:"} +
              std::to_string(sentinel.port()) + "?sentinelMasterId=m");
    c.sentinel_username = "watch";
    c.sentinel_password = "of-sentinels";
    c.sentinels_over_tls = sentinel_over_tls();
    if (server_over_tls()) c.tls.ca_file = files.certificate("ca");
    if (sentinel_over_tls()) c.sentinel_tls.emplace().ca_file = files.certificate("other");
    return c;
  }

  files_of_both files;
  redis_server server{of_server()};
  redis_server sentinel{of_sentinel(server)};
};

TEST_P(SentinelAndServer, D33HaveUsersAndTlsOfTheirOwn) {
  attempt_result const right = acquire_once(settings());
  EXPECT_FALSE(right.ec) << right.words();

  config c = settings();
  c.sentinel_username = "app";
  c.sentinel_password = "of-servers";
  attempt_result const mixed = acquire_once(c);
  EXPECT_EQ(mixed.ec, errc::access_denied);
  EXPECT_NE(mixed.words().find("WRONGPASS"), std::string::npos) << mixed.words();
  EXPECT_EQ(mixed.words().find("of-servers"), std::string::npos) << "D35";

  if (!sentinel_over_tls()) return;
  c = settings();
  c.sentinel_tls.emplace().ca_file = files.certificate("ca");
  attempt_result const unknown = acquire_once(c);
  EXPECT_EQ(unknown.ec, errc::tls_failed) << "the servers' authority has not signed the Sentinel's certificate";
}

INSTANTIATE_TEST_SUITE_P(With, SentinelAndServer, testing::Combine(testing::Bool(), testing::Bool()),
                         [](auto const& all) {
                           return std::string{std::get<0>(all.param) ? "TlsToTheServer" : "PlainToTheServer"} +
                                  (std::get<1>(all.param) ? "TlsToTheSentinel" : "PlainToTheSentinel");
                         });

#endif  // CONCH_TLS

/// A Sentinel that says what the test wants.
class fake_sentinel {
 public:
  fake_sentinel(asio::io_context& ctx, std::int64_t epoch, std::uint16_t master)
      : now_{std::make_shared<state>()},
        acceptor_{ctx, {asio::ip::address_v4::loopback(), 0}} {
    say(epoch, master);
    asio::co_spawn(ctx, accept(now_, &acceptor_), asio::detached);
  }

  std::string host() const { return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()); }
  void say(std::int64_t epoch, std::uint16_t master) {
    now_->epoch = epoch;
    now_->master = master;
  }
  void tell_of_a_switch() {
    for (auto const& s : now_->open) {
      asio::write(*s, asio::buffer(push("m 127.0.0.1 1 127.0.0.1 2")));
    }
  }
  /// How often it was asked, the first time on each connection included.
  int asked() const { return now_->asked; }

 private:
  using socket = asio::ip::tcp::socket;
  struct state {
    std::int64_t epoch = 0;
    std::uint16_t master = 0;
    int asked = 0;
    std::vector<std::shared_ptr<socket>> open;
  };

  static std::string bulk(std::string const& text) {
    return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  static std::string push(std::string const& event) {
    return ">3\r\n" + bulk("message") + bulk("+switch-master") + bulk(event);
  }

  static asio::awaitable<void> accept(std::shared_ptr<state> s, asio::ip::tcp::acceptor* from) {
    for (;;) {
      auto got = co_await from->async_accept(as_tuple);
      if (std::get<0>(got)) co_return;
      auto one = std::make_shared<socket>(std::move(std::get<1>(got)));
      s->open.push_back(one);
      asio::co_spawn(one->get_executor(), talk(s, one), asio::detached);
    }
  }

  static asio::awaitable<void> talk(std::shared_ptr<state> s, std::shared_ptr<socket> with) {
    std::string const question = "GET-MASTER-ADDR-BY-NAME";
    std::string in;
    bool greeted = false;
    std::array<char, 4096> room{};
    for (;;) {
      auto got = co_await with->async_read_some(asio::buffer(room), as_tuple);
      if (std::get<0>(got)) co_return;
      in.append(room.data(), std::get<1>(got));
      for (auto at = in.find(question); at != std::string::npos; at = in.find(question)) {
        in.erase(0, at + question.size());
        ++s->asked;
        std::string out;
        if (!std::exchange(greeted, true)) {
          out = "%1\r\n" + bulk("mode") + bulk("sentinel") + bulk("id") + ">3\r\n" + bulk("subscribe") +
                bulk("+switch-master") + ":1\r\n*0\r\n";
        }
        out += "%1\r\n" + bulk("config-epoch") + bulk(std::to_string(s->epoch)) + "*2\r\n" + bulk("127.0.0.1") +
               bulk(std::to_string(s->master));
        co_await asio::async_write(*with, asio::buffer(out), asio::use_awaitable);
      }
    }
  }

  std::shared_ptr<state> now_;
  asio::ip::tcp::acceptor acceptor_;
};

/// Two servers that both take themselves for the master, and two Sentinels.
struct LyingSentinels : testing::Test {
  config settings() const {
    config c;
    c.url = "redis-sentinel://" + first.host() + "," + second.host() + "?sentinelMasterId=m";
    c.single_threaded = true;
    c.topology_refresh = 100ms;
    c.log = log.hook();
    return c;
  }

  redis_server a{{.tcp = true}}, b{{.tcp = true}};
  world w;
  fake_sentinel first{w.ctx, 5, a.port()}, second{w.ctx, 5, a.port()};
  journal log;
};

TEST_F(LyingSentinels, D18TheFirstThatTellsOfASwitchIsEnoughAndD19AnOlderEpochIsIgnored) {
  auto const body = [&]() -> asio::awaitable<void> {
    config c = settings();
    c.topology_refresh = 1h;
    client one{w.ctx.get_executor(), c};
    mutex m{one, "m"};
    hold at_a = co_await m.async_acquire();
    redis_probe probe{b};
    EXPECT_EQ(connections(a, "conch"), 1u);
    auto const both = [&] { return first.asked() > 0 && second.asked() > 0; };
    co_await until(both, "both asked");

    second.say(6, b.port());
    second.tell_of_a_switch();  // the first has noticed nothing
    auto const there = [&] { return connections(b, "conch") == 1 && connections(a, "conch") == 0; };
    co_await until(there, "the connection to the other master");
    auto const lost = [&] { return !at_a.valid(); };
    co_await until(lost, "the loss of what was at the first");

    first.tell_of_a_switch();  // and is asked: epoch 5
    auto const ignored = [&] { return log.contains("(epoch 5); ignored, since redis-sentinel://" + second.host()); };
    co_await until(ignored, "the line about the older epoch");
    hold at_b = co_await m.async_acquire();
    EXPECT_EQ(probe.integer({"EXISTS", lock_key("m")}), 1);
    EXPECT_GT(at_b.fence(), at_a.fence()) << "P2";
    EXPECT_EQ(one.stats().master_switches, 1u);
    EXPECT_EQ(connections(a, "conch"), 0u);
  };
  w.run(body, 60s);
}

TEST_F(LyingSentinels, ASwitchOfWhichNobodyTellsIsSeenWhenOneIsAskedAgain) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), settings()};
    mutex m{one, "m"};
    hold h = co_await m.async_acquire();
    first.say(6, b.port());
    auto const there = [&] { return connections(b, "conch") == 1 && connections(a, "conch") == 0; };
    co_await until(there, "the connection to the other master");
    EXPECT_GE(one.stats().topology_refreshes, 1u);
  };
  w.run(body, 60s);
}

TEST_F(LyingSentinels, AMasterThatIsStillAReplicaIsGreetedAgainUntilItIsOne) {
  redis_probe probe{b};
  EXPECT_EQ(probe.command({"REPLICAOF", "127.0.0.1", std::to_string(a.port())}), "OK");
  auto const body = [&]() -> asio::awaitable<void> {
    first.say(7, b.port());
    second.say(7, b.port());
    client one{w.ctx.get_executor(), settings()};
    mutex m{one, "m"};
    hold mine;
    m.async_acquire([&](error_code ec, hold h) {
      EXPECT_FALSE(ec) << ec.message();
      mine = std::move(h);
    });
    auto const refused = [&] { return log.contains("the server is a replica") && first.asked() + second.asked() > 3; };
    co_await until(refused, "doubts about the replica");
    EXPECT_FALSE(mine.valid());
    EXPECT_EQ(probe.command({"REPLICAOF", "NO", "ONE"}), "OK");
    auto const got = [&] { return mine.valid(); };
    co_await until(got, "the lock at the new master");
    EXPECT_EQ(log.text->find("the server is a replica"), log.text->rfind("the server is a replica")) << *log.text;
  };
  w.run(body, 60s);
}

TEST_F(LyingSentinels, AddressesGoThroughTheMap) {
  auto const body = [&]() -> asio::awaitable<void> {
    first.say(5, 1);
    second.say(5, 1);
    config c = settings();
    c.address_map["127.0.0.1:1"] = "localhost:" + std::to_string(b.port());
    client one{w.ctx.get_executor(), c};
    mutex m{one, "m"};
    hold h = co_await m.async_acquire();
    EXPECT_EQ(connections(b, "conch"), 1u);
  };
  w.run(body, 60s);
}

}  // namespace
}  // namespace conch::test
