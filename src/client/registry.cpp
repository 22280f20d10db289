// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/registry.hpp"

#include "base/fork_safe_mutex.hpp"
#include "client/core.hpp"

#include <atomic>
#include <unordered_map>
#include <utility>

namespace conch::detail {

asio::execution_context::id core_registry::id;

core_registry& core_registry::of(asio::any_io_executor const& executor) {
  return asio::use_service<core_registry>(context_of(executor));
}

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

namespace {

struct numbered {
  fork_safe_mutex mutex;  // guards what follows
  std::unordered_map<client_number, std::weak_ptr<client_core>> all;
};

/// Never destroyed: clients that are static objects use it until the very end.
numbered& clients() {
  static numbered& one = *new numbered;
  return one;
}

}  // namespace

client_number client_numbers::next() noexcept {
  static std::atomic<client_number> last{0};
  return ++last;
}

void client_numbers::add(std::shared_ptr<client_core> const& core) {
  std::lock_guard const guard{clients().mutex};
  clients().all.emplace(core->number(), core);
}

void client_numbers::remove(client_number which) noexcept {
  std::lock_guard const guard{clients().mutex};
  clients().all.erase(which);
}

std::shared_ptr<client_core> client_numbers::find(client_number which) noexcept {
  std::lock_guard const guard{clients().mutex};
  auto const found = clients().all.find(which);
  return found == clients().all.end() ? nullptr : found->second.lock();
}

}  // namespace conch::detail
