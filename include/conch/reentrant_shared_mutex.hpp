// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>
#include <conch/reentrant_mutex.hpp>
#include <conch/shared_mutex.hpp>

#include <string>
#include <utility>

namespace conch {

/// A shared_mutex whose owner may acquire it again while it holds it: write in write, read in write, and read in read.
///
/// On the server it is the shared_mutex of that name, and meets all holders of that. The levels of an owner share one
/// hold there, with one lease, one limit and one fencing token. A nested acquire costs no message, does not wait, and
/// changes nothing about that hold. When its last level that writes is left while others read on, the owner becomes a
/// reader, without a moment in which another client may write. The hold keeps its token.
///
/// To write while the owner only reads is refused (errc::would_deadlock): two such owners would wait for each other.
///
/// An owner is an `owner` object and its copies, with one client. Another object with the same id, in this process or
/// in another, is another owner here, and waits. (With a reentrant_mutex it nests.)
///
/// The acquires of one owner that do not nest wait for each other in this process: one of them is in the server's
/// queue. If it is granted, the others end: they nest, or are refused. If it is not, the next one asks.
///
/// Copies are cheap. Thread safety: as client. Over a quorum of servers: errc::not_supported.
class reentrant_shared_mutex : public named_lock {
 public:
  /// `name`: 1 to 512 bytes of any value. A lock of another kind under the same name uses the same key: each fails with
  /// errc::wrong_type while the other is in use. A shared_mutex is of the same kind.
  /// Throws boost::system::system_error: errc::invalid_name, errc::invalid_config.
  CONCH_API reentrant_shared_mutex(client& through, std::string name, lock_options options = {});

  /// Acquires as a writer, on behalf of `who`.
  ///
  /// Effects: one more level if `who` writes in this process; the hold keeps the lease and the limit of its first
  /// acquire. Else waits to be the only holder.
  /// Result: a level, or an error; never both, and never a lock left behind.
  /// Lifetimes: nothing needs to outlive the operation; a client that is destroyed ends it with errc::closed.
  /// Completion signature: void(error_code, reentrant_hold)
  /// Executor: the handler's associated one, else the client's. Never completes inside the initiating function.
  /// Per-operation cancellation: as mutex::async_acquire. Behind another acquire of the same owner: operation_aborted,
  /// at once.
  /// Errors: as mutex::async_acquire; errc::would_deadlock (`who` reads already), errc::not_supported.
  /// Thread safety: as client.
  /// Round trips: none for a nested acquire; one if the lock is free; else one and a push.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_acquire(owner const& who, acquire_options options, Token&& token = {}) {
    return start(who, write, options, false, token);
  }
  /// The same without options: waits until granted.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_acquire(owner const& who, Token&& token = {}) {
    return start(who, write, {}, false, token);
  }

  /// Takes the lock as a writer if `who` writes, or if it is free and no client waits. An empty hold, without an error,
  /// means that another owner has the lock or asks for it, or that an acquire of `who` is under way. Errors:
  /// errc::would_deadlock all the same. Round trips: none or one.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_try_acquire(owner const& who, Token&& token = {}) {
    return start(who, write, {}, true, token);
  }

  /// Acquires as a reader, on behalf of `who`: one more level if `who` reads or writes in this process, also while a
  /// writer waits. Else waits until no writer holds the lock or waits in front. Otherwise as async_acquire, but never
  /// errc::would_deadlock.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_acquire_shared(owner const& who, acquire_options options, Token&& token = {}) {
    return start(who, read, options, false, token);
  }
  /// The same without options: waits until granted.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_acquire_shared(owner const& who, Token&& token = {}) {
    return start(who, read, {}, false, token);
  }

  /// Takes the lock as a reader if `who` reads or writes, or if no writer holds it or waits. Otherwise as
  /// async_try_acquire, but never errc::would_deadlock.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_try_acquire_shared(owner const& who, Token&& token = {}) {
    return start(who, read, {}, true, token);
  }

  /// True if `who` reads or writes by a valid hold in this process.
  CONCH_API bool held_by(owner const& who) const;
  /// True if `who` writes by a valid hold in this process.
  CONCH_API bool written_by(owner const& who) const;

  /// The same lock on behalf of `who`, in the shape of a shared_mutex, for with_lock and for code that takes any kind
  /// of lock: `auto mine = m.for_owner(me); co_await with_lock(mine, body);` as a writer, and with `auto reading =
  /// mine.readers();` as a reader.
  class owner_view;
  class reader_view;
  [[nodiscard]] owner_view for_owner(owner who) const;  ///< See owner_view.

  /// @cond
  CONCH_DETAIL_MISTAKES_OF_LEVEL(async_acquire)
  CONCH_DETAIL_MISTAKES_OF_LEVEL(async_acquire_shared)
  /// @endcond

 private:
  static constexpr auto read = detail::level_use::read;
  static constexpr auto write = detail::level_use::write;

  template <class Token>
  auto start(owner const& who, detail::level_use use, acquire_options const& options, bool once, Token& token) {
    return asio::async_initiate<Token, void(error_code, reentrant_hold)>(
        detail::initiate_level{{lock_.get()}}, token, lock_, who.state(), detail::level_request{use, once}, options);
  }
};

/// The result of owner_view::readers(). Copies are cheap. Thread safety: as client.
class reentrant_shared_mutex::reader_view {
 public:
  using hold_type = reentrant_hold;  ///< What with_lock gives its body.

  reader_view(reentrant_shared_mutex of, owner who) : of_{std::move(of)}, who_{std::move(who)} {}  ///< As readers().

  /// reentrant_shared_mutex::async_acquire_shared.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_acquire(acquire_options options, Token&& token = {}) {
    return of_.async_acquire_shared(who_, options, std::forward<Token>(token));
  }
  /// The same without options: waits until granted.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_acquire(Token&& token = {}) {
    return of_.async_acquire_shared(who_, std::forward<Token>(token));
  }

  /// reentrant_shared_mutex::async_try_acquire_shared.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_try_acquire(Token&& token = {}) {
    return of_.async_try_acquire_shared(who_, std::forward<Token>(token));
  }

 private:
  reentrant_shared_mutex of_;
  owner who_;
};

/// The result of for_owner(). Copies are cheap. Thread safety: as client.
class reentrant_shared_mutex::owner_view {
 public:
  using hold_type = reentrant_hold;  ///< What with_lock gives its body.

  owner_view(reentrant_shared_mutex of, owner who) : of_{std::move(of)}, who_{std::move(who)} {}  ///< As for_owner().

  /// As those of reentrant_shared_mutex.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_acquire(acquire_options options, Token&& token = {}) {
    return of_.async_acquire(who_, options, std::forward<Token>(token));
  }
  /// The same without options: waits until granted.
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_acquire(Token&& token = {}) {
    return of_.async_acquire(who_, std::forward<Token>(token));
  }
  /// As reentrant_shared_mutex::async_try_acquire().
  template <asio::completion_token_for<void(error_code, reentrant_hold)> Token = asio::deferred_t>
  auto async_try_acquire(Token&& token = {}) {
    return of_.async_try_acquire(who_, std::forward<Token>(token));
  }

  /// The same for a reader.
  [[nodiscard]] reader_view readers() const { return {of_, who_}; }

 private:
  reentrant_shared_mutex of_;
  owner who_;
};

inline reentrant_shared_mutex::owner_view reentrant_shared_mutex::for_owner(owner who) const {
  return {*this, std::move(who)};
}

}  // namespace conch
