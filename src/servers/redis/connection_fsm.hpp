// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "net/lifecycle.hpp"
#include "net/outbox.hpp"
#include "net/role.hpp"
#include "protocol/wire.hpp"
#include "resp/decoder.hpp"
#include "servers/redis/cluster_node.hpp"
#include "servers/redis/codec.hpp"
#include "servers/redis/dialogue.hpp"
#include "servers/redis/greeting.hpp"
#include "servers/redis/locator.hpp"
#include "servers/redis/reauthentication.hpp"
#include "servers/redis/shared_scripts.hpp"
#include "servers/redis/slot_subscriptions.hpp"
#include "servers/redis/url.hpp"

#include <conch/clock.hpp>
#include <conch/config.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::redis {

/// The exchange on a connection to a Redis server: the greeting, commands, answers and pushes. Its life is that of a
/// net::lifecycle.
///
/// It writes the commands of one turn of the event loop together. Only the first is written at once, unless an answer
/// is due or has just come in: the server works on it while the client makes the others, and operations that began
/// together do not stay together forever. As many of the others as fit together go out as one script (shared_scripts).
/// After answers that leave the server without work of ours, the first half of what follows is written before the other
/// half. It reports answers and pushes in the order in which they come. No I/O, no clock.
///
/// Threads: the interpreter gives one input at a time, to this or to life(), and calls life().take() after each.
/// "Locked": with the client locked.
class connection_fsm final : net::role {
 public:
  struct stream_kind {
    bool handshakes = false;
  };
  /// All outlive this.
  struct roles {
    dialogue* talk = nullptr;   // is spoken instead of the protocol; then there are no events of a wire
    locator* finder = nullptr;  // knows host and port
    cluster_node* node = nullptr;
  };
  /// When flush() is to be called.
  using flush_due = net::flush_due;
  /// `settings` and `client_id` outlive this. `seed`: for the pauses between attempts.
  connection_fsm(config const& settings, std::string const& client_id, address where, std::uint64_t seed,
                 stream_kind stream, roles const& r);
  connection_fsm(config const& settings, std::string const& client_id, address where, std::uint64_t seed,
                 stream_kind stream)
      : connection_fsm(settings, client_id, std::move(where), seed, stream, roles{}) {}
  connection_fsm(config const& settings, std::string const& client_id, address where, std::uint64_t seed)
      : connection_fsm(settings, client_id, std::move(where), seed, stream_kind{}) {}
  connection_fsm(connection_fsm const&) = delete;
  connection_fsm& operator=(connection_fsm const&) = delete;

  /// The receiver of the connection's events. To be called once, before anything else.
  void report_to(protocol::wire_events& e) noexcept { events_ = &e; }
  net::lifecycle& life() noexcept { return life_; }
  net::lifecycle const& life() const noexcept { return life_; }

  // ---- from the protocol: locked, from any thread
  flush_due send(protocol::command const& c);
  /// Bytes of a dialogue, on a connection that is up. True: the caller must call flush() in a later turn.
  [[nodiscard]] bool say(std::string_view bytes);

  // ---- from the interpreter: locked
  void credentials_found(credentials found, time_point now);
  void no_credentials(std::string_view why, time_point now);
  void received(std::size_t size, time_point now);
  /// A read, a write or a handshake of the stream has failed.
  void failed(std::string_view why, time_point now, protocol::fault what = protocol::fault::try_later);
  /// The same for a write. With TLS a server that refuses our certificate reports it only in what is read after the
  /// handshake, and may have closed before the greeting is written: then the read shows why.
  void write_failed(std::string_view why, time_point now);

  // ---- from the interpreter: need not be locked, so that a write never waits for the client's mutex
  void flush();
  void written(std::size_t size);

  address const& where() const noexcept { return where_; }
  /// The bytes to write. They stay in place until written(), or until the stream is closed.
  std::string_view bytes() const { return out_.bytes(); }
  std::span<char> room();
  reauthentication const& renewal() const noexcept { return renewal_; }

 private:
  // net::role
  net::location locate(time_point now) override;
  std::string shown() const override { return where_.shown(); }
  std::string name() const override { return where_.host; }
  void greet(time_point now) override;
  void passed_over(protocol::fault what, std::string_view words, time_point now) override;
  time_point next_due() const noexcept override { return renewal_.next_due(); }
  void due(time_point now) override;
  void resume(time_point now) override;
  std::optional<std::string> moved_to(time_point now) override;
  void stream_ended() noexcept override;
  retry ended(end const& e, time_point now) override;

  void refresh_failed(std::string_view why, time_point now);
  void authenticated(time_point now);
  void greeted(time_point now);
  bool read_greeting(time_point now);
  void noticed(notice what, time_point now);
  void subscribe_to_slot(protocol::command const& c, std::string& out);
  void deal_out(shared_scripts::script const& script, time_point now);
  void keep_busy(std::int64_t answers);
  protocol::answer understood(protocol::answer a) const;
  void report(protocol::answer const& a, time_point now);

  config const& settings_;
  sender who_;
  address where_;  // with the present user and password, and with host and port if there is a locator
  roles const roles_;
  bool const over_tls_;
  protocol::wire_events* events_ = nullptr;
  net::lifecycle life_;

  reauthentication renewal_;
  greeting greeting_;
  time_point greeted_at_{};
  resp::decoder decoder_;
  std::vector<std::int64_t> numbers_;
  std::string name_;
  bool was_replica_ = false;            // the server of the last attempt
  bool logged_foreign_pushes_ = false;  // the log has a line about them for this connection
  bool unfinished_ = false;             // the last turn has left messages

  // Locked.
  std::int64_t unanswered_ = 0;    // commands of this connection
  std::int64_t answered_ = 0;      // of them
  slot_subscriptions subscribed_;  // at a node of a Cluster
  shared_scripts shared_;
  net::outbox out_;
};

}  // namespace conch::redis
