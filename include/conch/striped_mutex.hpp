// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/mutex.hpp>
#include <conch/with_lock.hpp>

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace conch {

/// A lock that is split into segments, each held by one at a time: for a stock or a counter that is split the same way, so
/// that as many can work on it as there are segments.
///
/// Whoever asks gets any segment that is free; when all are taken, the first that becomes free, in the order of asking.
/// Each hold has its own lease, watchdog and fencing token; the tokens of one segment rise.
///
/// Objects of one name should agree on the number of segments. While any is held or waited for, that of whoever came first
/// counts; who is granted a segment beyond its own number gives it back, with errc::invalid_config. Copies are cheap.
/// Thread safety: as client. Over a quorum of servers: errc::not_supported.
class striped_mutex : public named_lock {
 public:
  /// `name`: 1 to 512 bytes of any value; another kind of lock of that name is the same key, and either finds
  /// errc::wrong_type while the other is in use. `segments`: 1 to 1'000.
  /// Throws boost::system::system_error: errc::invalid_name, errc::invalid_config.
  striped_mutex(client& owner, std::string name, std::uint32_t segments, lock_options options = {});

  std::uint32_t segments() const noexcept { return segments_; }

  /// Waits for a free segment, looking from a random one on.
  ///
  /// Effects: stands in the server's line, each acquire on its own.
  /// Result: a hold whose segment() says which one it is, or an error; never both, and never a segment left behind.
  /// Lifetimes, executor, cancellation, errors, thread safety: as mutex::async_acquire; errc::not_supported.
  /// Completion signature: void(error_code, hold)
  /// Round trips: one if a segment is free; else one and a push.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire_any(acquire_options options, Token&& token = {}) {
    return start(no_segment, options.wait, false, token);
  }

  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire_any(Token&& token = {}) {
    return start(no_segment, std::nullopt, false, token);
  }

  /// The same, but none of the segments `but` (1 to segments()). When these are all of them it completes with errc::invalid_config.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire_any(std::vector<std::uint32_t> const& but, acquire_options options, Token&& token = {}) {
    return start(but, options.wait, false, token);
  }

  /// What with_lock calls: as async_acquire_any.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(acquire_options options, Token&& token = {}) {
    return start(no_segment, options.wait, false, token);
  }

  /// Takes a segment if one is free. An empty hold means that none is: not an error. Round trips: one.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire_any(Token&& token = {}) {
    return start(no_segment, std::nullopt, true, token);
  }

  /// The same, but none of the segments `but`. When these are all of them it completes with errc::invalid_config.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire_any(std::vector<std::uint32_t> const& but, Token&& token = {}) {
    return start(but, std::nullopt, true, token);
  }

  /// As async_try_acquire_any, by the name that all kinds of locks have.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire(Token&& token = {}) {
    return start(no_segment, std::nullopt, true, token);
  }

 private:
  static inline std::vector<std::uint32_t> const no_segment{};

  detail::permit_request request(std::vector<std::uint32_t> const& but) const;

  template <class Token>
  auto start(std::vector<std::uint32_t> const& but, std::optional<duration> wait, bool once, Token& token) {
    return asio::async_initiate<Token, void(error_code, hold)>(detail::initiate_part{{lock_.get()}}, token, lock_, request(but), wait, once);
  }

  std::uint32_t segments_;
};

/// What the body of with_any_segment says in the end.
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

/// Runs `body` under one segment after the other, until it says that one was enough.
///
/// `body` is called as `body(hold&)` and returns an asio::awaitable<segment_verdict>. With not_enough its segment is
/// released *first*, and then another one acquired: nobody ever holds two, so nobody waits for somebody who waits. Each
/// segment is visited at most once, free ones before others.
///
/// Result: true if a body said done; false if all segments were too small. What each visit throws is thrown (see
/// with_lock); `options.wait` is for all visits together, and if it is 0 or less each of them is one attempt.
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

/// The same, and waits at each segment until granted.
template <class Body>
auto with_any_segment(striped_mutex& m, Body& body) {
  return with_any_segment(m, acquire_options{}, body);
}

}  // namespace conch
