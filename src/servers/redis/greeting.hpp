// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"
#include "resp/decoder.hpp"
#include "servers/redis/url.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace conch::redis {

bool is_error(std::span<resp::node const> reply);

/// The answer to HELLO.
struct hello_reply {
  protocol::fault what = protocol::fault::none;  // it is an error, or cannot be read: ignore the rest
  std::string why{};
  std::string_view version{}, mode{}, role{};
  std::uint64_t client_id = 0;
};
hello_reply read_hello(std::span<resp::node const> reply);

/// What an error is as the answer to HELLO.
protocol::fault fault_of_hello(std::string_view words);
/// Its words, with advice where there is some.
std::string trouble_with_hello(protocol::fault what, std::string_view words);

/// Why a server of that version and mode cannot be used as a node of a Cluster; empty: it can.
std::string why_no_node(std::string_view version, std::string_view mode);

/// HELLO 3 with the user and password of `where`, and this name in CLIENT LIST.
std::string hello_command(address const& where, std::string const& client_name);

/// The first exchange of a connection: HELLO 3 with credentials and name, SELECT, CLIENT INFO, the server's time, its
/// eviction policy and its run. It is sent in one piece. No script goes out before it is answered. No I/O.
class greeting {
 public:
  enum class progress { more, done, failed };

  /// The bytes to send. `of_cluster`: the server must be a node of a Cluster; otherwise it must not.
  std::string begin(address const& where, std::string const& client_name, bool of_cluster = false);
  progress next(std::span<resp::node const> reply);

  std::uint64_t client_id() const noexcept { return client_id_; }
  std::string const& client_address() const noexcept { return client_address_; }
  std::int64_t server_us() const noexcept { return server_us_; }
  /// The id of this run of the server; empty if the server does not report it.
  std::string const& run() const noexcept { return run_; }
  /// The time since this run began; empty if the server does not report it.
  std::optional<std::chrono::seconds> uptime() const noexcept { return uptime_; }
  /// A warning for the log; empty: there is none.
  std::string const& warning() const noexcept { return warning_; }
  protocol::fault fault() const noexcept { return fault_; }
  std::string const& why() const noexcept { return why_; }

 private:
  enum class step { hello, select, client_info, time, eviction, run, done };

  progress fail(protocol::fault what, std::string_view why);
  progress hello(std::span<resp::node const> reply);
  void client_info(std::string_view text);
  bool time(std::span<resp::node const> reply);
  void eviction(std::string_view info);
  void run(std::string_view info);

  step step_ = step::hello;
  bool selects_ = false;
  bool of_cluster_ = false;
  std::uint64_t client_id_ = 0;
  std::string client_address_;
  std::int64_t server_us_ = 0;
  std::string run_;
  std::optional<std::chrono::seconds> uptime_;
  std::string warning_;
  protocol::fault fault_ = protocol::fault::none;
  std::string why_;
};

}  // namespace conch::redis
