// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/connection.hpp"

#include <boost/asio/post.hpp>

#include <random>
#include <utility>

namespace conch::zookeeper {

using boost::system::error_code;

namespace {

fault fault_of(error_code ec) { return net::tls_fault(ec) == protocol::fault::tls_failed ? fault::tls_failed : fault::try_later; }

}  // namespace

connection::connection(host& h, asio::any_io_executor on, config const& settings, std::vector<address> servers)
    : shell{h, on}, settings_{settings}, fsm_{std::move(servers), std::random_device{}()}, stream_{std::make_unique<net::stream>(on_, fsm_.where(),
                                                                                                                                 settings.tls)} {}

// ------------------------------------------------------------------------------------------------ from the session

time_point connection::connect(duration lease, time_point now) {
  go_on_later();
  return fsm_.want({settings_.connect_timeout, lease}, now);
}

time_point connection::silent(time_point now) {
  go_on_later();
  return fsm_.silent(now);
}

void connection::greet(connect_request const& c) {
  fsm_.greet(c);
  go_on_later();
}

void connection::send(request const& r) {
  fsm_.send(r);
  go_on_later();
}

void connection::drop(std::string_view, bool is_silent, time_point now) {
  fsm_.drop(is_silent, now);
  go_on_later();
}

void connection::shut_down() {
  asio::post(on_, [this, keep = host_.keep()] {
    host_.enter([this](time_point) { fsm_.shut_down(); });
    carry_out();
  });
}

// ------------------------------------------------------------------------------------------------- on the strand

/// An input, at the end of which everything is carried out that the session has asked for in it.
template <class F>
void connection::turn(F f) {
  host_.run(step{*this, [&](time_point now) {
                   in_turn_ = true;
                   f(now);
                   in_turn_ = false;
                 }});
}

void connection::go_on_later() {
  if (in_turn_ || std::exchange(posted_, true)) return;
  asio::post(on_, [this, keep = host_.keep()] {
    host_.enter([this](time_point) {
      posted_ = false;
      fsm_.go_on();
    });
    carry_out();
  });
}

void connection::carry_out() {
  for (connection_actions todo = fsm_.take(); todo.any(); todo = fsm_.take()) {
    if (todo.close) close();
    if (todo.resolve) resolve();
    if (todo.connect) open();
    if (todo.handshake) handshake();
    if (todo.write) write();
    if (todo.read) read();
  }
}

void connection::close() {
  end_handlers();
  stream_->close();
}

void connection::resolve() {
  stream_ = std::make_unique<net::stream>(on_, fsm_.where(), settings_.tls);
  stream_->async_resolve(fsm_.where(), bound([this](error_code ec, net::stream::found_addresses const& found) {
                           stream_->take(found);
                           turn([&](time_point now) {
                             if (ec) fsm_.failed("the name is not known: " + ec.message(), now);
                             else fsm_.resolved(net::stream::shown(found), now);
                           });
                         }));
}

void connection::open() {
  stream_->async_connect(fsm_.where(), fsm_.address_number(), bound([this](error_code ec) {
                           if (!ec) stream_->connected();
                           turn([&](time_point now) { ec ? fsm_.refused(ec.message(), now) : fsm_.connected(now); });
                         }));
}

void connection::handshake() {
  std::string warning;
  std::string const wrong =
      stream_->async_handshake(warning, bound([this](error_code ec) {
                                 turn([&](time_point now) { ec ? fsm_.failed(stream_->words(ec), now, fault_of(ec)) : fsm_.handshaken(now); });
                               }));
  if (!warning.empty()) host_.log(log_level::warning, fsm_.shown() + ": still using the previous files: " + warning);
  if (wrong.empty()) return;
  asio::post(on_, bound([this, wrong] { turn([&](time_point now) { fsm_.failed(wrong, now, fault::tls_failed); }); }));
}

/// Writes at once what the stream takes, which is nearly always all.
void connection::write() {
  std::size_t const taken = stream_->write_some(fsm_.bytes());
  if (taken != 0) return host_.enter([&](time_point) { fsm_.written(taken); });
  stream_->async_write_some(fsm_.bytes(), bound([this](error_code ec, std::size_t size) {
                              turn([&](time_point now) { ec ? fsm_.failed("write: " + stream_->words(ec), now) : fsm_.written(size); });
                            }));
}

void connection::read() {
  stream_->async_read_some(
      fsm_.room(), bound([this](error_code ec, std::size_t size) {
        turn([&](time_point now) { ec ? fsm_.failed("read: " + stream_->words(ec), now, fault_of(ec)) : fsm_.received(size, now); });
      }));
}

}  // namespace conch::zookeeper
