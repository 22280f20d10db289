// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/postgresql/input.hpp"

#if CONCH_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#endif

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace conch::postgresql {

std::size_t available(int socket) noexcept {
  int size = 0;
  return ::ioctl(socket, FIONREAD, &size) == 0 && size > 0 ? static_cast<std::size_t>(size) : 0;
}

std::size_t taken(std::size_t before, std::size_t left) noexcept {
  constexpr std::size_t least_read = 8192;  // libpq reads at least this much at a time, if available
  return std::max(before - std::min(left, before), std::min(before, least_read));
}

login_guard::step look_at_login(PGconn* connecting, login_guard& guard) {
  if (PQstatus(connecting) != CONNECTION_AWAITING_RESPONSE) return login_guard::step::pass;
  std::array<char, most_of_login> text{};
  ::ssize_t size = 0;
  bool is_nothing = false;  // else an end, which libpq finds as well
#if CONCH_TLS
  if (auto* const tls = static_cast<SSL*>(PQsslStruct(connecting, "OpenSSL"))) {
    ERR_clear_error();
    int const taken = SSL_peek(tls, text.data(), static_cast<int>(text.size()));
    size = taken;
    is_nothing = taken <= 0 && SSL_get_error(tls, taken) == SSL_ERROR_WANT_READ;
  } else
#endif
  {
    size = ::recv(PQsocket(connecting), text.data(), text.size(), MSG_PEEK | MSG_DONTWAIT);
    is_nothing = size < 0 && (errno == EAGAIN || errno == EINTR);
  }
  if (is_nothing) return login_guard::step::nothing;
  return size <= 0 ? login_guard::step::pass : guard.look({text.data(), static_cast<std::size_t>(size)});
}

}  // namespace conch::postgresql
