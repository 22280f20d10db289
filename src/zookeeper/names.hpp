// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The names of nodes. No I/O, no clock.
namespace conch::zookeeper {

/// The folder of all locks with that `config::key_prefix`: CHROOT/PREFIX, without a colon at its end.
std::string root_of(std::string_view chroot, std::string_view key_prefix);

/// Any bytes as the name of one node: what ZooKeeper does not allow, and '%', is percent-encoded.
std::string encoded(std::string_view name);

/// The folder of a lock.
inline std::string folder_of(std::string_view root, std::string_view lock) { return std::string{root} + '/' + encoded(lock); }

/// What the name of a lock's node says: CLIENT.NUMBER-SEQUENCE.
struct node_name {
  std::string_view client;
  std::uint64_t number = 0;   // counts the nodes that the client has asked for
  std::int32_t sequence = 0;  // the place in line; it wraps after 2^31
};
std::optional<node_name> read_node_name(std::string_view name);

/// The name without the sequence, as it is asked for.
std::string node_prefix(std::string_view client, std::uint64_t number);

/// Does `a` stand before `b`? Also across the wrap.
bool is_before(std::int32_t a, std::int32_t b) noexcept;

/// The last part of a path.
std::string_view last_of(std::string_view path) noexcept;

}  // namespace conch::zookeeper
