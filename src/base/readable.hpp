// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace conch {

/// At most so many bytes of one server's answer, or of one name, in a line.
constexpr std::size_t readable_words = 200;
/// At most so many bytes of a whole line, which may name a server or a lock before it says what is wrong.
constexpr std::size_t readable_line = 500;

/// Words of a server, a lock's name and whatever else comes from outside, as they may stand in a log or an error: nothing in
/// them is obeyed by a terminal, breaks the line or turns it round, and they are at most `most` bytes long.
///
/// Control characters (C0, DEL, C1), the marks that break lines or change the direction of writing, and bytes that are no
/// UTF-8 are written as `\xNN`, one for each byte. What is too long ends with "...". The answer does not change when it is asked again.
std::string readable(std::string_view words, std::size_t most = readable_words);

}  // namespace conch
