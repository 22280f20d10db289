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

/// The channel on which this client receives its pushes.
std::string channel_of(std::string_view client);

/// Appends the bytes of the command. `client` is the first part of every grant id.
void encode(protocol::command const& c, std::string_view client, std::string& out);

/// A reply in the terms of the protocol. `numbers` owns the memory that the answer points to.
protocol::answer to_answer(std::span<resp::node const> message, std::vector<std::int64_t>& numbers);

/// The kinds of pushes. `name` owns the memory that the grant points to. For a revocation or a missed turn only name and id are
/// set.
enum class push_kind { grant, revoked, missed, subscribed, other, malformed };
push_kind read_push(std::span<resp::node const> message, std::string_view client, std::string& name, protocol::pushed_grant& grant);

}  // namespace conch::redis
