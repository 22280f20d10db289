// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace conch::testing {

/// What has happened in a world: the last lines of it.
class trace {
 public:
  static constexpr std::size_t most = 2'000;

  explicit trace(bool on) : on_{on} {}

  bool is_on() const noexcept { return on_; }
  /// `at`: nanoseconds since the world began.
  void add(std::int64_t at, std::string_view who, std::string_view words);
  std::string text() const;

 private:
  bool on_;
  std::deque<std::string> lines_;
  std::uint64_t left_out_ = 0;
};

}  // namespace conch::testing
