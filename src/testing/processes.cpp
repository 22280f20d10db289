// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "testing/processes.hpp"

#include <algorithm>

namespace conch::testing {

process& processes::named(std::string_view name) {
  auto const found = std::find_if(all_.begin(), all_.end(), [&](auto const& one) { return one->name == name; });
  return found != all_.end() ? **found : *all_.emplace_back(std::make_unique<process>(std::string{name}));
}

process* processes::find(asio::execution_context const& context) const noexcept {
  auto const found = std::find_if(all_.begin(), all_.end(), [&](auto const& one) { return &one->context == &context; });
  return found == all_.end() ? nullptr : found->get();
}

bool processes::run_one(std::uint64_t begin, std::int64_t now) {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    process& p = *all_[(begin + i) % all_.size()];
    if (p.is_inside || p.stands_still_until > now) continue;
    struct turn {
      turn(processes& in, process& of) : all{in}, mine{of}, before{std::exchange(in.running_, &of)} {
        of.is_inside = true;
      }
      ~turn() {
        mine.is_inside = false;
        all.running_ = before;
      }
      processes& all;
      process& mine;
      process* const before;
    } const t{*this, p};
    if (p.context.poll_one() != 0) return true;
  }
  return false;
}

void processes::step_aside(std::function<void()> const& f) {
  struct aside {
    explicit aside(process*& of) : running{of}, mine{std::exchange(of, nullptr)} {}
    ~aside() { running = mine; }
    process*& running;
    process* const mine;
  } const a{running_};
  f();
}

std::int64_t processes::next(std::int64_t now) const noexcept {
  std::int64_t first = never;
  for (auto const& one : all_) {
    if (one->stands_still_until > now) first = std::min(first, one->stands_still_until);
  }
  return first;
}

void processes::resume_all() noexcept {
  for (auto const& one : all_) one->stands_still_until = 0;
}

}  // namespace conch::testing
