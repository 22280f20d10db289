// The text of a pushed grant, "ID FENCE GRANTED CLAIM KEY": whatever it is, it is refused or makes sense, and a grant for any
// name is understood. The first byte chooses: that many bytes of the input as the text itself, or a name to be granted.

#include "servers/redis/codec.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using namespace conch;

constexpr std::string_view client = "0123456789abcdef0123456789abcdef";

void require(bool holds, char const* what) {
  if (holds) return;
  std::fprintf(stderr, "grant_text_fuzz: %s\n", what);
  std::abort();
}

redis::push_kind read(std::string_view text, std::string& name, protocol::pushed_grant& grant) {
  std::string const channel = redis::channel_of(client);
  std::array<resp::node, 4> const message{{{resp::kind::push, 0, 3, 0, {}},
                                           {resp::kind::bulk_string, 1, 0, 0, "message"},
                                           {resp::kind::bulk_string, 1, 0, 0, channel},
                                           {resp::kind::bulk_string, 1, 0, 0, text}}};
  return redis::read_push(message, client, name, grant);
}

std::string written(protocol::pushed_grant const& g, std::string_view key_name) {
  bool const part = g.kind != engine::permit_kind::none;
  std::string const which = part ? std::string{' '} + static_cast<char>(g.kind) + std::to_string(g.segment) : std::string{};
  return std::string{client} + '.' + engine::to_text(g.id) + ' ' + std::to_string(g.fence) + ' ' + std::to_string(g.granted_us) + ' ' +
         std::to_string(g.claim.count()) + which + " conch:{" + std::string{key_name} + '}';
}

void any_text(std::string_view text) {
  std::string name;
  protocol::pushed_grant grant;
  auto const kind = read(text, name, grant);
  switch (kind) {
    case redis::push_kind::grant: break;
    case redis::push_kind::revoked:
    case redis::push_kind::requested:
    case redis::push_kind::missed:
    case redis::push_kind::told_end:
    case redis::push_kind::freed:
    case redis::push_kind::freed_and_more: {
      require(grant.id.count > 0 && grant.name == name && !name.empty(), "a place that makes no sense");
      static constexpr std::pair<redis::push_kind, char> marks[] = {{redis::push_kind::revoked, '!'}, {redis::push_kind::requested, '*'},
                                                                    {redis::push_kind::missed, '?'},  {redis::push_kind::told_end, '~'},
                                                                    {redis::push_kind::freed, '='},   {redis::push_kind::freed_and_more, '+'}};
      char mark = 0;
      for (auto const& [of, one] : marks) {
        if (of == kind) mark = one;
      }
      require(grant.claim.count() >= 0 && grant.claim <= std::chrono::hours{24}, "an end that is too far");
      std::string const left = mark == '~' ? " " + std::to_string(grant.claim.count()) : std::string{};
      std::string const again = mark + std::string{client} + '.' + engine::to_text(grant.id) + left + " conch:{" + redis::escape_name(name) + '}';
      std::string name2;
      protocol::pushed_grant grant2;
      require(read(again, name2, grant2) == kind && name2 == name && grant2.id == grant.id, "a place is not read again");
      return;
    }
    case redis::push_kind::other: require(text.empty(), "a text of our channel was passed over"); return;
    case redis::push_kind::malformed: return;
    case redis::push_kind::subscribed:
    case redis::push_kind::shard_subscribed:
    case redis::push_kind::shard_unsubscribed: require(false, "a message taken for a subscription"); return;
  }
  require(grant.id.count > 0 && grant.fence >= 0 && grant.claim.count() > 0, "a grant that makes no sense");
  require(grant.fence < (std::int64_t{1} << 51), "a fence that a token has no room for");
  require(grant.name == name, "the name is somewhere else");

  std::string name2;
  protocol::pushed_grant grant2;
  require(read(written(grant, redis::escape_name(name)), name2, grant2) == redis::push_kind::grant, "not read again");
  require(name2 == name && grant2.id == grant.id && grant2.fence == grant.fence && grant2.granted_us == grant.granted_us &&
              grant2.claim == grant.claim && grant2.kind == grant.kind && grant2.segment == grant.segment,
          "read again it differs");
}

void any_name(std::string_view name) {
  std::string const escaped = redis::escape_name(name);
  require(escaped.find('}') == std::string::npos, "an escaped name ends the hash tag");
  require(redis::unescape_name(escaped) == name, "escaping cannot be undone");
  if (name.empty()) return;
  protocol::pushed_grant const given{name, 7, 195'000'000'000'000, 1'770'000'000'000'000, std::chrono::milliseconds{3000}};
  std::string seen;
  protocol::pushed_grant grant;
  require(read(written(given, escaped), seen, grant) == redis::push_kind::grant, "a good grant is refused");
  require(seen == name && grant.id == 7 && grant.fence == given.fence, "a good grant is misread");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view const rest{reinterpret_cast<char const*>(data) + 1, size - 1};
  if (data[0] % 2 == 0) {
    any_name(rest);
  } else {
    // With the right beginning nearly always: nobody else's grants come on this channel.
    std::string const prefixed = std::string{data[0] % 8 == 3 ? "!" : ""} + std::string{client} + '.' + std::string{rest};
    any_text(data[0] % 8 == 1 ? rest : std::string_view{prefixed});
  }
  return 0;
}
