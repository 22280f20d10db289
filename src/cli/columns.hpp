// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// How wide text is on a terminal. A Chinese character takes two columns, a combining mark none.
namespace conch::cli {

/// `text`: printable UTF-8.
std::size_t columns_of(std::string_view text);

/// Cut or padded to this many columns.
std::string padded(std::string_view text, std::size_t columns);

}  // namespace conch::cli
