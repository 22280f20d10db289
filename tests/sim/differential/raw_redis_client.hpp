// A blocking client over a unix socket that keeps every reply exactly as it came, with its type:
// what comparing a server byte for byte needs. Shares no code with the library.
#pragma once

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sim/model/redis_value.hpp"

namespace conch::sim {

class raw_redis_client {
 public:
  explicit raw_redis_client(std::string const& path) : fd_{::socket(AF_UNIX, SOCK_STREAM, 0)} {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (fd_ < 0 || path.size() >= sizeof address.sun_path) {
      throw std::runtime_error{"no socket for " + path};
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    timeval const limit{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (::connect(fd_, reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0) {
      ::close(fd_);
      throw std::runtime_error{"cannot connect to " + path};
    }
  }

  raw_redis_client(raw_redis_client const&) = delete;
  raw_redis_client& operator=(raw_redis_client const&) = delete;
  ~raw_redis_client() { ::close(fd_); }

  // Not sent before flush(). A connection that the server closed is noticed when reading.
  void add(std::span<std::string_view const> argv) {
    output_ += '*' + std::to_string(argv.size()) + "\r\n";
    for (auto const word : argv) {
      output_ += '$' + std::to_string(word.size()) + "\r\n";
      output_ += word;
      output_ += "\r\n";
    }
  }

  void flush() {
    std::string_view rest = output_;
    while (!rest.empty()) {
      auto const sent = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        break;
      }
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
    output_.clear();
  }

  // The answer to a command, where nothing is pushed.
  value ask(std::span<std::string_view const> argv) {
    add(argv);
    flush();
    auto reply = read();
    if (!reply) throw std::runtime_error{"the server has closed the connection"};
    return *reply;
  }

  // The next reply or push; nothing if the server has closed the connection. Throws if none comes.
  std::optional<value> read() {
    if (!fill(1)) {
      return std::nullopt;
    }
    return read_value();
  }

 private:
  // False at the end of the stream.
  bool fill(std::size_t wanted) {
    while (input_.size() - position_ < wanted) {
      if (position_ == input_.size()) {
        input_.clear();
        position_ = 0;
      }
      char buffer[16384];
      auto const got = ::recv(fd_, buffer, sizeof buffer, 0);
      if (got == 0 || (got < 0 && (errno == ECONNRESET || errno == EPIPE))) {
        return false;
      }
      if (got < 0) {
        throw std::runtime_error{"no reply from the server"};
      }
      input_.append(buffer, static_cast<std::size_t>(got));
    }
    return true;
  }

  std::string take(std::size_t size) {
    if (!fill(size)) {
      throw std::runtime_error{"the server closed the connection inside a reply"};
    }
    std::string text = input_.substr(position_, size);
    position_ += size;
    return text;
  }

  std::string line() {
    std::size_t size = 0;
    for (;;) {
      auto const end = input_.find("\r\n", position_);
      if (end != std::string::npos) {
        size = end - position_;
        break;
      }
      if (!fill(input_.size() - position_ + 1)) {
        throw std::runtime_error{"the server closed the connection inside a line"};
      }
    }
    std::string text = take(size);
    take(2);
    return text;
  }

  static std::int64_t integer(std::string const& text) {
    std::int64_t number = 0;
    auto const end = text.data() + text.size();
    if (std::from_chars(text.data(), end, number).ptr != end) {
      throw std::runtime_error{"not a number in a reply: " + text};
    }
    return number;
  }

  value blob(value::kind type, std::int64_t size) {
    if (size < 0) {
      return value::nil();
    }
    value result = value::of(type, take(static_cast<std::size_t>(size)));
    take(2);
    return result;
  }

  value items(value::kind type, std::int64_t count) {
    if (count < 0) {
      return value::nil();
    }
    value result = value::of(type);
    for (; count > 0; --count) {
      result.items.push_back(read_value());
    }
    return result;
  }

  value read_value() {
    char const mark = take(1)[0];
    std::string const text = line();
    switch (mark) {
      case '_': return value::nil();
      case '+': return value::simple(text);
      case '-': return value::error(text);
      case ':': return value::number(integer(text));
      case '#': return value::truth(text == "t");
      case ',': return value::of(value::kind::real, text);
      case '(': return value::of(value::kind::big_number, text);
      case '$': return blob(value::kind::bulk, integer(text));
      case '=': return blob(value::kind::verbatim, integer(text));
      case '*': return items(value::kind::array, integer(text));
      case '>': return items(value::kind::push, integer(text));
      case '~': return items(value::kind::set, integer(text));
      case '%': return items(value::kind::map, 2 * integer(text));
      default: throw std::runtime_error{"a reply of unknown type: " + (mark + text)};
    }
  }

  int fd_;
  std::string output_;
  std::string input_;
  std::size_t position_ = 0;
};

}  // namespace conch::sim
