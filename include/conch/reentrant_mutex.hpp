// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>
#include <conch/mutex.hpp>
#include <conch/owner.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace conch {

class reentrant_hold;

namespace detail {

/// One hold that is shared by all levels of one owner in this process. Compiled in src/client/reentrant.cpp.
struct shared_hold;
using shared_hold_ptr = std::shared_ptr<shared_hold>;

/// What a level is for. All levels of a reentrant_mutex write.
enum class level_use : bool { read, write };

struct level_request {
  level_use use;
  bool once;
};

using level_handler = asio::any_completion_handler<void(error_code, reentrant_hold)>;

CONCH_API void start_acquire_level(settings_ptr lock, owner_ptr who, level_request wanted,
                                   acquire_options const& options, level_handler handler);
CONCH_API void leave_level(shared_hold_ptr level, level_use use) noexcept;
CONCH_API void start_level_release(shared_hold_ptr level, level_use use, release_handler handler);
CONCH_API hold const& hold_of_level(shared_hold const& level) noexcept;
CONCH_API std::uint32_t depth_of_level(shared_hold const& level) noexcept;
/// True if `who` has a valid hold of this lock in this process, with a level for `use`; of a writer all levels may
/// read.
CONCH_API bool has_level(owner_ptr const& who, settings_ptr const& lock, level_use use);
CONCH_API permit_request request_of(owner_ptr const& who);
CONCH_API asio::any_io_executor executor_of(shared_hold const* level) noexcept;

/// As CONCH_DETAIL_MISTAKES_OF_ACQUIRE.
#define CONCH_DETAIL_MISTAKES_OF_LEVEL(name)                                                              \
  template <class... Arguments>                                                                           \
  requires(::conch::detail::with_a_duration<Arguments...>) void name(Arguments&&...) {                    \
    static_assert(::conch::detail::never<Arguments...>,                                                   \
                  "conch: the time to wait is an option, as in " #name "(me, {.wait = 2s})");             \
  }                                                                                                       \
  template <class... Arguments>                                                                           \
  void name(::conch::acquire_options, Arguments&&...) {                                                   \
    static_assert(::conch::detail::never<Arguments...>,                                                   \
                  "conch: a reentrant lock is acquired for an owner, as in " #name "(me, {.wait = 2s})"); \
  }

struct initiate_level : initiation_at<lock_settings> {
  template <class Handler>
  void operator()(Handler&& handler, settings_ptr lock, owner_ptr who, level_request wanted,
                  acquire_options const& options) const {
    start_acquire_level(std::move(lock), std::move(who), wanted, options, std::forward<Handler>(handler));
  }
};

}  // namespace detail

/// One level of a reentrant_mutex or of a reentrant_shared_mutex that is held, or an empty hold. The last level of an
/// owner releases the lock.
///
/// Its destructor leaves the level and does not wait for an answer. Thread safety: as hold.
class [[nodiscard]] reentrant_hold {
 public:
  /// Holds nothing.
  reentrant_hold() noexcept = default;
  reentrant_hold(reentrant_hold&&) noexcept = default;  ///< Leaves the other empty.
  reentrant_hold& operator=(reentrant_hold&& other) noexcept {
    reentrant_hold{std::move(other)}.swap(*this);
    return *this;
  }
  ~reentrant_hold() {
    if (level_) detail::leave_level(std::move(level_), use_);
  }
  void swap(reentrant_hold& other) noexcept {
    level_.swap(other.level_);
    std::swap(use_, other.use_);
    std::swap(client_, other.client_);
  }

  explicit operator bool() const noexcept { return level_ != nullptr; }  ///< True if granted, also when lost since.
  /// As those of hold; the same for all levels of one owner in one process.
  bool valid() const noexcept { return level_ && detail::hold_of_level(*level_).valid(); }
  time_point deadline() const noexcept {
    return level_ ? detail::hold_of_level(*level_).deadline() : time_point::min();
  }  ///< As hold::deadline().
  std::int64_t fence() const noexcept {
    return level_ ? detail::hold_of_level(*level_).fence() : 0;
  }  ///< As hold::fence(); of all levels.
  /// As hold::guard(); the same for all levels of one owner in one process.
  write_guard guard() const { return level_ ? detail::hold_of_level(*level_).guard() : write_guard{}; }
  /// How many levels its owner has in this process, for reading and for writing. 0 when empty.
  std::uint32_t depth() const noexcept { return level_ ? detail::depth_of_level(*level_) : 0; }

  /// Leaves this level. The last level releases the lock and waits for the server's answer. The last level of a
  /// reentrant_shared_mutex that writes does so too: it makes the owner's hold a reader's if levels that read are left.
  ///
  /// Result: true if the lock was held until then; false if it had been lost. This object is empty from the call on.
  /// Completion signature: void(error_code, bool)
  /// Executor, cancellation: as hold::async_release.
  /// Errors: as hold::async_release. Where a writer becomes a reader those of shared_mutex::async_downgrade but
  /// errc::lost, and errc::unreachable comes after config::offline_timeout: the level is left nevertheless, and the
  /// server learns of it once it is back.
  /// Round trips: none; or one for the last level, and for the last one that writes.
  template <asio::completion_token_for<void(error_code, bool)> Token = asio::deferred_t>
  auto async_release(Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, bool)>(initiate_release{{level_.get(), client_}}, token,
                                                               std::move(*this));
  }

  /// As hold::async_extend, for all levels of the owner in this process.
  template <asio::completion_token_for<void(error_code, bool)> Token = asio::deferred_t>
  auto async_extend(duration lease, Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, bool)>(initiate_extend{{level_.get(), client_}}, token, level_,
                                                               lease);
  }

  /// As hold::async_lost.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_lost(Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code)>(initiate_lost{{level_.get(), client_}}, token, level_);
  }

  /// As hold::async_requested.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_requested(Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code)>(initiate_requested{{level_.get(), client_}}, token, level_);
  }

  /// As hold::async_renewed.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_renewed(time_point known, Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code)>(initiate_renewed{{level_.get(), client_}}, token, level_,
                                                         known);
  }

  /// As hold::async_endangered.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_endangered(Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code)>(initiate_endangered{{level_.get(), client_}}, token, level_);
  }

  /// Made by the library.
  reentrant_hold(detail::shared_hold_ptr level, detail::level_use use, detail::client_number client) noexcept
      : level_{std::move(level)},
        use_{use},
        client_{client} {}

 private:
  struct initiate_release : detail::initiation_at<detail::shared_hold> {
    template <class Handler>
    // that leaves its level also if it never comes to this
    void operator()(Handler&& handler, reentrant_hold of) const {
      if (!of) return detail::end_of_empty<detail::release_handler>(std::forward<Handler>(handler), client);
      detail::start_level_release(std::exchange(of.level_, nullptr), of.use_, std::forward<Handler>(handler));
    }
  };
  struct initiate_lost : detail::initiation_at<detail::shared_hold> {
    template <class Handler>
    void operator()(Handler&& handler, detail::shared_hold_ptr const& level) const {
      if (!level) return detail::end_of_empty<detail::lost_handler>(std::forward<Handler>(handler), client);
      detail::start_lost(detail::hold_of_level(*level).node(), std::forward<Handler>(handler));
    }
  };
  struct initiate_requested : detail::initiation_at<detail::shared_hold> {
    template <class Handler>
    void operator()(Handler&& handler, detail::shared_hold_ptr const& level) const {
      if (!level) return detail::end_of_empty<detail::lost_handler>(std::forward<Handler>(handler), client);
      detail::start_requested(detail::hold_of_level(*level).node(), std::forward<Handler>(handler));
    }
  };
  struct initiate_renewed : detail::initiation_at<detail::shared_hold> {
    template <class Handler>
    void operator()(Handler&& handler, detail::shared_hold_ptr const& level, time_point known) const {
      if (!level) return detail::end_of_empty<detail::lost_handler>(std::forward<Handler>(handler), client);
      detail::start_renewed(detail::hold_of_level(*level).node(), known, std::forward<Handler>(handler));
    }
  };
  struct initiate_endangered : detail::initiation_at<detail::shared_hold> {
    template <class Handler>
    void operator()(Handler&& handler, detail::shared_hold_ptr const& level) const {
      if (!level) return detail::end_of_empty<detail::lost_handler>(std::forward<Handler>(handler), client);
      detail::start_endangered(detail::hold_of_level(*level).node(), std::forward<Handler>(handler));
    }
  };
  struct initiate_extend : detail::initiation_at<detail::shared_hold> {
    template <class Handler>
    void operator()(Handler&& handler, detail::shared_hold_ptr const& level, duration lease) const {
      if (!level) return detail::end_of_empty<detail::release_handler>(std::forward<Handler>(handler), client);
      detail::start_extend(detail::hold_of_level(*level).node(), lease, std::forward<Handler>(handler));
    }
  };

  detail::shared_hold_ptr level_;
  detail::level_use use_ = detail::level_use::write;
  detail::client_number client_ = 0;  // as of hold
};

/// A lock by its name. Its owner may acquire it again while it holds it.
///
/// A nested acquire in the same process costs no message and never shortens the lease: all levels of an owner share one
/// hold, with one lease and one fencing token. The same owner id in another process nests through the server and
/// overtakes the waiters. Each process then has its own lease and token, and the lock is free when the last process has
/// released it or died.
///
/// Copies are cheap. Thread safety: as client. Over a quorum of servers: errc::not_supported.
class reentrant_mutex : public named_lock {
 public:
  /// `name`: 1 to 512 bytes of any value. A lock of another kind under the same name uses the same key: each fails with
  /// errc::wrong_type while the other is in use.
  /// Throws boost::system::system_error: errc::invalid_name, errc::invalid_config.
  CONCH_API reentrant_mutex(client& through, std::string name, lock_options options = {});

  /// Waits for the lock on behalf of `who`.
  ///
  /// Effects: one more level if `who` has the lock in this process; the hold keeps the lease and the limit of its first
  /// acquire. Else as mutex::async_acquire, with a place in the queue for each acquire.
  /// Result: a level, or an error; never both.
  /// Lifetimes, cancellation, errors, thread safety: as mutex::async_acquire; errc::not_supported.
  /// Completion signature: void(error_code, reentrant_hold)
  /// Executor: the handler's associated one, else the client's. Never completes inside the initiating function.
  /// Round trips: none for a nested acquire; one if the lock is free or `who` has it in another process; else one and a
  /// push.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_acquire(owner const& who, acquire_options options, Token&& token = {}) {
    return start(who, options, false, token);
  }
  /// The same without options: waits until granted.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_acquire(owner const& who, Token&& token = {}) {
    return start(who, {}, false, token);
  }

  /// An empty hold, without an error, means that another owner has the lock. Round trips: none or one.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_try_acquire(owner const& who, Token&& token = {}) {
    return start(who, {}, true, token);
  }

  /// True if `who` has a valid hold of this lock in this process.
  CONCH_API bool held_by(owner const& who) const;

  /// The same lock on behalf of `who`, for with_lock and for code that takes any kind of lock:
  /// `auto mine = m.for_owner(me); co_await with_lock(mine, body);`
  class owner_view;
  [[nodiscard]] owner_view for_owner(owner who) const;  ///< See owner_view.

  /// @cond
  CONCH_DETAIL_MISTAKES_OF_LEVEL(async_acquire)
  /// @endcond

 private:
  template <class Token>
  auto start(owner const& who, acquire_options const& options, bool once, Token& token) {
    return asio::async_initiate<Token, void(error_code, reentrant_hold)>(
        detail::initiate_level{{lock_.get()}}, token, lock_, who.state(),
        detail::level_request{detail::level_use::write, once}, options);
  }
};

/// The result of for_owner(). Copies are cheap. Thread safety: as client.
class reentrant_mutex::owner_view {
 public:
  using hold_type = reentrant_hold;  ///< What with_lock gives its body.

  owner_view(reentrant_mutex of, owner who) : of_{std::move(of)}, who_{std::move(who)} {}  ///< As for_owner().

  /// As those of reentrant_mutex.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_acquire(acquire_options options, Token&& token = {}) {
    return of_.async_acquire(who_, options, std::forward<Token>(token));
  }
  /// The same without options: waits until granted.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_acquire(Token&& token = {}) {
    return of_.async_acquire(who_, std::forward<Token>(token));
  }
  /// As reentrant_mutex::async_try_acquire().
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_try_acquire(Token&& token = {}) {
    return of_.async_try_acquire(who_, std::forward<Token>(token));
  }

 private:
  reentrant_mutex of_;
  owner who_;
};

inline reentrant_mutex::owner_view reentrant_mutex::for_owner(owner who) const { return {*this, std::move(who)}; }

}  // namespace conch
