#include "support/request_counter.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <cstddef>
#include <exception>
#include <mutex>
#include <string_view>
#include <thread>

#include "servers/zookeeper/jute.hpp"

namespace conch::bench {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

struct connection {
  explicit connection(tcp::socket s) : client{std::move(s)}, server{client.get_executor()} {}

  tcp::socket client, server;
  zookeeper::frame_reader frames;
  bool greeted = false;
};

std::int32_t number_at(std::string_view frame, std::size_t at) {
  std::uint32_t n = 0;
  for (std::size_t i = 0; i < 4; ++i) n = n << 8 | static_cast<unsigned char>(frame[at + i]);
  return static_cast<std::int32_t>(n);
}

/// The numbers are those of ZooDefs.OpCode.
std::uint64_t requests::*kind_of(std::int32_t op) {
  switch (op) {
    case 8:
    case 12: return &requests::lists;
    case 3:
    case 4: return &requests::reads;
    case 1:
    case 15:
    case 19:
    case 21: return &requests::creations;
    case 2:
    case 20: return &requests::deletions;
    case 5: return &requests::writes;
    case 11: return &requests::pings;
    default: return &requests::others;
  }
}

}  // namespace

requests requests::since(requests const& earlier) const noexcept {
  requests r = *this;
  for (auto const which : {&requests::lists, &requests::reads, &requests::creations, &requests::deletions,
                           &requests::writes, &requests::pings, &requests::others}) {
    r.*which -= earlier.*which;
  }
  return r;
}

class request_counter::impl {
 public:
  explicit impl(std::uint16_t server)
      : to_{asio::ip::address_v4::loopback(), server},
        listens_{context_, {asio::ip::address_v4::loopback(), 0}} {
    asio::co_spawn(context_, accept(), asio::detached);
    thread_ = std::thread{[this] { context_.run(); }};
  }
  ~impl() {
    context_.stop();
    thread_.join();
  }

  std::uint16_t port() const { return listens_.local_endpoint().port(); }
  requests count() const {
    std::lock_guard const lock{mutex_};
    return count_;
  }

 private:
  asio::awaitable<void> accept() {
    for (;;) {
      tcp::socket client = co_await listens_.async_accept(asio::deferred);
      auto const both = std::make_shared<connection>(std::move(client));
      asio::co_spawn(context_, serve(both), asio::detached);
    }
  }

  asio::awaitable<void> serve(std::shared_ptr<connection> both) {
    co_await both->server.async_connect(to_, asio::deferred);
    both->server.set_option(tcp::no_delay{true});
    both->client.set_option(tcp::no_delay{true});
    asio::co_spawn(context_, answers(both), asio::detached);
    try {
      for (;;) {
        auto const room = both->frames.room();
        std::size_t const size =
            co_await both->client.async_read_some(asio::buffer(room.data(), room.size()), asio::deferred);
        co_await asio::async_write(both->server, asio::buffer(room.data(), size), asio::deferred);
        both->frames.received(size);
        while (both->frames.next() == zookeeper::frame_reader::progress::frame) take(*both, both->frames.frame());
      }
    } catch (boost::system::system_error const&) {
      end(*both);
    }
  }

  asio::awaitable<void> answers(std::shared_ptr<connection> both) {
    try {
      std::array<char, 65536> bytes;
      for (;;) {
        std::size_t const size = co_await both->server.async_read_some(asio::buffer(bytes), asio::deferred);
        co_await asio::async_write(both->client, asio::buffer(bytes.data(), size), asio::deferred);
      }
    } catch (boost::system::system_error const&) {
      end(*both);
    }
  }

  static void end(connection& both) {
    boost::system::error_code ignored;
    both.client.close(ignored);
    both.server.close(ignored);
  }

  void take(connection& from, std::string_view frame) {
    if (!std::exchange(from.greeted, true) || frame.size() < 8) return;
    std::lock_guard const lock{mutex_};
    ++(count_.*kind_of(number_at(frame, 4)));
  }

  tcp::endpoint const to_;
  asio::io_context context_{1};
  tcp::acceptor listens_;
  mutable std::mutex mutex_;
  requests count_;
  std::thread thread_;
};

request_counter::request_counter(std::uint16_t server) : impl_{std::make_unique<impl>(server)} {}
request_counter::~request_counter() = default;
std::uint16_t request_counter::port() const noexcept { return impl_->port(); }
requests request_counter::count() const { return impl_->count(); }

}  // namespace conch::bench
