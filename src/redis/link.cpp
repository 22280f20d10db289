// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "redis/link.hpp"

#include "base/turns.hpp"
#include "redis/codec.hpp"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <utility>

namespace conch::redis {

namespace {

/// Of an answer or a push of ours the longest is a grant for a name of 512 bytes, or 906 numbers. A peer that sends more
/// than this is no lock server.
constexpr resp::limits wire_limits{.max_depth = 8, .max_elements = 4096, .max_text = 64 << 10, .max_message = 1 << 20};
constexpr std::size_t good_read = 16 << 10;
constexpr duration steady_after = std::chrono::seconds{1};

}  // namespace

link::link(host& h, asio::any_io_executor on, config const& settings, std::string const& client_id, address where)
    : host_{h}, on_{on}, settings_{settings}, id_{client_id}, where_{std::move(where)}, random_{std::random_device{}()}, resolver_{on}, socket_{on},
      timer_{on}, decoder_{wire_limits}, outgoing_mutex_{!settings.single_threaded} {}

template <class F>
auto link::bound(F f) {
  return [this, keep = host_.keep(), mine = generation_, f = std::move(f)](auto&&... args) mutable {
    if (mine == generation_ && state_ != state::closed) f(std::forward<decltype(args)>(args)...);
  };
}

// ---------------------------------------------------------------------------------------------- from the engine

void link::send(engine::command const& c) {
  bool first = false;
  {
    std::lock_guard const guard{outgoing_mutex_};
    encode(c, id_, outgoing_);
    first = !std::exchange(flush_posted_, true);
  }
  bool const owed = unanswered_++ > 0;
  if (!first) return;
  if (owed) {
    post_flush();
  } else {
    asio::dispatch(on_, [this, keep = host_.keep()] { flush(); });
  }
}

void link::post_flush() {
  asio::post(on_, [this, keep = host_.keep()] { flush(); });
}

void link::want_connection() {
  if (std::exchange(wanted_, true)) return;
  asio::post(on_, [this, keep = host_.keep()] {
    if (state_ == state::idle) connect();
  });
}

void link::drop_connection(std::string_view why) {
  if (std::exchange(dropping_, true)) return;
  asio::post(on_, [this, keep = host_.keep(), why = std::string{why}] {
    if (state_ == state::up) failed(engine::fault::reconnect, why);
  });
}

void link::shut_down() {
  asio::post(on_, [this, keep = host_.keep()] {
    state_ = state::closed;
    ++generation_;
    boost::system::error_code ignored;
    socket_.close(ignored);
    resolver_.cancel();
    timer_.cancel();
  });
}

// ------------------------------------------------------------------------------------------------- on the strand

void link::connect() {
  state_ = state::connecting;
  ++generation_;
  endpoints_.clear();
  timer_.expires_after(settings_.connect_timeout);
  timer_.async_wait(bound([this](boost::system::error_code ec) {
    if (!ec) failed(engine::fault::try_later, "no connection within connect_timeout");
  }));
  if (where_.what == address::kind::unix_socket) {
    endpoints_.emplace_back(asio::local::stream_protocol::endpoint{where_.path});
    connect_next(0, {});
    return;
  }
  resolver_.async_resolve(where_.host, std::to_string(where_.port), asio::ip::resolver_query_base::numeric_service,
                          bound([this](boost::system::error_code ec, asio::ip::tcp::resolver::results_type const& found) {
                            if (ec) {
                              failed(engine::fault::try_later, "'" + where_.host + "': " + ec.message());
                              return;
                            }
                            for (auto const& entry : found) endpoints_.emplace_back(entry.endpoint());
                            connect_next(0, {});
                          }));
}

void link::connect_next(std::size_t which, std::string const& last_error) {
  if (which == endpoints_.size()) {
    failed(engine::fault::try_later, last_error);
    return;
  }
  boost::system::error_code ignored;
  socket_.close(ignored);
  socket_.async_connect(endpoints_[which], bound([this, which](boost::system::error_code ec) {
                          if (ec) {
                            connect_next(which + 1, ec.message());
                            return;
                          }
                          greet();
                        }));
}

void link::greet() {
  state_ = state::greeting;
  boost::system::error_code ignored;  // a unix socket has neither
  socket_.set_option(asio::ip::tcp::no_delay{true}, ignored);
  socket_.set_option(asio::socket_base::keep_alive{true}, ignored);
  decoder_.reset();
  {
    std::lock_guard const guard{outgoing_mutex_};
    outgoing_.clear();
  }
  writing_ = greeting_.begin(where_, settings_.client_name);
  greeted_at_ = clock::now();
  socket_.non_blocking(true, ignored);  // of the writes of flush()
  write_rest(0);
  read();
}

void link::read() {
  std::span<char> const room = decoder_.prepare(good_read);
  socket_.async_read_some(asio::buffer(room.data(), room.size()), bound([this](boost::system::error_code ec, std::size_t n) {
                            if (ec) {
                              failed(engine::fault::try_later, "read: " + ec.message());
                            } else {
                              on_read(n);
                            }
                          }));
}

void link::on_read(std::size_t size) {
  decoder_.commit(size);
  while (state_ == state::greeting) {
    switch (decoder_.next()) {
      case resp::decoder::progress::need_more: read(); return;
      case resp::decoder::progress::failed: failed(engine::fault::malformed, std::string{decoder_.error()}); return;
      case resp::decoder::progress::message: break;
    }
    if (decoder_.is_push()) continue;
    switch (greeting_.next(decoder_.message())) {
      case greeting::progress::more: break;
      case greeting::progress::failed: failed(greeting_.fault(), greeting_.why()); return;
      case greeting::progress::done: on_greeted(); break;
    }
  }
  // What is sent because of this goes out together, also what the handlers send that it completes: they run before the flush,
  // here or because they were posted first.
  bool first = false;
  {
    std::lock_guard const guard{outgoing_mutex_};
    first = !std::exchange(flush_posted_, true);
  }
  heard so_far = heard::all;
  auto const go_on = [&] {
    if (first) settings_.single_threaded ? flush() : post_flush();
    if (so_far == heard::all) read();
    if (so_far == heard::more) asio::post(on_, bound([this] { on_read(0); }));
  };
  try {
    host_.enter_and_complete([&](time_point now) { so_far = hand_over(now); });
  } catch (...) {  // of a user's handler
    go_on();
    throw;
  }
  go_on();
}

void link::on_greeted() {
  state_ = state::up;
  timer_.cancel();
  up_since_ = clock::now();
  told_of_foreign_pushes_ = false;
  host_.log(log_level::info, "connected to " + where_.shown());
  if (!greeting_.warning().empty()) host_.log(log_level::warning, greeting_.warning());
  engine::session const session{greeting_.client_id(), greeting_.client_address(), greeting_.server_us(), greeted_at_,
                                greeting_.run(),       greeting_.uptime()};
  host_.enter([&](time_point now) {
    dropping_ = false;
    unanswered_ = 0;
    events().connected_as(session, now);
  });
}

/// What has come in, to the engine; so many at a time, as a buffer has room for thousands of short answers. Enough: the connection
/// is to be dropped.
link::heard link::hand_over(time_point now) {
  engine::wire_events& to = events();
  engine::pushed_grant grant;
  for (std::size_t left = engine::in_one_turn; !dropping_; --left) {
    if (left == 0) return heard::more;
    switch (decoder_.next()) {
      case resp::decoder::progress::need_more: return heard::all;
      case resp::decoder::progress::failed: drop_connection(decoder_.error()); return heard::enough;
      case resp::decoder::progress::message: break;
    }
    if (!decoder_.is_push()) {
      --unanswered_;
      to.answered(to_answer(decoder_.message(), numbers_), now);
      continue;
    }
    switch (read_push(decoder_.message(), id_, name_, grant)) {
      case push_kind::grant: to.granted(grant, now); break;
      case push_kind::revoked: to.revoked(grant.name, grant.id, now); break;
      case push_kind::missed: to.missed(grant.name, grant.id, now); break;
      case push_kind::subscribed:
        --unanswered_;
        to.answered({}, now);
        break;
      case push_kind::other: break;
      case push_kind::malformed:
        if (!std::exchange(told_of_foreign_pushes_, true)) {
          host_.log(log_level::warning, "ignored a push on our channel that conch did not send; of this connection no other is told");
        }
        break;
    }
  }
  return heard::enough;
}

/// At once what the socket takes, which is nearly always all of it.
void link::flush() {
  if (write_under_way_ || state_ != state::up) return;
  {
    std::lock_guard const guard{outgoing_mutex_};
    flush_posted_ = false;
    writing_.clear();
    writing_.swap(outgoing_);
  }
  if (writing_.empty()) return;
  boost::system::error_code later;
  std::size_t const written = socket_.write_some(asio::buffer(writing_), later);
  if (written < writing_.size()) write_rest(written);
}

/// The rest, or what is wrong with the connection.
void link::write_rest(std::size_t from) {
  write_under_way_ = true;
  asio::async_write(socket_, asio::buffer(writing_) + from, bound([this](boost::system::error_code ec, std::size_t) {
                      write_under_way_ = false;
                      if (ec) {
                        failed(engine::fault::try_later, "write: " + ec.message());
                      } else {
                        flush();
                      }
                    }));
}

/// The end of this connection, or of the attempt to make one.
void link::failed(engine::fault what, std::string const& why) {
  bool const was_up = state_ == state::up;
  ++generation_;
  state_ = state::pausing;
  write_under_way_ = false;
  boost::system::error_code ignored;
  socket_.close(ignored);
  resolver_.cancel();
  timer_.cancel();
  host_.log(log_level::warning, (was_up ? "lost the connection to " : "cannot connect to ") + where_.shown() + ": " + why);
  host_.enter([&](time_point now) {
    if (was_up) {
      events().disconnected(why, now);
    } else {
      events().connect_failed(what, where_.shown() + ": " + why, now);
    }
    std::lock_guard const guard{outgoing_mutex_};
    outgoing_.clear();
    flush_posted_ = false;
  });
  if (was_up && clock::now() - up_since_ > steady_after) attempts_ = 0;
  pause();
}

/// At once after a connection that had lasted, then after ever longer pauses, half of each random.
void link::pause() {
  duration wait = duration::zero();
  if (attempts_ > 0) {
    auto const longest = settings_.reconnect_min * (std::int64_t{1} << std::min(attempts_ - 1, 20u));
    wait = std::min(longest, settings_.reconnect_max);
    wait = wait / 2 + duration{std::uniform_int_distribution<duration::rep>{0, wait.count() / 2}(random_)};
  }
  ++attempts_;
  timer_.expires_after(wait);
  timer_.async_wait(bound([this](boost::system::error_code ec) {
    if (!ec) connect();
  }));
}

}  // namespace conch::redis
