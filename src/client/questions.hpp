// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "client/client_requests.hpp"
#include "client/hold_node.hpp"
#include "engine/wait_walk.hpp"

#include <conch/named_lock.hpp>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/cancellation_type.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace conch::detail {

/// An operation that asks the servers several questions about a lock, one after another or at once, and can be
/// cancelled.
class questions : public std::enable_shared_from_this<questions> {
 public:
  using kind = engine::admin_request::kind;

  virtual ~questions() = default;

  /// Comes on any thread.
  virtual void answered(client_request const& q, asio::any_io_executor const& io) = 0;
  /// The context is gone: destroys the handler without a call.
  virtual void drop() = 0;

  void cancel();

 protected:
  explicit questions(settings_ptr lock) noexcept : lock_{std::move(lock)} {}

  template <class Handler>
  void obey(Handler const& handler) {
    auto slot = asio::get_associated_cancellation_slot(handler);
    if (!slot.is_connected()) return;
    slot.assign([weak = weak_from_this()](asio::cancellation_type type) {
      auto const still = weak.lock();
      if (still && type != asio::cancellation_type::none) still->cancel();
    });
  }

  void ask(kind what, std::string name);
  bool is_cancelled();

  settings_ptr const lock_;
  std::mutex mutex_;  // guards what answers change

 private:
  std::vector<std::weak_ptr<client_request>> asked_;
  bool is_cancelled_ = false;
};

std::chrono::system_clock::time_point time_of(std::int64_t server_us);
lock_holder holder_of(engine::lock_report::owner const& owner);

/// Walks from this lock on. `handler` comes on any thread, and must not use the walk later.
using walk_handler = std::function<void(error_code, engine::wait_walk const&, asio::any_io_executor const&)>;
void start_walk(settings_ptr lock, walk_handler handler);
wait_chain to_chain(engine::wait_walk const& walk);

}  // namespace conch::detail
