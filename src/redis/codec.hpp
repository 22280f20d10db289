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

// Between the terms of the protocol and Redis' commands and replies. No I/O.
namespace conch::redis {

/// The keys of a lock share the hash tag {NAME}. `}` would end the tag early, or make it empty: it is written %7D, and %
/// itself %25, so that no two names meet.
std::string escape_name(std::string_view name);
std::string unescape_name(std::string_view escaped);

/// Where this client hears of its grants.
std::string channel_of(std::string_view client);

/// Appends the command as it goes over the wire. `client` is the first part of every grant id.
void encode(engine::command const& c, std::string_view client, std::string& out);

/// A reply in the engine's terms. `numbers` keeps the memory the answer points to.
engine::answer to_answer(std::span<resp::node const> message, std::vector<std::int64_t>& numbers);

/// What a push is about. `name` keeps the memory the grant points to. Of what was revoked, or a turn that was missed, only name
/// and id are set.
enum class push_kind { grant, revoked, missed, subscribed, other, malformed };
push_kind read_push(std::span<resp::node const> message, std::string_view client, std::string& name, engine::pushed_grant& grant);

}  // namespace conch::redis
