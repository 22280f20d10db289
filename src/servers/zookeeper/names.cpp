// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/names.hpp"

#include "base/numbers.hpp"
#include "base/percent.hpp"
#include "engine/lease.hpp"

#include <cstddef>
#include <cstdio>
#include <limits>

namespace conch::zookeeper {

bool names_a_root(std::string_view key_prefix) noexcept {
  return key_prefix.size() >= 2 && key_prefix.ends_with(':') && !key_prefix.ends_with("::");
}

std::string root_of(std::string_view chroot, std::string_view key_prefix) {
  return folder_of(chroot, key_prefix.substr(0, key_prefix.size() - 1));
}

std::string session_node_of(std::string_view root, std::int64_t session) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(session));
  return clients_of(root) + '/' + text;
}

namespace {

constexpr std::string_view digits = "0123456789ABCDEF";

}  // namespace

std::string encoded(std::string_view name) {
  bool const reserved = name == "zookeeper";  // of the server, below its root
  return percent_encoded(name, digits, [&](std::size_t i) {
    auto const c = static_cast<unsigned char>(name[i]);
    bool const first = i == 0 && (c == '.' || reserved);  // "." and ".." are not allowed; ".clients" is ours
    return !first && c > 0x1f && c < 0x7f && c != '/' && c != '%';
  });
}

std::optional<std::string> decoded(std::string_view node) {
  auto name = percent_decoded(node, digits);
  return name && !name->empty() && encoded(*name) == node ? name : std::nullopt;
}

namespace {

using engine::permit_kind;

bool is_share(std::optional<std::uint32_t> number) { return number && *number >= 1 && *number <= engine::most_permits; }

/// "1500"
std::optional<std::uint32_t> read_interval(std::string_view text) {
  auto const ms = whole_number<std::uint32_t>(text);
  return ms && *ms > 0 && *ms <= engine::longest_lease_ms ? ms : std::nullopt;
}

struct keep_terms {
  std::uint32_t interval_ms;
  std::int64_t created;
};
/// "k1500c8589934592"
std::optional<keep_terms> read_keep_terms(std::string_view text) {
  std::size_t const mark = text.find('c');
  if (!text.starts_with('k') || mark == std::string_view::npos) return std::nullopt;
  auto const ms = read_interval(text.substr(1, mark - 1));
  auto const created = whole_number<std::int64_t>(text.substr(mark + 1));
  if (!ms || !created) return std::nullopt;
  return keep_terms{*ms, *created};
}

/// For a node that asks for something other than a mutex, or for one with an interval.
terms read_terms(std::string_view text) {
  terms const unknown{.known = false};
  if (text.starts_with('i')) {
    auto const ms = read_interval(text.substr(1));
    return ms ? terms{.interval_ms = *ms} : unknown;
  }
  if (text == "r") return {.kind = permit_kind::shared, .weight = 1, .limit = engine::most_permits};
  if (text == "w") return {.kind = permit_kind::shared, .weight = engine::most_permits, .limit = engine::most_permits};
  if (text.starts_with('e')) {
    std::string_view const owner = text.substr(1);
    bool const is_hex = !owner.empty() && owner.find_first_not_of("0123456789abcdef") == std::string_view::npos;
    return is_hex ? terms{.kind = permit_kind::reentrant, .owner = owner} : unknown;
  }
  std::size_t const of = text.find("of");
  if (!text.starts_with('s') || of == std::string_view::npos) return unknown;
  auto const weight = whole_number<std::uint32_t>(text.substr(1, of - 1));
  auto const limit = whole_number<std::uint32_t>(text.substr(of + 2));
  return is_share(weight) && is_share(limit) ? terms{.kind = permit_kind::semaphore, .weight = *weight, .limit = *limit}
                                             : unknown;
}

std::string in_text(terms const& t) {
  switch (t.kind) {
    case permit_kind::none: return t.interval_ms == 0 ? std::string{} : "~i" + std::to_string(t.interval_ms);
    case permit_kind::segments: return {};
    case permit_kind::shared: return t.weight == 1 ? "~r" : "~w";
    case permit_kind::semaphore: return "~s" + std::to_string(t.weight) + "of" + std::to_string(t.limit);
    case permit_kind::reentrant: return "~e" + std::string{t.owner};
  }
  return {};
}

}  // namespace

terms terms_of(engine::permit const& of) {
  switch (of.kind) {
    case permit_kind::none:
    case permit_kind::segments: break;  // not offered
    case permit_kind::shared: {
      std::uint32_t const weight = of.weight == 1 ? 1 : engine::most_permits;
      return {.kind = of.kind, .weight = weight, .limit = engine::most_permits};
    }
    case permit_kind::semaphore: return {.kind = of.kind, .weight = of.weight, .limit = of.limit};
    case permit_kind::reentrant: return {.kind = of.kind, .owner = of.owner()};
  }
  return {};
}

std::string_view kind_in_words(terms const& t) noexcept {
  if (!t.known) return "a lock that this version of conch does not know";
  switch (t.kind) {
    case permit_kind::none: return "a mutex";
    case permit_kind::shared: return "a shared_mutex";
    case permit_kind::semaphore: return "a semaphore";
    case permit_kind::reentrant: return "a reentrant_mutex";
    case permit_kind::segments: return "a striped_mutex";
  }
  return {};
}

namespace {

struct name_parts {
  std::string_view client;
  std::optional<std::string_view> terms;
  std::uint64_t number;
  std::int32_t sequence;
};

std::optional<name_parts> read_parts(std::string_view name) {
  std::size_t const dot = name.find('.');
  std::size_t const dash = name.find('-', dot == std::string_view::npos ? name.size() : dot);
  if (dash == std::string_view::npos) return std::nullopt;
  auto const number = whole_number<std::uint64_t>(name.substr(dot + 1, dash - dot - 1));
  auto const sequence = whole_number<std::int32_t>(name.substr(dash + 1));  // it may have a sign: "--2147483648"
  if (!number || !sequence) return std::nullopt;
  std::string_view const who = name.substr(0, dot);
  std::size_t const mark = who.find('~');
  if (mark == std::string_view::npos) return name_parts{who, std::nullopt, *number, *sequence};
  return name_parts{who.substr(0, mark), who.substr(mark + 1), *number, *sequence};
}

}  // namespace

std::optional<node_name> read_node_name(std::string_view name) {
  auto const parts = read_parts(name);
  if (!parts || (parts->terms && read_keep_terms(*parts->terms))) return std::nullopt;
  return node_name{parts->client, parts->terms ? read_terms(*parts->terms) : terms{}, parts->number, parts->sequence};
}

std::optional<keep_name> read_keep_name(std::string_view name) {
  auto const parts = read_parts(name);
  auto const keeps = parts && parts->terms ? read_keep_terms(*parts->terms) : std::nullopt;
  if (!keeps) return std::nullopt;
  return keep_name{parts->client, parts->number, keeps->interval_ms, keeps->created};
}

std::string keep_name_of(std::string_view node, std::int64_t created) {
  std::string name{node};
  name.replace(name.find('~'), 2, "~k");
  name.insert(name.find('.'), 'c' + std::to_string(created));
  return name;
}

std::string node_prefix(std::string_view client, terms const& of, std::uint64_t number) {
  return std::string{client} + in_text(of) + '.' + std::to_string(number) + '-';
}

bool is_place(std::int32_t sequence) noexcept {
  return sequence >= 0 && sequence < std::numeric_limits<std::int32_t>::max();
}

bool is_before(std::int32_t a, std::int32_t b) noexcept { return a < b; }

std::string_view last_of(std::string_view path) noexcept { return path.substr(path.rfind('/') + 1); }

}  // namespace conch::zookeeper
