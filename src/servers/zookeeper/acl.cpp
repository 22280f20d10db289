// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/acl.hpp"

#include <string_view>
#include <vector>

namespace conch::zookeeper {

namespace {

constexpr std::int32_t changes = right::write | right::create | right::remove | right::admin;

std::string_view user_of(right const& r) { return std::string_view{r.id}.substr(0, r.id.find(':')); }

bool is_everybody(right const& r) { return r.scheme == "world" || r.scheme == "ip"; }

bool is_hidden(right const& a, right const& b) {
  return a.scheme == "digest" && b.scheme == "digest" && (a.id.ends_with(":x") || b.id.ends_with(":x")) &&
         user_of(a) == user_of(b);
}

/// The users of a client; a server may show any of them with the password hidden.
class users {
 public:
  explicit users(std::span<right const> all) : all_{all}, was_hidden_(all.size()) {}

  bool have(right const& one) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (is_hidden(all_[i], one)) {
        if (was_hidden_[i]) continue;
        was_hidden_[i] = true;
        return true;
      }
      if (all_[i].scheme == one.scheme && all_[i].id == one.id) return true;
    }
    return false;
  }

 private:
  std::span<right const> all_;
  std::vector<bool> was_hidden_;
};

}  // namespace

strangers writers_beside(std::span<right const> mine, std::span<right const> of) {
  strangers found;
  users own{mine};
  for (right const& one : of) {
    // A node that a stranger has put in place of ours may name every user as one of ours.
    bool const is_mine = !is_everybody(one) && own.have(one);
    if ((one.may & changes) == 0 || is_mine) continue;
    if (is_everybody(one)) {
      found.anyone = true;
      continue;
    }
    if (!found.named.empty()) found.named += ", ";
    found.named.append(one.scheme).append(":").append(one.scheme == "digest" ? user_of(one) : one.id);
  }
  return found;
}

}  // namespace conch::zookeeper
