// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>
#include <conch/error.hpp>

#include <cstdint>
#include <string_view>

namespace conch {
/// The kinds of locks; the values are letters of the protocol.
enum class lock_kind : char {
  mutex = 0,
  semaphore = 's',
  shared_mutex = 'r',
  striped_mutex = 'g',
  reentrant_mutex = 'e'
};

/// How a grant came.
enum class grant_path : std::uint8_t {
  answered,    ///< in the answer to the request: the lock was free, or the hold was adopted
  pushed,      ///< handed over by the server, from another client
  handed_off,  ///< by another coroutine of this client, without a message
};

/// Why the request for a lock was sent again.
enum class retry_reason : std::uint8_t {
  reconnected,       ///< on a new connection, with the old place in the queue
  safety_check,      ///< no message for a lease; once per lease and waiting client, and not a sign of trouble
  server_busy,       ///< the server had answered "later", or the request had come too late
  push_doubted,      ///< a push that is asked about: late, doubtful, for a missed turn, or config::verify_pushes
  grant_late,        ///< the grant had come too late to be of use, and was given back
  replicas_missing,  ///< config::sync_replicas: too few had the grant, and it was given back
  votes_given_back,  ///< several servers: the votes were too few, and were passed on
};

/// One acquire, and the hold that it becomes, at the moment of an event.
struct lock_event {
  std::string_view name;      ///< of the lock; any bytes; valid during the call
  lock_kind kind{};           ///< a reentrant_shared_mutex is a shared_mutex
  bool shared = false;        ///< others may have the lock at the same time: a reader, a part of a semaphore, a segment
  std::uint64_t acquire = 0;  ///< the same in all events of one acquire; used again after its last event
  std::int64_t fence = 0;     ///< the fencing token; 0 before the grant
  time_point at{};            ///< when it happened, which is earlier than the call
  std::string_view note{};    ///< acquire_options::note; valid during the call
};

/// Is notified of each acquire and each hold of a client (config::observer): for traces, or figures of your own. Derive
/// from it and override what is of interest; each function does nothing by itself.
///
/// Each acquire and try that the arguments do not make fail has this sequence: waiting; any number of queued and
/// retried; then granted or not_granted. After granted come any number of endangered and safe_again in turn, then
/// exactly one of released, lost and detached. Each lock of a multi_lock has these events, also those that it takes and
/// gives back before it has all. The levels of a reentrant lock share the events of one hold, and so do the coroutines
/// of a client that hand a mutex on: they share one place in the queue, so there is one `queued`.
///
/// Executor: the client's. Each call is made from a handler that the client posts there: never from within a function
/// of conch, never under a lock of conch's or of its caller's. A function that blocks keeps its thread from all else
/// that runs there, also from renewals.
/// Order: the calls of one client come one after the other, in the order in which it happened. They may come from
/// different threads, each seeing what the ones before have written. Whether the handler of the operation runs before
/// or after the call is not promised. An observer that several clients share is called from several threads at once.
/// Exceptions: an exception is caught and written to the log (config::log), as an error; the locks and later calls are
/// not affected.
/// Lifetimes: the client keeps the observer until its last operation and its last hold have ended. So an observer must
/// not own the client, a lock or a hold. It may call them, also to close the client. When the io_context is destroyed,
/// or never runs again, the events that have not been delivered are dropped.
/// Cost: without an observer one branch per event. With one a copy of the name, and for all events that come together
/// one posted handler.
class observer {
 public:
  observer() = default;
  observer(observer const&) = delete;
  observer& operator=(observer const&) = delete;
  virtual ~observer() = default;

  /// The acquire has begun.
  virtual void on_waiting(lock_event const&) {}
  /// The server has queued the client. Over several servers: enough of them have queued it that the other votes cannot
  /// be a majority.
  virtual void on_queued(lock_event const&) {}
  virtual void on_retried(lock_event const&, retry_reason) {}  ///< It asks once more, and why.
  /// `waited`: since the acquire began.
  virtual void on_granted(lock_event const&, grant_path, duration /*waited*/) {}
  /// The error of the acquire; none: a try found the lock taken.
  virtual void on_not_granted(lock_event const&, error_code, duration /*waited*/) {}
  /// A renewal is late: the loss is reported in `left` unless one succeeds (hold::async_endangered).
  virtual void on_endangered(lock_event const&, duration /*left*/) {}
  virtual void on_safe_again(lock_event const&) {}  ///< One has succeeded.
  /// The hold was released, by a call or by its destructor. The server may learn of it later.
  virtual void on_released(lock_event const&, duration /*held*/) {}
  /// errc::lost, or errc::closed when the client was closed over it.
  virtual void on_lost(lock_event const&, error_code, duration /*held*/) {}
  /// hold::async_detach was called: another client may take the hold over. If that fails, the hold is released.
  virtual void on_detached(lock_event const&, duration /*held*/) {}
};

}  // namespace conch
