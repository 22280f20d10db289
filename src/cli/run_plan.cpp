// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/run_plan.hpp"

#include <algorithm>

namespace conch::cli {

using kind = run_plan::order::kind;

run_plan::orders run_plan::granted() {
  if (state_ != run_state::waiting) return {};
  if (wishes_ > 0) return finish();  // the grant has overtaken the signal: nothing is started any more
  return {{kind::start}};
}

run_plan::orders run_plan::lost_claim() {
  if (state_ != run_state::waiting) return {};
  return wishes_ > 0 ? not_granted(code_) : orders{{kind::ask_again}};
}

run_plan::orders run_plan::not_granted(int code) {
  if (state_ != run_state::waiting) return {};
  if (wishes_ == 0) code_ = code;
  state_ = run_state::over;
  return {{kind::leave}};
}

run_plan::orders run_plan::started() {
  state_ = run_state::running;
  return {};
}

run_plan::orders run_plan::cannot_start(int code) {
  code_ = code;
  return finish();
}

run_plan::orders run_plan::signalled(int signal, bool ends, time_point now) {
  if (ends) ++wishes_;
  switch (state_) {
    case run_state::waiting:
      if (!ends || wishes_ > 1) return {};
      code_ = n_.of_signal + signal;
      return {{kind::stop_waiting}};
    case run_state::running:
    case run_state::suspended:
    case run_state::checking: {
      orders all{{kind::signal_group, signal}};
      if (!ends || wishes_ < 2) return all;
      orders const rest = terminate(detail::later_by(now, grace_));
      all.insert(all.end(), rest.begin(), rest.end());
      return all;
    }
    case run_state::ending:
      if (!ends || wishes_ < 3) return {{kind::signal_group, signal}};
      return grace_over();
    case run_state::killed:
    case run_state::releasing:
    case run_state::over: return {};
  }
  return {};
}

/// A stopped process takes no TERM: it gets CONT too, which is fine as long as the lock is held.
run_plan::orders run_plan::terminate(time_point until) {
  bool const stopped = state_ == run_state::suspended || state_ == run_state::checking;
  state_ = run_state::ending;
  orders all{{kind::signal_group, n_.term}};
  if (stopped) all.push_back({kind::signal_group, n_.cont});
  all.push_back({kind::kill_at, 0, until});
  return all;
}

run_plan::orders run_plan::child_suspended() {
  if (state_ != run_state::running) return {};
  state_ = run_state::suspended;
  return {{kind::suspend}};
}

run_plan::orders run_plan::resumed() {
  if (state_ == run_state::suspended) state_ = run_state::checking;
  return state_ == run_state::checking ? orders{{kind::check}} : orders{};
}

run_plan::orders run_plan::checked(bool held) {
  if (state_ != run_state::checking) return {};
  if (held) return run_on();
  lost_ = true;
  return grace_over();  // it was stopped, and must do nothing any more
}

run_plan::orders run_plan::run_on() {
  state_ = run_state::running;
  return {{kind::signal_group, n_.cont}};
}

run_plan::orders run_plan::endangered() {
  bool const runs = state_ == run_state::running || state_ == run_state::suspended || state_ == run_state::checking;
  return runs && n_.warn != 0 ? orders{{kind::signal_group, n_.warn}} : orders{};
}

run_plan::orders run_plan::lost_at(time_point now, time_point until) {
  switch (state_) {
    case run_state::running: lost_ = true; return terminate(std::clamp(until, now, detail::later_by(now, grace_)));
    case run_state::suspended:
    case run_state::checking: lost_ = true; return grace_over();
    case run_state::ending:
      // It has got TERM already. What had time for its grace has only until then now.
      lost_ = true;
      return {{kind::kill_at, 0, std::clamp(until, now, detail::later_by(now, grace_))}};
    case run_state::killed: lost_ = true; return {};
    case run_state::waiting:
    case run_state::releasing:
    case run_state::over: return {};
  }
  return {};
}

run_plan::orders run_plan::grace_over() {
  if (state_ == run_state::waiting || state_ == run_state::releasing || state_ == run_state::over) return {};
  state_ = run_state::killed;
  return {{kind::signal_group, n_.kill}};
}

run_plan::orders run_plan::child_ended(int code, bool others, bool held, time_point now) {
  if (child_gone_ || state_ == run_state::over || state_ == run_state::releasing) return {};
  child_gone_ = true;
  code_ = code;
  if (!held) lost_ = true;
  if (!others) return finish();
  if (state_ == run_state::ending || state_ == run_state::killed) return {};
  return held ? terminate(detail::later_by(now, grace_)) : grace_over();
}

run_plan::orders run_plan::group_gone() {
  if (!child_gone_ || state_ == run_state::releasing || state_ == run_state::over) return {};
  return finish();
}

run_plan::orders run_plan::finish() {
  state_ = lost_ ? run_state::over : run_state::releasing;
  return {{lost_ ? kind::leave : kind::release}};
}

run_plan::orders run_plan::released() {
  if (state_ != run_state::releasing) return {};
  state_ = run_state::over;
  return {{kind::leave}};
}

}  // namespace conch::cli
