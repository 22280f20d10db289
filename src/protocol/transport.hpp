// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/server.hpp"

#include <conch/config.hpp>

#include <memory>
#include <mutex>
#include <utility>

namespace conch {

/// A mutex, unless the settings say that one thread does everything.
class optional_mutex {
 public:
  explicit optional_mutex(bool needed) noexcept : needed_{needed} {}
  void lock() { if (needed_) mutex_.lock(); }
  void unlock() { if (needed_) mutex_.unlock(); }

 private:
  std::mutex mutex_;
  bool const needed_;
};

/// What a transport sees of its client: a way to give the engine an input.
class host {
 public:
  /// Runs f(engine::server&, time_point now) with the engine locked, then carries out what came of it. Not to be called
  /// from within itself.
  template <class F>
  void enter(F&& f) {
    struct call final : input {
      explicit call(F& g) : function{g} {}
      void apply(engine::server& s, time_point now) override { function(s, now); }
      F& function;
    } c{f};
    enter_with(c);
  }

  /// The same, from a handler of the event loop. Where one thread does everything it also calls the handlers that this
  /// completes, and what they throw comes out of it; otherwise they wait for a turn of the event loop.
  template <class F>
  void enter_and_complete(F&& f) {
    begin_turn();
    try {
      enter(std::forward<F>(f));
    } catch (...) {
      leave_turn();
      throw;
    }
    end_turn();
  }

  /// Keeps the client's core, and with it the transport, alive.
  virtual std::shared_ptr<void> keep() = 0;
  virtual void log(log_level level, std::string_view words) = 0;

 protected:
  struct input {
    virtual void apply(engine::server& s, time_point now) = 0;

   protected:
    ~input() = default;
  };
  virtual void enter_with(input& i) = 0;
  virtual void begin_turn() = 0;
  virtual void end_turn() = 0;
  virtual void leave_turn() = 0;
  ~host() = default;
};

/// The way to one server. The functions of engine::wire are called with the engine locked.
class transport : public engine::wire {
 public:
  virtual ~transport() = default;
  /// Ends the connection, for good. From any thread.
  virtual void shut_down() = 0;
};

}  // namespace conch
