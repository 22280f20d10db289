#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace conch::test {

/// A TCP proxy on 127.0.0.1 that does to a connection what networks do. It has a thread of its own, and every function
/// may be called by any other thread at any time; what it asks for is in force when the function returns, for
/// connections that are open as well as for later ones.
class tcp_proxy {
 public:
  enum class towards { server, client };

  /// How bytes travel in one direction. Default: at once and as they come.
  struct behaviour {
    std::chrono::microseconds delay{0};
    std::chrono::microseconds jitter{0};  ///< up to this much more, at random; the order is kept
    std::size_t split = 0;                ///< in pieces of 1 to this many bytes; 0: not split
    std::chrono::microseconds gap{0};     ///< between two pieces
    bool stalled = false;                 ///< kept back until this is false again; nobody is told
    bool swallowed = false;               ///< lost for good; nobody is told. The end of the stream, too
  };

  struct counters {
    std::uint64_t connections = 0;  ///< accepted since the start
    std::uint64_t open = 0;
    std::uint64_t resets = 0;
    std::uint64_t bytes_to_server = 0, bytes_to_client = 0;
  };

  /// For connections to 127.0.0.1:target. `seed`: of its random numbers.
  explicit tcp_proxy(std::uint16_t target, std::uint64_t seed = 1);
  ~tcp_proxy();
  tcp_proxy(tcp_proxy const&) = delete;
  tcp_proxy& operator=(tcp_proxy const&) = delete;

  std::uint16_t port() const noexcept { return port_; }
  std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

  void set(towards direction, behaviour b);
  /// Both directions keep what comes, until healed.
  void stall();
  /// Both directions as they were at first, and new connections welcome. Connections that lost bytes stay crippled: see
  /// drop().
  void heal();
  /// New connections go to this port from now on; open ones stay where they are: an address that moves.
  void retarget(std::uint16_t target);
  /// While refused, a new connection is reset as soon as it is accepted.
  void refuse(bool refused);
  /// Ends all connections by RST to both sides; bytes under way are lost.
  void reset();
  /// Ends all connections by FIN to both sides; bytes under way are lost.
  void drop();
  /// Resets a connection as soon as `bytes` more have gone in that direction; those arrive. Once.
  void reset_after(towards direction, std::uint64_t bytes);

  counters count() const;

 private:
  class impl;
  std::unique_ptr<impl> impl_;
  std::uint16_t port_ = 0;
};

}  // namespace conch::test
