// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstdint>
#include <string_view>

// The slots of a Redis Cluster. No I/O.
namespace conch::redis {

constexpr unsigned slot_count = 16384;

/// The slot of a key of which this is the hash tag.
unsigned slot_of_tag(std::string_view tag) noexcept;

/// The slot of a lock, whatever the prefix of its keys.
unsigned slot_of_lock(std::string_view name);

/// The smallest number that, as a hash tag in decimal digits, is in that slot. Clients agree on it without a word: it
/// is in the name of a channel.
std::uint32_t tag_of_slot(unsigned slot);

}  // namespace conch::redis
