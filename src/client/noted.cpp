// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/noted.hpp"

#include "base/introduction.hpp"
#include "client/hold_node.hpp"
#include "client/levels.hpp"

namespace conch::detail {

void noted::keep_node() { keeps_node_ = node_ref{&of_}; }

engine::acquisition_phase noted::phase() const noexcept {
  return of_.given_back ? engine::acquisition_phase::over : of_.phase;
}

std::int64_t noted::fence() const noexcept { return of_.fence; }

std::string noted::task() const { return to_word(task_->id); }

/// May be the last that keeps the node, and with it this.
void noted::left() noexcept { node_ref const last{std::move(keeps_node_)}; }

}  // namespace conch::detail
