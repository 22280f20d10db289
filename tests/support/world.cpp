#include "support/world.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <stdexcept>
#include <utility>

namespace conch::test {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

void world::run_coroutine(asio::awaitable<void> body, std::chrono::milliseconds bound) {
  start_coroutine(std::move(body), bound);
  if (!wait()) throw std::runtime_error{"not done within " + std::to_string(bound.count()) + " ms"};
  if (state_->error) std::rethrow_exception(state_->error);
}

void world::start_coroutine(asio::awaitable<void> body, std::chrono::milliseconds bound) {
  state_ = std::make_shared<state>();
  until_ = steady::now() + bound;
  asio::co_spawn(ctx, std::move(body), [s = state_](std::exception_ptr e) {
    s->error = e;
    s->done = true;
  });
}

void world::run_until_condition(condition_ref reached, std::string const& what, std::chrono::milliseconds bound) {
  auto const until = steady::now() + bound;
  while (!reached()) {
    if (steady::now() > until) throw std::runtime_error{"never seen: " + what};
    ctx.restart();
    ctx.run_one_for(2ms);
  }
}

bool world::wait() {
  while (!state_->done && steady::now() < until_) {
    ctx.restart();
    ctx.run_one_until(until_);
  }
  return state_->done;
}

asio::awaitable<void> pause_for(std::chrono::nanoseconds d) {
  asio::steady_timer timer{co_await asio::this_coro::executor, d};
  co_await timer.async_wait(asio::use_awaitable);
}

asio::awaitable<void> until_condition(condition_ref reached, std::string what, std::chrono::milliseconds bound) {
  auto const end = steady::now() + bound;
  while (!reached()) {
    if (steady::now() > end) throw std::runtime_error{"never seen: " + what};
    co_await pause_for(2ms);
  }
}

}  // namespace conch::test
