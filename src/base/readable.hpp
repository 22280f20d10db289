// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace conch {

/// The most bytes of one server's answer, or of one name, in a line.
constexpr std::size_t readable_words = 200;
/// The most bytes of a whole line, which may name a server or a lock before it says what is wrong.
constexpr std::size_t readable_line = 500;

/// Makes text from outside (a server's words, a lock's name) safe for a log or an error. A terminal obeys nothing in it, nothing breaks the
/// line or turns it round, and it is at most `most` bytes long.
///
/// Control characters (C0, DEL, C1), the marks that break lines or change the direction of writing, and bytes that are no UTF-8 are written
/// as `\xNN`, one for each byte. A text that is too long ends with "...". The result does not change when it is passed in again.
CONCH_API std::string readable(std::string_view words, std::size_t most = readable_words);

}  // namespace conch
