// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/faults.hpp"

#include <algorithm>
#include <iterator>

namespace conch::redis {

namespace {

using protocol::fault;

struct row {
  // a first word, which is the whole first word of the answer; or more than one word, with which the answer begins
  std::string_view words;
  fault what;
};

/// The server's error, and whether the same request may succeed a little later without intervention: then waits
/// continue, until their own time or offline_timeout ends. All else is reported at once. The first row that fits
/// counts.
constexpr row table[] = {
    {"NOSCRIPT", fault::no_script},

    // Temporary: the server is not ready, is busy with another client's script, or has no place for one more
    // connection.
    {"LOADING", fault::try_later},
    {"BUSY", fault::try_later},
    {"UNKILLABLE", fault::try_later},
    {"TRYAGAIN", fault::try_later},
    {"CLUSTERDOWN", fault::try_later},
    {"MASTERDOWN", fault::try_later},
    {"NOREPLICAS", fault::try_later},
    {"NOMASTERLINK", fault::try_later},
    {"ERR max number of clients", fault::try_later},  // also "... + cluster connections reached"
    {"ERR max concurrent connections", fault::try_later},
    {"ERR too many connections", fault::try_later},
    {"ERR Script killed by user", fault::try_later},  // an operator has ended what was in the way
    {"Script killed by user", fault::try_later},
    {"ERR server is shutting down", fault::try_later},
    {"ERR Connection refused", fault::try_later},  // a proxy, of the server behind it
    {"ERR Connection timed out", fault::try_later},
    {"ERR Connection reset", fault::try_later},
    {"ERR Server ejected", fault::try_later},
    {"upstream", fault::try_later},
    {"no upstream host", fault::try_later},
    // A script met a key of a slot that is being moved: the lock will soon be at another server. Redis, and Valkey 9.
    {"ERR Script attempted to access a non local key", fault::try_later},
    {"ERR Attempted to access a non local key", fault::try_later},
    {"Script attempted to access a non local key", fault::try_later},
    {"Attempted to access a non local key", fault::try_later},

    // Temporary, with another connection: a replica, or a failover under way. The name may point to another server now.
    {"READONLY", fault::reconnect},
    {"UNBLOCKED", fault::reconnect},
    {"REDIRECT", fault::reconnect},
    {"ERR WAIT cannot be used with replica", fault::reconnect},

    // Final: a person has to change a password, a right, a key or a setting.
    {"NOAUTH", fault::access_denied},
    {"WRONGPASS", fault::access_denied},
    {"NOPERM", fault::access_denied},
    {"DENIED", fault::access_denied},
    {"ERR invalid password", fault::access_denied},  // before 6.0, and proxies
    // "<password> called without any password configured for the default user"
    {"ERR AUTH", fault::access_denied},
    {"ERR Client sent AUTH", fault::access_denied},
    // A denied command in a script has different words before 7.0, in 7.0, and from 7.2 on.
    {"The user executing the script can't", fault::access_denied},
    {"ERR The user executing the script can't", fault::access_denied},
    {"ERR ACL failure in script", fault::access_denied},
    {"WRONGTYPE", fault::wrong_type},
    {"OOM", fault::refused},
    {"MISCONF", fault::refused},
    {"EXECABORT", fault::refused},
    {"NOTBUSY", fault::refused},
    {"NOPROTO", fault::refused},
    // A Cluster node, which a URL of one server must not name.
    {"MOVED", fault::refused},
    {"ASK", fault::refused},
    {"CROSSSLOT", fault::refused},
    {"ERR", fault::refused},
};

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
  std::string_view const first = words.substr(0, words.find(' '));
  auto const fits = [&](row const& r) {
    return r.words.find(' ') == std::string_view::npos ? first == r.words : words.starts_with(r.words);
  };
  auto const* const found = std::find_if(std::begin(table), std::end(table), fits);
  return found == std::end(table) ? fault::refused : found->what;
}

std::string_view stranger(std::string_view first_bytes) noexcept {
  // An answer of HTTP/0.9 is only the page.
  for (std::string_view const begin : {"HTTP/", "<"}) {
    if (first_bytes.starts_with(begin)) return "; this looks like HTTP, not like Redis";
  }
  if (first_bytes.starts_with("SSH-")) return "; this looks like SSH, not like Redis";
  if (first_bytes.starts_with("220")) return "; this looks like a server of mail or FTP, not like Redis";
  // an alert
  if (first_bytes.starts_with("\x15\x03")) return "; this looks like TLS: the URL then begins with rediss://";
  return {};
}

}  // namespace conch::redis
