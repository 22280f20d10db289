// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/identity.hpp"

#include <functional>
#include <random>

namespace conch::detail {

std::string new_client_id() {
  // std::random_device is the kernel's generator on every platform with a supported compiler.
  std::random_device source;
  constexpr char digits[] = "0123456789abcdef";
  std::string id;
  id.reserve(32);
  for (int word = 0; word < 4; ++word) {
    std::uint32_t bits = source();
    for (int i = 0; i < 8; ++i, bits >>= 4) id += digits[bits & 15u];
  }
  return id;
}

std::uint64_t seed_of(std::string_view id) noexcept { return std::hash<std::string_view>{}(id); }

}  // namespace conch::detail
