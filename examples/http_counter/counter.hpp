#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <conch/with_lock.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "value_store.hpp"

namespace http_counter {

/// The counter could not be changed or read.
struct counter_error : std::runtime_error {
  enum class cause { busy, unreachable, damaged };

  counter_error(cause c, bool changed, std::string const& text)
      : std::runtime_error(text),
        why(c),
        maybe_changed(changed) {}

  cause why;
  bool maybe_changed;  ///< The write was under way: it may have happened.
};

/// A number in Redis or in a PostgreSQL table. An increment is a read and a write, between which other processes may
/// write, too. The lock makes the two one step.
class counter {
 public:
  /// `wait`: how long a change may wait for the lock.
  counter(conch::client& locks, value_store& values, std::string const& name, std::chrono::milliseconds wait);

  struct change {
    std::int64_t value = 0;
    std::int64_t fence = 0;  ///< of the hold under which it was made; 0 without the lock
  };

  /// Adds one. All of these functions end in bounded time and throw `counter_error`.
  boost::asio::awaitable<change> increment(bool locked);
  boost::asio::awaitable<std::int64_t> read();
  boost::asio::awaitable<void> reset(bool locked);

 private:
  boost::asio::awaitable<std::int64_t> increment_under(conch::hold& hold, bool& writing);
  boost::asio::awaitable<std::int64_t> read_value();

  value_store& values_;
  conch::mutex lock_;
  conch::acquire_options wait_;
  std::string key_;
};

}  // namespace http_counter
