#pragma once

#include "servers/zookeeper/jute.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace conch::test {

/// The server has closed the connection, or nothing came within a minute.
class zookeeper_connection_ended : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One connection to one ZooKeeper server, and nothing more: no thread, no reconnect, no heartbeat. It sees and does
/// what a test wants to see and do without the library's session. For one thread.
class zookeeper_client {
 public:
  /// Only a TCP connection: greet() or resume() is next.
  explicit zookeeper_client(std::uint16_t port);
  /// With a session of its own.
  zookeeper_client(std::uint16_t port, std::chrono::milliseconds timeout);
  ~zookeeper_client();
  zookeeper_client(zookeeper_client const&) = delete;
  zookeeper_client& operator=(zookeeper_client const&) = delete;

  /// What it takes to go on with a session on another connection.
  struct resumption {
    zookeeper::connect_request greeting;
    /// The numbers of requests must go on. A server that waits for the commit of a write finds it by session and
    /// number, also where that came by another connection and another server: with a number that was used before, it
    /// answers with what became of the earlier request.
    std::int32_t last_xid = 0;
  };

  zookeeper::connect_response const& greet(zookeeper::connect_request const& c);
  zookeeper::connect_response const& resume(resumption const& r);
  zookeeper::connect_response const& session() const noexcept { return session_; }
  resumption to_resume() const {
    return {{last_seen_, session_.timeout_ms, session_.session, session_.password}, xid_};
  }

  /// Sends it, and does not wait.
  void send(zookeeper::request const& r);
  /// Several in one write.
  void send_all(std::vector<zookeeper::request> const& all);
  /// The answer to the oldest request that is not answered.
  zookeeper::reply read_answer();
  zookeeper::reply ask(zookeeper::request const& r);
  /// Is it answered within that time? An answer that comes later counts for the next ping.
  bool ping(std::chrono::milliseconds within);
  std::optional<zookeeper::notice> next_notice(std::chrono::milliseconds within);

  struct pong {
    std::int64_t zxid = 0;
  };
  /// What a server says, behind its greeting.
  using message = std::variant<zookeeper::reply, zookeeper::notice, pong>;
  /// From now on all that comes is handed out by next_message() alone, in the order in which it came.
  void keep_order() noexcept { keeps_order_ = true; }
  std::optional<message> next_message(std::chrono::milliseconds within);

  /// Does the server close the connection within that time?
  bool ends(std::chrono::milliseconds within);

  // What is not answered with success throws std::runtime_error.
  zookeeper::created create(std::string const& path, zookeeper::node_kind kind = zookeeper::node_kind::persistent,
                            std::string const& bytes = {});
  void remove(std::string const& path);
  void write(std::string const& path, std::string const& bytes);
  std::optional<zookeeper::data> read(std::string const& path, bool watch = false);  ///< none: there is no such node
  bool has(std::string const& path) { return read(path).has_value(); }
  std::vector<std::string> list(std::string const& path);  ///< sorted; none, too, if there is no such node
  /// All nodes below, as paths, but for those of ZooKeeper itself.
  std::vector<std::string> tree(std::string const& below = {});

 private:
  /// Reads once, within that time. False: nothing came.
  bool receive(std::chrono::steady_clock::time_point until);
  void take(std::string_view frame);
  template <class Done>
  bool wait(std::chrono::milliseconds within, Done done);
  std::string prepared(zookeeper::request const& r);
  void write_all(std::string const& bytes);

  int fd_ = -1;
  zookeeper::frame_reader in_;
  bool greeted_ = false, closed_ = false;
  zookeeper::connect_response session_;
  std::int64_t last_seen_ = 0;
  std::int32_t xid_ = 0;
  std::deque<std::pair<std::int32_t, zookeeper::op>> asked_;
  std::deque<zookeeper::reply> answers_;
  std::deque<zookeeper::notice> notices_;
  std::uint64_t pings_answered_ = 0;
  bool keeps_order_ = false;
  std::deque<message> messages_;
};

}  // namespace conch::test
