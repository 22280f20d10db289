// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"

#include <conch/detail/hold_node.hpp>

#include <memory>
#include <mutex>
#include <vector>

namespace conch::detail {

class client_core;

/// The clients of one io_context. If the context is destroyed before a client, the registry drops the client's
/// handlers. A handler may own a coroutine that owns the client: without the registry such a circle would never end.
class core_registry final : public asio::execution_context::service {
 public:
  static asio::execution_context::id id;

  explicit core_registry(asio::execution_context& context) : asio::execution_context::service{context} {}

  static core_registry& of(asio::any_io_executor const& executor);
  void add(std::shared_ptr<client_core> const& core);

 private:
  void shutdown() noexcept override;

  std::mutex mutex_;
  std::vector<std::weak_ptr<client_core>> cores_;
};

/// All clients of this process by their numbers. Thread safety: safe.
class client_numbers {
 public:
  static client_number next() noexcept;
  static void add(std::shared_ptr<client_core> const& core);
  static void remove(client_number which) noexcept;
  /// None: it is not there any more.
  static std::shared_ptr<client_core> find(client_number which) noexcept;
};

}  // namespace conch::detail
