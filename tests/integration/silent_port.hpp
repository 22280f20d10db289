#pragma once

// An address that says nothing: connections to it are neither accepted nor refused, as with a machine that is down.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace conch::test {

class silent_port {
 public:
  silent_port(std::string const& address, std::uint16_t port) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    ::inet_pton(AF_INET, address.c_str(), &where.sin_addr);
    auto const* const any = reinterpret_cast<sockaddr const*>(&where);
    int const listener = open(0);
    int const yes = 1;
    ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (::bind(listener, any, sizeof where) != 0 || ::listen(listener, 0) != 0)
      throw std::runtime_error{"cannot listen at " + address};
    // Where the queue of a listener is full, Linux drops what comes.
    for (int unconnected = 0; unconnected < 2;) {
      int const s = open(SOCK_NONBLOCK);
      (void)::connect(s, any, sizeof where);
      pollfd p{s, POLLOUT, 0};
      if (::poll(&p, 1, 200) == 0) ++unconnected;
      if (sockets_.size() > 100) throw std::runtime_error{"the queue of " + address + " does not fill"};
    }
  }
  silent_port(silent_port const&) = delete;
  silent_port& operator=(silent_port const&) = delete;
  ~silent_port() {
    for (int const s : sockets_) ::close(s);
  }

 private:
  int open(int flags) {
    int const s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (s < 0) throw std::runtime_error{"no socket"};
    sockets_.push_back(s);
    return s;
  }

  std::vector<int> sockets_;
};

}  // namespace conch::test
