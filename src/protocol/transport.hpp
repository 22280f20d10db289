// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <memory>
#include <string_view>
#include <utility>

namespace conch {

/// What a transport knows of its client: how to give the engine an input.
class host {
 public:
  /// What happens to a client. The messages that one read has brought are one input.
  class input {
   public:
    /// With the engine locked.
    virtual void apply(time_point now) = 0;
    /// What is to be done afterwards, with nothing locked. Also if a user's handler has thrown.
    virtual void carry_out() {}

   protected:
    ~input() = default;
  };

  /// From a handler of the event loop: applies the input, carries out the engine's outputs, and then the input's. A
  /// `single_threaded` client also calls the handlers that this completes, before the last, and what they throw comes
  /// out of it. Otherwise the handlers wait for a turn of the event loop. Must not be called from within itself.
  virtual void run(input&& i) = 0;
  /// run() of f(time_point now).
  template <class F>
  void give(F&& f) {
    run(function_input<F>{f});
  }

  /// Runs f(time_point now) with the engine locked, then carries out the outputs: what completes waits for a turn of
  /// the event loop.
  template <class F>
  void enter(F&& f) {
    function_input<F> i{f};
    enter_with(i);
  }

  /// Keeps the client's core, and with it the transport, alive.
  virtual std::shared_ptr<void> keep() = 0;
  virtual void log(log_level level, std::string_view words) = 0;

 protected:
  virtual void enter_with(input& i) = 0;
  ~host() = default;

 private:
  template <class F>
  struct function_input final : input {
    explicit function_input(F& g) : function{g} {}
    void apply(time_point now) override { function(now); }
    F& function;
  };
};

/// What a client owns for the connections to its servers, in any protocol.
class server_connection {
 public:
  virtual ~server_connection() = default;
  /// Adds what it has counted. With the engine locked.
  virtual void report(statistics&) const noexcept {}
  /// Ends the connection, for good. From any thread.
  virtual void shut_down() = 0;
};

/// The transport to one server that keeps locks as Redis does. The client calls the functions of protocol::wire with
/// the engine locked. The transport calls those of its protocol::wire_events with the engine locked too: from within
/// host::run or host::enter.
class transport : public protocol::wire, public server_connection {
 public:
  /// Sets the receiver of the wire events. Call it once, before the first command.
  virtual void report_to(protocol::wire_events& e) noexcept { events_ = &e; }

 protected:
  protocol::wire_events& events() const noexcept { return *events_; }

 private:
  protocol::wire_events* events_ = nullptr;
};

}  // namespace conch
