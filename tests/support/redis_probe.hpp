#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace conch::test {

class redis_server;

/// A blocking client with which a test looks at a server from the outside. It shares no code with
/// the library, on purpose. Every wait is bounded by `timeout`; what goes wrong with the connection
/// throws `std::runtime_error`. For one thread at a time.
class redis_probe {
 public:
  /// Connects to the server's unix socket (which it has in every mode).
  explicit redis_probe(redis_server const& server, std::chrono::milliseconds timeout = std::chrono::seconds(5));

  /// Connects to `unix://PATH` or `redis://127.0.0.1:PORT`.
  explicit redis_probe(std::string const& url, std::chrono::milliseconds timeout = std::chrono::seconds(5));

  ~redis_probe();
  redis_probe(redis_probe&& other) noexcept;
  redis_probe& operator=(redis_probe&& other) noexcept;

  /// Sends the command and returns its reply in a form to read and compare:
  ///
  ///     OK            status, string, number or double: its text as it is
  ///     true false    RESP3 boolean
  ///     (nil)         no value, in RESP2 or RESP3
  ///     (error) TEXT  error
  ///     [a, b]        array       ~[a, b]  set       >[a, b]  push       {k: v}  map
  ///
  /// Pushes (RESP3) that arrive before the reply are kept for `read_push`.
  std::string command(std::initializer_list<std::string_view> arguments);
  std::string command(std::vector<std::string> const& arguments);

  /// Like `command`, for replies that are integers; throws for any other.
  std::int64_t integer(std::initializer_list<std::string_view> arguments);

  /// The next push, kept or still to come. Throws when none comes within the time-out.
  std::string read_push();

  /// The next message of whatever kind (in RESP2, what SUBSCRIBE leads to comes as arrays).
  std::string read_message();

  /// Calls per command since the start or CONFIG RESETSTAT, without those that were rejected:
  /// `{"set": 2, "config|get": 1}`. The names are lower case.
  std::map<std::string, long> commandstats();

 private:
  struct reply {
    char type = 0;  // first byte of its encoding
    std::string text;
  };

  void connect(std::string const& url);
  template <class Arguments>
  reply call(Arguments const& arguments);
  template <class Arguments>
  void send(Arguments const& arguments);
  reply read_reply();
  reply parse();
  std::string parse_elements(std::int64_t count, char const* open, char const* close);
  std::string parse_pairs(std::int64_t count);
  std::string take_line();
  std::string take(std::size_t size);
  void receive();

  int fd_ = -1;
  std::chrono::milliseconds timeout_;
  std::string input_;
  std::vector<std::string> pushes_;
};

}  // namespace conch::test
