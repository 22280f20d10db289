// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/client_close.hpp"

#include "client/completion.hpp"

#include <utility>

namespace conch::detail {

namespace {

error_code closed_too_early() {
  return make_whole_error_code(
      errc::timed_out, "timed out closing the client: some locks are not given back yet, and end with their lease");
}

}  // namespace

void close_call::complete(asio::any_io_executor const& io, error_code why, bool) {
  post_completion(io, std::exchange(runs_on, {}), close_handler{std::move(handler)}, why);
}

client_close::client_close(config const& settings, timer_queue& timers, engine::cohort& cohort,
                           servers::deployment& servers, completions& results, std::function<void()> at_the_end)
    : timers_{timers},
      cohort_{cohort},
      servers_{servers},
      results_{results},
      at_the_end_{std::move(at_the_end)},
      rule_{settings.command_timeout},
      timer_{this, call<&client_close::due>} {}

void client_close::begin(time_point now, duration drain_for, std::shared_ptr<close_call> call) {
  call_ = std::move(call);
  time_point const until = rule_.begin(now, drain_for);
  cohort_.close(now);
  servers_.backend->prepare_close(now);
  if (until > now) {
    timers_.arm(timer_, until);
  } else {
    due(now);
  }
}

void client_close::settle() {
  // settled() is cheap and comes first: idle() looks at every lock.
  if (rule_.under_way() && servers_.backend->settled() && cohort_.idle()) end({});
}

void client_close::due(time_point now) {
  switch (rule_.due(servers_.backend->progress(), cohort_.ending())) {
    case close_rule::action::none: return;
    case close_rule::action::give_back: cohort_.give_back_everything(now); break;
    case close_rule::action::late: report(what_is_left()); break;
    case close_rule::action::give_up: end(what_is_left()); return;
  }
  timers_.arm(timer_, rule_.next_look(now));
}

/// No error, if all that is left is the server's confirmation that it has forgotten what the client told about itself.
error_code client_close::what_is_left() const {
  statistics now;
  servers_.backend->report(now);
  return now.cleanups_pending == 0 && cohort_.idle() ? error_code{} : closed_too_early();
}

void client_close::report(error_code why) {
  if (call_) results_.call(std::exchange(call_, nullptr), {}, why);  // after the waiters that it ended
}

void client_close::end(error_code why) {
  rule_.complete();
  timer_.cancel();
  servers_.backend->closed();
  for (auto const& one : servers_.connections) one->shut_down();
  at_the_end_();
  report(why);
}

void client_close::drop() {
  if (auto const dropped = std::exchange(call_, nullptr)) dropped->drop();
}

}  // namespace conch::detail
