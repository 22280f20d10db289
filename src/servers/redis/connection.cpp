// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/connection.hpp"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>

#include <exception>
#include <memory>
#include <random>
#include <utility>

namespace conch::redis {

using boost::system::error_code;

namespace {

/// What a strand's functions run on.
asio::any_io_executor below(asio::any_io_executor const& on) {
  auto const* const strand = on.target<asio::strand<asio::any_io_executor>>();
  return strand != nullptr ? strand->get_inner_executor() : on;
}

}  // namespace

connection::connection(host& h, asio::any_io_executor on, config const& settings, std::string const& client_id,
                       address const& where, connection_fsm::roles const& r)
    : shell{h, on},
      settings_{settings},
      fsm_{settings, client_id, where, std::random_device{}(), {.handshakes = where.over_tls}, r},
      turns_{below(this->on_)},
      in_one_thread_{settings.single_threaded},
      stream_{on, where, settings.tls} {}

// ---------------------------------------------------------------------------------------------- from the protocol

void connection::send(protocol::command const& c) {
  switch (fsm_.send(c)) {
    case connection_fsm::flush_due::no: return;
    case connection_fsm::flush_due::later: return flush_later();
    case connection_fsm::flush_due::at_once: asio::dispatch(on_, [this, keep = host_.keep()] { flush(); }); return;
  }
}

void connection::say(std::string_view bytes) {
  if (fsm_.say(bytes)) flush_later();
}

void connection::moved() {
  if (fsm_.life().moved()) call_due_later();
}

void connection::report(statistics& s) const noexcept {
  s.tls_handshakes += fsm_.life().counted().handshakes;
  s.tls_handshakes_failed += fsm_.life().counted().handshakes_failed;
  s.reauthentications += fsm_.renewal().successes();
  s.reauthentications_failed += fsm_.renewal().failures();
  constexpr std::chrono::sys_seconds none{};
  if (peer_expires_ != none && (s.tls_peer_expires == none || peer_expires_ < s.tls_peer_expires))
    s.tls_peer_expires = peer_expires_;
}

// ------------------------------------------------------------------------------------------------- on the strand

/// Not through the strand: its queue would delay a flush() that is due earlier.
void connection::flush_later() {
  asio::post(turns_, [this, keep = host_.keep()] { asio::dispatch(on_, [this, keep] { flush(); }); });
}

void connection::flush() {
  fsm_.flush();
  carry_out();
}

void connection::carry_out() {
  for (net::steps todo = fsm_.life().take(); todo.any(); todo = fsm_.life().take()) {
    if (todo.log) log_lines();
    if (todo.close) close();
    if (todo.sleep) sleep(todo.until);
    if (todo.ask) ask();
    if (todo.resolve) resolve();
    if (todo.connect) connect();
    if (todo.handshake) handshake();
    if (todo.flush && !in_one_thread_) flush_later();  // after the handlers of this turn, which were posted
    if (todo.flush && in_one_thread_) {
      fsm_.flush();
      todo.write = fsm_.life().take().write || todo.write;  // before the next read, so that the server gets it first
    }
    if (todo.write) write();
    if (todo.read) read();
    if (todo.call_due_later) call_due_later();
  }
}

void connection::close() {
  end_handlers();
  stream_.close();
}

/// The provider may answer from any thread, at once, late, twice or never; the client may be gone by then.
void connection::ask() {
  std::weak_ptr<void> const client = host_.keep();
  auto const answer = [this, client, mine = ++question_](std::string const& why, credentials found) {
    auto const keep = client.lock();
    if (!keep) return;
    auto posted = [this, keep, mine, why, c = std::move(found)] {
      if (mine != question_) return;
      ++question_;  // the next answer to it is ignored
      give([&](time_point now) { why.empty() ? fsm_.credentials_found(c, now) : fsm_.no_credentials(why, now); });
    };
    // From within: then the io_context is still there.
    host_.enter([&](time_point) { asio::post(on_, std::move(posted)); });
  };
  try {
    settings_.credentials_provider(fsm_.where().shown(), [answer](error_code ec, credentials found) {
      answer(ec ? ec.message() : std::string{}, std::move(found));
    });
  } catch (std::exception const& e) {
    answer(e.what(), {});
  } catch (...) {
    answer("it threw something other than a std::exception", {});
  }
}

void connection::resolve() {
  stream_.async_resolve(fsm_.where(), bound([this](error_code ec, net::stream::found_addresses const& found) {
                          if (!fsm_.life().is_up()) stream_.take(found);
                          give([&](time_point now) {
                            std::string const why = ec ? "'" + fsm_.where().host + "': " + ec.message() : std::string{};
                            fsm_.life().resolved({net::stream::shown(found), true, why}, now);
                          });
                        }));
}

void connection::connect() {
  stream_.async_connect(
      fsm_.where(), fsm_.life().address_number(), bound([this](error_code ec) {
        if (!ec) stream_.connected();
        give([&](time_point now) { ec ? fsm_.failed(ec.message(), now) : fsm_.life().connected(now); });
      }));
}

void connection::handshake() {
  std::string warning;
  std::string const wrong = stream_.async_handshake(warning, bound([this](error_code ec) {
                                                      give([&](time_point now) {
                                                        peer_expires_ = stream_.peer_expires();
                                                        ec ? fsm_.failed(stream_.words(ec), now, net::tls_fault(ec))
                                                           : fsm_.life().handshaken(now);
                                                      });
                                                    }));
  if (!warning.empty())
    host_.log(log_level::warning, fsm_.where().shown() + ": still using the previous files: " + warning);
  if (wrong.empty()) return;
  asio::post(on_, bound([this, wrong] {
               give([&](time_point now) { fsm_.failed(wrong, now, protocol::fault::tls_failed); });
             }));
}

/// Writes at once what the stream takes, which is nearly always all.
void connection::write() {
  std::size_t const taken = stream_.write_some(fsm_.bytes());
  if (taken != 0) return fsm_.written(taken);
  stream_.async_write_some(fsm_.bytes(), bound([this](error_code ec, std::size_t size) {
                             if (ec) {
                               give([&](time_point now) { fsm_.write_failed("write: " + stream_.words(ec), now); });
                             } else {
                               fsm_.written(size);
                               carry_out();
                             }
                           }));
}

void connection::read() {
  stream_.async_read_some(fsm_.room(), bound([this](error_code ec, std::size_t size) {
                            give([&](time_point now) {
                              ec ? fsm_.failed("read: " + stream_.words(ec), now, net::tls_fault(ec))
                                 : fsm_.received(size, now);
                            });
                          }));
}

}  // namespace conch::redis
