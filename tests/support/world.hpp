#pragma once

// Coroutines of a test on an io_context, with a bound on their time. The bodies are in world.cpp: what is behind
// co_spawn is then compiled once, and not for each coroutine of each test.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace conch::test {

/// Refers to a function object without arguments that says whether something is reached, and must outlive this.
class condition_ref {
 public:
  template <class Reached>
  explicit condition_ref(Reached const& reached)
      : object_{std::addressof(reached)},
        call_{[](void const* object) { return static_cast<bool>((*static_cast<Reached const*>(object))()); }} {}

  bool operator()() const { return call_(object_); }

 private:
  void const* object_;
  bool (*call_)(void const*);
};

/// An io_context, and coroutines that must end in time.
class world {
 public:
  boost::asio::io_context ctx;

  template <class Body>
  void run(Body const& body, std::chrono::milliseconds bound = std::chrono::seconds{30}) {
    run_coroutine(body(), bound);
  }

  /// Starts it; run_until then lets it go on.
  template <class Body>
  void start(Body const& body, std::chrono::milliseconds bound = std::chrono::seconds{30}) {
    start_coroutine(body(), bound);
  }

  /// Lets the context run until `reached()`; a failure when that takes too long.
  template <class Reached>
  void run_until(Reached const& reached, std::string const& what,
                 std::chrono::milliseconds bound = std::chrono::seconds{30}) {
    run_until_condition(condition_ref{reached}, what, bound);
  }

 private:
  struct state {
    bool done = false;
    std::exception_ptr error;
  };

  void run_coroutine(boost::asio::awaitable<void> body, std::chrono::milliseconds bound);
  void start_coroutine(boost::asio::awaitable<void> body, std::chrono::milliseconds bound);
  void run_until_condition(condition_ref reached, std::string const& what, std::chrono::milliseconds bound);
  bool wait();

  std::shared_ptr<state> state_;
  std::chrono::steady_clock::time_point until_;
};

boost::asio::awaitable<void> pause_for(std::chrono::nanoseconds d);

boost::asio::awaitable<void> until_condition(condition_ref reached, std::string what, std::chrono::milliseconds bound);

/// Waits for an event that can only be looked at. `reached` must be a named object.
template <class Reached>
boost::asio::awaitable<void> until(Reached const& reached, std::string what,
                                   std::chrono::milliseconds bound = std::chrono::seconds{15}) {
  return until_condition(condition_ref{reached}, std::move(what), bound);
}

}  // namespace conch::test
