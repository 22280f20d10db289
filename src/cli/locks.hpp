// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/options.hpp"

#include <conch/client.hpp>
#include <conch/hold.hpp>
#include <conch/multi_lock.hpp>
#include <conch/named_lock.hpp>

#include <boost/asio/cancellation_signal.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

// The locks of `conch run`, of whatever kind.
namespace conch::cli {

/// What was granted: one hold, or those of several mutexes.
class held_locks {
 public:
  held_locks() = default;
  explicit held_locks(hold one) : one_{std::move(one)} {}
  explicit held_locks(multi_hold several) : several_{std::move(several)}, is_several_{true} {}

  bool valid() const { return is_several_ ? several_.valid() : one_.valid(); }
  time_point deadline() const { return is_several_ ? several_.deadline() : one_.deadline(); }
  std::int64_t fence(std::string const& name) const { return is_several_ ? several_.fence(name) : one_.fence(); }
  std::uint32_t segment() const { return is_several_ ? 0 : one_.segment(); }

  void when_lost(std::function<void(error_code)> told) const;
  void release(std::function<void(error_code, bool)> done);

 private:
  hold one_;
  multi_hold several_;
  bool is_several_ = false;
};

/// The locks that the arguments name. All functions complete on the client's executor, never inside the call.
class wanted_locks {
 public:
  /// Throws boost::system::system_error.
  wanted_locks(client& through, arguments const& given);
  ~wanted_locks();

  /// An empty failure means that the locks are held.
  void acquire(std::function<void(error_code, held_locks)> done, asio::cancellation_slot stop);

  /// Asks the server whether this client holds the locks with these fences. Where it cannot be asked, the hold decides.
  void check(held_locks const& held, std::function<void(bool)> done);

 private:
  struct lock;
  client& client_;
  arguments const& given_;
  std::vector<std::unique_ptr<lock>> locks_;
};

}  // namespace conch::cli
