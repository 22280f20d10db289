// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/reauthentication.hpp"

#include "resp/encoder.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>

namespace conch::redis {

namespace {

constexpr duration shortest_renewal = std::chrono::milliseconds{10};

}  // namespace

void reauthentication::ask(time_point now) noexcept {
  at_ = step::asking;
  due_ = detail::later_by(now, settings_.connect_timeout);
}

void reauthentication::found(credentials const& c) noexcept {
  good_for_ = std::max<duration>(c.refresh_after, shortest_renewal);
}

void reauthentication::send(address const& as, std::int64_t answers_before, std::string& out) {
  resp::append_command(out, {"AUTH", as.user.empty() ? std::string_view{"default"} : as.user, as.password.bytes()});
  answers_before_ = answers_before;
  at_ = step::sent;
  due_ = time_point::max();
}

bool reauthentication::accepted(time_point now) noexcept {
  if (at_ == step::sent) ++successes_;
  end();
  if (!settings_.credentials_provider || good_for_ == duration::max() || !renews_) return false;
  at_ = step::due_later;
  due_ = detail::later_by(now, good_for_ / 10 * 9);
  return true;
}

void reauthentication::refused(time_point now) noexcept {
  ++failures_;
  at_ = step::due_later;
  due_ = detail::later_by(now, settings_.reconnect_max);
}

void reauthentication::end() noexcept {
  at_ = step::none;
  due_ = time_point::max();
}

}  // namespace conch::redis
