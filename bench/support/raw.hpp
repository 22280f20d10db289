// The floor: blocking sockets, bytes made beforehand, replies counted and not understood.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace conch::test {
class redis_probe;
}

namespace conch::bench {

using steady = std::chrono::steady_clock;

/// One connection. Failures throw std::runtime_error.
class raw_connection {
 public:
  /// How it waits for input: in recv(2), which serves one connection only, or as every event loop does.
  enum class waits { in_recv, by_epoll };

  /// `unix://PATH` or `redis://127.0.0.1:PORT`.
  explicit raw_connection(std::string const& url, waits how = waits::in_recv);
  ~raw_connection();
  raw_connection(raw_connection const&) = delete;
  raw_connection& operator=(raw_connection const&) = delete;

  void send(std::string_view bytes);

  /// Waits for input; how many whole messages it completed. Throws for an error reply.
  std::size_t receive();

  /// For poll(2).
  int handle() const { return fd_; }

  /// Waits until `count` messages have come (since the last call of it).
  void await(std::size_t count);

  /// The first two bytes of the last reply that was received; pushes do not count.
  std::string_view last_reply() const { return {reply_, sizeof reply_}; }

  /// One command and its reply.
  void exchange(std::string_view bytes) {
    send(bytes);
    await(1);
  }

 private:
  int fd_ = -1;
  int epoll_ = -1;
  std::vector<char> buffer_;
  std::size_t unused_ = 0;         // messages that await() has not taken yet
  std::size_t lines_missing_ = 0;  // of the message under way; 0: its first line is next
  std::string line_;               // the beginning of a line that was cut
  char reply_[2] = {};
};

/// The two exchanges of one lock, over and over.
struct lane {
  std::string acquire, release;
};

/// All lanes at once on one connection, pipelined: with every reply the next request of its lane goes out, one write a
/// read. Answers the number of cycles, all of which are complete.
std::uint64_t run_lanes(raw_connection& to, std::vector<lane> const& lanes, steady::duration how_long);

/// The same two scripts, keys and arguments as conch's default settings, for lock `name`.
lane conch_lane(std::string const& name, std::uint64_t number);

/// Two scripts of one's own, which get as keys NAME, NAME:q, NAME:f and as arguments the owner, a lease and a retention
/// in ms.
lane scripts_lane(test::redis_probe& at, std::string const& name, std::string const& acquire,
                  std::string const& release);

/// The limit for a lock with a line and a fence that survives a restart of the server: no call could be left out, no
/// text is made, nothing else is looked after.
lane least_lane(test::redis_probe& at, std::string const& name);

/// The same limit for locks that are acquired, and released, in one script each, as conch gathers them.
lane least_lane(test::redis_probe& at, std::vector<std::string> const& names);

/// Loads all scripts.
void load_scripts(raw_connection& to);

std::string command(std::initializer_list<std::string_view> arguments);

}  // namespace conch::bench
