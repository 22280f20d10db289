// What a newcomer to the library meets, at real servers: each error says what to do.

#include "integration/sentinel_fixture.hpp"
#include "integration/tls_fixture.hpp"
#include "support/free_port.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <atomic>
#include <string_view>
#include <thread>

namespace conch::test {
namespace {

#define EXPECT_WORDS(ec, words) EXPECT_NE((ec).message().find(words), std::string::npos) << (ec).message()

/// How an acquire with this `.wait` ends.
error_code first_error(config const& settings, duration wait = 60s) {
  world w;
  error_code ended;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), settings};
    mutex m{one, "first"};
    acquire_options const options{.wait = wait};
    auto got = co_await m.async_acquire(options, as_tuple);
    ended = std::get<0>(got);
  };
  w.run(body, 120s);
  return ended;
}

/// The same with a `.wait` far below `offline_timeout`. How far a connection comes meanwhile is for the machine to
/// decide: a busy one gets longer.
error_code error_of_short_wait(config settings, std::string_view words) {
  settings.connect_timeout = settings.offline_timeout = 60s;
  error_code ended;
  for (duration const wait : {300ms, 3'000ms, 20'000ms}) {
    ended = first_error(settings, wait);
    if (ended.message().find(words) != std::string::npos) break;
  }
  EXPECT_WORDS(ended, words);
  return ended;
}

/// A server on its own port that sends this text: at once, or when it has received something.
class talker {
 public:
  enum class when : std::uint8_t { at_once, asked, never };

  talker(std::string words, when w)
      : acceptor_{ctx_, {asio::ip::address_v4::loopback(), 0}},
        words_{std::move(words)},
        when_{w} {
    thread_ = std::thread{[this] { serve(); }};
  }
  talker(talker const&) = delete;
  talker& operator=(talker const&) = delete;
  ~talker() {
    over_ = true;
    asio::ip::tcp::socket last{ctx_};
    error_code ignored;
    last.connect(acceptor_.local_endpoint(), ignored);
    last.close();
    thread_.join();
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()); }

 private:
  void serve() {
    while (!over_) {
      asio::ip::tcp::socket s = acceptor_.accept();
      error_code ignored;
      std::array<char, 1000> room{};
      if (when_ != when::at_once && s.read_some(asio::buffer(room), ignored) == 0) continue;
      if (when_ != when::never) asio::write(s, asio::buffer(words_), ignored);
      while (!ignored) s.read_some(asio::buffer(room), ignored);  // until the client has gone
    }
  }

  asio::io_context ctx_;
  asio::ip::tcp::acceptor acceptor_;
  std::string const words_;
  when const when_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

TEST(FirstErrors, AShortWaitSaysHowFarTheFirstConnectionIs) {
  redis_server plain{{.tcp = true}};
  config const c = quick("rediss://127.0.0.1:" + std::to_string(plain.port()));
  EXPECT_EQ(error_of_short_wait(c, "no answer to the TLS handshake yet; is this a TLS port?"), errc::unreachable);
}

TEST(FirstErrors, AShortWaitSaysThatAServerHasNotAnsweredTheGreeting) {
  talker silent{"", talker::when::never};
  for (std::string const scheme : {"redis://", "redlock://"}) {
    EXPECT_EQ(
        error_of_short_wait(quick(scheme + silent.address()), silent.address() + ": no answer to the greeting yet"),
        errc::unreachable);
  }
}

TEST(FirstErrors, AShortWaitSaysWhyTheLastAttemptToConnectHasFailed) {
  std::string const nobody = "127.0.0.1:" + std::to_string(find_free_port());
  for (std::string const scheme : {"redis://", "redlock://"}) {
    EXPECT_EQ(error_of_short_wait(quick(scheme + nobody), "redis://" + nobody + ": Connection refused"),
              errc::unreachable);
  }
}

TEST(FirstErrors, APortOfHttpOrSshSaysSo) {
  talker http{"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", talker::when::asked};
  talker page{"<!DOCTYPE HTML>\n<title>Error</title>\n", talker::when::asked};
  talker ssh{"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", talker::when::at_once};
  for (talker* const one : {&http, &page}) {
    error_code const ec = first_error(quick("redis://" + one->address()));
    EXPECT_EQ(ec, errc::protocol);
    EXPECT_WORDS(ec, "this looks like HTTP");
  }
  error_code const of_ssh = first_error(quick("redis://" + ssh.address()));
  EXPECT_EQ(of_ssh, errc::protocol);
  EXPECT_WORDS(of_ssh, "this looks like SSH");
  EXPECT_WORDS(first_error(quick("redis-sentinel://" + ssh.address() + "?sentinelMasterId=m")), "this looks like SSH");
}

TEST(FirstErrors, ATlsPortThatAnswersWithAnAlertSaysSo) {
  talker tls{std::string{"\x15\x03\x01\0\x02\x02\x46", 7}, talker::when::asked};
  error_code const ec = first_error(quick("redis://" + tls.address()));
  EXPECT_EQ(ec, errc::protocol);
  EXPECT_WORDS(ec, "the URL then begins with rediss://");
}

TEST(FirstErrors, APortOverTlsReachedWithoutItAndTheOtherWayRoundSaySo) {
  tls_files files;
  redis_server tls{files.options()};
  config const without = quick("redis://127.0.0.1:" + std::to_string(tls.port()));
  EXPECT_EQ(error_of_short_wait(without, "if this is a TLS port, the URL begins with rediss://"), errc::unreachable);
  redis_server plain{{.tcp = true}};
  config c = over_tls("rediss://127.0.0.1:" + std::to_string(plain.port()), files);
  c.connect_timeout = 300ms;
  error_code const with = first_error(c);
  EXPECT_EQ(with, errc::tls_failed);
  EXPECT_WORDS(with, "is this a TLS port?");
}

TEST(FirstErrors, ASentinelsPortAndAServersPortAsASentinelSaySo) {
  sentinel_set set{{}};
  error_code const ec = first_error(quick("redis://127.0.0.1:" + std::to_string(set.sentinel(0).port())));
  EXPECT_EQ(ec, errc::server_refused);
  EXPECT_WORDS(ec, "the server is a Sentinel; the URL of its master begins with redis-sentinel://");
  std::string const server = "127.0.0.1:" + std::to_string(set.server(0).port());
  error_code const other = first_error(quick("redis-sentinel://" + server + "?sentinelMasterId=m"));
  EXPECT_EQ(other, errc::server_refused);
  EXPECT_WORDS(other, "this is not a Sentinel; the URL of a server begins with redis://");
}

TEST(FirstErrors, UrlsThatAreNearlyRightSayWhatWasMeant) {
  asio::io_context ctx;
  auto const said = [&](std::string const& url) {
    std::string words;
    auto const make = [&] { client const one{ctx.get_executor(), url}; };
    EXPECT_EQ(error_of(make, &words), errc::invalid_url) << url;
    return words;
  };
  EXPECT_NE(said("redis://a,b,c").find("did you mean redlock://"), std::string::npos);
  EXPECT_NE(said("REDIS://127.0.0.1").find("lower case"), std::string::npos);
  EXPECT_NE(said("redis://user:p/ss@host").find("%2F"), std::string::npos);
}

TEST(FirstErrors, OtherWaysToNameAServerAreAccepted) {
  redis_server server{{.tcp = true, .arguments = {"--requirepass", "p@ss"}}};
  std::string const there = "127.0.0.1:" + std::to_string(server.port());
  for (std::string const& url :
       {"valkey://default:p%40ss@" + there, "redis://:p%40ss@" + there, "redis://default:p%40ss@" + there + "/"}) {
    error_code const ec = first_error(quick(url));
    EXPECT_FALSE(ec) << url << ": " << ec.message();
  }
}

TEST(FirstErrors, AReleaseThatGetsNoAnswerSaysWhy) {
  redis_server server{{.tcp = true}};
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick("redis://127.0.0.1:" + std::to_string(server.port()))};
    mutex m{one, "first"};
    hold h = co_await m.async_acquire();
    server.kill();
    auto released = co_await h.async_release(as_tuple);
    error_code const ec = std::get<0>(released);
    EXPECT_EQ(ec, errc::unreachable);
    EXPECT_GT(ec.message().size(), make_error_code(errc::unreachable).message().size()) << ec.message();
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
