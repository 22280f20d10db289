// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "redis/faults.hpp"

#include <array>
#include <utility>

namespace conch::redis {

namespace {

using engine::fault;

constexpr std::array<std::pair<std::string_view, fault>, 21> table{{
    {"NOSCRIPT", fault::no_script},
    // Not ready, or busy with somebody else's script: the same question again in a moment.
    {"LOADING", fault::try_later},
    {"BUSY", fault::try_later},
    {"TRYAGAIN", fault::try_later},
    {"CLUSTERDOWN", fault::try_later},
    {"MASTERDOWN", fault::try_later},
    {"NOREPLICAS", fault::try_later},
    // A replica, or a failover under way: the name may lead to another server now.
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
    // A Cluster node: not what a URL of one server is for.
    {"MOVED", fault::refused},
    {"ASK", fault::refused},
    {"CROSSSLOT", fault::refused},
    {"ERR", fault::refused},
}};

}  // namespace

engine::fault classify(std::string_view words) noexcept {
  // What a script may not do is told with other words: by 7.0 with the first, from 7.2 on with the second.
  if (words.starts_with("ERR The user executing the script can't") || words.starts_with("ERR ACL failure in script")) {
    return fault::access_denied;
  }
  std::string_view const first = words.substr(0, words.find(' '));
  for (auto const& [word, what] : table) {
    if (first == word) return what;
  }
  return fault::refused;
}

}  // namespace conch::redis
