// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <boost/asio/execution_context.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace conch::simulated {

class server;

/// What the simulated servers have of their world: time, chance, and a log.
class surroundings {
 public:
  /// The world of this thread. Null: it has none.
  static surroundings* here() noexcept { return of_thread; }

  /// Calls f() after that time, from the world's loop: not from a handler of a process.
  virtual void later(duration delay, std::function<void()> f) = 0;
  /// Microseconds since 1970.
  virtual std::int64_t clock_us() const = 0;
  /// A number below n, from the seed.
  virtual std::uint64_t below(std::uint64_t n) = 0;
  virtual std::string process_of(boost::asio::execution_context& context) const = 0;
  virtual bool notes() const noexcept = 0;
  virtual void note(std::string_view who, std::string words) = 0;
  /// The server has granted a lock that has one owner. `token`: the least fencing token of that grant.
  virtual void granted(std::string_view lock, std::int64_t token) = 0;
  /// The server of that name, which is made when it is first asked for.
  virtual server& server_named(std::string_view name) = 0;

 protected:
  ~surroundings() = default;

 private:
  friend void enter(surroundings* world);

  static inline constinit thread_local surroundings* of_thread = nullptr;
};

/// The world of this thread from now on; null: it has none any more. While it has one, all URLs lead to servers of it.
void enter(surroundings* world);

}  // namespace conch::simulated
