#include "demo/http_probe.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace conch::test {

namespace {

[[noreturn]] void fail(std::string const& what) { throw std::runtime_error("http_probe: " + what); }

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

http_answer parse_head(std::string const& head) {
  http_answer answer;
  if (!head.starts_with("HTTP/1.") || head.size() < 12) {
    fail("not HTTP: " + head);
  }
  answer.status = std::stoi(head.substr(9, 3));
  for (auto begin = head.find("\r\n"); begin != head.npos && begin + 2 < head.size();) {
    auto const end = head.find("\r\n", begin + 2);
    std::string const line = head.substr(begin + 2, end - begin - 2);
    if (auto const colon = line.find(": "); colon != line.npos) {
      answer.fields[lower(line.substr(0, colon))] = line.substr(colon + 2);
    }
    begin = end;
  }
  return answer;
}

}  // namespace

http_probe::http_probe(std::uint16_t port, std::chrono::milliseconds bound) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  timeval limit{};
  limit.tv_sec = bound.count() / 1000;
  limit.tv_usec = bound.count() % 1000 * 1000;
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    int const error = errno;
    ::close(fd_);
    fail(std::string("connect: ") + std::strerror(error));
  }
}

http_probe::~http_probe() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

http_probe::http_probe(http_probe&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      input_(std::move(other.input_)) {}

http_answer http_probe::request(std::string_view method, std::string_view target, std::string_view body) {
  std::string text(method);
  text += ' ';
  text += target;
  text += " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  text += body;
  send(text);
  return read();
}

void http_probe::send(std::string_view bytes) {
  while (!bytes.empty()) {
    auto const sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      fail(std::string("send: ") + std::strerror(errno));
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

http_answer http_probe::read() {
  std::size_t head = 0;
  while ((head = input_.find("\r\n\r\n")) == input_.npos) {
    if (!receive()) {
      fail("the server closed the connection after '" + input_ + "'");
    }
  }
  http_answer answer = parse_head(input_.substr(0, head + 2));
  input_.erase(0, head + 4);
  std::string const length = answer.field("content-length");
  std::size_t const size = length.empty() ? 0 : std::stoul(length);
  while (input_.size() < size) {
    if (!receive()) {
      fail("the server closed the connection within a body");
    }
  }
  answer.body = input_.substr(0, size);
  input_.erase(0, size);
  return answer;
}

std::string http_probe::read_until(std::string_view mark) {
  std::size_t at = 0;
  while ((at = input_.find(mark)) == input_.npos) {
    if (!receive()) {
      fail("the server closed the connection before '" + std::string(mark) + "'");
    }
  }
  std::string text = input_.substr(0, at + mark.size());
  input_.erase(0, text.size());
  return text;
}

bool http_probe::is_closed_by_server() {
  try {
    return input_.empty() && !receive();
  } catch (std::runtime_error const&) {
    return false;
  }
}

bool http_probe::receive() {
  char buffer[4096];
  auto const size = ::recv(fd_, buffer, sizeof buffer, 0);
  if (size < 0) {
    if (errno == ECONNRESET) {
      return false;
    }
    fail(errno == EAGAIN ? "no answer in time" : std::string("recv: ") + std::strerror(errno));
  }
  input_.append(buffer, static_cast<std::size_t>(size));
  return size > 0;
}

http_answer request_once(std::uint16_t port, std::string_view method, std::string_view target) {
  http_probe probe(port);
  return probe.request(method, target);
}

}  // namespace conch::test
