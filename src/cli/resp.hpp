// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// RESP2, for the questions that the library does not ask: SCAN, INFO, a user's rights. No I/O.
namespace conch::cli {

struct reply {
  enum class kind { status, error, integer, string, null, array };
  kind what = kind::null;
  std::string text;  // status, error, string
  std::int64_t number = 0;
  std::vector<reply> items;

  bool is_error() const noexcept { return what == kind::error; }
};

std::string encoded(std::vector<std::string> const& command);

/// Takes bytes, gives replies.
class reply_reader {
 public:
  void append(std::string_view bytes) { input_ += bytes; }
  /// Empty: it is not complete yet. Throws failure (exit_code::refused) if it is no reply.
  std::optional<reply> next();

 private:
  std::optional<reply> read(std::size_t& at, int depth) const;

  std::string input_;
};

}  // namespace conch::cli
