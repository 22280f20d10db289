// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/connection.hpp"

#include <boost/asio/post.hpp>

#include <random>
#include <utility>

namespace conch::zookeeper {

using boost::system::error_code;

namespace {

fault fault_of(error_code ec) {
  return net::tls_fault(ec) == protocol::fault::tls_failed ? fault::tls_failed : fault::try_later;
}

}  // namespace

connection::connection(host& h, asio::any_io_executor on, config const& settings, std::vector<address> servers)
    : shell{h, on},
      settings_{settings},
      fsm_{settings, std::move(servers), std::random_device{}(), std::random_device{}()},
      stream_{std::make_unique<net::stream>(on_, fsm_.where(), settings.tls)} {}

// ------------------------------------------------------------------------------------------------ from the session

void connection::want(duration lease, time_point) {
  if (fsm_.want(lease)) call_due_later();
}

void connection::in_use(duration lease, time_point now) {
  fsm_.in_use(lease, now);
  flush_later();
}

void connection::greet(connect_request const& c) {
  fsm_.greet(c);
  flush_later();
}

void connection::send(request const& r) {
  fsm_.send(r);
  flush_later();
}

void connection::drop(std::string_view why, ending how, time_point) {
  fsm_.drop(why, how);
  flush_later();
}

// ------------------------------------------------------------------------------------------------- on the strand

/// An input, at the end of which everything is carried out that the session has asked for in it.
template <class F>
void connection::turn(F f) {
  give([&](time_point now) {
    in_turn_ = true;
    f(now);
    fsm_.end_turn(now);
    in_turn_ = false;
  });
}

/// Carries out what the session has asked for, and writes what it has sent.
void connection::flush_later() {
  if (in_turn_ || std::exchange(posted_, true)) return;
  asio::post(on_, [this, keep = host_.keep()] {
    host_.enter([this](time_point now) {
      posted_ = false;
      fsm_.end_turn(now);
    });
    carry_out();
  });
}

void connection::carry_out() {
  for (net::steps todo = life().take(); todo.any(); todo = life().take()) {
    if (todo.log) log_lines();
    if (todo.close) close();
    if (todo.sleep) sleep(todo.until);
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
                             std::string const why = ec ? "the name is not known: " + ec.message() : std::string{};
                             life().resolved({net::stream::shown(found), true, why}, now);
                           });
                         }));
}

void connection::open() {
  stream_->async_connect(fsm_.where(), life().address_number(), bound([this](error_code ec) {
                           if (!ec) stream_->connected();
                           turn([&](time_point now) { ec ? fsm_.failed(ec.message(), now) : life().connected(now); });
                         }));
}

void connection::handshake() {
  std::string warning;
  std::string const wrong = stream_->async_handshake(
      warning, bound([this](error_code ec) {
        turn([&](time_point now) { ec ? fsm_.failed(stream_->words(ec), now, fault_of(ec)) : life().handshaken(now); });
      }));
  if (!warning.empty()) host_.log(log_level::warning, fsm_.shown() + ": still using the previous files: " + warning);
  if (wrong.empty()) return;
  asio::post(on_, bound([this, wrong] { turn([&](time_point now) { fsm_.failed(wrong, now, fault::tls_failed); }); }));
}

/// Writes at once what the stream takes, which is nearly always all.
void connection::write() {
  std::size_t const taken = stream_->write_some(fsm_.bytes());
  if (taken != 0) return host_.enter([&](time_point) { fsm_.written(taken); });
  stream_->async_write_some(
      fsm_.bytes(), bound([this](error_code ec, std::size_t size) {
        turn([&](time_point now) { ec ? fsm_.failed("write: " + stream_->words(ec), now) : fsm_.written(size); });
      }));
}

void connection::read() {
  stream_->async_read_some(fsm_.room(), bound([this](error_code ec, std::size_t size) {
                             turn([&](time_point now) {
                               ec ? fsm_.failed("read: " + stream_->words(ec), now, fault_of(ec))
                                  : fsm_.received(size, now);
                             });
                           }));
}

}  // namespace conch::zookeeper
