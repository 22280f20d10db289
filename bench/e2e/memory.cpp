// F10: memory of a million local waiters, and of holds.
#include <boost/asio/any_completion_handler.hpp>
#include <conch/conch.hpp>

#include <cstdio>
#include <deque>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include <malloc.h>
#include <unistd.h>

#include "memory/allocations.hpp"
#include "support/processes.hpp"
#include "support/report.hpp"
#include "support/server.hpp"
#include "support/workers.hpp"

namespace {

using namespace conch::bench;

constexpr std::size_t count = 1'000'000;

double resident_bytes() {
  std::ifstream in{"/proc/self/statm"};
  double total = 0, resident = 0;
  in >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

/// In use as malloc sees it, headers included: Asio's coroutine frames do not come from operator new.
double heap_bytes() {
  auto const info = ::mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

struct footprint {
  double live = heap_bytes(), resident = resident_bytes();
  double calls = static_cast<double>(allocations());
};

struct result {
  double live = 0, resident = 0, calls = 0;
};

result since(footprint const& before) {
  footprint const now;
  constexpr auto n = static_cast<double>(count);
  return {(now.live - before.live) / n, (now.resident - before.resident) / n, (now.calls - before.calls) / n};
}

struct place {
  explicit place(std::string const& url)
      : client{context.get_executor(), settings_for(url, true)},
        lock{client, "bench:crowd"} {
    lock.async_acquire([this](conch::error_code ec, conch::hold h) {
      if (ec) throw boost::system::system_error{ec};
      first = std::move(h);
    });
    while (!first) context.run_one();
  }
  asio::io_context context{1};
  conch::client client;
  conch::mutex lock;
  conch::hold first;
};

result callbacks(std::string const& url) {
  place p{url};
  footprint const before;
  for (std::size_t i = 0; i < count; ++i) p.lock.async_acquire([](conch::error_code, conch::hold) {});
  p.context.poll();
  return since(before);
}

asio::awaitable<void> wait_for(conch::mutex& lock) { conch::hold h = co_await lock.async_acquire(); }

result coroutines(std::string const& url) {
  place p{url};
  footprint const before;
  for (std::size_t i = 0; i < count; ++i) asio::co_spawn(p.context, wait_for(p.lock), asio::detached);
  p.context.poll();
  return since(before);
}

/// The same coroutine, waiting for something that costs nothing but the place of its handler, which is there already.
template <class Handler>
struct parking {
  static inline std::vector<Handler> places;
};

struct park {
  template <class Handler>
  void operator()(Handler&& handler) const {
    parking<std::decay_t<Handler>>::places.push_back(std::forward<Handler>(handler));
  }
};

asio::awaitable<void> wait_in_vain() {
  conch::hold h = co_await asio::async_initiate<asio::deferred_t const, void(conch::error_code, conch::hold)>(
      park{}, asio::deferred);
}

result frames() {
  asio::io_context context{1};
  footprint const before;
  for (std::size_t i = 0; i < count; ++i) asio::co_spawn(context, wait_in_vain(), asio::detached);
  context.poll();
  return since(before);  // the places: 8 to 16 bytes of each
}

void crowd(report& out, server& redis) {
  // Each in a process of its own: what one leaves behind in the allocator would blur the next.
  struct all {
    result callback, coroutine, frame;
  };
  shared<all> r;
  auto const run = [](char const* what, auto f) {
    progress(std::string{"F10 "} + what);
    child one{[&] {
      f();
      std::fflush(nullptr);
      ::_exit(0);
    }};
    one.join(std::chrono::seconds{120});
  };
  std::string const url = redis.unix_url();
  run("callbacks", [&] { r->callback = callbacks(url); });
  redis.probe().command({"FLUSHALL"});
  run("coroutines", [&] { r->coroutine = coroutines(url); });
  run("coroutines that wait for nothing", [&] { r->frame = frames(); });
  constexpr double target = 600;
  out.add("F10", "1,000,000 callbacks waiting", r->callback.live, "bytes/waiter", "the target", target);
  out.add("F10", "1,000,000 callbacks waiting, allocations", r->callback.calls, "allocations/waiter");
  out.add("F10", "1,000,000 callbacks waiting, resident", r->callback.resident, "bytes/waiter");
  out.add("F10", "1,000,000 coroutines waiting, without their frames", r->coroutine.live - r->frame.live,
          "bytes/waiter", "the target", target);
  out.add("F10", "1,000,000 coroutines waiting, all", r->coroutine.live, "bytes/waiter", "their frames", r->frame.live);
  out.add("F10", "1,000,000 coroutines waiting, resident", r->coroutine.resident, "bytes/waiter", "their frames",
          r->frame.resident);
}

}  // namespace

int main(int argc, char** argv) try {
  options const chosen =
      parse_options(argc, argv, "F10: memory of 1,000,000 local waiters, the coroutine's own frame not counted.");
  server redis;
  report out{chosen};
  if (chosen.wants("F10")) crowd(out, redis);
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_memory: %s\n", error.what());
  return 1;
}
