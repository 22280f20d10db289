// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/admin.hpp"

#include "base/failure.hpp"
#include "client/checked.hpp"
#include "client/completion.hpp"
#include "engine/levels.hpp"
#include "protocol/wire.hpp"

#include <conch/named_lock.hpp>
#include <conch/semaphore.hpp>
#include <conch/shared_mutex.hpp>

#include <boost/asio/associated_cancellation_slot.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

// Orders of an operator: they turn the server's answer into the results of the handler.
namespace conch::detail {

namespace {

template <class... Results>
class asked final : public client_request {
 public:
  using handler_type = asio::any_completion_handler<void(error_code, Results...)>;
  using reader = std::function<std::tuple<Results...>(engine::admin_result const&)>;

  asked(core_ptr c, kind w, std::string of, reader r, handler_type h)
      : client_request{std::move(c), w, std::move(of)},
        read_{std::move(r)},
        handler_{std::move(h)} {
    runs_on_ = work_of(core->executor(), handler_);
  }

  auto slot() { return asio::get_associated_cancellation_slot(handler_); }

  void complete(asio::any_io_executor const& io, error_code, bool) override {
    handler_type handler{std::move(handler_)};
    std::tuple<Results...> results;
    if (!why) results = read_(result);
    auto runs_on = std::exchange(runs_on_, {});
    std::apply(
        [&](auto&... each) { post_completion(io, std::move(runs_on), std::move(handler), why, std::move(each)...); },
        results);
  }

  void drop() override {
    handler_type const dropped{std::move(handler_)};
    runs_on_ = {};
    of_hold = {};
  }

 private:
  reader read_;
  handler_type handler_;
  asio::any_completion_executor runs_on_;  // keeps the handler's context at work
};

template <class... Results>
void ask(std::shared_ptr<asked<Results...>> const& q) {
  auto slot = q->slot();
  if (slot.is_connected()) {
    slot.assign([weak = std::weak_ptr<client_request>{q}](asio::cancellation_type type) {
      auto const still = weak.lock();
      if (still && type != asio::cancellation_type::none) still->core->withdraw(still);
    });
  }
  q->core->ask(q);
}

std::tuple<std::uint32_t> count_of(engine::admin_result const& result) {
  return {static_cast<std::uint32_t>(result.count)};
}

std::tuple<std::uint32_t> limit_of(engine::admin_result const& result) { return {result.limit}; }

std::tuple<> nothing_of(engine::admin_result const&) { return {}; }

using kind = engine::admin_request::kind;

/// The downgrade of a hold with levels.
class level_downgrade final : public client_request {
 public:
  level_downgrade(settings_ptr lock, node_ref writer, release_handler handler)
      : client_request{lock->core, kind::downgrade, lock->name},
        lock_{std::move(lock)},
        handler_{std::move(handler)} {
    size = 1;
    of_hold = std::move(writer);
    gives_up = static_cast<bool>(handler_);
    if (handler_) runs_on_ = work_of(core->executor(), handler_);
  }

  void complete(asio::any_io_executor const& io, error_code, bool) override {
    node_ref const writer = std::move(of_hold);
    auto const [answer, was_held, again] =
        engine::end_of_reader_order(why, writer->given_back, clock::now() < writer->deadline());
    if (again && handler_) start_level_downgrade(lock_, writer, {});
    if (!handler_) return;
    release_handler handler{std::move(handler_)};
    post_completion(io, std::exchange(runs_on_, {}), std::move(handler), answer, was_held);
  }

  void drop() override {
    release_handler const dropped{std::move(handler_)};
    runs_on_ = {};
    of_hold = {};
  }

 private:
  settings_ptr const lock_;
  release_handler handler_;
  asio::any_completion_executor runs_on_;  // keeps the handler's context at work
};

}  // namespace

namespace {

/// `fence`: that of the one holder that is meant; none: all of them. A token below 4096 belongs to no grant: the server
/// knows none with its part of it.
void ask_of_holders(kind what, settings_ptr const& lock, std::optional<std::int64_t> fence, force_handler handler) {
  auto const q = std::make_shared<asked<std::uint32_t>>(lock->core, what, lock->name, count_of, std::move(handler));
  if (fence) q->fence = *fence / engine::hand_offs_per_grant;
  if (fence && *fence <= 0) q->why = make_error_code(errc::invalid_config, "the fencing token of a holder is positive");
  ask(q);
}

}  // namespace

void start_force(settings_ptr const& lock, std::optional<std::int64_t> fence, force_handler handler) {
  ask_of_holders(kind::force, lock, fence, std::move(handler));
}

void start_request(settings_ptr const& lock, std::optional<std::int64_t> fence, force_handler handler) {
  ask_of_holders(kind::request, lock, fence, std::move(handler));
}

void start_wait_free(settings_ptr lock, duration wait, free_handler handler) {
  auto const q = std::make_shared<asked<>>(lock->core, kind::wait_free, lock->name, nothing_of, std::move(handler));
  q->wait = std::max(wait, duration::zero());
  ask(q);
}

void start_set_permits(settings_ptr lock, std::uint32_t permits, force_handler handler) {
  auto const q =
      std::make_shared<asked<std::uint32_t>>(lock->core, kind::set_limit, lock->name, count_of, std::move(handler));
  q->size = permits;
  q->why = checked_permits(permits);
  ask(q);
}

void start_change_permits(settings_ptr lock, std::int64_t by, std::uint32_t permits, bool if_unset,
                          force_handler handler) {
  auto const q =
      std::make_shared<asked<std::uint32_t>>(lock->core, kind::set_limit, lock->name, limit_of, std::move(handler));
  q->size = permits;
  q->by = by;
  q->if_unset = if_unset;
  q->why = checked_permits(permits);
  if (by == 0 && !if_unset) q->why = make_error_code(errc::invalid_config, "0 permits to add or to take away");
  ask(q);
}

void start_downgrade(settings_ptr lock, node_ref writer, order_handler handler) {
  auto const q = std::make_shared<asked<>>(lock->core, kind::downgrade, lock->name, nothing_of, std::move(handler));
  q->size = 1;
  q->of_hold = std::move(writer);
  if (!q->of_hold) q->why = make_error_code(errc::not_held);
  ask(q);
}

void start_level_downgrade(settings_ptr const& lock, node_ref writer, release_handler handler) {
  lock->core->ask(std::make_shared<level_downgrade>(lock, std::move(writer), std::move(handler)));
}

void start_release_permits(settings_ptr lock, node_ref of, std::uint32_t permits, order_handler handler) {
  auto const q = std::make_shared<asked<>>(lock->core, kind::downgrade, lock->name, nothing_of, std::move(handler));
  q->of_kind = engine::permit_kind::semaphore;
  q->given_back = permits;
  q->of_hold = std::move(of);
  if (permits == 0) q->why = make_error_code(errc::invalid_config, "the permits to give back must be at least 1");
  if (!q->of_hold) q->why = make_error_code(errc::not_held);
  ask(q);
}

void refuse_upgrade(settings_ptr const& lock, order_handler handler) {
  auto const q = std::make_shared<asked<>>(lock->core, kind::downgrade, lock->name, nothing_of, std::move(handler));
  q->why = make_error_code(errc::would_deadlock,
                           "a reader cannot become a writer, or two would wait for each other: release, then acquire");
  ask(q);
}

}  // namespace conch::detail
