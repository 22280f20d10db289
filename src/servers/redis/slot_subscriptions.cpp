// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/slot_subscriptions.hpp"

#include "servers/redis/codec.hpp"
#include "servers/redis/topology/slots.hpp"

#include <variant>

namespace conch::redis {

void slot_subscriptions::begin(unsigned home) {
  is_subscribed_.assign(slot_count, false);
  not_answered_.clear();
  home_ = home;
}

std::optional<unsigned> slot_subscriptions::before(protocol::command const& c, std::int64_t place, bool behind_auth) {
  if (std::holds_alternative<protocol::subscribe_command>(c)) is_subscribed_[home_] = true;
  auto const slot = slot_to_subscribe(c);
  if (!slot || is_subscribed_[*slot]) return std::nullopt;
  is_subscribed_[*slot] = true;
  not_answered_.push_back({*slot, place, behind_auth});
  return slot;
}

bool slot_subscriptions::is_own(std::int64_t answered, bool is_push, bool auth_is_out) {
  if (not_answered_.empty() || not_answered_.front().place != answered) return false;
  if (!is_push && not_answered_.front().behind_auth && auth_is_out) return false;
  if (!is_push) is_subscribed_[not_answered_.front().slot] = false;
  not_answered_.pop_front();
  return true;
}

}  // namespace conch::redis
