// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "redis/faults.hpp"

#include "base/mutant.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace conch::redis {

namespace {

using protocol::fault;

constexpr std::array<std::pair<std::string_view, fault>, 21> table{{
    {"NOSCRIPT", fault::no_script},
    // Not ready, or busy with another client's script: repeat the command after a pause.
    {"LOADING", fault::try_later},
    {"BUSY", fault::try_later},
    {"TRYAGAIN", fault::try_later},
    {"CLUSTERDOWN", fault::try_later},
    {"MASTERDOWN", fault::try_later},
    {"NOREPLICAS", fault::try_later},
    // A replica, or a failover under way: the name may point to another server now.
    {"READONLY", fault::reconnect},
    {"UNBLOCKED", fault::reconnect},
    {"NOAUTH", fault::access_denied},
    {"WRONGPASS", fault::access_denied},
    {"NOPERM", fault::access_denied},
    {"DENIED", fault::access_denied},
    {"WRONGTYPE", fault::wrong_type},
    {"OOM", fault::refused},
    {"MISCONF", fault::refused},
    {"EXECABORT", fault::refused},
    // A Cluster node, which a URL of one server must not name.
    {"MOVED", fault::refused},
    {"ASK", fault::refused},
    {"CROSSSLOT", fault::refused},
    {"ERR", fault::refused},
}};

/// Before 7.0 an error inside a script begins with its place, in one of two forms:
///     ERR Error running script (call to f_SHA): @user_script:12: WRONGTYPE Operation ...
///     ERR Error running script (call to f_SHA): @user_script:12: @user_script: 12: -READONLY You can't ...
std::string_view without_place(std::string_view words) {
  if (!words.starts_with("ERR Error running script")) return words;
  constexpr std::string_view place = "@user_script:", end = ": ";
  std::string_view rest = words.substr(std::min(words.find(place), words.size()));
  while (rest.starts_with(place)) {
    auto const line_ends = rest.find(end, place.size());
    if (line_ends == std::string_view::npos) return words;
    rest.remove_prefix(line_ends + end.size());
  }
  if (rest.starts_with('-')) rest.remove_prefix(1);
  return rest;
}

}  // namespace

protocol::fault classify(std::string_view all_words) noexcept {
  std::string_view const words = without_place(all_words);
  // A denied command in a script has different words before 7.0, in 7.0, and from 7.2 on.
  for (std::string_view const denied :
       {"The user executing the script can't", "ERR The user executing the script can't", "ERR ACL failure in script"}) {
    if (words.starts_with(denied)) return fault::access_denied;
  }
  // A script met a key of a slot that is being moved: the lock will soon be at another server. Redis, and Valkey 9.
  for (std::string_view const moving : {"ERR Script attempted to access a non local key", "ERR Attempted to access a non local key",
                                        "Script attempted to access a non local key", "Attempted to access a non local key"}) {
    if (words.starts_with(moving)) return fault::try_later;
  }
  if (words.starts_with("TRYAGAIN") && CONCH_MUTANT(try_again_is_a_refusal)) return fault::refused;
  std::string_view const first = words.substr(0, words.find(' '));
  for (auto const& [word, what] : table) {
    if (first == word) return what;
  }
  return fault::refused;
}

std::string_view stranger(std::string_view first_bytes) noexcept {
  // An answer of HTTP/0.9 is only the page.
  for (std::string_view const begin : {"HTTP/", "<"}) {
    if (first_bytes.starts_with(begin)) return "; this looks like HTTP, not like Redis";
  }
  if (first_bytes.starts_with("SSH-")) return "; this looks like SSH, not like Redis";
  if (first_bytes.starts_with("220")) return "; this looks like a server of mail or FTP, not like Redis";
  if (first_bytes.starts_with("\x15\x03")) return "; this looks like TLS: the URL then begins with rediss://";  // an alert
  return {};
}

}  // namespace conch::redis
