// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>
#include <conch/mutex.hpp>
#include <conch/with_lock.hpp>

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace conch {

/// A lock that is split into segments. Each segment has one holder at a time. It serves a stock or a counter that is
/// split the same way: as many holders can work on it as there are segments.
///
/// An acquire is granted any free segment. If all are taken, waiters are granted what becomes free in the order of
/// asking. Each hold has its own lease and fencing token; the tokens of one segment rise.
///
/// Objects of one name should agree on the number of segments. While a segment is held or waited for, the number of the
/// first acquire counts. A segment beyond an object's own number is given back, with errc::invalid_config. Copies are
/// cheap.
/// Thread safety: as client. Over a quorum of servers: errc::not_supported.
class striped_mutex : public named_lock {
 public:
  /// `name`: 1 to 512 bytes of any value. A lock of another kind under the same name uses the same key: each fails with
  /// errc::wrong_type while the other is in use. `segments`: 1 to 1'000.
  /// Throws boost::system::system_error: errc::invalid_name, errc::invalid_config.
  CONCH_API striped_mutex(client& through, std::string name, std::uint32_t segments, lock_options options = {});

  std::uint32_t segments() const noexcept { return segments_; }  ///< As given, 1 to 1'000.

  /// Waits for a free segment. The search begins at a random one.
  ///
  /// Effects: each acquire has its own place in the server's queue.
  /// Result: a hold whose segment() names the segment, or an error; never both, and never a segment left behind.
  /// Lifetimes, executor, cancellation, errors, thread safety: as mutex::async_acquire; errc::not_supported.
  /// Completion signature: void(error_code, hold)
  /// Round trips: one if a segment is free; else one and a push.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire_any(acquire_options options, Token&& token = {}) {
    return start(no_segment, options, false, token);
  }
  /// The same without options: waits until granted.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire_any(Token&& token = {}) {
    return start(no_segment, {}, false, token);
  }

  /// The same, without the segments in `but` (1 to segments()). If `but` names all of them it completes with
  /// errc::invalid_config.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire_any(std::vector<std::uint32_t> const& but, acquire_options options, Token&& token = {}) {
    return start(but, options, false, token);
  }

  /// As async_acquire_any, under the name that all kinds of locks have.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(acquire_options options, Token&& token = {}) {
    return start(no_segment, options, false, token);
  }
  /// The same without options: waits until granted.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(Token&& token = {}) {
    return start(no_segment, {}, false, token);
  }

  /// Takes a segment if one is free. An empty hold, without an error, means that none is. Round trips: one.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire_any(Token&& token = {}) {
    return start(no_segment, {}, true, token);
  }

  /// The same, without the segments in `but`. If `but` names all of them it completes with errc::invalid_config.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire_any(std::vector<std::uint32_t> const& but, Token&& token = {}) {
    return start(but, {}, true, token);
  }

  /// As async_try_acquire_any, under the name that all kinds of locks have.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire(Token&& token = {}) {
    return start(no_segment, {}, true, token);
  }

  /// Takes over a hold of one segment that hold::async_detach has let go: the same segment. Otherwise as
  /// mutex::async_adopt.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_adopt(std::string detached, Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, hold)>(detail::initiate_adopt{{lock_.get()}}, token, lock_,
                                                               detail::permit_request{'g', segments_, 1},
                                                               std::move(detached));
  }

  /// @cond
  CONCH_DETAIL_MISTAKES_OF_ACQUIRE(async_acquire, hold)
  CONCH_DETAIL_MISTAKES_OF_TRY(async_try_acquire, async_acquire)
  CONCH_DETAIL_MISTAKES_OF_ACQUIRE(async_acquire_any, hold)
  CONCH_DETAIL_MISTAKES_OF_TRY(async_try_acquire_any, async_acquire_any)
  /// @endcond

 private:
  static inline std::vector<std::uint32_t> const no_segment{};

  CONCH_API detail::permit_request request(std::vector<std::uint32_t> const& but) const;

  template <class Token>
  auto start(std::vector<std::uint32_t> const& but, acquire_options const& options, bool once, Token& token) {
    return asio::async_initiate<Token, void(error_code, hold)>(detail::initiate_permit{{lock_.get()}}, token, lock_,
                                                               request(but), options, once);
  }

  std::uint32_t segments_;
};

/// The result of a body of with_any_segment.
enum class segment_verdict {
  done,        ///< this segment was enough
  not_enough,  ///< try another one
};

namespace detail {

/// with_lock for one visit: any segment but those that were visited. Its number is noted before the body runs.
struct next_segment {
  striped_mutex& of;
  std::vector<std::uint32_t>& visited;

  template <asio::completion_token_for<void(error_code, hold)> Token>
  auto async_acquire(acquire_options options, Token&& token) {
    return of.async_acquire_any(visited, options, std::forward<Token>(token));
  }
};

}  // namespace detail

/// Runs `body` under one segment after the other, until it returns segment_verdict::done.
///
/// `body` is called as `body(hold&)` and returns an asio::awaitable<segment_verdict>. After not_enough its segment is
/// released *before* another one is acquired: no caller holds two segments, so that none waits for another waiter. Each
/// segment is visited at most once, free ones before others.
///
/// Result: true if a body returned done; false if no segment was enough. An exception of a visit is passed on (see
/// with_lock). `options.wait` is for all visits together; if it is 0 or less each visit is one attempt.
/// Lifetimes: `body`, a named object, and the lock must outlive the awaitable.
/// Executor, cancellation: as with_lock.
/// Round trips: for each visit those of acquire and release.
template <class Body>
auto with_any_segment(striped_mutex& m, acquire_options options, Body& body) -> asio::awaitable<bool> {
  std::vector<std::uint32_t> visited;
  bool const at_once = options.wait && *options.wait <= duration::zero();  // each visit is then one attempt
  std::optional<time_point> until;
  if (options.wait && !at_once) until = detail::later_by(clock::now(), *options.wait);
  auto visit = [&visited, &body](hold& h) -> asio::awaitable<segment_verdict> {
    visited.push_back(h.segment());
    return body(h);
  };
  detail::next_segment next{m, visited};
  while (visited.size() < m.segments()) {
    acquire_options rest = options;
    constexpr duration least{1};  // 0 would be an attempt of its own
    if (until) rest.wait = std::max(*until - clock::now(), least);
    segment_verdict const verdict = co_await with_lock(next, rest, visit);
    if (verdict == segment_verdict::done) co_return true;
  }
  co_return false;
}

/// The same, and waits at each segment until it is granted.
template <class Body>
auto with_any_segment(striped_mutex& m, Body& body) {
  return with_any_segment(m, acquire_options{}, body);
}

}  // namespace conch
