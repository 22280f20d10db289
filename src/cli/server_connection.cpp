// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/server_connection.hpp"

#include "base/readable.hpp"
#include "cli/exit_code.hpp"
#include "cli/sentinels.hpp"
#include "cli/tls_layer.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>
#include <utility>

namespace conch::cli {

namespace {

[[noreturn]] void away(std::string const& why) { throw failure{exit_code::unreachable, why}; }

class descriptor {
 public:
  explicit descriptor(int fd) noexcept : fd_{fd} {}
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  descriptor(descriptor const&) = delete;
  descriptor& operator=(descriptor const&) = delete;
  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// The error; 0: it is connected.
int connect_to(int fd, sockaddr const* to, socklen_t size, time_point until) {
  if (fd < 0) return errno;
  if (::connect(fd, to, size) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  wait_for_socket(fd, POLLOUT, until);
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

int open_unix(std::string const& path, time_point until) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.size() >= sizeof to.sun_path) throw failure{exit_code::wrong_config, "the socket's path is too long"};
  std::memcpy(to.sun_path, path.data(), path.size());
  descriptor fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  // NOLINTNEXTLINE: the address of a socket has a type of its own for each family
  int const error = connect_to(fd.get(), reinterpret_cast<sockaddr const*>(&to), sizeof to, until);
  if (error != 0) away(std::strerror(error));
  return fd.release();
}

struct free_list {
  void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};

int open_tcp(server_address const& where, time_point until) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int const unknown = ::getaddrinfo(where.host.c_str(), where.port.c_str(), &hints, &found);
  if (unknown != 0) away(where.host + ": " + ::gai_strerror(unknown));
  std::unique_ptr<addrinfo, free_list> const all{found};
  int error = 0;
  for (addrinfo const* one = all.get(); one != nullptr; one = one->ai_next) {
    descriptor fd{::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    error = connect_to(fd.get(), one->ai_addr, one->ai_addrlen, until);
    if (error != 0) continue;
    int const at_once = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    return fd.release();
  }
  away(std::strerror(error));
}

}  // namespace

void wait_for_socket(int fd, short what, time_point until) {
  for (;;) {
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count();
    pollfd one{fd, what, 0};
    int const ready = left <= 0 ? 0 : ::poll(&one, 1, static_cast<int>(std::min<long long>(left, INT_MAX)));
    if (ready > 0) return;
    if (ready == 0) away("no answer in time");
    if (errno != EINTR) away(std::strerror(errno));
  }
}

class server_connection::stream {
 public:
  stream(server_address const& where, duration timeout) : timeout_{timeout}, fd_{open(where, until())} {
    if (where.over_tls) tls_ = std::make_unique<tls_layer>(fd_.get(), where, until());
  }

  void write(std::string_view bytes) {
    time_point const end = until();
    while (!bytes.empty()) {
      ssize_t const size = tls_ ? tls_->write(bytes, end) : ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (size > 0) bytes.remove_prefix(static_cast<std::size_t>(size));
      if (size < 0 && errno != EAGAIN && errno != EINTR) away(std::strerror(errno));
      if (size < 0) wait_for_socket(fd_.get(), POLLOUT, end);
    }
  }

  void read(reply_reader& into, time_point end) {
    char buffer[16384];
    for (;;) {
      ssize_t const size = tls_ ? tls_->read(buffer, sizeof buffer, end) : ::recv(fd_.get(), buffer, sizeof buffer, 0);
      if (size > 0) {
        into.append({buffer, static_cast<std::size_t>(size)});
        return;
      }
      if (size == 0) away("the server has closed the connection");
      if (errno != EAGAIN && errno != EINTR) away(std::strerror(errno));
      wait_for_socket(fd_.get(), POLLIN, end);
    }
  }

  std::string tls() const { return tls_ ? tls_->description() : std::string{}; }

  time_point until() const { return detail::later_by(clock::now(), timeout_); }

 private:
  static int open(server_address const& where, time_point until) {
    return where.path.empty() ? open_tcp(where, until) : open_unix(where.path, until);
  }

  duration const timeout_;
  descriptor const fd_;
  std::unique_ptr<tls_layer> tls_;
};

server_connection::server_connection(connection const& all, std::string const& url, duration timeout)
    : address_{parse_address(names_sentinels(url) ? url_of_master(all, url) : url, all.settings.tls)}, stream_{std::make_unique<stream>(address_,
                                                                                                                                        timeout)} {
  log_in(all.login ? *all.login : address_.login);
}

server_connection::server_connection(server_address where, credentials const& login, duration timeout)
    : address_{std::move(where)}, stream_{std::make_unique<stream>(address_, timeout)} {
  log_in(login);
}

server_connection::~server_connection() = default;

std::string without_secret(std::string text, std::string_view secret) {
  for (auto at = text.find(secret); !secret.empty() && at != std::string::npos; at = text.find(secret, at + 3))
    text.replace(at, secret.size(), "***");
  return text;
}

void server_connection::log_in(credentials const& login) {
  sent_ = login.password;  // which a server may repeat
  if (!login.password.empty()) {
    secret_ = login.password;
    answer_to({"AUTH", login.user.empty() ? "default" : login.user, login.password});  // as the library in its greeting
  }
  if (address_.database != 0) answer_to({"SELECT", std::to_string(address_.database)});
}

reply server_connection::command(std::vector<std::string> const& words) {
  stream_->write(encoded(words));
  return next();
}

reply server_connection::answer_to(std::vector<std::string> const& words) {
  reply r = command(words);
  if (!r.is_error()) return r;
  bool const denied = r.text.starts_with("NOPERM") || r.text.starts_with("WRONGPASS") || r.text.starts_with("NOAUTH");
  // Some servers repeat the words of a command that they do not know.
  throw failure{denied ? exit_code::access_denied : exit_code::refused, conch::readable(without_secret(r.text, secret_), longest_line)};
}

reply server_connection::next() {
  time_point const end = stream_->until();  // of the whole reply, however it is cut
  for (;;) {
    if (std::optional<reply> r = reader_.next()) return std::move(*r);
    stream_->read(reader_, end);
  }
}

std::string server_connection::tls() const { return stream_->tls(); }

}  // namespace conch::cli
