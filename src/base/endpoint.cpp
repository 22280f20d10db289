// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/endpoint.hpp"

#include "base/readable.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

namespace conch {

bool looks_like_a_token(std::string_view user) noexcept {
  return user.size() >= 20 && std::any_of(user.begin(), user.end(), [](char c) { return c >= '0' && c <= '9'; });
}

tls_config tls_of(endpoint const& where, tls_config const& configured) {
  tls_config all = configured;
  tls_config const& named = where.tls;
  // Together: an authority, or a key, of the one does not belong to a file of the other.
  if (!named.ca_file.empty() || !named.ca_path.empty()) {
    all.ca_file = named.ca_file;
    all.ca_path = named.ca_path;
  }
  if (!named.cert_file.empty() || !named.key_file.empty()) {
    all.cert_file = named.cert_file;
    all.key_file = named.key_file;
  }
  if (!named.server_name.empty()) all.server_name = named.server_name;
  return all;
}

bool can_be_host(std::string_view text) {
  constexpr std::size_t longest = 255;  // of a name in the DNS
  return !text.empty() && text.size() <= longest && text.find_first_of(" []") == std::string_view::npos &&
         printable(text) == text;
}

bool is_this_machine(std::string const& host) {
  if (host == "localhost" || host.ends_with(".localhost")) return true;
  in_addr four{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  if (::inet_pton(AF_INET6, host.c_str(), &six) != 1) return false;
  bool const is_mapped_loopback = IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&six) || is_mapped_loopback;
}

std::string host_and_port(std::string const& host, std::uint16_t port) {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

std::string one_spelling(std::string const& host) {
  std::array<unsigned char, sizeof(in6_addr)> binary{};
  for (int const family : {AF_INET, AF_INET6}) {
    if (::inet_pton(family, host.c_str(), binary.data()) != 1) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    return ::inet_ntop(family, binary.data(), text.data(), text.size());
  }
  std::string name = host;
  if (name.size() > 1 && name.ends_with('.')) name.pop_back();
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

}  // namespace conch
