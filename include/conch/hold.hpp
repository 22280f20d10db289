// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>
#include <conch/detail/api.hpp>
#include <conch/detail/hold_node.hpp>
#include <conch/error.hpp>
#include <conch/guard.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>

namespace conch {

namespace asio = boost::asio;

/// What every hold offers: `hold`, `reentrant_hold`, `multi_hold`. Code that is written for it takes all kinds of
/// locks.
template <class H>
concept lock_hold = std::movable<H> && std::default_initializable<H> && requires(H& h, H const& c) {
  {static_cast<bool>(c)};
  { c.valid() } -> std::same_as<bool>;
  { c.deadline() } -> std::same_as<time_point>;
  h.async_release(asio::deferred);
  h.async_lost(asio::deferred);
};

/// A lock that is held, or an empty hold. Made by mutex::async_acquire.
///
/// Its destructor releases the lock and does not wait for the answer. It never blocks and never throws.
///
/// Thread safety: distinct objects: safe. One object: the const functions from any thread, the others from one thread
/// at a time.
class [[nodiscard]] hold {
 public:
  /// Holds nothing.
  hold() noexcept = default;
  hold(hold&&) noexcept = default;  ///< Leaves the other empty.
  hold& operator=(hold&& other) noexcept {
    hold{std::move(other)}.swap(*this);
    return *this;
  }
  CONCH_API ~hold();

  void swap(hold& other) noexcept {  ///< Exchanges the locks.
    std::swap(node_, other.node_);
    std::swap(client_, other.client_);
  }

  /// True if a lock was granted. Stays true when the hold is lost: see valid().
  explicit operator bool() const noexcept { return static_cast<bool>(node_); }

  /// True if the hold is neither released nor lost, and its deadline has not passed by the local clock. A write that
  /// must not come late carries fence() as well: a thread may be stopped between this call and the write.
  CONCH_API bool valid() const noexcept;

  /// The hold is not valid after this moment, unless it is renewed: each renewal moves it on, so a copy is soon too
  /// early. Do not end what your work under the lock at a copied deadline: ask valid(), or wait for async_lost(), or
  /// follow the deadline with async_renewed().
  ///
  /// A grant that another client has handed over is a claim first (config::claim, 3 s; over several servers
  /// quorum_config::vote_claim, 0.5 s). The first renewal, a third of a claim later, confirms it: from then on the
  /// deadline is that of a whole lease.
  ///
  /// time_point::min() when lost, released or empty.
  CONCH_API time_point deadline() const noexcept;

  /// The fencing token: positive, and greater than that of every earlier grant of the same name. A guarded resource
  /// that remembers the greatest token it has seen, and refuses smaller ones, cannot be changed by a stale holder. 0
  /// when empty.
  CONCH_API std::int64_t fence() const noexcept;

  /// For a write that the server itself refuses once this hold has ended: key, id and token, for guarded_command() and
  /// for scripts of yours. Coroutines to which this client hands the lock on in memory (config::local_slice) share one
  /// id: the server cannot tell them apart.
  ///
  /// Result: empty if this is empty, released or lost. A guard that was made before the loss stays, and is refused.
  /// Throws boost::system::system_error: errc::not_supported if the lock is not on one Redis server (a quorum,
  /// memory://).
  /// Thread safety: as the const functions. Round trips: none.
  CONCH_API write_guard guard() const;

  /// The segment of a striped_mutex: 1 to the number of segments. 0 for every other lock, and when empty.
  CONCH_API std::uint32_t segment() const noexcept;

  /// How many permits of a semaphore the hold has. 1 for any other lock, and 0 when empty. For a request of more than
  /// the limit, which was granted the whole limit, it is the number that was asked for.
  CONCH_API std::uint32_t permits() const;

  /// Releases the lock and waits for the server's answer.
  ///
  /// Effects: the lock goes to the next waiter: inside this process without a message, else by one script. valid() is
  /// false from the initiation on.
  /// Result: true if the lock was held until the release; false if it had been lost.
  /// Lifetimes: the hold may be destroyed once the operation is initiated.
  /// Completion signature: void(error_code, bool)
  /// Executor: the handler's associated one, else the client's, also for a hold that is empty or was moved from. A hold
  /// that no client has made (`hold{}`) has none: with a handler without an executor the call throws errc::not_held.
  /// Never completes inside the initiating function. Per-operation cancellation: none. Without an answer within
  /// `command_timeout` it completes with errc::unreachable, and the release continues in the background.
  /// Errors: errc::not_held (empty, or released before), errc::unreachable, errc::wrong_type, errc::access_denied,
  /// errc::protocol.
  /// Thread safety: as the non-const functions of a hold.
  /// Round trips: none (handed on in this process, or lost before) or one.
  template <asio::completion_token_for<void(error_code, bool)> Token = asio::deferred_t>
  auto async_release(Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, bool)>(initiate_release{{node_.get(), client_}}, token, node_);
  }

  /// Gives the hold another lease, from now on.
  ///
  /// Effects: the watchdog renews with `lease` from then on. A hold that is not renewed, or whose max_hold is over, is
  /// renewed this once. deadline() never moves back: a shorter lease counts from the next renewal.
  /// Result: true if the hold is good for that lease, counted from the call; false if it was lost.
  /// `lease`: 100 ms to 1 day; over several servers not less than quorum_config::vote_claim.
  /// Lifetimes: the hold may be destroyed once the operation is initiated, which ends it with errc::not_held.
  /// Completion signature: void(error_code, bool)
  /// Executor: as async_release.
  /// Per-operation cancellation: none. Without an answer within `command_timeout` it completes with errc::unreachable;
  /// the hold is as good as deadline() says.
  /// Errors: errc::not_held (empty, or released), errc::invalid_config, errc::unreachable.
  /// Thread safety: as the non-const functions of a hold. Several may be under way at a time: they complete together.
  /// Round trips: one; none if the hold is good for that long already.
  template <asio::completion_token_for<void(error_code, bool)> Token = asio::deferred_t>
  auto async_extend(duration lease, Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, bool)>(initiate_extend{{node_.get(), client_}}, token, node_,
                                                               lease);
  }

  /// Lets the hold leave this client without releasing it, so that another client, perhaps of another process, takes it
  /// over with async_adopt: across an exec, from the old process of a restart to the new one, from one job of a queue
  /// to the next.
  ///
  /// Effects: the hold is renewed once more, for its whole lease, also if it is not renewed otherwise or its max_hold
  /// is over. Then this client neither renews nor releases it: it belongs to no client, and ends with its lease unless
  /// a client adopts it. Until then no other client is granted the lock. valid() is false from the initiation on.
  /// Coroutines of this client that wait for the lock wait at the server.
  /// Result: a text without spaces and control characters. It contains the lock's name, the grant's id, the token and
  /// the lease. Keep it secret: a user of the server who knows it can take the hold over.
  /// Lifetimes: the hold may be destroyed once the operation is initiated.
  /// Completion signature: void(error_code, std::string)
  /// Executor: as async_release.
  /// Per-operation cancellation: none. Without an answer within `command_timeout` it completes with errc::unreachable.
  /// Errors: errc::not_held (empty, or released before), errc::lost, errc::unreachable, errc::closed;
  /// errc::not_supported over several servers: then the hold stays as it is. After any other error it is released in
  /// the background, as by the destructor.
  /// Thread safety: as the non-const functions of a hold.
  /// Round trips: one.
  template <asio::completion_token_for<void(error_code, std::string)> Token = asio::deferred_t>
  auto async_detach(Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, std::string)>(initiate_detach{{node_.get(), client_}}, token,
                                                                      node_);
  }

  /// Completes when the hold is lost. The error is the reason: errc::lost, or errc::closed when the client was closed.
  ///
  /// Result: the completion is posted before another client can be granted the lock. After an operator's DEL, or a loss
  /// of the server's data, it is posted at the next renewal.
  /// Completion signature: void(error_code)
  /// Executor: as async_release.
  /// Per-operation cancellation: terminal, partial and total: completes with operation_aborted; the hold stays as it
  /// is.
  /// Errors: operation_aborted also when the hold is released first; errc::not_held when it is empty or was released.
  /// Thread safety: any number of these may wait at the same time.
  /// Round trips: none.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_lost(Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code)>(initiate_lost{{node_.get(), client_}}, token, node_);
  }

  /// Completes without an error when deadline() is later than `known`: at once if it is already, else at the renewal
  /// that moves it on. So no renewal is missed by code that follows the deadline, as for a process that ends another
  /// one when the hold is over:
  ///
  ///     for (conch::time_point known = h.deadline();; known = h.deadline()) {
  ///       watchdog.set(known);
  ///       co_await h.async_renewed(known);  // throws when the hold is lost or released
  ///     }
  ///
  /// `known`: the deadline that the caller knows. time_point::min(): completes at once, while the hold is held.
  /// Completion signature: void(error_code)
  /// Executor, cancellation, thread safety: as async_lost.
  /// Errors: as async_lost, when the hold is lost or released first. A hold that is not renewed
  /// (acquire_options::renew, max_hold) has no other end than these, once its grant is confirmed.
  /// Round trips: none.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_renewed(time_point known, Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code)>(initiate_renewed{{node_.get(), client_}}, token, node_, known);
  }

  /// Completes without an error when the hold is endangered, at once if it is: a renewal was due and has not succeeded,
  /// and half of the time from then to the report of the loss (config::stop_margin) has passed. With the defaults that
  /// is 10 s before the loss. The next renewal ends the danger, so work under the lock can pause meanwhile:
  ///
  ///     for (;;) {
  ///       co_await h.async_endangered();  // throws when the hold is lost or released
  ///       pause();
  ///       co_await h.async_renewed(h.deadline());
  ///       go_on();
  ///     }
  ///
  /// A hold that is not renewed (acquire_options::renew, max_hold) is not endangered, once its grant is confirmed. A
  /// loss that no late renewal precedes comes without a warning: an order of an operator, data that the server has
  /// lost, a process that did not run.
  ///
  /// Completion signature: void(error_code)
  /// Executor, cancellation, thread safety: as async_lost.
  /// Errors: as async_lost, when the hold is lost or released first.
  /// Round trips: none.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_endangered(Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code)>(initiate_endangered{{node_.get(), client_}}, token, node_);
  }

  /// Completes without an error when another client asks for the lock (async_request_release), so that this one can let
  /// it go, or go on. At once if that was asked since the grant. Once asked for, the lock is not handed on to another
  /// coroutine of this client in memory: when it is released, it goes to the server's line.
  ///
  /// Completion signature: void(error_code)
  /// Executor, cancellation, thread safety: as async_lost.
  /// Errors: as async_lost, when the hold is lost or released first; errc::not_supported over several servers.
  /// Round trips: one, which no caller waits for; a push tells of the request. After a reconnect the server is asked
  /// once more.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_requested(Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code)>(initiate_requested{{node_.get(), client_}}, token, node_);
  }

  /// Made by the library.
  explicit hold(detail::node_ref node) noexcept : node_{std::move(node)}, client_{detail::client_of(node_.get())} {}
  explicit hold(detail::client_number client) noexcept : client_{client} {}  ///< An empty one. Made by the library.
  detail::node_ref const& node() const noexcept { return node_; }            ///< Used by the library.

 private:
  struct initiate_release : detail::initiation_at<detail::hold_node> {
    template <class Handler>
    void operator()(Handler&& handler, detail::node_ref node) const {
      if (!node) return detail::end_of_empty<detail::release_handler>(std::forward<Handler>(handler), client);
      bool const on_own_executor = detail::runs_on_client_executor(detail::own_executor_of(node), handler);
      detail::start_release(std::move(node), std::forward<Handler>(handler), on_own_executor);
    }
  };
  struct initiate_extend : detail::initiation_at<detail::hold_node> {
    template <class Handler>
    void operator()(Handler&& handler, detail::node_ref node, duration lease) const {
      if (!node) return detail::end_of_empty<detail::release_handler>(std::forward<Handler>(handler), client);
      detail::start_extend(std::move(node), lease, std::forward<Handler>(handler));
    }
  };
  struct initiate_detach : detail::initiation_at<detail::hold_node> {
    template <class Handler>
    void operator()(Handler&& handler, detail::node_ref node) const {
      if (!node) return detail::end_of_empty<detail::detach_handler>(std::forward<Handler>(handler), client);
      detail::start_detach(std::move(node), std::forward<Handler>(handler));
    }
  };
  struct initiate_lost : detail::initiation_at<detail::hold_node> {
    template <class Handler>
    void operator()(Handler&& handler, detail::node_ref node) const {
      if (!node) return detail::end_of_empty<detail::lost_handler>(std::forward<Handler>(handler), client);
      detail::start_lost(std::move(node), std::forward<Handler>(handler));
    }
  };

  struct initiate_requested : detail::initiation_at<detail::hold_node> {
    template <class Handler>
    void operator()(Handler&& handler, detail::node_ref node) const {
      if (!node) return detail::end_of_empty<detail::lost_handler>(std::forward<Handler>(handler), client);
      detail::start_requested(std::move(node), std::forward<Handler>(handler));
    }
  };

  struct initiate_renewed : detail::initiation_at<detail::hold_node> {
    template <class Handler>
    void operator()(Handler&& handler, detail::node_ref node, time_point known) const {
      if (!node) return detail::end_of_empty<detail::lost_handler>(std::forward<Handler>(handler), client);
      detail::start_renewed(std::move(node), known, std::forward<Handler>(handler));
    }
  };

  struct initiate_endangered : detail::initiation_at<detail::hold_node> {
    template <class Handler>
    void operator()(Handler&& handler, detail::node_ref node) const {
      if (!node) return detail::end_of_empty<detail::lost_handler>(std::forward<Handler>(handler), client);
      detail::start_endangered(std::move(node), std::forward<Handler>(handler));
    }
  };

  detail::node_ref node_;
  detail::client_number client_ = 0;  // also of an empty hold, and of one that was moved from
};

}  // namespace conch
