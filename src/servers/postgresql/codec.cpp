// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/postgresql/codec.hpp"

#include "base/numbers.hpp"
#include "servers/postgresql/faults.hpp"

#include <boost/assert.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace conch::postgresql {

namespace {

using engine::grant_id;

constexpr std::string_view hex_digits = "0123456789abcdef";

/// The functions of sql/*.sql that are called by name, and the types of what they take.
constexpr std::array<std::pair<std::string_view, std::string_view>, 22> functions{{
    {"acquire", "bytea,text,bool,bool,int8,int8,int8,int8,int8"},
    {"acquire_permit", "bytea,text,bool,bool,int8,int8,int8,int8,int8,int4,int8,int8,text,int8"},
    {"acquire_all", "bytea[],text[],int8[],int8,int8"},
    {"adopt", "bytea,text,int8,int8,int8,text"},
    {"adopt_permit", "bytea,text,int8,int8,int8,text,int4"},
    {"release", "bytea,text,bool,bool,int8,int8,int8,text"},
    {"release_later", "bytea,text,int8,int8,int8"},
    {"release_permit", "bytea,text,bool,bool,int8,int8,int8,int4,int8,int8,text,int8"},
    {"renew", "bytea[],text[],int8[],int8[],int8"},
    {"renew_permits", "bytea[],text[],int8[],int8[],int8"},
    {"inspect_line", "bytea"},
    {"introduce", "text,text,int8"},
    {"identify", "text"},
    {"force", "bytea,int8,int8,bool,int8"},
    {"ask", "bytea,bool,int8,text"},
    {"asked", "bytea,int8"},
    {"watch", "bytea,text,int8"},
    {"unwatch", "bytea,text"},
    {"set_limit", "bytea,int8,int8,int8,int8,bool"},
    {"end_connection", "int8,text"},
    {"hear", "text"},
    {"proves", "text"},
}};

std::int64_t count(std::chrono::milliseconds d) { return d.count(); }

std::int64_t letter(engine::permit const& permit) { return static_cast<std::int64_t>(permit.kind); }

/// PREFIX{NAME}: a prefix contains no brace.
std::string key_of(sender const& who, std::string_view name) {
  std::string key;
  key.reserve(who.prefix.size() + name.size() + 2);
  key.append(who.prefix).append("{").append(name).append("}");
  return key;
}

std::string id_of(sender const& who, grant_id id) {
  return std::string{who.client}.append(".").append(engine::to_text(id));
}

/// Arrays, as text.
class array {
 public:
  void word(std::string_view text) { (all_.size() > 1 ? all_.append(",") : all_).append(text); }
  void number(std::int64_t n) { word(std::to_string(n)); }
  void bytes(std::string_view value) {
    word("\"\\\\x");
    for (char const c : value) {
      auto const byte = static_cast<unsigned char>(c);
      all_ += hex_digits[byte / 16];
      all_ += hex_digits[byte % 16];
    }
    all_ += '"';
  }
  std::string_view done() { return all_ += '}'; }

 private:
  std::string all_ = "{";
};

struct encoder {
  sender const& who;

  statement operator()(protocol::acquire_command const& c) const {
    BOOST_ASSERT_MSG(c.proposal == 0, "a vote, to a server that gives none");
    if (!c.origin.empty()) return adopt(c);
    statement s{c.permit != nullptr ? "conch_acquire_permit" : "conch_acquire"};
    s.bytes(key_of(who, c.name)).text(id_of(who, c.id)).flag(c.wait).flag(c.patient);
    s.number(count(c.lease)).number(count(c.claim)).number(count(c.retention)).number(c.ticket).number(c.not_after_us);
    if (c.permit == nullptr) return s;
    s.number(letter(*c.permit))
        .number(c.permit->limit)
        .number(c.permit->weight)
        .text(c.permit->detail)
        .number(c.permit->start);
    return s;
  }

  statement adopt(protocol::acquire_command const& c) const {
    statement s{c.permit != nullptr ? "conch_adopt_permit" : "conch_adopt"};
    s.bytes(key_of(who, c.name))
        .text(id_of(who, c.id))
        .number(count(c.lease))
        .number(count(c.retention))
        .number(c.not_after_us)
        .text(c.origin);
    if (c.permit != nullptr) s.number(letter(*c.permit));
    return s;
  }

  statement operator()(protocol::acquire_all_command const& c) const {
    array keys, ids, leases;
    for (protocol::attempt const& item : c.items) {
      keys.bytes(key_of(who, item.name));
      ids.word(id_of(who, item.id));
      leases.number(count(item.lease));
    }
    statement s{"conch_acquire_all"};
    s.text(keys.done()).text(ids.done()).text(leases.done()).number(count(c.retention)).number(c.not_after_us);
    return s;
  }

  statement operator()(protocol::release_command const& c) const {
    BOOST_ASSERT_MSG(c.floor == 0, "a vote, to a server that gives none");
    if (c.ends_in.count() != 0) {
      statement later{"conch_release_later"};
      later.bytes(key_of(who, c.name)).text(id_of(who, c.id));
      later.number(count(c.ends_in)).number(count(c.claim)).number(count(c.retention));
      return later;
    }
    statement s{c.permit != nullptr ? "conch_release_permit" : "conch_release"};
    s.bytes(key_of(who, c.name)).text(id_of(who, c.id)).flag(c.keep).flag(c.patient);
    s.number(count(c.lease)).number(count(c.claim)).number(count(c.retention));
    if (c.permit == nullptr) {
      s.text(c.new_id != 0 ? id_of(who, c.new_id) : std::string{});
      return s;
    }
    s.number(letter(*c.permit)).number(c.permit->limit).number(c.permit->weight).text(c.permit->detail).number(c.rest);
    return s;
  }

  statement operator()(protocol::renew_command const& c) const {
    array keys, ids, fences, leases;
    for (protocol::renewal const& item : c.items) {
      keys.bytes(key_of(who, item.name));
      ids.word(id_of(who, item.id));
      fences.word(item.fence ? std::to_string(*item.fence) : "NULL");
      leases.number(count(item.lease));
    }
    statement s{c.permits ? "conch_renew_permits" : "conch_renew"};
    s.text(keys.done()).text(ids.done()).text(fences.done()).text(leases.done()).number(count(c.retention));
    return s;
  }

  statement operator()(protocol::inspect_command const& c) const {
    return std::move(statement{"conch_inspect_line"}.bytes(key_of(who, c.name)));
  }

  statement operator()(protocol::introduce_command const& c) const {
    return std::move(statement{"conch_introduce"}.text(c.name).text(c.text).number(count(c.kept)));
  }

  statement operator()(protocol::identify_command const& c) const {
    return std::move(statement{"conch_identify"}.text(c.name));
  }

  /// All owners in one command.
  statement operator()(protocol::force_command const& c) const {
    return std::move(statement{"conch_force"}
                         .bytes(key_of(who, c.name))
                         .number(count(c.claim))
                         .number(count(c.retention))
                         .flag(!c.fence)
                         .number(c.fence.value_or(0)));
  }

  statement operator()(protocol::request_command const& c) const {
    return std::move(
        statement{"conch_ask"}.bytes(key_of(who, c.name)).flag(!c.fence).number(c.fence.value_or(0)).text(who.client));
  }

  statement operator()(protocol::requested_command const& c) const {
    return std::move(statement{"conch_asked"}.bytes(key_of(who, c.name)).number(c.fence));
  }

  statement operator()(protocol::watch_command const& c) const {
    statement s{"conch_watch"};
    s.bytes(key_of(who, c.name)).text(c.id != 0 ? id_of(who, c.id) : std::string{}).number(count(c.lease));
    return s;
  }

  statement operator()(protocol::unwatch_command const& c) const {
    return std::move(statement{"conch_unwatch"}.bytes(key_of(who, c.name)).text(id_of(who, c.id)));
  }

  statement operator()(protocol::limit_command const& c) const {
    statement s{"conch_set_limit"};
    s.bytes(key_of(who, c.name))
        .number(count(c.claim))
        .number(count(c.retention))
        .number(c.limit)
        .number(c.by)
        .flag(c.if_unset);
    return s;
  }

  statement operator()(protocol::kill_command const& c) const {
    return std::move(statement{"conch_end_connection"}.number(static_cast<std::int64_t>(c.client_id)).text(c.address));
  }

  statement operator()(protocol::subscribe_command) const {
    return std::move(statement{"conch_hear"}.text(who.client));
  }
  statement operator()(protocol::prove_publish_command) const {
    return std::move(statement{"conch_proves"}.text(who.client));
  }
  statement operator()(protocol::ping_command) const { return statement{"conch_ping"}; }

  statement operator()(protocol::confirm_command const&) const { return never(); }
  statement operator()(protocol::asking_command) const { return never(); }
  statement operator()(protocol::mark_command) const { return never(); }
  statement operator()(protocol::wait_command const&) const { return never(); }

  static statement never() {
    BOOST_ASSERT_MSG(false, "a command that this kind of server does not know");
    return statement{"conch_ping"};
  }
};

/// The next word of the text, which is removed from it.
std::string_view word_of(std::string_view& text) {
  auto const end = std::min(text.find(' '), text.size());
  std::string_view const word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

/// CLIENT.N, as one word. False: malformed, or another client's.
bool read_id(std::string_view& text, std::string_view client, grant_id& id) {
  if (text.size() <= client.size() || !text.starts_with(client) || text[client.size()] != '.') return false;
  text.remove_prefix(client.size() + 1);
  return engine::read_grant_id(text, id);
}

int digit(char c) {
  auto const found = hex_digits.find(c);
  return found == std::string_view::npos ? -1 : static_cast<int>(found);
}

/// The name in a key, which is written in hexadecimal digits. False: malformed.
bool read_key(std::string_view hex, sender const& who, std::string& name) {
  std::string key;
  if (hex.size() % 2 != 0) return false;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    int const high = digit(hex[i]), low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return false;
    key += static_cast<char>(high * 16 + low);
  }
  std::size_t const before = who.prefix.size() + 1;
  if (key.size() <= before + 1 || !key.starts_with(who.prefix) || key[before - 1] != '{' || key.back() != '}')
    return false;
  name = key.substr(before, key.size() - before - 1);
  return true;
}

}  // namespace

void statement::append(std::string_view value, bool is_binary) {
  places_.push_back({all_.size(), static_cast<int>(value.size()), is_binary});
  all_.append(value).push_back('\0');
}

statement& statement::text(std::string_view value) {
  append(value, false);
  return *this;
}

statement& statement::number(std::int64_t value) { return text(std::to_string(value)); }

statement& statement::bytes(std::string_view value) {
  append(value, true);
  return *this;
}

std::string channel_of(std::string_view client) { return std::string{"conch_"}.append(client); }

std::string preparation(sender const& who) {
  std::string all = "deallocate all;listen " + channel_of(who.client) + ";prepare conch_ping as select '{}'::int8[];";
  for (auto const& [name, types] : functions) {
    all.append("prepare conch_")
        .append(name)
        .append("(")
        .append(types)
        .append(")as select conch.")
        .append(name)
        .append("(");
    auto const parameters = 1 + std::count(types.begin(), types.end(), ',');
    for (std::ptrdiff_t n = 1; n <= parameters; ++n) all.append(n > 1 ? ",$" : "$").append(std::to_string(n));
    all += ");";
  }
  return all;
}

statement encode(protocol::command const& c, sender const& who) { return std::visit(encoder{who}, c); }

protocol::answer to_answer(reply const& r, std::vector<std::int64_t>& numbers) {
  numbers.clear();
  if (!r.sqlstate.empty()) return {classify(r.sqlstate, r.words), r.words, {}, r.sqlstate == says_locked};
  constexpr std::string_view malformed = "an answer that no function of conch gives";
  constexpr std::int64_t limit = std::int64_t{1} << 53;  // as of a script: times and tokens are below
  if (r.row.size() == 1 && r.row[0].starts_with('=')) return {.content = r.row[0].substr(1)};  // of identify
  if (r.row.size() != 1 || r.row[0].size() < 2 || !r.row[0].starts_with('{') || !r.row[0].ends_with('}')) {
    return {protocol::fault::malformed, malformed, {}};
  }
  for (std::string_view rest = r.row[0].substr(1, r.row[0].size() - 2); !rest.empty();) {
    auto const end = std::min(rest.find(','), rest.size());
    auto const number = whole_number<std::int64_t>(rest.substr(0, end));
    if (!number || *number <= -limit || *number >= limit) return {protocol::fault::malformed, malformed, {}};
    numbers.push_back(*number);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {protocol::fault::none, {}, numbers};
}

std::optional<protocol::push> read_push(std::string_view payload, sender const& who, std::string& name) {
  std::string_view rest = payload;
  std::string_view const what = word_of(rest);
  engine::grant_id id;
  if (what.size() != 1 || !read_id(rest, who.client, id)) return std::nullopt;
  if (what == "~") {
    auto const left = whole_number<std::int64_t>(word_of(rest));
    if (!left || *left < 0 || *left > engine::longest_lease_ms || !read_key(word_of(rest), who, name))
      return std::nullopt;
    return protocol::end_of_lease{name, id, std::chrono::milliseconds{*left}};
  }
  if (what != "+") {
    if (!read_key(word_of(rest), who, name)) return std::nullopt;
    if (what == "!") return protocol::revocation{name, id};
    if (what == "*") return protocol::request_to_let_go{name, id};
    if (what == "=") return protocol::end_of_hold{name, id};
    return std::nullopt;
  }
  std::array<std::int64_t, 5> n{};
  for (std::int64_t& one : n) {
    auto const number = whole_number<std::int64_t>(word_of(rest));
    if (!number) return std::nullopt;
    one = *number;
  }
  auto const [fence, granted_us, claim, kind, segment] = n;
  constexpr std::int64_t last_us = std::int64_t{1} << 53, most_segments = engine::most_permits;
  bool const fits = granted_us > 0 && granted_us < last_us && claim > 0 && claim <= engine::longest_lease_ms &&
                    engine::is_lock_kind(kind) && segment >= 0 && segment <= most_segments;
  if (!fits || !read_key(word_of(rest), who, name)) return std::nullopt;
  protocol::pushed_grant grant{.name = name, .id = id};
  grant.fence = fence > 0 && fence < protocol::fence_limit ? fence : 0;
  grant.granted_us = granted_us;
  grant.claim = std::chrono::milliseconds{claim};
  grant.kind = static_cast<engine::permit_kind>(kind);
  grant.chosen = static_cast<std::uint32_t>(segment);
  return grant;
}

}  // namespace conch::postgresql
