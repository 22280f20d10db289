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

/// Takes bytes, gives replies. Each byte is looked at once, and no reply is longer than `most_bytes` or has more than `most_items`.
class reply_reader {
 public:
  static constexpr std::size_t most_bytes = std::size_t{64} << 20U;
  static constexpr std::size_t most_items = std::size_t{1} << 20U;

  void append(std::string_view bytes) { input_ += bytes; }
  /// Empty: it is not complete yet. Throws failure (exit_code::refused) if it is no reply, or too long.
  std::optional<reply> next();

 private:
  struct unfinished {
    reply array;
    std::size_t left;
  };

  bool read_one(reply& into);
  std::optional<std::string_view> line();
  bool string_of(std::size_t size, reply& into);
  void count_items(std::size_t more);

  std::string input_;
  std::size_t at_ = 0;                      // what is before has been read
  std::size_t looked_at_ = 0;               // no end of a line up to here
  std::optional<std::size_t> string_size_;  // of the string whose bytes are not all here
  std::vector<unfinished> arrays_;          // that the next value is in, the innermost last
  std::size_t bytes_ = 0, items_ = 0;       // of the present reply
};

}  // namespace conch::cli
