// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace conch {

namespace detail {
/// The id of a client from its four words.
CONCH_API std::string id_of(std::array<std::uint32_t, 4> const& words);
}  // namespace detail

/// What a client tells others about itself, for people who look at a lock; or what a task waits for, which its client
/// tells.
struct introduction {
  /// A lock that it holds or waits for.
  struct use {
    std::string lock, note;
    std::int64_t fence = 0;  // the server's part of the token; 0: it waits
    std::string with = {};   // of a client: the id of the task, if it has one; of a task: the id of the client

    bool operator==(use const&) const = default;
  };

  std::string label;
  std::vector<use> uses;

  bool operator==(introduction const&) const = default;
};

constexpr std::size_t longest_label = 64;
constexpr std::size_t longest_note = 128;
/// A client tells of no more.
constexpr std::size_t most_uses = 100;

/// A text as one word of printable ASCII, which is not empty.
std::string to_word(std::string_view text);

/// As a server keeps it: a line for the label, and one for each use. All of it is printable ASCII.
std::string to_text(introduction const& i);

/// From any client: what is malformed or too long is left out.
CONCH_API introduction read_introduction(std::string_view text);

/// The note about the grant with this fence, or about the only wait (0). None: it tells of none, or of several waits.
CONCH_API std::optional<std::string> note_of(introduction const& i, std::string_view lock, std::int64_t fence);

/// How people see a holder or a waiter, wherever it is named: "billing@pod-7:4711 (order 17)"; without a label
/// "client 5eaa... (order 17)".
CONCH_API std::string name_of_client(std::string_view label, std::string_view note, std::string_view client);

/// The same with the id: "billing@pod-7:4711 (order 17), client 5eaa...".
CONCH_API std::string name_and_id_of_client(std::string_view label, std::string_view note, std::string_view client);

}  // namespace conch
