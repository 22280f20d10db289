// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/gathering.hpp"
#include "protocol/wire.hpp"
#include "resp/decoder.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// Translates between the terms of the protocol and Redis' commands and replies. No I/O.
namespace conch::redis {

/// The keys of a lock share the hash tag {NAME}. A `}` in the name would end the tag early, or make it empty. It is
/// written %7D, and % itself %25, so that different names have different keys.
std::string escape_name(std::string_view name);
std::string unescape_name(std::string_view escaped);

/// The client of the commands and pushes. `client` is the first part of every grant id, `prefix` (config::key_prefix)
/// that of all keys and channels.
/// `node`: on a connection to a node of a Cluster the first digits of its id, in the name of each channel; else empty.
/// `home`: a slot of that node, in whose channel it is shown that pushes arrive.
struct sender {
  // cppcheck-suppress noExplicitConstructor ; most have the usual prefix
  sender(std::string_view client_id, std::string_view key_prefix = "conch:") noexcept
      : client{client_id},
        prefix{key_prefix} {}
  sender(std::string const& client_id) noexcept : client{client_id} {}
  sender(char const* client_id) noexcept : client{client_id} {}

  std::string_view client, prefix = "conch:", node{};
  unsigned home = 0;
};

/// The key of a lock.
std::string lock_key(sender const& who, std::string_view name);

/// The channel on which this client receives its pushes.
std::string channel_of(sender const& who);

/// The channel for the locks of that slot, where there are nodes. A subscriber at another node does not receive what is
/// published at this one.
std::string channel_of(sender const& who, unsigned slot);

/// The slot of which the channel must be subscribed to before this command is sent: its answer, or what follows, may be
/// a push. None: of no slot.
std::optional<unsigned> slot_to_subscribe(protocol::command const& c);

/// What a client with the defaults of conch::config asks for. lua/acquire.lua and lua/release.lua take it where a
/// command has its id only.
inline constexpr std::chrono::milliseconds usual_lease{30'000}, usual_claim{3'000}, usual_retention{630'000};

/// Appends the bytes of the command.
void encode(protocol::command const& c, sender const& who, std::string& out);

/// The same for several commands that one script carries out.
void encode(protocol::gathering const& all, sender const& who, bool with_source, std::string& out);

/// The answers in that of a script for several commands, in its order. False: not a list of that length.
bool split(std::span<resp::node const> message, std::span<std::span<resp::node const>> answers);

/// A reply in the terms of the protocol. `numbers` owns the memory that the answer points to.
protocol::answer to_answer(std::span<resp::node const> message, std::vector<std::int64_t>& numbers);

/// The same of an acquire_all_command: of its script's answers those of the locks that are taken.
protocol::answer to_tries_answer(std::span<resp::node const> message, std::vector<std::int64_t>& numbers);

/// A message that comes unasked and is not a push of the protocol.
enum class notice {
  subscribed,
  shard_subscribed,
  shard_unsubscribed,
  other,
  malformed,  // on our channel, and not from conch
};
/// `name` owns the memory that the push points to.
std::variant<protocol::push, notice> read_push(std::span<resp::node const> message, sender const& who,
                                               std::string& name);

/// The slot of a channel that channel_of has made; none: it is another channel.
std::optional<unsigned> slot_of_channel(std::string_view channel, sender const& who);

}  // namespace conch::redis
