#include "worker.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <boost/json/value_to.hpp>
#include <boost/system/system_error.hpp>
#include <charconv>
#include <chrono>
#include <conch/conch.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>

#include "from_options.hpp"
#include "sale.hpp"

namespace live_page {

namespace asio = boost::asio;
namespace json = boost::json;
using namespace std::chrono_literals;

namespace {

constexpr int most_in_vain = 20;  // attempts of an increment

std::int64_t number(json::object const& o, char const* key) { return o.at(key).to_number<std::int64_t>(); }

std::int64_t in_microseconds(conch::time_point t) {
  return std::chrono::duration_cast<std::chrono::microseconds>(t.time_since_epoch()).count();
}

http_counter::options read_settings(json::object const& o) {
  http_counter::options chosen;
  chosen.redis = json::value_to<std::string>(o.at("redis"));
  chosen.lock_servers = json::value_to<std::vector<std::string>>(o.at("lock_servers"));
  chosen.name = json::value_to<std::string>(o.at("name"));
  chosen.wait = std::chrono::milliseconds(number(o, "wait"));
  chosen.lease = std::chrono::milliseconds(number(o, "lease"));
  return chosen;
}

asio::awaitable<void> pause(std::chrono::milliseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

/// One thread and one lock client, like any program that uses conch.
class worker {
 public:
  worker(asio::io_context& ctx, http_counter::options const& chosen)
      : ctx_(ctx),
        chosen_(chosen),
        in_(ctx, STDIN_FILENO),
        locks_(ctx.get_executor(), http_counter::lock_settings(chosen)),
        values_(http_counter::make_store(ctx, chosen)),
        lock_(locks_, chosen.name) {}

  asio::awaitable<void> take_orders();

 private:
  using clock = std::chrono::steady_clock;

  struct attempt {
    std::int64_t fence = 0;  ///< 0: not granted
    bool written = false;    ///< perhaps
  };

  /// Shared by the buyers of this worker.
  struct sale {
    explicit sale(flash_sale::settings const& settings) : s(settings), t(settings), running(settings.buyers) {}

    flash_sale::settings s;
    flash_sale::tally t;
    int running;  ///< buyers that have not finished
  };

  static void report(json::object const& o);
  void start(asio::awaitable<void> what);
  void obey(json::object const& order);

  asio::awaitable<void> count(bool locked, int times, int coroutines);
  asio::awaitable<void> add(bool locked, std::shared_ptr<int> left, std::shared_ptr<int> running);
  asio::awaitable<void> add_one(bool locked, attempt& made);
  asio::awaitable<std::int64_t> read(std::string key);
  asio::awaitable<void> pass_lock_round();
  asio::awaitable<void> write_late(std::int64_t fence);
  void sell(flash_sale::settings const& s, int first_buyer);
  asio::awaitable<void> buy(std::shared_ptr<sale> shared, int buyer);

  asio::io_context& ctx_;
  http_counter::options const chosen_;
  asio::posix::stream_descriptor in_;
  conch::client locks_;
  std::unique_ptr<http_counter::value_store> values_;
  conch::mutex lock_;
  bool round_ = false;
  bool in_round_ = false;
  bool ending_ = false;
};

// This blocks only if the server does not read. Then nothing needs this worker.
void worker::report(json::object const& o) {
  std::string const line = json::serialize(o) + '\n';
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

void worker::start(asio::awaitable<void> what) {
  asio::co_spawn(ctx_, std::move(what), [](std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
  });
}

asio::awaitable<void> worker::take_orders() {
  std::string input;
  report({{"what", "ready"}, {"client", locks_.id()}});
  bool more = true;
  while (more) {
    for (auto end = input.find('\n'); end != input.npos; end = input.find('\n')) {
      json::value const order = json::parse(input.substr(0, end));
      input.erase(0, end + 1);
      obey(order.as_object());
    }
    auto lines = asio::dynamic_buffer(input);
    auto got = co_await asio::async_read_until(in_, lines, '\n', asio::as_tuple(asio::use_awaitable));
    more = !std::get<0>(got);
  }
  round_ = false;
  ending_ = true;
  co_await locks_.async_close(1s, asio::as_tuple(asio::use_awaitable));
}

void worker::obey(json::object const& order) {
  std::string const what = json::value_to<std::string>(order.at("do"));
  if (what == "count") {
    start(count(order.at("locked").as_bool(), static_cast<int>(number(order, "times")),
                static_cast<int>(number(order, "coroutines"))));
  } else if (what == "round") {
    round_ = order.at("go").as_bool();
    if (round_ && !in_round_) start(pass_lock_round());
  } else if (what == "sell") {
    flash_sale::settings s;
    s.name = sale_name(chosen_.name);
    s.items = static_cast<int>(number(order, "items"));
    s.segments = static_cast<std::uint32_t>(number(order, "segments"));
    s.buyers = static_cast<int>(number(order, "buyers"));
    s.order = std::chrono::milliseconds(number(order, "order_ms"));
    sell(s, static_cast<int>(number(order, "first")));
  }
}

// ---- a count --------------------------------------------------------------------------------------------

asio::awaitable<void> worker::count(bool locked, int times, int coroutines) {
  auto const left = std::make_shared<int>(times);
  auto const running = std::make_shared<int>(coroutines);
  for (int i = 0; i < coroutines; ++i) {
    start(add(locked, left, running));
  }
  co_return;
}

asio::awaitable<void> worker::add(bool locked, std::shared_ptr<int> left, std::shared_ptr<int> running) {
  int in_vain = 0;  // in a row
  while (*left > 0 && !ending_) {
    --*left;
    std::string why;
    attempt made;
    try {
      co_await add_one(locked, made);
    } catch (boost::system::system_error const& error) {
      why = error.code().message();
    } catch (std::exception const& error) {
      why = error.what();
    }
    in_vain = why.empty() ? 0 : in_vain + 1;
    if (!why.empty() && !made.written && in_vain < most_in_vain) {
      ++*left;  // surely not made, as when the wait for the lock timed out: once more
      if (locked) report({{"what", "unserved"}, {"fence", made.fence}, {"why", why}});
      co_await pause(100ms);
    } else if (!why.empty()) {
      report({{"what", "failed"}, {"locked", locked ? 1 : 0}, {"why", why}});
    }
  }
  if (--*running == 0) report({{"what", "done"}, {"locked", locked ? 1 : 0}});
}

// Reads, works, writes. Without the lock, increments that others make in between are lost.
asio::awaitable<void> worker::add_one(bool locked, attempt& made) {
  std::string const key = counter_key(chosen_.name, locked);
  constexpr auto work = 1ms;
  if (!locked) {
    std::int64_t const before = co_await read(key);
    co_await pause(work);
    std::string more = std::to_string(before + 1);
    made.written = true;
    co_await values_->set(key, std::move(more));
    report({{"what", "counted"}, {"locked", 0}, {"value", before + 1}});
    co_return;
  }
  auto const asked = clock::now();
  report({{"what", "asks"}});
  auto body = [&](conch::hold& hold) -> asio::awaitable<void> {
    auto const waited = std::chrono::duration_cast<std::chrono::microseconds>(clock::now() - asked).count();
    made.fence = hold.fence();
    report({{"what", "granted"}, {"fence", made.fence}, {"waited", waited}});
    std::int64_t const before = co_await read(key);
    co_await pause(work);
    if (!hold.valid()) {
      throw boost::system::system_error(make_error_code(conch::errc::lost));
    }
    std::string more = std::to_string(before + 1);
    made.written = true;
    co_await values_->set(key, std::move(more));
    report({{"what", "counted"}, {"locked", 1}, {"value", before + 1}});
  };
  co_await conch::with_lock(lock_, body);
}

asio::awaitable<std::int64_t> worker::read(std::string key) {
  std::optional<std::string> const text = co_await values_->get(std::move(key));
  std::int64_t value = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), value);
  co_return value;
}

// ---- the lock goes round --------------------------------------------------------------------------------

asio::awaitable<void> worker::pass_lock_round() {
  in_round_ = true;
  conch::acquire_options const options{.lease = std::chrono::milliseconds(round_lease_ms), .note = "round"};
  while (round_) {
    std::int64_t fence = 0;
    auto const asked = clock::now();
    auto body = [&](conch::hold& hold) -> asio::awaitable<void> {
      fence = hold.fence();
      auto const waited = std::chrono::duration_cast<std::chrono::microseconds>(clock::now() - asked).count();
      report({{"what", "granted"},
              {"round", 1},
              {"fence", fence},
              {"waited", waited},
              {"at", in_microseconds(conch::clock::now())},
              {"until", in_microseconds(hold.deadline())}});
      co_await pause(500ms);
      if (!hold.valid()) {  // the process may have been frozen, so check before the write
        throw boost::system::system_error(make_error_code(conch::errc::lost));
      }
      std::string note = std::to_string(fence);
      bool const written = co_await values_->set_guarded(round_key(chosen_.name), std::move(note), fence);
      if (!written) throw boost::system::system_error(make_error_code(conch::errc::lost));
      report({{"what", "released"}});
    };
    std::string why;
    bool lost = false;
    report({{"what", "asks"}});
    try {
      co_await conch::with_lock(lock_, options, body);
    } catch (boost::system::system_error const& error) {
      why = error.code().message();
      lost = error.code() == conch::errc::lost;
    } catch (std::exception const& error) {
      why = error.what();
    }
    if (!why.empty()) {
      report({{"what", lost ? "lost" : "unserved"}, {"fence", fence}, {"why", why}});
      if (lost && fence != 0) co_await write_late(fence);
      if (!ending_) co_await pause(200ms);
    }
  }
  in_round_ = false;
}

// Shows what happens if a program ignores the loss and sends its write anyway: the store refuses it once it has seen a
// greater token.
asio::awaitable<void> worker::write_late(std::int64_t fence) {
  std::string note = "late";
  try {
    bool const written = co_await values_->set_guarded(round_key(chosen_.name), std::move(note), fence);
    report({{"what", written ? "overwrote" : "refused"}, {"fence", fence}});
  } catch (std::exception const&) {  // the store cannot be reached, so there is nothing to show
  }
}

// ---- the flash sale -------------------------------------------------------------------------------------

void worker::sell(flash_sale::settings const& s, int first_buyer) {
  auto const shared = std::make_shared<sale>(s);
  shared->t.looked = [](std::uint32_t segment, int left) {
    report({{"what", "looked"}, {"segment", segment}, {"value", left}});
  };
  for (int i = 0; i < s.buyers; ++i) {
    start(buy(shared, first_buyer + i));
  }
}

asio::awaitable<void> worker::buy(std::shared_ptr<sale> shared, int buyer) {
  flash_sale::tally& t = shared->t;
  co_await flash_sale::buy(shared->s, locks_, *values_, buyer, t);
  if (--shared->running == 0)
    report({{"what", "sold"}, {"sold", t.sold}, {"unsure", t.unsure}, {"mistakes", t.mistakes}});
}

}  // namespace

std::string settings_for_workers(http_counter::options const& chosen) {
  return json::serialize(json::object{{"redis", chosen.redis},
                                      {"lock_servers", json::value_from(chosen.lock_servers)},
                                      {"name", chosen.name},
                                      {"wait", chosen.wait.count()},
                                      {"lease", chosen.lease.count()}});
}

int run_worker() try {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string first;
  for (char c = 0; ::read(STDIN_FILENO, &c, 1) == 1 && c != '\n';) first += c;
  if (first.empty()) return 2;
  json::value const settings = json::parse(first);
  asio::io_context ctx(1);
  worker me(ctx, read_settings(settings.as_object()));
  asio::co_spawn(ctx, me.take_orders(), [](std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
  });
  ctx.run();
  return 0;
} catch (std::exception const& error) {
  std::cerr << "conch-http-counter: a worker failed: " << error.what() << '\n';
  return 1;
}

std::string counter_key(std::string const& name, bool locked) {
  return "http_counter:" + name + (locked ? "" : ":without");
}

std::string round_key(std::string const& name) { return "http_counter:" + name + ":round"; }

std::string sale_name(std::string const& name) { return name + ":sale"; }

}  // namespace live_page
