// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/run_plan.hpp"

#include <algorithm>

namespace conch::cli {

using kind = run_plan::order::kind;

run_plan::orders run_plan::granted() {
  if (at_ != state::waiting) return {};
  if (wishes_ > 0) return finish();  // the grant has overtaken the signal: nothing is started any more
  return {{kind::start}};
}

run_plan::orders run_plan::not_granted(int code) {
  if (at_ != state::waiting) return {};
  if (wishes_ == 0) code_ = code;
  at_ = state::over;
  return {{kind::leave}};
}

run_plan::orders run_plan::started() {
  at_ = state::running;
  return {};
}

run_plan::orders run_plan::cannot_start(int code) {
  code_ = code;
  return finish();
}

run_plan::orders run_plan::signalled(int signal, bool ends, time_point now) {
  if (ends) ++wishes_;
  switch (at_) {
    case state::waiting:
      if (!ends || wishes_ > 1) return {};
      code_ = n_.of_signal + signal;
      return {{kind::stop_waiting}};
    case state::running:
    case state::suspended:
    case state::checking: {
      orders all{{kind::signal_group, signal}};
      if (!ends || wishes_ < 2) return all;
      orders const rest = terminate(detail::later_by(now, grace_));
      all.insert(all.end(), rest.begin(), rest.end());
      return all;
    }
    case state::ending:
      if (!ends || wishes_ < 3) return {{kind::signal_group, signal}};
      return grace_over();
    case state::killed:
    case state::releasing:
    case state::over: return {};
  }
  return {};
}

/// A stopped process takes no TERM: it gets CONT too, which is fine as long as the lock is held.
run_plan::orders run_plan::terminate(time_point until) {
  bool const stopped = at_ == state::suspended || at_ == state::checking;
  at_ = state::ending;
  orders all{{kind::signal_group, n_.term}};
  if (stopped) all.push_back({kind::signal_group, n_.cont});
  all.push_back({kind::kill_at, 0, until});
  return all;
}

run_plan::orders run_plan::child_suspended() {
  if (at_ != state::running) return {};
  at_ = state::suspended;
  return {{kind::suspend}};
}

run_plan::orders run_plan::resumed() {
  if (at_ == state::suspended) at_ = state::checking;
  return at_ == state::checking ? orders{{kind::check}} : orders{};
}

run_plan::orders run_plan::checked(bool held) {
  if (at_ != state::checking) return {};
  if (held) return run_on();
  lost_ = true;
  return grace_over();  // it was stopped, and must do nothing any more
}

run_plan::orders run_plan::run_on() {
  at_ = state::running;
  return {{kind::signal_group, n_.cont}};
}

run_plan::orders run_plan::lost_at(time_point now, time_point until) {
  switch (at_) {
    case state::running: lost_ = true; return terminate(std::clamp(until, now, detail::later_by(now, grace_)));
    case state::suspended:
    case state::checking: lost_ = true; return grace_over();
    case state::ending:
      // It has got TERM already. What had time for its grace has only until then now.
      lost_ = true;
      return {{kind::kill_at, 0, std::clamp(until, now, detail::later_by(now, grace_))}};
    case state::killed: lost_ = true; return {};
    case state::waiting:
    case state::releasing:
    case state::over: return {};
  }
  return {};
}

run_plan::orders run_plan::grace_over() {
  if (at_ == state::waiting || at_ == state::releasing || at_ == state::over) return {};
  at_ = state::killed;
  return {{kind::signal_group, n_.kill}};
}

run_plan::orders run_plan::child_ended(int code, bool others, bool held, time_point now) {
  if (child_gone_ || at_ == state::over || at_ == state::releasing) return {};
  child_gone_ = true;
  code_ = code;
  if (!held) lost_ = true;
  if (!others) return finish();
  if (at_ == state::ending || at_ == state::killed) return {};
  return held ? terminate(detail::later_by(now, grace_)) : grace_over();
}

run_plan::orders run_plan::group_gone() {
  if (!child_gone_ || at_ == state::releasing || at_ == state::over) return {};
  return finish();
}

run_plan::orders run_plan::finish() {
  at_ = lost_ ? state::over : state::releasing;
  return {{lost_ ? kind::leave : kind::release}};
}

run_plan::orders run_plan::released() {
  if (at_ != state::releasing) return {};
  at_ = state::over;
  return {{kind::leave}};
}

}  // namespace conch::cli
