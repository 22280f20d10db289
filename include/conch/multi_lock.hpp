// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>
#include <conch/detail/kept_options.hpp>
#include <conch/detail/multi_plan.hpp>
#include <conch/mutex.hpp>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch {

namespace detail {
using multi_release_handler = asio::any_completion_handler<void(error_code, bool)>;
using multi_watch_handler = asio::any_completion_handler<void(error_code)>;
CONCH_API void start_multi_release(std::vector<hold> holds, multi_release_handler handler);
CONCH_API void start_multi_watch(std::vector<node_ref> const& nodes, hold_event event, multi_watch_handler handler);

/// Receives the results of several tries.
class tries_listener {
 public:
  virtual ~tries_listener() = default;
  virtual void answered(std::size_t i, error_code ec, hold h) = 0;
};
/// Tries them, those of one client together. Each is answered by the end of `options.wait` whatever the server does;
/// without it when the server has answered. None is answered before this returns.
CONCH_API void start_tries(std::vector<settings_ptr> const& locks, acquire_options const& options,
                           asio::cancellation_slot slot, std::shared_ptr<tries_listener> listener);
}  // namespace detail

/// Several locks that are held together, or an empty hold. Its destructor releases all of them and does not wait.
/// Thread safety: as hold.
class [[nodiscard]] multi_hold {
 public:
  /// Holds nothing.
  multi_hold() noexcept = default;

  explicit operator bool() const noexcept {
    return !holds_.empty();
  }  ///< True if all were granted, also when lost since.
  /// True if all of them are valid.
  CONCH_API bool valid() const noexcept;
  /// That of the hold that ends first, and as hold::deadline() it moves on. time_point::min() when empty.
  CONCH_API time_point deadline() const noexcept;
  /// The single holds, for their fencing tokens and guards: in the order of acquiring, which is that of the bytes of
  /// the names.
  std::vector<hold> const& holds() const noexcept { return holds_; }
  /// The fencing token of the hold with this index in holds(), or of the mutex of this name. 0: there is none.
  std::int64_t fence(std::size_t index) const noexcept { return index < holds_.size() ? holds_[index].fence() : 0; }
  CONCH_API std::int64_t fence(std::string_view name) const noexcept;  ///< The same by name; 0: there is none.

  /// Releases all of them, the last acquired first, and waits for the server's answers.
  ///
  /// Result: true if all were held until then. This object is empty from the call on.
  /// Completion signature: void(error_code, bool)
  /// Executor: as hold::async_release. Never completes inside the initiating function.
  /// Per-operation cancellation: none.
  /// Errors: the first one that hold::async_release reports. The other locks are released all the same.
  /// Round trips: one; the releases go out together.
  template <asio::completion_token_for<void(error_code, bool)> Token = asio::deferred_t>
  auto async_release(Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, bool)>(initiate_release{{first(), client_}}, token,
                                                               std::move(holds_));
  }

  /// Completes when any of them is lost. Otherwise as hold::async_lost.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_lost(Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code)>(initiate_watch{{first(), client_}}, token, nodes(),
                                                         detail::hold_event{});
  }

  /// Completes without an error when any of them is asked for; `holds()[i].async_requested()` tells of one. Otherwise
  /// as hold::async_requested.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_requested(Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code)>(initiate_watch{{first(), client_}}, token, nodes(),
                                                         detail::hold_event{detail::hold_event::kind::request});
  }

  /// Completes without an error when deadline() is later than `known`: all of them are good for longer. Otherwise as
  /// hold::async_renewed.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_renewed(time_point known, Token&& token = {}) const {
    detail::hold_event const event{detail::hold_event::kind::renewal, known};
    return asio::async_initiate<Token, void(error_code)>(initiate_watch{{first(), client_}}, token, nodes(), event);
  }

  /// Completes without an error when any of them is endangered. Otherwise as hold::async_endangered.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_endangered(Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code)>(initiate_watch{{first(), client_}}, token, nodes(),
                                                         detail::hold_event{detail::hold_event::kind::danger});
  }

  /// Made by the library.
  // cppcheck-suppress passedByValue ; moved: a hold cannot be copied
  multi_hold(std::vector<hold> holds, std::shared_ptr<std::vector<mutex> const> locks) noexcept
      : holds_{std::move(holds)},
        locks_{std::move(locks)},
        client_{detail::client_of(first())} {}
  explicit multi_hold(detail::client_number client) noexcept
      : client_{client} {}  ///< An empty one. Made by the library.

 private:
  detail::hold_node const* first() const noexcept { return holds_.empty() ? nullptr : holds_.front().node().get(); }

  std::vector<detail::node_ref> nodes() const {
    std::vector<detail::node_ref> all;
    for (hold const& h : holds_) all.push_back(h.node());
    return all;
  }

  struct initiate_release : detail::initiation_at<detail::hold_node> {
    template <class Handler>
    void operator()(Handler&& handler, std::vector<hold> holds) const {
      if (holds.empty()) return detail::end_of_empty<detail::release_handler>(std::forward<Handler>(handler), client);
      detail::start_multi_release(std::move(holds), std::forward<Handler>(handler));
    }
  };
  struct initiate_watch : detail::initiation_at<detail::hold_node> {
    template <class Handler>
    void operator()(Handler&& handler, std::vector<detail::node_ref> const& nodes, detail::hold_event event) const {
      if (nodes.empty()) return detail::end_of_empty<detail::lost_handler>(std::forward<Handler>(handler), client);
      detail::start_multi_watch(nodes, event, std::forward<Handler>(handler));
    }
  };

  std::vector<hold> holds_;
  std::shared_ptr<std::vector<mutex> const> locks_;
  detail::client_number client_ = 0;  // as of hold
};

/// Several mutexes, all or nothing.
///
/// They are always acquired in the order of the bytes of their names: two multi_locks that share mutexes never wait for
/// each other. First all are tried. One script tries those of one client and stops at the first busy one. Then the busy
/// ones are waited for in that order, while only the mutexes before them are held. Each hold is renewed from its own
/// grant on.
///
/// The mutexes may be of different clients. Copies are cheap. Thread safety: as client.
class multi_lock {
 public:
  using executor_type = asio::any_io_executor;  ///< The clients' executor.
  using hold_type = multi_hold;                 ///< What with_lock gives its body.

  /// `locks`: at least one. A name that is given twice counts once, even if the clients differ: mutexes on different
  /// servers must have different names.
  /// Throws boost::system::system_error: errc::invalid_config if there is none.
  CONCH_API explicit multi_lock(std::vector<mutex> locks);
  /// A move copies: one that was moved from has its mutexes still.
  multi_lock(multi_lock const&) = default;
  multi_lock& operator=(multi_lock const&) = default;  ///< The same.

  executor_type get_executor() const noexcept { return locks_->front().get_executor(); }  ///< That of its first mutex.

  /// Waits for all of them.
  ///
  /// Result: a hold on all, or an error; never some of them, and never a lock left behind.
  /// `options.wait`: for all of them together. 0 or less: one complete attempt, as async_try_acquire; it ends with
  /// errc::timed_out if not all are free. `lease`, `renew` and `max_hold` are those of each.
  /// Completion signature: void(error_code, multi_hold)
  /// Executor: the handler's associated one, else that of the first mutex. Never completes inside the initiating
  /// function. Per-operation cancellation: as mutex::async_acquire, for each that is tried or waited for.
  /// Lifetimes, errors: as mutex::async_acquire; errc::lost if one of them was lost while others were waited for.
  /// Thread safety: as client.
  /// Round trips: one if all are free, with one script for up to 64 mutexes of one client. The first busy one costs one
  /// more and a push. Each mutex behind it costs one more, and a push if it is busy, too.
  template <asio::completion_token_for<void(error_code, multi_hold)> Token = asio::deferred_t>
  auto async_acquire(acquire_options options, Token&& token = {}) {
    return start(options, false, token);
  }
  /// The same without options: waits until granted.
  template <asio::completion_token_for<void(error_code, multi_hold)> Token = asio::deferred_t>
  auto async_acquire(Token&& token = {}) {
    return start({}, false, token);
  }

  /// Takes all of them if all are free. An empty hold, without an error, means that one of them is not free. Never
  /// joins a queue. Otherwise as async_acquire. Round trips: one; if a mutex is not free a second one, which tries it
  /// alone. The mutexes taken before it are released after the answer.
  template <asio::completion_token_for<void(error_code, multi_hold)> Token = asio::deferred_t>
  auto async_try_acquire(Token&& token = {}) {
    return start({}, true, token);
  }

  /// @cond
  CONCH_DETAIL_MISTAKES_OF_ACQUIRE(async_acquire, multi_hold)
  CONCH_DETAIL_MISTAKES_OF_TRY(async_try_acquire, async_acquire)
  /// @endcond

 private:
  using list = std::shared_ptr<std::vector<mutex> const>;

  struct acquire_op {
    list locks;
    detail::kept_options options;  // of each
    detail::multi_plan plan;
    bool busy_is_late;  // `.wait = 0`, no try
    std::vector<hold> holds = {};

    template <class Self>
    void operator()(Self& self) {
      self.reset_cancellation_state(asio::enable_total_cancellation());
      std::vector<detail::settings_ptr> all;
      for (mutex const& one : *locks) all.push_back(one.lock_);
      acquire_options const rest = left();
      auto const slot = asio::get_associated_cancellation_slot(self);
      auto join = std::make_shared<tries<Self>>(std::move(self), all.size());
      detail::start_tries(all, rest, slot, std::move(join));
    }

    template <class Self>
    void operator()(Self& self, error_code ec, std::vector<hold> tried) {
      auto slot = asio::get_associated_cancellation_slot(self);
      if (slot.is_connected()) slot.clear();  // it referred to the tries
      holds = std::move(tried);
      std::vector<bool> granted;
      for (hold const& h : holds) granted.push_back(static_cast<bool>(h));
      std::vector<bool> const back = plan.tried(granted);
      for (std::size_t i = 0; i < holds.size(); ++i) {
        if (back[i]) holds[i] = hold{};
      }
      next(self, ec);
    }

    template <class Self>
    void operator()(Self& self, error_code ec, hold h) {
      if (!ec) {
        holds[plan.waits_for()] = std::move(h);
        plan.granted();
      }
      next(self, ec);
    }

    template <class Self>
    void next(Self& self, error_code ec) {
      bool valid = true;
      for (hold const& h : holds) valid = valid && h.valid();
      switch (plan.next(ec, self.cancelled() != asio::cancellation_type::none, valid, clock::now())) {
        case detail::multi_plan::step::done: self.complete({}, multi_hold{std::move(holds), locks}); return;
        case detail::multi_plan::step::busy:
          holds.clear();
          self.complete(busy_is_late ? make_error_code(errc::timed_out) : error_code{}, none());
          return;
        case detail::multi_plan::step::failed:
          holds.clear();
          self.complete(plan.failure(), none());
          return;
        case detail::multi_plan::step::wait: {
          mutex one = (*locks)[plan.waits_for()];
          acquire_options rest = left();
          if (plan.once()) rest.wait = duration::zero();
          one.async_acquire(rest, std::move(self));
          return;
        }
      }
    }

    multi_hold none() const noexcept { return multi_hold{detail::client_of(*locks->front().lock_)}; }

    acquire_options left() const {
      acquire_options rest = options.get();
      rest.wait = std::nullopt;
      constexpr duration least{1};  // 0 would be an attempt of its own
      if (plan.until()) rest.wait = std::max(*plan.until() - clock::now(), least);
      return rest;
    }
  };

  /// Waits for all tries. The last answer resumes the operation.
  template <class Self>
  struct tries final : detail::tries_listener {
    tries(Self s, std::size_t count) : self{std::move(s)}, holds(count), left{count} {}

    void answered(std::size_t i, error_code ec, hold h) override {
      bool last = false;
      {
        std::lock_guard const guard{mutex_of_tries};
        if (ec && !failure) failure = ec;
        holds[i] = std::move(h);
        last = --left == 0;
      }
      if (!last) return;
      auto const io = self.get_io_executor();
      auto const executor = asio::get_associated_executor(self, io);
      auto complete = [op = std::move(self), ec = failure, all = std::move(holds)]() mutable {
        std::move(op)(ec, std::move(all));
      };
      asio::post(io, asio::bind_executor(executor, std::move(complete)));
    }

    Self self;
    std::mutex mutex_of_tries;
    std::vector<hold> holds;
    std::size_t left;
    error_code failure;
  };

  template <class Token>
  auto start(acquire_options const& options, bool once, Token& token) {
    std::optional<duration> const wait = options.wait;
    bool const at_once = wait && *wait <= duration::zero();
    std::optional<time_point> until;
    if (wait && !at_once) until = detail::later_by(clock::now(), *wait);
    detail::multi_plan const plan{locks_->size(), until, once || at_once};
    return asio::async_compose<Token, void(error_code, multi_hold)>(
        acquire_op{locks_, detail::kept_options{options}, plan, at_once}, token, get_executor());
  }

  list locks_;
};

}  // namespace conch
