// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/introduction.hpp"
#include "client/completion.hpp"
#include "client/core.hpp"
#include "client/questions.hpp"

#include <boost/asio/error.hpp>

#include <memory>
#include <utility>

// async_why, and the end of a deadlock: who waits for whom.
namespace conch::detail {

namespace {

/// A walk, from the first question to the last.
class walker final : public questions {
 public:
  walker(settings_ptr lock, walk_handler handler)
      : questions{std::move(lock)},
        handler_{std::move(handler)},
        walk_{lock_->name} {}

  template <class Handler>
  void begin_for(Handler const& handler) {
    obey(handler);
    ask_next();
  }
  void ask_next() {
    using of = engine::wait_walk::question::of;
    ask(walk_.next()->what == of::lock ? kind::inspect : kind::identify, walk_.next()->name);
  }

 private:
  void answered(client_request const& q, asio::any_io_executor const& io) override {
    if (q.why) return handler_(q.why, walk_, io);
    if (q.what == kind::inspect) walk_.answer(*q.result.status);
    else walk_.answer(read_introduction(q.result.identity));
    if (is_cancelled()) return handler_(asio::error::operation_aborted, walk_, io);
    if (walk_.next()) return ask_next();
    handler_({}, walk_, io);
  }
  void drop() override { handler_ = nullptr; }

  walk_handler handler_;
  engine::wait_walk walk_;  // one question at a time
};

wait_chain::ending to_public(engine::wait_walk::ending how) {
  using enum engine::wait_walk::ending;
  switch (how) {
    case free: return wait_chain::ending::free;
    case works: return wait_chain::ending::works;
    case unknown: return wait_chain::ending::unknown;
    case several: return wait_chain::ending::several;
    case deadlock: return wait_chain::ending::deadlock;
  }
  return wait_chain::ending::unknown;
}

/// An async_why that has not completed.
struct waiting_why {
  why_handler handler;
  asio::any_completion_executor runs_on;  // keeps the handler's context at work
};

}  // namespace

wait_chain to_chain(engine::wait_walk const& walk) {
  wait_chain all;
  for (engine::wait_link const& one : walk.links()) {
    all.links.push_back({.lock = one.lock});
    if (one.client.empty()) continue;
    lock_holder& h = all.links.back().holder;
    h = holder_of(one.holder);
    h.label = one.label;
    h.note = one.note;
  }
  all.how = to_public(walk.how());
  all.circle = walk.circle();
  return all;
}

void start_walk(settings_ptr lock, walk_handler handler) {
  std::make_shared<walker>(std::move(lock), std::move(handler))->ask_next();
}

void start_why(settings_ptr lock, why_handler handler) {
  client_core& core = *lock->core;
  engine::capabilities const offered = core.offers();
  if (!offered.wait_chains) {
    post_at_once(core.failures_run_on(), std::move(handler), engine::not_offered(offered, "async_why"), wait_chain{});
    return;
  }
  auto runs_on = work_of(core.executor(), handler);
  auto const waiting = std::make_shared<waiting_why>(waiting_why{std::move(handler), std::move(runs_on)});
  auto walked = [waiting](error_code why, engine::wait_walk const& walk, asio::any_io_executor const& io) {
    why_handler to{std::move(waiting->handler)};
    post_completion(io, std::exchange(waiting->runs_on, {}), std::move(to), why, why ? wait_chain{} : to_chain(walk));
  };
  auto const walk = std::make_shared<walker>(std::move(lock), std::move(walked));
  walk->begin_for(waiting->handler);
}

}  // namespace conch::detail
