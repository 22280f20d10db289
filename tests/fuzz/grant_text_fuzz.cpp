// The text of a pushed grant, "ID FENCE GRANTED CLAIM KEY": whatever it is, it is refused or makes sense, and a grant
// for any name is understood. The first byte chooses: that many bytes of the input as the text itself, or a name to be
// granted.

#include "base/overloaded.hpp"
#include "servers/redis/codec.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

namespace {

using namespace conch;

constexpr std::string_view client = "0123456789abcdef0123456789abcdef";

void require(bool holds, char const* what) {
  if (holds) return;
  std::fprintf(stderr, "grant_text_fuzz: %s\n", what);
  std::abort();
}

std::variant<protocol::push, redis::notice> read(std::string_view text, std::string& name) {
  std::string const channel = redis::channel_of(client);
  std::array<resp::node, 4> const message{{{resp::kind::push, 0, 3, 0, {}},
                                           {resp::kind::bulk_string, 1, 0, 0, "message"},
                                           {resp::kind::bulk_string, 1, 0, 0, channel},
                                           {resp::kind::bulk_string, 1, 0, 0, text}}};
  return redis::read_push(message, client, name);
}

template <class Push>
Push const* as(std::variant<protocol::push, redis::notice> const& said) {
  auto const* const p = std::get_if<protocol::push>(&said);
  return p != nullptr ? std::get_if<Push>(p) : nullptr;
}

std::string written(protocol::pushed_grant const& g, std::string_view key_name) {
  bool const part = g.kind != engine::permit_kind::none;
  std::string const which =
      part ? std::string{' '} + static_cast<char>(g.kind) + std::to_string(g.chosen) : std::string{};
  return std::string{client} + '.' + engine::to_text(g.id) + ' ' + std::to_string(g.fence) + ' ' +
         std::to_string(g.granted_us) + ' ' + std::to_string(g.claim.count()) + which + " conch:{" +
         std::string{key_name} + '}';
}

/// Its text again, behind the client.
std::string written(engine::grant_id id, std::string const& left, std::string_view name) {
  return std::string{client} + '.' + engine::to_text(id) + left + " conch:{" + redis::escape_name(name) + '}';
}

template <class Push>
void check(std::string const& mark, Push const& p, std::string const& name) {
  require(p.id.count > 0 && p.name == name && !name.empty(), "a place that makes no sense");
  std::string left;
  if constexpr (requires { p.left; }) {
    require(p.left.count() >= 0 && p.left <= std::chrono::hours{24}, "an end that is too far");
    left = " " + std::to_string(p.left.count());
  }
  std::string name2;
  auto const again = read(mark + written(p.id, left, name), name2);
  auto const* const q = as<Push>(again);
  require(q != nullptr && name2 == name && q->id == p.id, "a place is not read again");
  if constexpr (requires { p.left; }) require(q->left == p.left, "an end is read as another one");
  if constexpr (requires { p.more; }) require(q->more == p.more, "it is read as another end");
}

void check(protocol::pushed_grant const& grant, std::string const& name) {
  require(grant.id.count > 0 && grant.fence >= 0 && grant.claim.count() > 0, "a grant that makes no sense");
  require(grant.fence < (std::int64_t{1} << 51), "a fence that a token has no room for");
  require(grant.name == name, "the name is somewhere else");

  std::string name2;
  auto const again = read(written(grant, redis::escape_name(name)), name2);
  auto const* const grant2 = as<protocol::pushed_grant>(again);
  require(grant2 != nullptr, "not read again");
  require(name2 == name && grant2->id == grant.id && grant2->fence == grant.fence &&
              grant2->granted_us == grant.granted_us && grant2->claim == grant.claim && grant2->kind == grant.kind &&
              grant2->chosen == grant.chosen,
          "read again it differs");
}

void any_text(std::string_view text) {
  std::string name;
  auto const said = read(text, name);
  if (auto const* const n = std::get_if<redis::notice>(&said)) {
    require(*n != redis::notice::other || text.empty(), "a text of our channel was passed over");
    require(*n == redis::notice::other || *n == redis::notice::malformed, "a message taken for a subscription");
    return;
  }
  std::visit(overloaded{[&](protocol::pushed_grant const& g) { check(g, name); },
                        [&](protocol::revocation const& r) { check("!", r, name); },
                        [&](protocol::request_to_let_go const& r) { check("*", r, name); },
                        [&](protocol::missed_turn const& m) { check("?", m, name); },
                        [&](protocol::end_of_lease const& e) { check("~", e, name); },
                        [&](protocol::end_of_hold const& e) { check(e.more ? "+" : "=", e, name); }},
             std::get<protocol::push>(said));
}

void any_name(std::string_view name) {
  std::string const escaped = redis::escape_name(name);
  require(escaped.find('}') == std::string::npos, "an escaped name ends the hash tag");
  require(redis::unescape_name(escaped) == name, "escaping cannot be undone");
  if (name.empty()) return;
  protocol::pushed_grant const given{name, 7, 195'000'000'000'000, 1'770'000'000'000'000,
                                     std::chrono::milliseconds{3000}};
  std::string seen;
  auto const said = read(written(given, escaped), seen);
  auto const* const grant = as<protocol::pushed_grant>(said);
  require(grant != nullptr, "a good grant is refused");
  require(seen == name && grant->id == 7 && grant->fence == given.fence, "a good grant is misread");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view const rest{reinterpret_cast<char const*>(data) + 1, size - 1};
  if (data[0] % 2 == 0) {
    any_name(rest);
  } else {
    // With the right beginning nearly always: nobody else's grants come on this channel.
    std::string const prefixed =
        std::string{data[0] % 8 == 3 ? "!" : ""} + std::string{client} + '.' + std::string{rest};
    any_text(data[0] % 8 == 1 ? rest : std::string_view{prefixed});
  }
  return 0;
}
