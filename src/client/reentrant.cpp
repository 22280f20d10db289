// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/failure.hpp"
#include "base/identity.hpp"
#include "client/admin.hpp"
#include "client/checked.hpp"
#include "client/completion.hpp"
#include "client/core.hpp"
#include "client/levels.hpp"

#include <conch/detail/kept_options.hpp>
#include <conch/reentrant_mutex.hpp>
#include <conch/reentrant_shared_mutex.hpp>

#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

// The locks that an owner may acquire again: the operations over the levels of an owner.
namespace conch {

namespace detail {

namespace {

permit_request request_of(owner_ptr const& who, lock_status::kind_of_lock kind, level_use use) {
  auto const of_lock = static_cast<engine::permit_kind>(kind);
  engine::permit const p = engine::permit_of_level(
      of_lock, who->id, use == level_use::write ? engine::level_use::write : engine::level_use::read);
  return {static_cast<char>(p.kind), p.limit, p.weight, p.detail};
}

/// One acquire of a level: it nests, waits for another acquire of its owner, or asks the server.
struct acquire_level {
  settings_ptr lock;
  owner_ptr who;
  level_request wanted;
  kept_options options;
  std::optional<time_point> until = std::nullopt;
  enum class phase : std::uint8_t { begins, ends_at_once, awaited } phase_ = phase::begins;
  reentrant_hold level = {};  // left where this ends before its handler is called
  error_code why = {};
  level_place place = {};
  level_turn turn = {};

  bool is_attempt() const noexcept {
    std::optional<duration> const wait = options.get().wait;
    return wanted.once || (wait && *wait <= duration::zero());
  }

  template <class Self>
  void operator()(Self& self) {
    if (phase_ == phase::ends_at_once) {
      end(self);
      return;
    }
    self.reset_cancellation_state(asio::enable_total_cancellation());
    if (options.get().wait && !is_attempt()) until = later_by(clock::now(), *options.get().wait);
    enter(self);
  }

  /// The end of the wait for another acquire: it was called, it is late, or it was cancelled.
  template <class Self>
  void operator()(Self& self, error_code) {
    phase_ = phase::awaited;
    level_place::end ended = place.leave(self.cancelled() != asio::cancellation_type::none);
    using wait_end = engine::owner_levels::wait_end;
    switch (ended.why) {
      case wait_end::is_cancelled: why = asio::error::operation_aborted; break;
      case wait_end::timed_out: why = make_error_code(errc::timed_out); break;
      case wait_end::looks_anew: enter(self); return;
      case wait_end::asks:
        turn = std::move(ended.turn);
        ask(self);
        return;
    }
    end(self);
  }

  /// The server has answered.
  template <class Self>
  void operator()(Self& self, error_code ec, hold h) {
    phase_ = phase::awaited;
    if (h)
      level = reentrant_hold{enter_first(who, lock, wanted.use, std::move(h), turn), wanted.use, lock->core->number()};
    turn = level_turn{};
    why = ec;
    end(self);
  }

  template <class Self>
  void enter(Self& self) {
    level_entry entered = enter_level(who, lock, wanted.use, is_attempt());
    using step = engine::owner_levels::step;
    switch (entered.next) {
      case step::nests: level = reentrant_hold{std::move(entered.level), wanted.use, lock->core->number()}; break;
      case step::refused:
        why = make_error_code(errc::would_deadlock,
                              "its owner reads, and a reader cannot become a writer, or two would wait for each other: "
                              "release all levels "
                              "that read and acquire again, or write from the beginning");
        break;
      case step::busy:
        if (!wanted.once) why = make_error_code(errc::timed_out);
        break;
      case step::waits:
        place = std::move(entered.place);
        wait(self);
        return;
      case step::asks:
        turn = std::move(entered.turn);
        ask(self);
        return;
    }
    if (phase_ == phase::awaited) {
      end(self);
      return;
    }
    phase_ = phase::ends_at_once;
    auto const io = self.get_io_executor();
    asio::post(io, std::move(self));
  }

  // Moving `self` moves *this away: both copy the members that they use before.

  template <class Self>
  void wait(Self& self) {
    owner_ptr const on = who;
    level_alarm_ptr const one = place.waiting();
    auto const late = alarm_time(until.value_or(time_point::max()));
    std::lock_guard const guard{on->mutex};
    if (!one->called) one->timer.expires_at(late);
    one->timer.async_wait(std::move(self));
  }

  template <class Self>
  void ask(Self& self) {
    settings_ptr const of = lock;
    permit_request const request = request_of(who, lock->kind, wanted.use);
    bool const once = wanted.once;
    kept_options const kept = options;
    acquire_options how = kept.get();
    owner const by{who};
    if (how.task == nullptr) how.task = &by;
    constexpr duration least{1};  // 0 would be an attempt
    if (until) how.wait = std::max(*until - clock::now(), least);
    start_acquire_permit(of, request, how, once, std::move(self));
  }

  template <class Self>
  void end(Self& self) {
    error_code const ec = explained(why, {failed_task::kind::waiting, lock->name});
    reentrant_hold got{{}, wanted.use, lock->core->number()};
    if (level) got = std::move(level);
    self.complete(ec, std::move(got));
  }
};

}  // namespace

void start_acquire_level(settings_ptr lock, owner_ptr who, level_request wanted, acquire_options const& options,
                         level_handler handler) {
  error_code why = lock->core->elsewhere();
  // A level that nests asks no server, which could refuse it.
  if (!why && options.at_least != duration::zero())
    why = make_error_code(errc::not_supported, "acquire_options::at_least of a reentrant lock");
  if (why) {
    post_at_once(lock->core->failures_run_on(), std::move(handler), why,
                 reentrant_hold{{}, wanted.use, lock->core->number()});
    return;
  }
  asio::any_io_executor const io = lock->core->executor();
  acquire_level op{std::move(lock), std::move(who), wanted, kept_options{options}};
  asio::async_compose<level_handler, void(error_code, reentrant_hold)>(std::move(op), handler, io);
}

void leave_level(shared_hold_ptr level, level_use use) noexcept {
  if (!level->lock->core->is_here()) return;
  level_exit left = exit_level(*level, use);
  if (left.becomes_reader) start_level_downgrade(level->lock, std::move(left.becomes_reader), {});
}

void start_level_release(shared_hold_ptr level, level_use use, release_handler handler) {
  if (error_code const why = level->lock->core->elsewhere()) {
    post_at_once(level->lock->core->failures_run_on(), std::move(handler), why, false);
    return;
  }
  node_ref node = level->held.node();  // as long as this level is there
  bool const valid = level->held.valid();
  level_exit left = exit_level(*level, use);
  if (left.last) {
    start_release(std::move(node), std::move(handler));
  } else if (left.becomes_reader) {
    start_level_downgrade(level->lock, std::move(left.becomes_reader), std::move(handler));
  } else {
    post_at_once(node->core->executor(), std::move(handler), error_code{}, valid);
  }
}

hold const& hold_of_level(shared_hold const& level) noexcept { return level.held; }

asio::any_io_executor executor_of(shared_hold const* level) noexcept {
  return executor_of(level != nullptr ? level->held.node().get() : nullptr);
}

permit_request request_of(owner_ptr const& who) {
  return request_of(who, lock_status::kind_of_lock::reentrant_mutex, level_use::write);
}

}  // namespace detail

owner::owner() : owner{detail::new_client_id()} {}

owner::owner(std::string id) {
  if (id.empty() || id.size() > 64) {
    throw boost::system::system_error{make_error_code(errc::invalid_name, "an owner's id must have 1 to 64 bytes")};
  }
  state_ = std::make_shared<detail::owner_state>(std::move(id));
}

std::string const& owner::id() const noexcept { return state_->id; }

reentrant_mutex::reentrant_mutex(client& through, std::string name, lock_options options)
    : named_lock{detail::checked_lock(through.core(), std::move(name), options,
                                      lock_status::kind_of_lock::reentrant_mutex, detail::most_permits)} {}

bool reentrant_mutex::held_by(owner const& who) const {
  return detail::has_level(who.state(), lock_, detail::level_use::write);
}

reentrant_shared_mutex::reentrant_shared_mutex(client& through, std::string name, lock_options options)
    : named_lock{detail::checked_lock(through.core(), std::move(name), options, lock_status::kind_of_lock::shared_mutex,
                                      detail::most_permits)} {}

bool reentrant_shared_mutex::held_by(owner const& who) const { return detail::has_level(who.state(), lock_, read); }

bool reentrant_shared_mutex::written_by(owner const& who) const { return detail::has_level(who.state(), lock_, write); }

}  // namespace conch
