// The life of the connections of a client of ZooKeeper in a test: the real one, to servers whose addresses are known,
// with a timer of the client's.
#pragma once

#include "base/duration_text.hpp"
#include "base/timer_queue.hpp"
#include "base/turns.hpp"
#include "engine/backend.hpp"
#include "net/lifecycle.hpp"
#include "servers/zookeeper/wire.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace conch::zookeeper {

class life_in_test final : net::role {
 public:
  class outside {
   public:
    // To the next server. Ends in connected() or failed().
    virtual void dial() = 0;
    // Unless that was lost.
    virtual void hang_up(std::string_view why) = 0;
    virtual std::string name() const = 0;
    virtual void note(log_line l) = 0;
    virtual wire_events& receiver() = 0;

   protected:
    ~outside() = default;
  };

  life_in_test(config const& settings, std::uint64_t seed, timer_queue& timers, outside& o)
      : timers_{timers},
        outside_{o},
        life_{settings, *this, seed, {.path = "a server"}},
        timer_{this, call<&life_in_test::due>} {}

  void want(time_point now) {
    (void)life_.want();
    due(now);
  }
  void connected(time_point now) {
    life_.connected(now);
    carry_out();
  }
  void failed(fault what, std::string_view why, time_point now) {
    life_.failed(what, why, now);
    carry_out();
    tell(now);
  }
  void drop(std::string_view why, ending how, time_point now) {
    if (how == ending::over) life_.begin_anew();
    life_.end(how == ending::refused ? fault::refused : fault::try_later, why, now, how == ending::silent);
    has_ended_ = false;  // the session knows
    carry_out();
  }
  void in_use(time_point now) {
    life_.up({}, false, now);
    carry_out();
  }
  std::string unfinished_attempt() const { return life_.unfinished_attempt(); }

 private:
  void due(time_point now) {
    life_.due(now);
    carry_out();
    tell(now);
  }
  /// Behind what is carried out.
  void tell(time_point now) {
    if (std::exchange(has_ended_, false)) outside_.receiver().disconnected(what_, why_, now);
  }
  void carry_out() {
    net::steps const todo = life_.take();
    if (todo.close) outside_.hang_up(why_);
    for (log_line const& one : life_.take_log()) outside_.note(one);
    if (todo.sleep && todo.until == time_point::max()) timer_.cancel();
    else if (todo.sleep)
      timers_.arm(timer_, life_.state() == net::connection_state::pausing ? in_next_turn(todo.until) : todo.until);
    if (todo.connect) outside_.dial();
  }

  // net::role
  std::string shown() const override { return outside_.name(); }
  void greet(time_point now) override { outside_.receiver().connected(now); }
  std::string silence(duration time, bool) const override { return "no answer for " + ms_text(time); }
  retry ended(end const& e, time_point) override {
    has_ended_ = true;
    what_ = e.what;
    why_ = e.why;
    return {};
  }

  timer_queue& timers_;
  outside& outside_;
  net::lifecycle life_;
  timer timer_;
  bool has_ended_ = false;
  fault what_ = fault::none;
  std::string why_;
};

}  // namespace conch::zookeeper
