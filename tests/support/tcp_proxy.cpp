#include "support/tcp_proxy.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <deque>
#include <future>
#include <list>
#include <optional>
#include <random>
#include <thread>
#include <utility>

namespace conch::test {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using steady = std::chrono::steady_clock;

namespace {

/// What one direction of a connection keeps in hand before it reads no more.
constexpr std::size_t high_water_mark = 1 << 20;

std::size_t index(tcp_proxy::towards direction) { return direction == tcp_proxy::towards::server ? 0 : 1; }

}  // namespace

/// All of it runs on one thread.
class tcp_proxy::impl {
 public:
  impl(std::uint16_t target, std::uint64_t seed)
      : target_{asio::ip::address_v4::loopback(), target},
        random_{seed},
        acceptor_{ctx_, tcp::endpoint{asio::ip::address_v4::loopback(), 0}} {
    accept();
    thread_ = std::thread{[this] { ctx_.run(); }};
  }

  ~impl() {
    ctx_.stop();
    thread_.join();
  }

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

  /// Runs f on the thread and waits for it.
  template <class F>
  auto call(F f) -> decltype(f()) {
    std::packaged_task<decltype(f())()> task{std::move(f)};
    auto done = task.get_future();
    asio::post(ctx_, [&task] { task(); });
    return done.get();
  }

  void set(towards direction, behaviour b) {
    how_[index(direction)] = b;
    auto const all = connections_;  // some may end now
    for (auto const& c : all) c->go_on();
  }

  void refuse(bool refused) { refused_ = refused; }

  void retarget(std::uint16_t target) { target_.port(target); }

  void end_all(bool by_reset) {
    auto const all = connections_;
    for (auto const& c : all) c->end(by_reset);
  }

  void reset_after(towards direction, std::uint64_t bytes) { bytes_until_reset_[index(direction)] = bytes; }

  counters count() const {
    counters now = counters_;
    now.open = connections_.size();
    return now;
  }

 private:
  class connection;

  /// One direction of one connection.
  class pipe {
   public:
    pipe(impl& in, connection& of, std::size_t which, tcp::socket& from, tcp::socket& to)
        : in_{in},
          of_{of},
          which_{which},
          from_{from},
          to_{to},
          timer_{in.ctx_} {}

    void read() {
      if (reading_ || ended_ || kept_ >= high_water_mark) return;
      reading_ = true;
      from_.async_read_some(asio::buffer(buffer_), [this, keep = of_.shared_from_this()](error_code ec, std::size_t n) {
        reading_ = false;
        if (of_.over()) return;
        if (ec == asio::error::eof) {
          ended_ = true;
        } else if (ec) {
          of_.end(ec == asio::error::connection_reset);
          return;
        } else {
          take(n);
        }
        go_on();
        read();
      });
    }

    void go_on() {
      behaviour const& how = in_.how_[which_];
      if (writing_ || waiting_ || of_.over()) return;
      if (how.stalled) return;
      if (chunks_.empty()) {
        if (ended_ && !told_end_ && !how.swallowed) {
          told_end_ = true;
          error_code ignored;
          to_.shutdown(tcp::socket::shutdown_send, ignored);
          of_.half_ended();
        }
        return;
      }
      auto const now = steady::now();
      auto const at = std::max(chunks_.front().due, next_piece_);
      if (at > now) {
        waiting_ = true;
        timer_.expires_at(at);
        timer_.async_wait([this, keep = of_.shared_from_this()](error_code) {
          waiting_ = false;
          go_on();
        });
        return;
      }
      write(how);
    }

    void stop() { timer_.cancel(); }

   private:
    struct chunk {
      steady::time_point due;
      std::string bytes;
      std::size_t sent = 0;
    };

    void take(std::size_t n) {
      behaviour const& how = in_.how_[which_];
      if (how.swallowed) return;
      auto due = steady::now() + how.delay;
      if (how.jitter.count() > 0)
        due += std::chrono::microseconds{in_.roll(static_cast<std::uint64_t>(how.jitter.count()))};
      last_due_ = std::max(last_due_, due);
      chunks_.push_back({last_due_, std::string(buffer_.data(), n)});
      kept_ += n;
    }

    void write(behaviour const& how) {
      chunk& first = chunks_.front();
      std::size_t size = first.bytes.size() - first.sent;
      if (how.split > 0) size = std::min<std::size_t>(size, 1 + in_.roll(how.split));
      auto& bytes_until_reset = in_.bytes_until_reset_[which_];
      if (bytes_until_reset) size = static_cast<std::size_t>(std::min<std::uint64_t>(size, *bytes_until_reset));
      writing_ = true;
      asio::async_write(to_, asio::buffer(first.bytes.data() + first.sent, size),
                        [this, size, gap = how.gap, keep = of_.shared_from_this()](error_code ec, std::size_t) {
                          writing_ = false;
                          if (of_.over()) return;
                          if (ec) {
                            of_.end(true);
                            return;
                          }
                          written(size, gap);
                        });
    }

    void written(std::size_t size, std::chrono::microseconds gap) {
      (which_ == 0 ? in_.counters_.bytes_to_server : in_.counters_.bytes_to_client) += size;
      chunk& first = chunks_.front();
      first.sent += size;
      kept_ -= size;
      if (first.sent == first.bytes.size()) {
        chunks_.pop_front();
      } else {
        next_piece_ = steady::now() + gap;
      }
      if (auto& bytes_until_reset = in_.bytes_until_reset_[which_]) {
        *bytes_until_reset -= std::min<std::uint64_t>(*bytes_until_reset, size);
        if (*bytes_until_reset == 0) {
          bytes_until_reset.reset();
          of_.end(true);
          return;
        }
      }
      read();
      go_on();
    }

    impl& in_;
    connection& of_;
    std::size_t const which_;
    tcp::socket& from_;
    tcp::socket& to_;
    asio::steady_timer timer_;
    std::array<char, 16 << 10> buffer_;
    std::deque<chunk> chunks_;
    std::size_t kept_ = 0;
    steady::time_point last_due_{}, next_piece_{};
    bool reading_ = false, writing_ = false, waiting_ = false;
    bool ended_ = false, told_end_ = false;
  };

  class connection : public std::enable_shared_from_this<connection> {
   public:
    connection(impl& in, tcp::socket client)
        : in_{in},
          client_{std::move(client)},
          server_{in.ctx_},
          pipes_{pipe{in, *this, 0, client_, server_}, pipe{in, *this, 1, server_, client_}} {}

    void start() {
      // A test looks at what a program inherits from this process: of conch nothing, so nothing of this either.
      error_code failed;
      server_.open(tcp::v4(), failed);
      for (tcp::socket* one : {&client_, &server_}) ::fcntl(one->native_handle(), F_SETFD, FD_CLOEXEC);
      server_.async_connect(in_.target_, [this, keep = shared_from_this()](error_code ec) {
        if (over_) return;
        if (ec) {
          end(true);
          return;
        }
        error_code ignored;
        client_.set_option(tcp::no_delay{true}, ignored);
        server_.set_option(tcp::no_delay{true}, ignored);
        for (pipe& p : pipes_) p.read();
      });
    }

    void go_on() {
      for (pipe& p : pipes_) p.go_on();
    }

    bool over() const noexcept { return over_; }

    void half_ended() {
      if (++ends_ == 2) end(false);
    }

    void end(bool by_reset) {
      if (std::exchange(over_, true)) return;
      if (by_reset) ++in_.counters_.resets;
      error_code ignored;
      for (tcp::socket* s : {&client_, &server_}) {
        if (by_reset) s->set_option(asio::socket_base::linger{true, 0}, ignored);
        s->close(ignored);
      }
      for (pipe& p : pipes_) p.stop();
      in_.connections_.remove_if([this](auto const& c) { return c.get() == this; });
    }

   private:
    impl& in_;
    tcp::socket client_;
    tcp::socket server_;
    std::array<pipe, 2> pipes_;
    int ends_ = 0;
    bool over_ = false;
  };

  void accept() {
    acceptor_.async_accept([this](error_code ec, tcp::socket s) {
      if (!ec) {
        ++counters_.connections;
        auto const c = std::make_shared<connection>(*this, std::move(s));
        connections_.push_back(c);
        if (refused_) {
          c->end(true);
        } else {
          c->start();
        }
      }
      accept();
    });
  }

  std::uint64_t roll(std::uint64_t sides) {
    return std::uniform_int_distribution<std::uint64_t>{0, sides - 1}(random_);
  }

  asio::io_context ctx_{1};
  tcp::endpoint target_;
  std::mt19937_64 random_;
  tcp::acceptor acceptor_;
  std::list<std::shared_ptr<connection>> connections_;
  std::array<behaviour, 2> how_{};
  std::array<std::optional<std::uint64_t>, 2> bytes_until_reset_{};
  bool refused_ = false;
  counters counters_;
  std::thread thread_;
};

tcp_proxy::tcp_proxy(std::uint16_t target, std::uint64_t seed)
    : impl_{std::make_unique<impl>(target, seed)},
      port_{impl_->port()} {}

tcp_proxy::~tcp_proxy() = default;

void tcp_proxy::set(towards direction, behaviour b) {
  impl_->call([&] { impl_->set(direction, b); });
}

void tcp_proxy::stall() {
  impl_->call([&] {
    impl_->set(towards::server, {.stalled = true});
    impl_->set(towards::client, {.stalled = true});
  });
}

void tcp_proxy::heal() {
  impl_->call([&] {
    impl_->refuse(false);
    impl_->set(towards::server, {});
    impl_->set(towards::client, {});
  });
}

void tcp_proxy::retarget(std::uint16_t target) {
  impl_->call([&] { impl_->retarget(target); });
}

void tcp_proxy::refuse(bool refused) {
  impl_->call([&] { impl_->refuse(refused); });
}

void tcp_proxy::reset() {
  impl_->call([&] { impl_->end_all(true); });
}

void tcp_proxy::drop() {
  impl_->call([&] { impl_->end_all(false); });
}

void tcp_proxy::reset_after(towards direction, std::uint64_t bytes) {
  impl_->call([&] { impl_->reset_after(direction, bytes); });
}

tcp_proxy::counters tcp_proxy::count() const {
  return impl_->call([&] { return impl_->count(); });
}

}  // namespace conch::test
