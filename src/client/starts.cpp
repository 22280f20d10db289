// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/completion.hpp"
#include "client/core.hpp"
#include "client/registry.hpp"

#include <boost/asio/system_executor.hpp>

#include <boost/system/system_error.hpp>

#include <utility>

// What the templates of the public headers call.
namespace conch::detail {

asio::any_io_executor const& own_executor_of(settings_ptr const& lock) noexcept { return lock->core->executor(); }

asio::any_io_executor const& own_executor_of(node_ref const& node) noexcept { return node->core->executor(); }

asio::any_io_executor executor_of(hold_node const* node) noexcept {
  return node != nullptr ? node->core->executor() : asio::any_io_executor{asio::system_executor{}};
}

asio::any_io_executor executor_of(lock_settings const* lock) noexcept { return lock->core->executor(); }

asio::any_io_executor executor_of(client_core const* core) noexcept { return core->executor(); }

void start_acquire(settings_ptr lock, acquire_options const& options, bool once, acquire_handler handler,
                   bool on_own_executor) {
  lock->core->acquire(lock, options, once, std::move(handler), on_own_executor);
}

void start_release(node_ref node, release_handler handler, bool on_own_executor) {
  client_core& core = *node->core;
  core.release(std::move(node), std::move(handler), on_own_executor);
}

void start_extend(node_ref node, duration lease, release_handler handler) {
  client_core& core = *node->core;
  core.extend(std::move(node), lease, std::move(handler));
}

void start_detach(node_ref node, detach_handler handler) {
  client_core& core = *node->core;
  core.detach(std::move(node), std::move(handler));
}

client_number client_of(hold_node const* node) noexcept { return node != nullptr ? node->core->number() : 0; }

client_number client_of(lock_settings const& lock) noexcept { return lock.core->number(); }

asio::any_io_executor executor_of_client(client_number client) noexcept {
  std::shared_ptr<client_core> const core = client_numbers::find(client);
  return core ? core->failures_run_on() : asio::any_io_executor{};
}

asio::any_io_executor place_for_handler(client_number client) {
  asio::any_io_executor where = executor_of_client(client);
  if (where) return where;
  throw boost::system::system_error{
      make_error_code(errc::not_held,
                      "the hold is empty, and of no client that is still there, and the handler has no "
                      "executor (asio::bind_executor): there is no place where it could run")};
}

void end_of_empty(asio::any_io_executor const& where, release_handler handler) {
  post_at_once(where, std::move(handler), make_error_code(errc::not_held), false);
}

void end_of_empty(asio::any_io_executor const& where, detach_handler handler) {
  post_at_once(where, std::move(handler), make_error_code(errc::not_held), std::string{});
}

void end_of_empty(asio::any_io_executor const& where, lost_handler handler) {
  post_at_once(where, std::move(handler), make_error_code(errc::not_held));
}

void start_adopt(settings_ptr lock, permit_request permit, std::string detached, acquire_handler handler,
                 bool on_own_executor) {
  lock->core->adopt(
      lock, detached, std::move(handler), on_own_executor,
      {.kind = static_cast<engine::permit_kind>(permit.kind), .limit = permit.limit, .weight = permit.weight});
}

namespace {

void start_watching(node_ref node, hold_event event, lost_handler handler) {
  client_core& core = *node->core;
  core.watch(std::move(node), event, std::move(handler));
}

}  // namespace

void start_lost(node_ref node, lost_handler handler) { start_watching(std::move(node), {}, std::move(handler)); }

void start_requested(node_ref node, lost_handler handler) {
  start_watching(std::move(node), {hold_event::kind::request}, std::move(handler));
}

void start_renewed(node_ref node, time_point known, lost_handler handler) {
  start_watching(std::move(node), {hold_event::kind::renewal, known}, std::move(handler));
}

void start_endangered(node_ref node, lost_handler handler) {
  start_watching(std::move(node), {hold_event::kind::danger}, std::move(handler));
}

void start_close(core_ptr core, duration timeout, close_handler handler) { core->close(timeout, std::move(handler)); }

}  // namespace conch::detail
