// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/registry.hpp"

#include "client/core.hpp"

#include <utility>

namespace conch::detail {

asio::execution_context::id core_registry::id;

core_registry& core_registry::of(asio::any_io_executor const& executor) { return asio::use_service<core_registry>(context_of(executor)); }

void core_registry::add(std::shared_ptr<client_core> const& core) {
  std::lock_guard const guard{mutex_};
  std::erase_if(cores_, [](std::weak_ptr<client_core> const& w) { return w.expired(); });
  cores_.push_back(core);
}

void core_registry::shutdown() noexcept {
  std::vector<std::weak_ptr<client_core>> cores;
  {
    std::lock_guard const guard{mutex_};
    cores.swap(cores_);
  }
  for (auto const& weak : cores) {
    if (auto const core = weak.lock()) core->context_gone();
  }
}

}  // namespace conch::detail
