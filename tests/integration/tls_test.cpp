// rediss://: what is verified, what is said when it fails, and that a connection over TLS ends, renews itself and
// carries what it should.

#if CONCH_TLS

#include "integration/tls_fixture.hpp"
#include "support/tcp_proxy.hpp"

#include <boost/asio/write.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

namespace conch::test {
namespace {

class Tls : public testing::Test {
 protected:
  /// Ends with an error within the time to connect, and the error is this one.
  static std::string refused(config const& c, errc expected) {
    attempt_result const r = acquire_once(c);
    EXPECT_EQ(r.ec, expected) << r.words();
    EXPECT_LT(r.took, c.connect_timeout + 1s) << r.words();
    return r.words();
  }

  tls_files files;
};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(Tls, LocksAreHandedOverAsWithoutIt) {
  redis_server server{files.options()};
  config const c = over_tls(server.url(), files);
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), c};
    client two{w.ctx.get_executor(), c};
    mutex a{one, "m"}, b{two, "m"};
    hold first = co_await a.async_acquire();
    std::int64_t const fence = first.fence();
    bool granted = false;
    asio::co_spawn(
        w.ctx,
        [](mutex m, bool& done, std::int64_t before) -> asio::awaitable<void> {
          hold second = co_await m.async_acquire();
          EXPECT_GT(second.fence(), before);
          done = true;
        }(b, granted, fence),
        asio::detached);
    redis_probe probe{server};
    auto const waits = [&] { return in_line(probe, "m") == 1; };
    co_await until(waits, "a waiter in line");
    bool const was_held = co_await first.async_release();
    EXPECT_TRUE(was_held);
    auto const done = [&] { return granted; };
    co_await until(done, "a hand-over");
  };
  w.run(body);
}

TEST_F(Tls, ValkeysIsTheSame) {
  redis_server server{files.options()};
  attempt_result const r = acquire_once(over_tls("valkeys" + server.url().substr(6), files));
  EXPECT_FALSE(r.ec) << r.words();
}

TEST_F(Tls, FilesCanBeNamedByTheUrl) {
  redis_server server{files.options("server", "yes")};
  std::string const url = server.url() + "/1?cacert=" + files.certificate("ca") +
                          "&cert=" + files.certificate("client") + "&key=" + files.key("client");
  attempt_result const r = acquire_once(quick(url));
  EXPECT_FALSE(r.ec) << r.words();
}

TEST_F(Tls, AuthoritiesCanBeAFolder) {
  redis_server server{files.options()};
  std::filesystem::create_directory(files.path("trusted"));
  std::filesystem::copy_file(files.certificate("ca"), files.path("trusted/ca.pem"));
  ASSERT_EQ(std::system(("openssl rehash " + files.path("trusted")).c_str()), 0);
  config c = quick(server.url());
  c.tls.ca_path = files.path("trusted");
  attempt_result const r = acquire_once(c);
  EXPECT_FALSE(r.ec) << r.words();
}

TEST_F(Tls, AWrongCertificateIsAnErrorAtOnceWithOpenSslsWords) {
  files.authority("other");
  files.signed_by("other", "stranger", "IP:127.0.0.1");
  files.self_signed("alone", "IP:127.0.0.1");
  files.expired("ca", "old", "IP:127.0.0.1");
  struct row {
    std::string certificate, says;
  };
  for (auto const& [certificate, says] : std::vector<row>{{"stranger", "unable to get local issuer certificate"},
                                                          {"alone", "self-signed certificate"},
                                                          {"old", "certificate has expired"}}) {
    redis_server server{files.options(certificate)};
    std::string const words = refused(over_tls(server.url(), files), errc::tls_failed);
    EXPECT_SAYS(words, says);
    EXPECT_SAYS(words, server.url());
    EXPECT_EQ(words.find("tls.ca_file") != std::string::npos, certificate != "old") << words;
    config c = quick(server.url());
    c.tls.verify = false;
    attempt_result const r = acquire_once(c);
    EXPECT_FALSE(r.ec) << "not verified: " << r.words();
  }
}

TEST_F(Tls, IsVerifiedByTheSystemsAuthoritiesIfNoneAreNamed) {
  redis_server server{files.options()};
  std::string const words = refused(quick(server.url()), errc::tls_failed);
  EXPECT_SAYS(words, "certificate");
}

TEST_F(Tls, WhatIsSetButNotUsedIsRefused) {
  asio::io_context ctx;
  auto const why = [&](auto const& change) {
    config c;
    change(c);
    std::string what;
    EXPECT_EQ(error_of([&] { client one(ctx.get_executor(), c); }, &what), errc::invalid_config);
    return what;
  };
  EXPECT_SAYS(why([](config& c) { c.tls.ca_file = "/x"; }), "no URL begins with rediss:// or zookeepers://");
  EXPECT_SAYS(why([](config& c) { c.tls.verify = false; }), "no URL begins with rediss:// or zookeepers://");
  EXPECT_SAYS(why([](config& c) {
                c.url = "rediss://a";
                c.tls.key_file = "/x";
              }),
              "tls.cert_file");
  EXPECT_SAYS(why([](config& c) {
                c.url = "rediss://a";
                c.tls.server_name = std::string{"a\0b", 3};
              }),
              "NUL");
}

TEST_F(Tls, AFileThatCannotBeUsedIsNamed) {
  redis_server server{files.options("server", "yes")};
  std::ofstream{files.path("nonsense")} << "no certificate\n";
  std::ofstream{files.key("locked")}
      << "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIG=\n-----END ENCRYPTED PRIVATE KEY-----\n";
  ASSERT_EQ(::mkfifo(files.path("pipe").c_str(), 0600), 0);
  files.authority("other");
  struct row {
    std::string says;
    std::function<void(tls_config&)> change;
  };
  for (auto const& [says, change] : std::vector<row>{
           {"tls.ca_file '/no/such/file': No such file", [](tls_config& t) { t.ca_file = "/no/such/file"; }},
           {"tls.ca_file", [&](tls_config& t) { t.ca_file = files.path("nonsense"); }},
           {"tls.ca_path '/no/such': No such file", [](tls_config& t) { t.ca_path = "/no/such"; }},
           {"it is not a folder", [&](tls_config& t) { t.ca_path = files.certificate("ca"); }},
           // opening it would wait forever
           {"it is not a file", [&](tls_config& t) { t.ca_file = files.path("pipe"); }},
           {"tls.cert_file '/no/such': No such file", [](tls_config& t) { t.cert_file = "/no/such"; }},
           {"tls.cert_file", [&](tls_config& t) { t.cert_file = files.path("nonsense"); }},
           {"the key in tls.cert_file", [&](tls_config& t) { t.cert_file = files.certificate("client"); }},
           {"tls.key_file: ",
            [&](tls_config& t) {
              t.cert_file = files.certificate("client");
              t.key_file = files.key("locked");
            }},
           {"tls.key_file: key values mismatch",
            [&](tls_config& t) {
              t.cert_file = files.certificate("client");
              t.key_file = files.key("other");
            }},
       }) {
    config c = over_tls(server.url(), files);
    change(c.tls);
    std::string const words = refused(c, errc::tls_failed);
    EXPECT_SAYS(words, says);
    EXPECT_EQ(words.find(".key\""), std::string::npos) << words;
  }
}

TEST_F(Tls, D32ACutConnectionIsLoggedOnceAndMadeAgain) {
  redis_server server{files.options()};
  tcp_proxy between{server.port()};
  journal log;
  config c = over_tls("rediss://127.0.0.1:" + std::to_string(between.port()), files);
  c.log = log.hook();
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), c};
    mutex m{one, "m"};
    for (auto const& cut :
         {std::function<void()>{[&] { between.drop(); }}, std::function<void()>{[&] { between.reset(); }}}) {
      hold h = co_await m.async_acquire();
      auto const seen = between.count().connections;
      cut();
      auto const again = [&] { return between.count().connections > seen; };
      co_await until(again, "a new connection");
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
    }
  };
  w.run(body);
  std::size_t lost = 0;
  for (std::size_t at = 0; (at = log.text->find("lost the connection", at)) != std::string::npos; ++at) ++lost;
  EXPECT_EQ(lost, 2u) << *log.text;
  EXPECT_FALSE(log.contains("cannot connect")) << *log.text;
}

TEST_F(Tls, D32AStoppedServerHoldsUpNoClose) {
  redis_server server{files.options()};
  config const c = over_tls(server.url(), files);
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), c};
    mutex m{one, "m"};
    hold h = co_await m.async_acquire();
    co_await h.async_release();
    server.stop();
    co_await one.async_close(0s, asio::use_awaitable);
  };
  w.run(body);
  w.ctx.restart();
  w.ctx.run_for(1s);
  EXPECT_TRUE(w.ctx.stopped()) << "the connection is still open";
  server.cont();
}

TEST_F(Tls, D29ARefusedClientCertificateIsAnErrorAtOnce) {
  files.authority("other");
  files.signed_by("other", "stranger", "DNS:stranger.test");
  for (char const* const versions : {"TLSv1.3", "TLSv1.2"}) {
    redis_server server{with(files.options("server", "yes"), {"--tls-protocols", versions})};
    config c = over_tls(server.url(), files);
    c.connect_timeout = 10s;
    for (int round = 0; round < 5; ++round) {
      std::string const none = refused(c, errc::tls_failed);
      EXPECT_SAYS(none, "alert");
      EXPECT_EQ(none.find("wants a certificate of the client: tls.cert_file") != std::string::npos,
                versions == std::string_view{"TLSv1.3"})
          << none;
    }
    c.tls.cert_file = files.certificate("stranger");
    c.tls.key_file = files.key("stranger");
    std::string const wrong = refused(c, errc::tls_failed);
    EXPECT_SAYS(wrong, "alert");
    c.tls.cert_file = files.certificate("client");
    c.tls.key_file = files.key("client");
    attempt_result const right = acquire_once(c);
    EXPECT_FALSE(right.ec) << right.words();
  }
}

TEST_F(Tls, IsCountedAndTheEndOfTheCertificateIsTold) {
  files.authority("other");
  files.signed_by("other", "stranger", "IP:127.0.0.1");
  redis_server server{files.options()}, wrong{files.options("stranger")}, wants_one{files.options("server", "yes")},
      plain{{.tcp = true}};
  world w;
  auto const seen = [&](std::string const& url, int failures) {
    config c = over_tls(url, files);
    if (!url.starts_with("rediss")) c.tls = {};
    c.connect_timeout = url == server.url() ? 5s : 500ms;
    statistics s;
    auto const body = [&]() -> asio::awaitable<void> {
      client one{w.ctx.get_executor(), c};
      mutex m{one, "m"};
      auto got = co_await m.async_acquire(as_tuple);
      EXPECT_EQ(!std::get<0>(got), failures == 0) << std::get<0>(got).message();
      auto const failed = [&] { return one.stats().tls_handshakes_failed >= static_cast<std::uint64_t>(failures); };
      co_await until(failed, "the failures of " + url);
      s = one.stats();
    };
    w.run(body);
    return s;
  };
  statistics const good = seen(server.url(), 0);
  EXPECT_EQ(good.tls_handshakes, 1u);
  EXPECT_EQ(good.tls_handshakes_failed, 0u);
  auto const left = good.tls_peer_expires - std::chrono::system_clock::now();
  EXPECT_GT(left, 47h) << "made for two days";
  EXPECT_LE(left, 48h);
  EXPECT_SAYS(to_prometheus(good), "\nconch_tls_handshakes_total{result=\"ok\"} 1\n");
  for (auto const& url : {wrong.url(), wants_one.url(), "rediss://127.0.0.1:" + std::to_string(plain.port()),
                          server.url() + "?cacert=/no/such"}) {
    statistics const bad = seen(url, 3);
    EXPECT_EQ(bad.tls_handshakes, 0u) << url;
  }
  statistics const without = seen(plain.url(), 0);
  EXPECT_EQ(without.tls_handshakes + without.tls_handshakes_failed, 0u);
  EXPECT_EQ(without.tls_peer_expires, std::chrono::sys_seconds{});
}

TEST_F(Tls, D30APortWithoutTlsIsAskedForInWords) {
  redis_server plain{{.tcp = true}};
  config c = over_tls("rediss://127.0.0.1:" + std::to_string(plain.port()), files);
  c.connect_timeout = 300ms;
  EXPECT_SAYS(refused(c, errc::tls_failed), "is this a TLS port?");
}

TEST_F(Tls, D30APeerThatSpeaksSomethingElseIsAskedForInWords) {
  asio::io_context ctx;
  asio::ip::tcp::acceptor acceptor{ctx, asio::ip::tcp::endpoint{asio::ip::address_v4::loopback(), 0}};
  std::atomic<bool> over{false};
  std::thread greets{[&] {
    while (!over) {
      asio::ip::tcp::socket s = acceptor.accept();
      error_code ignored;
      asio::write(s, asio::buffer(std::string_view{"220 mail.test ESMTP\r\n"}), ignored);
      std::array<char, 1000> room{};
      s.read_some(asio::buffer(room), ignored);
    }
  }};
  config c = over_tls("rediss://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port()), files);
  EXPECT_SAYS(refused(c, errc::tls_failed), "is this a TLS port?");
  over = true;
  asio::ip::tcp::socket last{ctx};
  last.connect(acceptor.local_endpoint());
  last.close();
  greets.join();
}

TEST_F(Tls, D30ATlsPortReachedWithoutItIsAskedForInWords) {
  redis_server server{files.options()};
  config c = quick("redis://127.0.0.1:" + std::to_string(server.port()));
  c.offline_timeout = 300ms;
  EXPECT_SAYS(refused(c, errc::unreachable), "the URL begins with rediss://");
}

TEST_F(Tls, AServerThatHangsInTheHandshakeAndSpokeTlsBeforeIsOnlySlow) {
  redis_server server{files.options()};
  config c = over_tls(server.url(), files);
  c.connect_timeout = 200ms;
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), c};
    mutex m{one, "m"};
    {
      hold h = co_await m.async_acquire();
      co_await h.async_release();
    }
    server.stop();
    bool done = false;
    asio::co_spawn(
        w.ctx,
        [](mutex of, bool& granted) -> asio::awaitable<void> {
          hold h = co_await of.async_acquire();
          granted = true;
        }(m, done),
        asio::detached);
    co_await pause_for(2s);  // several attempts to connect
    EXPECT_FALSE(done);
    server.cont();
    auto const granted = [&] { return done; };
    co_await until(granted, "the grant");
  };
  w.run(body);
}

TEST_F(Tls, D31TheCertificateMustBeForTheNameOfTheServer) {
  files.signed_by("ca", "named", "DNS:redis.internal");
  redis_server by_name{files.options("named")};
  config c = over_tls(by_name.url(), files);
  std::string const words = refused(c, errc::tls_failed);
  EXPECT_SAYS(words, "IP address mismatch");
  EXPECT_SAYS(words, "it has no subjectAltName '127.0.0.1'");
  c.tls.server_name = "redis.internal";
  EXPECT_FALSE(acquire_once(c).ec);
  c.tls.server_name = "redis.internal.";
  EXPECT_FALSE(acquire_once(c).ec) << "the root's dot belongs to no certificate";
  c.tls.server_name = "other.internal";
  std::string const other = refused(c, errc::tls_failed);
  EXPECT_SAYS(other, "ostname mismatch");
  EXPECT_SAYS(other, "it has no subjectAltName 'other.internal'");
  redis_server by_address{files.options()};
  c = over_tls(by_address.url(), files);
  EXPECT_FALSE(acquire_once(c).ec) << "its certificate has the address";
  EXPECT_FALSE(acquire_once(over_tls(by_address.url() + "?sni=a.test", files)).ec);
  EXPECT_SAYS(refused(over_tls(by_address.url() + "?sni=b.test", files), errc::tls_failed), "ostname mismatch");
}

TEST_F(Tls, ACertificateWithoutASubjectAltNameIsNotAcceptedByItsCommonName) {
  files.signed_by("ca", "common.test", "");
  redis_server server{files.options("common.test")};
  config c = over_tls(server.url(), files);
  c.tls.server_name = "common.test";
  EXPECT_SAYS(refused(c, errc::tls_failed), "ostname mismatch");
  files.signed_by("ca", "both.test", "DNS:other.test");
  redis_server with_another{files.options("both.test")};
  c = over_tls(with_another.url(), files);
  c.tls.server_name = "both.test";
  EXPECT_SAYS(refused(c, errc::tls_failed), "ostname mismatch");
  c.tls.server_name = "other.test";
  EXPECT_FALSE(acquire_once(c).ec);
}

TEST_F(Tls, D34ReplacedFilesAreUsedFromTheNextConnectionOn) {
  files.authority("new-ca");
  files.signed_by("new-ca", "new-server", "IP:127.0.0.1");
  files.signed_by("new-ca", "new-client", "DNS:client.test");
  auto const options = [&](std::string const& name, std::string const& ca) {
    redis_server_options o = files.options(name, "yes");
    o.arguments[5] = files.certificate(ca);
    return o;
  };
  redis_server before{options("server", "ca")}, after{options("new-server", "new-ca")};
  redis_server for_new_clients{options("server", "new-ca")};
  tcp_proxy between{before.port()};
  files.replace("now-ca.crt", "ca.crt");
  files.replace("now.crt", "client.crt");
  files.replace("now.key", "client.key");
  journal log;
  config c = quick("rediss://127.0.0.1:" + std::to_string(between.port()));
  c.tls.ca_file = files.path("now-ca.crt");
  c.tls.cert_file = files.path("now.crt");
  c.tls.key_file = files.path("now.key");
  c.log = log.hook();
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), c};
    mutex m{one, "m"};
    {
      hold h = co_await m.async_acquire();
      co_await h.async_release();
    }
    // Half of it: the certificate and its key do not fit.
    files.replace("now.crt", "new-client.crt");
    between.drop();
    auto const bad = [&] { return log.contains("still using the previous files: tls.key_file"); };
    co_await until(bad, "a line about the files");
    {
      hold h = co_await m.async_acquire();
      co_await h.async_release();
    }
    // The change of one file is enough, whichever it is.
    files.replace("now.key", "new-client.key");
    between.retarget(for_new_clients.port());
    between.drop();
    {
      hold h = co_await m.async_acquire();
      EXPECT_TRUE(h.valid());
    }
    files.replace("now-ca.crt", "new-ca.crt");
    between.retarget(after.port());
    between.drop();
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(h.valid());
  };
  w.run(body);
  EXPECT_EQ(log.text->find("now.key"), std::string::npos) << *log.text;
}

TEST_F(Tls, A12RotationUnderLoadFailsNoAcquire) {
  redis_server server{files.options("server", "yes")};
  tcp_proxy between{server.port()};
  files.signed_by("ca", "client2", "DNS:client.test");
  files.replace("now.crt", "client.crt");
  files.replace("now.key", "client.key");
  config c = over_tls("rediss://127.0.0.1:" + std::to_string(between.port()), files);
  c.tls.cert_file = files.path("now.crt");
  c.tls.key_file = files.path("now.key");
  world w;
  int failed = 0, granted = 0;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), c};
    bool over = false;
    int running = 8;
    for (int i = 0; i < 8; ++i) {
      asio::co_spawn(
          w.ctx,
          [](mutex m, bool const& stop, int& fails, int& grants, int& left) -> asio::awaitable<void> {
            while (!stop) {
              auto got = co_await m.async_acquire(as_tuple);
              ++(std::get<0>(got) ? fails : grants);
              if (std::get<0>(got)) ADD_FAILURE() << std::get<0>(got).message();
            }
            --left;
          }(mutex{one, "m" + std::to_string(i)}, over, failed, granted, running),
          asio::detached);
    }
    auto const begun = [&] { return granted > 20; };
    co_await until(begun, "grants");
    for (int round = 0; round < 10; ++round) {
      std::string const name = round % 2 == 0 ? "client2" : "client";
      files.replace("now.crt", name + ".crt");
      between.drop();
      co_await pause_for(20ms);
      files.replace("now.key", name + ".key");
      int const seen = granted;
      between.drop();
      auto const more = [&] { return granted > seen + 20; };
      co_await until(more, "grants");
    }
    over = true;
    auto const ended = [&] { return running == 0; };
    co_await until(ended, "the end");
  };
  w.run(body, 60s);
  EXPECT_EQ(failed, 0) << granted;
}

TEST_F(Tls, D33TlsAndPasswordsOfServersDoNotMix) {
  files.authority("other");
  files.signed_by("other", "stranger", "IP:127.0.0.1");
  redis_server one{with(files.options(), {"--requirepass", "first-secret"})};
  redis_server two{with(files.options("stranger"), {"--requirepass", "second-secret"})};
  redis_server three{{.tcp = true, .arguments = {"--requirepass", "third-secret"}}};
  auto const url = [](redis_server const& s, std::string const& password) {
    std::string text = s.url();
    return text.insert(text.find("://") + 3, ":" + password + "@");
  };
  config c = quick("");
  c.url = config{}.url;
  c.tls.ca_file = files.certificate("ca");
  c.quorum.servers = {url(one, "first-secret"), url(two, "second-secret") + "?cacert=" + files.certificate("other"),
                      url(three, "third-secret")};
  c.quorum.votes_needed = 3;
  attempt_result const all = acquire_once(c);
  EXPECT_FALSE(all.ec) << all.words();
  // Each of the other's is refused.
  for (auto const& [at, wrong] : std::vector<std::pair<std::size_t, std::string>>{
           {1, url(two, "second-secret")},
           {1, url(two, "first-secret") + "?cacert=" + files.certificate("other")},
           {2, url(three, "first-secret")},
           {0, url(one, "first-secret") + "?cacert=" + files.certificate("other")}}) {
    config mixed = c;
    mixed.quorum.servers[at] = wrong;
    mixed.offline_timeout = 500ms;
    attempt_result const r = acquire_once(mixed);
    EXPECT_TRUE(r.ec) << at;
    EXPECT_EQ(r.words().find("secret"), std::string::npos) << r.words();
  }
}

TEST_F(Tls, ManyThreadsUseOneConnection) {
  redis_server server{files.options()};
  config c = over_tls(server.url(), files);
  c.single_threaded = false;
  c.lease = 30s;
  asio::io_context ctx;
  std::atomic<int> done{0};
  {
    client one{ctx.get_executor(), c};
    for (int i = 0; i < 50; ++i) {
      asio::co_spawn(
          ctx,
          [](mutex m, std::atomic<int>& count) -> asio::awaitable<void> {
            for (int round = 0; round < 20; ++round) {
              hold h = co_await m.async_acquire();
              bool const was_held = co_await h.async_release();
              EXPECT_TRUE(was_held);
              ++count;
            }
          }(mutex{one, "m" + std::to_string(i % 10)}, done),
          asio::detached);
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { ctx.run_for(60s); });
    auto const end = steady::now() + 50s;
    while (done < 1000 && steady::now() < end) std::this_thread::sleep_for(2ms);
    ctx.stop();
    for (std::thread& t : threads) t.join();
  }
  EXPECT_EQ(done, 1000);
}

TEST_F(Tls, D35NoSecretIsInAnyWord) {
  std::string said;
  auto const collect = [&](config c) {
    journal log;
    c.log = log.hook();
    c.offline_timeout = 300ms;
    c.connect_timeout = 300ms;
    said += acquire_once(c).words() + "\n" + *log.text;
  };
  std::string const secret = "pw-4711";
  redis_server server{with(files.options("server", "yes"), {"--requirepass", secret})};
  redis_server plain{{.tcp = true}};
  auto const url = [&](std::uint16_t port, std::string const& scheme) {
    return scheme + "://:" + secret + "x@127.0.0.1:" + std::to_string(port);
  };
  config c = over_tls(url(server.port(), "rediss"), files);
  collect(c);  // no certificate
  c.tls.cert_file = files.certificate("client");
  c.tls.key_file = files.key("client");
  collect(c);  // a wrong password
  c.tls.key_file = files.key("ca");
  collect(c);  // a wrong key
  c.tls.key_file = files.path("missing.key");
  collect(c);
  c.tls.key_file = files.key("client");
  c.tls.server_name = "other.test";
  collect(c);
  c.tls.server_name.clear();
  c.url = url(plain.port(), "rediss");
  collect(c);
  config without = quick(url(server.port(), "redis"));
  collect(without);
  EXPECT_SAYS(said, "WRONGPASS");
  // What a quorum says of its servers.
  config several = over_tls(config{}.url, files);
  several.tls.cert_file = files.certificate("client");
  several.tls.key_file = files.key("client");
  several.quorum.servers = {url(server.port(), "rediss")};
  several.offline_timeout = 300ms;
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), several};
    mutex m{one, "m"};
    auto got = co_await m.async_acquire(as_tuple);
    EXPECT_TRUE(std::get<0>(got));
    statistics const s = one.stats();
    EXPECT_SAYS(s.servers.at(0).last_trouble, "WRONGPASS");
    said += std::get<0>(got).message() + s.servers.at(0).last_trouble + s.servers.at(0).url + to_prometheus(s);
  };
  w.run(body);
  for (std::string const& word :
       {secret, std::string{".key'"}, files.key("client"), files.key("ca"), std::string{"missing.key"}}) {
    EXPECT_EQ(said.find(word), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace conch::test

#endif
