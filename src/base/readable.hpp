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
constexpr std::size_t longest_line = 500;

/// Makes text from outside (a server's words) safe for a log or an error: a terminal obeys nothing in it, nothing
/// breaks the line or turns it round, nothing in it is unseen, and it is at most `most` bytes long.
///
/// Control characters (C0, DEL, C1), characters that break lines, change the direction of writing or have no width, and
/// bytes that are not UTF-8 are written as `\xNN`, one for each byte. A text that is too long ends with "...". The
/// result does not change when it is passed in again.
///
/// All text from peers passes through this function: the result contains none of our secrets (base/secrets.hpp).
CONCH_API std::string readable(std::string_view words, std::size_t most = readable_words);

/// All our own text passes through this: a whole line for a log, an error or a statistic. As `readable`, but a word of
/// ours that happens to be a password stays.
CONCH_API std::string readable_line(std::string_view line);

/// The spelling of a name (of a lock, a client, a server) wherever it appears alone: in lists, tables, JSON and labels.
/// As `readable`, and no two names have the same spelling: a backslash is written as `\\`, and what only looks like a
/// space as `\xNN`, as is a space at either end. So the name can be read back. A name that is too long ends with
/// `\...`, which no other name does.
CONCH_API std::string printable(std::string_view name, std::size_t most = std::string_view::npos);

/// The spelling of a name inside a sentence: `printable`, between quotation marks, and those of the name as `\"`. A
/// name that is too long ends with `"...`, where the marks are not counted.
CONCH_API std::string in_quotes(std::string_view name, std::size_t most = readable_words);

}  // namespace conch
