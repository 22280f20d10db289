// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/acl.hpp"

#include <algorithm>
#include <string_view>

namespace conch::zookeeper {

namespace {

constexpr std::int32_t changes = right::write | right::create | right::remove | right::admin;

std::string_view user_of(right const& r) { return std::string_view{r.id}.substr(0, r.id.find(':')); }

bool is_same(right const& a, right const& b) {
  if (a.scheme != b.scheme) return false;
  if (a.id == b.id) return true;
  bool const is_hidden = a.id.ends_with(":x") || b.id.ends_with(":x");
  return a.scheme == "digest" && is_hidden && user_of(a) == user_of(b);
}

}  // namespace

strangers writers_beside(std::span<right const> mine, std::span<right const> of) {
  strangers found;
  for (right const& one : of) {
    bool const is_mine = std::any_of(mine.begin(), mine.end(), [&](right const& my) { return is_same(my, one); });
    if ((one.may & changes) == 0 || is_mine) continue;
    if (one.scheme == "world" || one.scheme == "ip") {
      found.anyone = true;
      continue;
    }
    if (!found.named.empty()) found.named += ", ";
    found.named.append(one.scheme).append(":").append(one.scheme == "digest" ? user_of(one) : one.id);
  }
  return found;
}

}  // namespace conch::zookeeper
