// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"
#include "resp/decoder.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Translates between the terms of the protocol and Redis' commands and replies. No I/O.
namespace conch::redis {

/// The keys of a lock share the hash tag {NAME}. A `}` in the name would end the tag early, or make it empty. It is written
/// %7D, and % itself %25, so that different names have different keys.
std::string escape_name(std::string_view name);
std::string unescape_name(std::string_view escaped);

/// Whose commands and pushes they are. `client` is the first part of every grant id, `prefix` (config::key_prefix) that of all keys and channels.
struct sender {
  // cppcheck-suppress noExplicitConstructor ; most have the usual prefix
  sender(std::string_view client_id, std::string_view key_prefix = "conch:") noexcept : client{client_id}, prefix{key_prefix} {}
  sender(std::string const& client_id) noexcept : client{client_id} {}
  sender(char const* client_id) noexcept : client{client_id} {}

  std::string_view client, prefix = "conch:";
};

/// The key of a lock.
std::string lock_key(sender const& who, std::string_view name);

/// The channel on which this client receives its pushes.
std::string channel_of(sender const& who);

/// Appends the bytes of the command.
void encode(protocol::command const& c, sender const& who, std::string& out);

/// A reply in the terms of the protocol. `numbers` owns the memory that the answer points to.
protocol::answer to_answer(std::span<resp::node const> message, std::vector<std::int64_t>& numbers);

/// The kinds of pushes. `name` owns the memory that the grant points to. For any other push only name and id are
/// set.
enum class push_kind { grant, revoked, requested, missed, freed, freed_and_more, subscribed, other, malformed };
push_kind read_push(std::span<resp::node const> message, sender const& who, std::string& name, protocol::pushed_grant& grant);

}  // namespace conch::redis
