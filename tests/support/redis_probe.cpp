#include "support/redis_probe.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "support/redis_server.hpp"

namespace conch::test {

namespace {

[[noreturn]] void fail(std::string const& what) { throw std::runtime_error("redis_probe: " + what); }

[[noreturn]] void fail_with_errno(std::string const& what) {
  int const error = errno;
  fail(what + ": " + std::strerror(error));
}

std::int64_t to_integer(std::string_view text) {
  std::int64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    fail("not an integer: " + std::string(text));
  }
  return value;
}

int open_unix(std::string const& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    fail("path too long for a unix socket: " + path);
  }
  path.copy(address.sun_path, path.size());
  int const fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    return fd;
  }
  int const error = errno;
  ::close(fd);
  errno = error;
  fail_with_errno("connect " + path);
}

int open_loopback(std::int64_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int const fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    int const on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
  }
  int const error = errno;
  ::close(fd);
  errno = error;
  fail_with_errno("connect to port " + std::to_string(port));
}

}  // namespace

redis_probe::redis_probe(redis_server const& server, std::chrono::milliseconds timeout)
    : redis_probe("unix://" + server.socket_path(), timeout) {}

redis_probe::redis_probe(std::string const& url, std::chrono::milliseconds timeout) : timeout_(timeout) {
  connect(url);
}

redis_probe::~redis_probe() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

redis_probe::redis_probe(redis_probe&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      timeout_(other.timeout_),
      input_(std::move(other.input_)),
      pushes_(std::move(other.pushes_)) {}

redis_probe& redis_probe::operator=(redis_probe&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(timeout_, other.timeout_);
  input_.swap(other.input_);
  pushes_.swap(other.pushes_);
  return *this;
}

void redis_probe::connect(std::string const& url) {
  constexpr std::string_view unix_scheme = "unix://";
  constexpr std::string_view tcp_scheme = "redis://127.0.0.1:";
  if (url.starts_with(unix_scheme)) {
    fd_ = open_unix(url.substr(unix_scheme.size()));
  } else if (url.starts_with(tcp_scheme)) {
    fd_ = open_loopback(to_integer(std::string_view(url).substr(tcp_scheme.size())));
  } else {
    fail("cannot connect to " + url);
  }
  auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout_);
  timeval limit{};
  limit.tv_sec = seconds.count();
  limit.tv_usec = std::chrono::microseconds(timeout_ - seconds).count();
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

std::string redis_probe::command(std::initializer_list<std::string_view> arguments) { return call(arguments).text; }

std::string redis_probe::command(std::vector<std::string> const& arguments) { return call(arguments).text; }

std::int64_t redis_probe::integer(std::initializer_list<std::string_view> arguments) {
  reply const answer = call(arguments);
  if (answer.type != ':') {
    fail("expected an integer, got " + answer.text);
  }
  return to_integer(answer.text);
}

std::string redis_probe::read_push() {
  while (pushes_.empty()) {
    reply message = parse();
    if (message.type != '>') {
      fail("expected a push, got " + message.text);
    }
    pushes_.push_back(std::move(message.text));
  }
  std::string first = std::move(pushes_.front());
  pushes_.erase(pushes_.begin());
  return first;
}

std::string redis_probe::read_message() { return pushes_.empty() ? parse().text : read_push(); }

std::map<std::string, long> redis_probe::commandstats() {
  constexpr std::string_view prefix = "cmdstat_";
  constexpr std::string_view calls = ":calls=";
  std::string const info = command({"INFO", "commandstats"});
  std::map<std::string, long> result;
  for (std::size_t begin = 0; begin < info.size();) {
    std::size_t const end = std::min(info.find('\n', begin), info.size());
    std::string_view const line = std::string_view(info).substr(begin, end - begin);
    std::size_t const colon = line.find(calls);
    if (line.starts_with(prefix) && colon != line.npos) {
      std::string_view count = line.substr(colon + calls.size());
      count = count.substr(0, count.find(','));
      std::string_view const name = line.substr(prefix.size(), colon - prefix.size());
      result[std::string(name)] = static_cast<long>(to_integer(count));
    }
    begin = end + 1;
  }
  return result;
}

template <class Arguments>
redis_probe::reply redis_probe::call(Arguments const& arguments) {
  send(arguments);
  return read_reply();
}

template <class Arguments>
void redis_probe::send(Arguments const& arguments) {
  std::string bytes = "*" + std::to_string(arguments.size()) + "\r\n";
  for (auto const& argument : arguments) {
    bytes += "$" + std::to_string(argument.size()) + "\r\n";
    bytes += argument;
    bytes += "\r\n";
  }
  for (std::string_view rest = bytes; !rest.empty();) {
    auto const sent = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      fail_with_errno("send");
    }
  }
}

redis_probe::reply redis_probe::read_reply() {
  while (true) {
    reply message = parse();
    if (message.type != '>') {
      return message;
    }
    pushes_.push_back(std::move(message.text));
  }
}

redis_probe::reply redis_probe::parse() {
  std::string line = take_line();
  if (line.empty()) {
    fail("an empty line instead of a reply");
  }
  char const type = line[0];
  line.erase(0, 1);
  switch (type) {
    case '+':
    case ':':
    case ',':
    case '(': return {type, line};
    case '-': return {type, "(error) " + line};
    case '_': return {type, "(nil)"};
    case '#': return {type, line == "t" ? "true" : "false"};
    default: break;
  }
  std::int64_t const size = to_integer(line);
  if (size < 0) {
    return {type, "(nil)"};
  }
  switch (type) {
    case '$':
    case '!':
    case '=': {
      std::string text = take(static_cast<std::size_t>(size) + 2);
      text.resize(text.size() - 2);
      if (type == '!') {
        text.insert(0, "(error) ");
      }
      if (type == '=') {
        text.erase(0, 4);  // `txt:` or `mkd:`
      }
      return {type, text};
    }
    case '*': return {type, parse_elements(size, "[", "]")};
    case '~': return {type, parse_elements(size, "~[", "]")};
    case '>': return {type, parse_elements(size, ">[", "]")};
    case '%': return {type, parse_pairs(size)};
    case '|':  // attributes: belong to the reply that follows
      parse_pairs(size);
      return parse();
    default: fail("unknown type of reply: " + std::string(1, type) + line);
  }
}

std::string redis_probe::parse_elements(std::int64_t count, char const* open, char const* close) {
  std::string text = open;
  for (std::int64_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ", ") + parse().text;
  }
  return text + close;
}

std::string redis_probe::parse_pairs(std::int64_t count) {
  std::string text = "{";
  for (std::int64_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ", ") + parse().text;
    text += ": " + parse().text;
  }
  return text + "}";
}

std::string redis_probe::take_line() {
  std::size_t end = 0;
  while ((end = input_.find("\r\n")) == input_.npos) {
    receive();
  }
  std::string line = input_.substr(0, end);
  input_.erase(0, end + 2);
  return line;
}

std::string redis_probe::take(std::size_t size) {
  while (input_.size() < size) {
    receive();
  }
  std::string bytes = input_.substr(0, size);
  input_.erase(0, size);
  return bytes;
}

void redis_probe::receive() {
  char buffer[4096];
  while (true) {
    auto const received = ::recv(fd_, buffer, sizeof buffer, 0);
    if (received > 0) {
      input_.append(buffer, static_cast<std::size_t>(received));
      return;
    }
    if (received == 0) {
      fail("the server closed the connection");
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      fail("no answer within " + std::to_string(timeout_.count()) + " ms");
    }
    if (errno != EINTR) {
      fail_with_errno("recv");
    }
  }
}

}  // namespace conch::test
