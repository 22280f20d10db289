// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/entropy.hpp"

#include <unistd.h>  // getentropy
#include <cerrno>
#include <system_error>

#include <utility>

namespace conch::detail {

std::uint64_t system_entropy::next() {
  for (;;) {
    if (used_ == numbers_.size()) refill();
    // A number that was given out stays in no memory but the caller's.
    if (std::uint64_t const number = std::exchange(numbers_[used_++], 0); number != 0) return number;
  }
}

void system_entropy::refill() {
  if (::getentropy(numbers_.data(), sizeof numbers_) != 0) {
    throw std::system_error{errno, std::generic_category(), "the operating system gives no random numbers"};
  }
  used_ = 0;
}

}  // namespace conch::detail
