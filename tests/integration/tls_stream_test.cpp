// The stream of bytes over TLS, by itself, against a peer in this process.

#if CONCH_TLS

#include "integration/tls_fixture.hpp"
#include "net/tls.hpp"

#include <boost/asio/ssl.hpp>

#include <array>
#include <functional>
#include <future>
#include <thread>

namespace conch::test {
namespace {

namespace ssl = asio::ssl;

/// A peer that plays its part on one connection, in a thread.
class peer {
 public:
  using stream = ssl::stream<asio::ip::tcp::socket>;

  peer(tls_files const& files, std::function<void(stream&)> part, int receive_buffer = 0)
      : context_{ssl::context::tls_server},
        acceptor_{ctx_, asio::ip::tcp::endpoint{asio::ip::address_v4::loopback(), 0}} {
    context_.use_certificate_chain_file(files.certificate("server"));
    context_.use_private_key_file(files.key("server"), ssl::context::pem);
    if (receive_buffer != 0) acceptor_.set_option(asio::socket_base::receive_buffer_size{receive_buffer});
    thread_ = std::thread{[this, p = std::move(part)] {
      try {
        stream s{acceptor_.accept(), context_};
        s.handshake(ssl::stream_base::server);
        p(s);
      } catch (std::exception const& e) {
        wrong = e.what();
      }
    }};
  }
  ~peer() { wait(); }
  void wait() {
    if (thread_.joinable()) thread_.join();
  }
  asio::ip::tcp::endpoint where() const { return acceptor_.local_endpoint(); }

  std::string wrong;

 private:
  asio::io_context ctx_;
  ssl::context context_;
  asio::ip::tcp::acceptor acceptor_;
  std::thread thread_;
};

/// A TLS stream of the library to a peer.
class TlsStream : public testing::Test {
 protected:
  std::shared_ptr<net::tls_stream> connected_to(peer const& p) {
    tls_config c;
    c.ca_file = files.certificate("ca");
    maker = net::make_tls(c, "127.0.0.1");
    net::tls_stream::socket s{ctx};
    s.connect(p.where());
    s.non_blocking(true);
    auto made = maker->make(std::move(s));
    EXPECT_TRUE(made) << maker->trouble();
    bool done = false;
    made->async_handshake([&](error_code ec) {
      EXPECT_FALSE(ec) << made->words(ec);
      done = true;
    });
    while (!done) ctx.run_one();
    return made;
  }

  tls_files files;
  asio::io_context ctx;
  std::unique_ptr<net::tls_maker> maker;
};

TEST_F(TlsStream, D28AMegabyteToASlowReaderArrivesWhole) {
  std::string sent(1 << 20, '\0');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31 + i / 251);
  std::string heard;
  peer slow{files,
            [&](peer::stream& s) {
              std::string buffer(3000, '\0');
              while (heard.size() < sent.size()) {
                heard.append(buffer, 0, s.read_some(asio::buffer(buffer)));
                if (heard.size() % 7 == 0) std::this_thread::sleep_for(200us);
              }
            },
            4096};
  auto const stream = connected_to(slow);
  std::string rest = sent;
  std::function<void()> const write = [&] {
    std::string const piece = rest;  // is gone when the write ends: the stream looks at it no more
    stream->async_write_some(piece, [&](error_code ec, std::size_t n) {
      ASSERT_FALSE(ec) << ec.message();
      ASSERT_GT(n, 0u);
      rest.erase(0, n);
      if (!rest.empty()) write();
    });
  };
  write();
  ctx.restart();
  ctx.run_for(60s);
  EXPECT_TRUE(rest.empty()) << rest.size();
  slow.wait();
  EXPECT_EQ(slow.wrong, "");
  EXPECT_TRUE(heard == sent);
  stream->close();
}

TEST_F(TlsStream, D32APeerThatNeverAnswersTheGoodByeIsNotWaitedFor) {
  std::promise<void> go_on;
  std::string how;
  peer deaf{files, [&](peer::stream& s) {
              go_on.get_future().wait();  // reads nothing until then
              char one = 0;
              error_code ec;
              s.read_some(asio::buffer(&one, 1), ec);
              how = ec.message();
            }};
  auto const stream = connected_to(deaf);
  std::array<char, 10> room{};
  stream->async_read_some(room, [](error_code, std::size_t) { FAIL() << "called after close()"; });
  auto const began = steady::now();
  stream->close();
  EXPECT_LT(steady::now() - began, 2s);  // the peer would never answer
  ctx.restart();
  ctx.run_for(1s);
  EXPECT_TRUE(ctx.stopped()) << "something is still under way";
  go_on.set_value();
  deaf.wait();
  EXPECT_EQ(how, error_code{asio::error::eof}.message()) << "it was told";
}

TEST_F(TlsStream, ClosedInAWriteToAPeerThatReadsNothingEnds) {
  std::promise<void> go_on;
  peer deaf{files, [&](peer::stream&) { go_on.get_future().wait(); }, 4096};
  auto const stream = connected_to(deaf);
  bool ended = false;
  std::string const much(16 << 10, 'x');
  std::size_t written = 0;
  std::function<void()> const write = [&] {
    stream->async_write_some(much, [&](error_code ec, std::size_t n) {
      ended = static_cast<bool>(ec);
      written += n;
      if (!ec) write();
    });
  };
  write();
  ctx.restart();
  ctx.run_for(300ms);
  EXPECT_FALSE(ended);
  EXPECT_LT(written, 64u << 20);
  auto const began = steady::now();
  stream->close();
  EXPECT_LT(steady::now() - began, 2s);  // the peer would never answer
  ctx.restart();
  ctx.run_for(1s);
  EXPECT_TRUE(ctx.stopped());
  EXPECT_FALSE(ended) << "no handler is called after close()";
  go_on.set_value();
}

TEST_F(TlsStream, D32ACutIsAnOrdinaryEnd) {
  peer cuts{files, [](peer::stream& s) {
              s.next_layer().shutdown(asio::ip::tcp::socket::shutdown_both);
              s.next_layer().close();
            }};
  auto const stream = connected_to(cuts);
  std::array<char, 10> room{};
  error_code how;
  stream->async_read_some(room, [&](error_code ec, std::size_t) { how = ec; });
  ctx.restart();
  ctx.run_for(10s);
  EXPECT_EQ(how, asio::error::eof) << how.message();
  EXPECT_EQ(net::tls_fault(how), protocol::fault::try_later);
  stream->close();
}

TEST_F(TlsStream, D31TheNameIsSentAndAnAddressIsNot) {
  for (auto const& [host, expected] : std::vector<std::pair<std::string, std::string>>{
           {"a.test", "a.test"}, {"127.0.0.1", "none"}, {"::1%lo", "none"}}) {
    std::string heard;
    peer p{files, [&](peer::stream& s) {
             char const* const name = SSL_get_servername(s.native_handle(), TLSEXT_NAMETYPE_host_name);
             heard = name == nullptr ? "none" : name;
           }};
    tls_config c;
    c.verify = false;
    auto const without = net::make_tls(c, host);
    net::tls_stream::socket s{ctx};
    s.connect(p.where());
    auto const stream = without->make(std::move(s));
    stream->async_handshake([](error_code ec) { EXPECT_FALSE(ec) << ec.message(); });
    ctx.restart();
    ctx.run_for(10s);
    p.wait();
    EXPECT_EQ(heard, expected) << host << p.wrong;
    stream->close();
  }
}

}  // namespace
}  // namespace conch::test

#endif
