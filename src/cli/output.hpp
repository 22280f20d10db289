// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

// All that a command writes for people and programs goes through here.
namespace conch::cli {

/// To standard output. What is not printable is escaped (base/readable.hpp), except the ends of lines, so that no text
/// controls a terminal. Nothing happens once the reader has gone. Throws not_written where it cannot be written, as on
/// a full disk.
void print(std::string_view text);
/// The same to standard error, ignoring failures.
void print_error(std::string_view text) noexcept;
/// The same, but it does not wait for the reader (line_sink).
void print_error_if_there_is_room(std::string_view text) noexcept;

/// Standard output cannot be written. It is not a failure of a server, after which a command may continue.
struct not_written : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Text of our own that moves the cursor: as it is.
void draw(std::string_view text);

/// The reader of standard output has gone: printing is pointless.
bool reader_has_gone() noexcept;

}  // namespace conch::cli
