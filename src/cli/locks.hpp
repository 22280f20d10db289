// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/options.hpp"

#include <conch/clock.hpp>
#include <conch/error.hpp>

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

// The locks of `conch run`, of whatever kind.
namespace conch::cli {

namespace asio = boost::asio;

/// What `conch run` asks of the library, and what the library reports to it. All functions complete on the io_context,
/// never inside the call.
class run_locks {
 public:
  virtual ~run_locks() = default;

  /// All of the locks, or an error. errc::timed_out: a server has reported that one of them is not free. Any other: it
  /// is unknown whether it is. After a loss it can be called again; the time to wait goes on.
  virtual void acquire(std::function<void(error_code)> done) = 0;
  virtual void stop_waiting() = 0;
  /// After errc::timed_out: the holder of one of the locks that were not free. Empty: it is not known.
  virtual std::string held_by() const { return {}; }
  /// That of the acquire: a `conch run` in the job is part of it.
  virtual std::string task() const { return {}; }
  /// Called before acquire(). `callback`: once, when the server has granted one, and too few of its replicas have it.
  virtual void when_short_of_replicas(std::function<void()> callback) = 0;
  /// Called before acquire(). `callback`: each time when one of the locks is endangered, with the time until its loss;
  /// and without one when all are safe again.
  virtual void when_endangered(std::function<void(std::optional<duration>)> callback) = 0;

  /// Whether everything is still held, and until when.
  virtual bool valid() const = 0;
  virtual time_point deadline() const = 0;
  /// How long one renewal keeps them.
  virtual duration lease() const = 0;
  virtual std::int64_t fence(std::string const& name) const = 0;
  virtual std::uint32_t segment() const = 0;  // 0: the lock has none

  /// operation_aborted: it was released, or dropped.
  virtual void when_lost(std::function<void(error_code)> callback) = 0;
  /// Without an error when deadline() is later than `known`, perhaps already. With one when it will never be.
  virtual void when_renewed(time_point known, std::function<void(error_code)> callback) = 0;
  /// Asks the server whether this client holds the locks with these fences. Where it cannot be asked, the hold decides.
  virtual void check(std::function<void(bool)> done) = 0;
  virtual void release(std::function<void(error_code, bool)> done) = 0;
  /// Nothing is held any more, and no answer is awaited.
  virtual void drop() = 0;
  /// What is still on its way to the server gets a moment.
  virtual void close(std::function<void()> done) = 0;
};

struct library_locks {
  std::unique_ptr<run_locks> locks;
  duration grace;  // between TERM and KILL
};

/// Those that the arguments name, by the library. Throws boost::system::system_error.
library_locks locks_of(asio::io_context& context, arguments const& given, connection const& servers);

}  // namespace conch::cli
