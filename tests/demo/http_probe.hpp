#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace conch::test {

struct http_answer {
  int status = 0;
  std::map<std::string, std::string> fields;  ///< names in lower case
  std::string body;

  std::string field(std::string const& name) const {
    auto const at = fields.find(name);
    return at == fields.end() ? "" : at->second;
  }
};

/// A blocking connection to a server on 127.0.0.1, with which a test looks at it from the outside.
/// It shares no code with the server, on purpose. Every wait is bounded; failures throw
/// `std::runtime_error`.
class http_probe {
 public:
  explicit http_probe(std::uint16_t port, std::chrono::milliseconds bound = std::chrono::seconds(20));
  ~http_probe();
  http_probe(http_probe&& other) noexcept;
  http_probe(http_probe const&) = delete;
  http_probe& operator=(http_probe&&) = delete;

  http_answer request(std::string_view method, std::string_view target, std::string_view body = {});

  void send(std::string_view bytes);
  http_answer read();

  /// What comes until `mark`, and the mark.
  std::string read_until(std::string_view mark);

  /// Waits until the server closes the connection; false if it says something instead, or nothing
  /// in time.
  bool is_closed_by_server();

 private:
  bool receive();  // false at the end of the connection

  int fd_ = -1;
  std::string input_;
};

/// For one request on a connection of its own.
http_answer request_once(std::uint16_t port, std::string_view method, std::string_view target);

}  // namespace conch::test
