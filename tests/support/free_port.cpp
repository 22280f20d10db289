#include "support/redis_server.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>

namespace conch::test {

namespace {

// Free at this moment. Another process may take it before the server does; see start().
bool is_free(std::uint16_t port) {
  int const fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bool const ok = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return ok;
}

}  // namespace

std::uint16_t find_free_port() {
  // Below those that the kernel gives to connections: a server that is killed and started again finds its port still
  // free.
  constexpr std::uint32_t lowest = 10'000, highest = 32'000;
  // no two for one process, so that it can choose several before it uses them
  static std::atomic<std::uint32_t> next{std::random_device{}()};
  for (std::uint32_t tried = 0; tried < highest - lowest; ++tried) {
    auto const port = static_cast<std::uint16_t>(lowest + next++ % (highest - lowest));
    if (is_free(port)) return port;
  }
  throw std::runtime_error("no free port from " + std::to_string(lowest) + " to " + std::to_string(highest));
}

}  // namespace conch::test
