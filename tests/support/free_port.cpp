#include "support/free_port.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>

namespace conch::test {

namespace {

/// Is bound, until it is closed or kept.
class bound_socket {
 public:
  template <class Address>
  bound_socket(int family, int type, Address const& to, std::size_t size)
      : fd_{::socket(family, type | SOCK_CLOEXEC, 0)} {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "socket");
    is_bound_ = ::bind(fd_, reinterpret_cast<sockaddr const*>(&to), static_cast<socklen_t>(size)) == 0;
  }
  bound_socket(bound_socket const&) = delete;
  bound_socket& operator=(bound_socket const&) = delete;
  ~bound_socket() {
    if (fd_ >= 0) ::close(fd_);
  }

  bool is_bound() const noexcept { return is_bound_; }
  /// Bound for as long as this process runs.
  void keep() noexcept { fd_ = -1; }

 private:
  int fd_;
  bool is_bound_ = false;
};

bool is_free(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return bound_socket{AF_INET, SOCK_STREAM, address, sizeof address}.is_bound();
}

/// Nothing is bound to the port while its server starts, or is down: another test would get the port, and the clients
/// of both would meet one server. An abstract name stands for the port meanwhile. Like ports, such names belong to the
/// network namespace, and are gone with their process.
bool reserve(std::uint16_t port) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string const name = "conch-test-port-" + std::to_string(port);
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  bound_socket held{AF_UNIX, SOCK_DGRAM, address, offsetof(sockaddr_un, sun_path) + 1 + name.size()};
  if (!held.is_bound() || !is_free(port)) return false;
  held.keep();
  return true;
}

}  // namespace

std::uint16_t find_free_port() {
  // The ports of the nodes of a Cluster for each other are 10000 above. Those of scripts/demo are above both, and those
  // that the kernel gives to connections above them.
  constexpr std::uint32_t lowest = 10'000, highest = 15'000;
  static std::atomic<std::uint32_t> next{std::random_device{}()};
  for (std::uint32_t tried = 0; tried < highest - lowest; ++tried) {
    auto const port = static_cast<std::uint16_t>(lowest + next++ % (highest - lowest));
    if (reserve(port)) return port;
  }
  throw std::runtime_error("no free port from " + std::to_string(lowest) + " to " + std::to_string(highest));
}

}  // namespace conch::test
