// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include <conch/detail/multi_plan.hpp>

#include "engine/backend.hpp"

#include <algorithm>
#include <numeric>

namespace conch::detail {

std::vector<std::size_t> multi_plan::in_order(std::vector<std::string_view> const& names) {
  std::vector<std::size_t> order(names.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return names[a] < names[b]; });
  order.erase(
      std::unique(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return names[a] == names[b]; }),
      order.end());
  return order;
}

multi_plan::multi_plan(std::size_t count, std::optional<time_point> until, bool once)
    : held_(count, false),
      until_{until},
      once_{once} {}

std::optional<time_point> multi_plan::until() const noexcept { return until_; }

std::vector<bool> multi_plan::tried(std::vector<bool> const& granted) {
  std::vector<bool> back(granted.size(), false);
  bool behind = false;
  for (std::size_t i = 0; i < granted.size(); ++i) {
    behind = behind || !granted[i];
    held_[i] = granted[i] && !behind;
    back[i] = granted[i] && behind;
  }
  return back;
}

void multi_plan::granted() { held_[waits_for_] = true; }

multi_plan::step multi_plan::next(error_code why, bool cancelled, bool valid, time_point now) {
  if (once_ && why == errc::timed_out && !cancelled) return step::busy;
  auto const missing = std::find(held_.begin(), held_.end(), false);
  if (!why && missing == held_.end()) {
    if (valid) return step::done;
    why = make_error_code(errc::lost);
  }
  if (!why && cancelled) why = engine::cancelled();
  if (!why && until() && now >= *until()) why = make_error_code(errc::timed_out);
  if (why) {
    failure_ = why;
    return step::failed;
  }
  waits_for_ = static_cast<std::size_t>(missing - held_.begin());
  return step::wait;
}

}  // namespace conch::detail
