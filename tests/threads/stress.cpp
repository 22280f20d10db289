#include "threads/stress.hpp"

#include <sstream>
#include <thread>

namespace conch::test {

namespace {

using namespace std::chrono_literals;

constexpr asio::cancellation_type types[] = {asio::cancellation_type::total, asio::cancellation_type::partial,
                                             asio::cancellation_type::terminal};

}  // namespace

// ------------------------------------------------------------------------------------------------------------ tally

void tally::complain(std::string what) {
  std::lock_guard const guard{mutex_};
  if (complaints_.size() < 20) complaints_.push_back(std::move(what));
}

std::vector<std::string> tally::complaints() const {
  std::lock_guard const guard{mutex_};
  return complaints_;
}

std::string tally::in_words() const {
  std::ostringstream out;
  out << started << " operations, " << completed << " completed; " << grants << " granted, " << busy << " busy, "
      << timed_out << " timed out, " << aborted << " aborted, " << closed << " closed, " << unreachable
      << " unreachable; " << cancels << " cancelled under way (" << granted_after_cancel
      << " granted all the same, at least " << hit_in_flight << " hit a request in flight); " << released
      << " released, " << released_late << " released too late, " << abandoned << " abandoned, " << lost
      << " losses told, " << closes << " clients closed";
  return out.str();
}

// ------------------------------------------------------------------------------------------------------------ actor

actor::actor(stress& in, strand on, shared_client& from, int number, std::uint64_t seed, guarded* own)
    : in_{in},
      tally_{in.counts()},
      strand_{std::move(on)},
      from_{from},
      number_{number},
      own_{own},
      random_{static_cast<std::minstd_rand::result_type>(seed)},
      pause_{strand_},
      cancel_timer_{strand_} {}

void actor::next() {
  if (in_.stopping() || from_.client == nullptr) {
    in_.actor_ended();
    return;
  }
  at_ = own_ != nullptr ? own_ : &in_.place(roll(static_cast<int>(stress::shared_places)));
  lock_options options;
  if (at_->fixed_lease) {
    options.lease = 900ms;
    options.renew = false;
  }
  conch::mutex lock{*from_.client, at_->name, options};
  if (own_ != nullptr) {
    auto const s = from_.client->stats();
    scripts_before_ = s.scripts;
    disconnects_before_ = s.disconnects;
  }
  auto done = asio::bind_cancellation_slot(
      signal_.slot(), handler("acquire", [this](error_code ec, conch::hold h) { acquired(ec, std::move(h)); }));
  pending_ = true;
  cancelled_ = false;
  initiating_ = true;
  once_ = false;
  int const kind = own_ != nullptr ? 0 : roll(10);
  if (kind < 5) {
    lock.async_acquire(std::move(done));
  } else if (kind < 8) {
    acquire_options const limited{.wait = std::chrono::microseconds{roll(5000)}};
    lock.async_acquire(limited, std::move(done));
  } else {
    once_ = true;
    lock.async_try_acquire(std::move(done));
  }
  initiating_ = false;
  if (own_ != nullptr || roll(2) == 0) plan_cancel();
}

/// At once, in a moment in which the request is likely to be under way, or later; one type, or a second one after it.
void actor::plan_cancel() {
  asio::cancellation_type const type = types[roll(3)];
  if (roll(10) == 0) {
    emit(type);
    return;
  }
  cancel_timer_.expires_after(std::chrono::microseconds{roll(roll(2) == 0 ? 300 : 6000)});
  cancel_timer_.async_wait([this, type](error_code ec) {
    if (ec) return;
    emit(type);
    if (pending_ && roll(4) == 0) emit(types[roll(3)]);
  });
}

void actor::emit(asio::cancellation_type type) {
  if (!pending_) return;
  cancelled_ = true;
  ++tally_.cancels;
  initiating_ = true;  // no completion from within emit() either
  signal_.emit(type);
  initiating_ = false;
}

void actor::acquired(error_code ec, conch::hold h) {
  pending_ = false;
  cancel_timer_.cancel();
  account(ec, static_cast<bool>(h));
  if (!h) {
    // A task that is refused at once would otherwise turn round for nothing.
    pause_.expires_after(std::chrono::microseconds{ec ? roll(200) : roll(2000)});
    pause_.async_wait([this](error_code) { next(); });
    return;
  }
  hold_ = std::move(h);
  enter();
  if (roll(3) == 0) {
    hold_.async_lost(asio::bind_cancellation_slot(watch_signal_.slot(), handler("async_lost", [this](error_code why) {
                                                    if (why != asio::error::operation_aborted) ++tally_.lost;
                                                  })));
    if (roll(4) == 0) watch_signal_.emit(asio::cancellation_type::total);
  }
  int const kind = roll(20);
  if (kind < 10) {
    give_back();
    return;
  }
  auto const overstays = at_->fixed_lease && kind == 19;  // until after it is lost
  pause_.expires_after(overstays ? std::chrono::microseconds{950ms} : std::chrono::microseconds{roll(2000)});
  pause_.async_wait([this](error_code) { give_back(); });
}

void actor::account(error_code ec, bool granted) {
  if (granted) {
    ++tally_.grants;
    if (cancelled_) ++tally_.granted_after_cancel;
    if (ec) tally_.complain("a hold and an error: " + ec.message());
    return;
  }
  if (!ec) {
    ++tally_.busy;
    if (!once_) tally_.complain("an acquire without a hold and without an error");
  } else if (ec == asio::error::operation_aborted) {
    ++tally_.aborted;
    if (!cancelled_) tally_.complain("aborted though nobody cancelled it");
    if (own_ != nullptr && from_.client != nullptr) {
      auto const s = from_.client->stats();
      if (s.disconnects == disconnects_before_ && s.scripts >= scripts_before_ + 2) ++tally_.hit_in_flight;
    }
  } else if (ec == errc::timed_out) {
    ++tally_.timed_out;
  } else if (ec == errc::closed) {
    ++tally_.closed;
  } else if (ec == errc::unreachable) {
    ++tally_.unreachable;
  } else {
    tally_.complain("acquire failed: " + ec.message());
  }
}

// A fence is compared and the plain data are touched only while the hold is valid; the margin of the client between
// "valid" and the moment in which another may be granted is longer than a thread is ever kept from running here.
void actor::enter() {
  touched_ = !in_.stopping() && hold_.valid();
  if (!touched_) return;
  if (hold_.fence() <= at_->last_fence) {
    tally_.complain("'" + at_->name + "': fence " + std::to_string(hold_.fence()) + " after " +
                    std::to_string(at_->last_fence));
  }
  at_->last_fence = hold_.fence();
  at_->inside = number_;
  ++at_->entries;
}

void actor::leave() {
  if (!touched_ || in_.stopping() || !hold_.valid()) return;
  if (at_->inside != number_) {
    tally_.complain("'" + at_->name + "': actor " + std::to_string(at_->inside) + " came in while actor " +
                    std::to_string(number_) + " held the lock");
  }
  at_->inside = 0;
}

void actor::give_back() {
  leave();
  int const kind = roll(10);
  if (kind < 2) {
    ++tally_.abandoned;
    hold_ = conch::hold{};
    asio::post(strand_, [this] { next(); });
    return;
  }
  bool const forget = kind < 5;  // the hold may go once the release is initiated
  initiating_ = true;
  hold_.async_release(handler("async_release", [this](error_code ec, bool was_held) {
    if (ec && ec != errc::unreachable) tally_.complain("release failed: " + ec.message());
    ++(was_held ? tally_.released : tally_.released_late);
    if (hold_ && hold_.valid()) tally_.complain("valid after its release");
    hold_ = conch::hold{};
    next();
  }));
  initiating_ = false;
  if (forget) hold_ = conch::hold{};
}

// ------------------------------------------------------------------------------------------------------ short_lived

short_lived::short_lived(stress& in, asio::io_context& ctx, std::uint64_t seed)
    : in_{in},
      strand_{asio::make_strand(ctx)},
      random_{static_cast<std::minstd_rand::result_type>(seed)},
      timer_{strand_} {
  client_.client = in_.make_client(static_cast<int>(random_() % 3));
}

void short_lived::start() {
  timer_.expires_after(std::chrono::milliseconds{5 + static_cast<int>(random_() % 150)});
  timer_.async_wait([this](error_code) { replace(); });
}

void short_lived::replace() {
  auto& counts = in_.counts();
  ++counts.closes;
  bool const last = in_.stopping();
  auto const old = std::shared_ptr<conch::client>{std::move(client_.client)};
  if (!last) client_.client = in_.make_client(static_cast<int>(random_() % 3));
  int const kind = static_cast<int>(random_() % 4);
  if (kind != 0) {
    auto done = [old, keep = kind == 1](error_code ec) {
      (void)keep;
      (void)ec;  // timed_out while a connection is lost: what is left ends with its lease
    };
    initiating_ = true;
    old->async_close(
        std::chrono::milliseconds{static_cast<int>(random_() % 60)},
        asio::bind_executor(strand_, tracked<decltype(done)>{counts, strand_, initiating_, "async_close", done}));
    if (kind == 2) {
      // A second one is told so.
      auto second = [&counts](error_code ec) {
        if (ec != errc::closed) counts.complain("a second async_close: " + ec.message());
      };
      old->async_close(1s, asio::bind_executor(strand_, tracked<decltype(second)>{counts, strand_, initiating_,
                                                                                  "async_close", second}));
    }
    initiating_ = false;
  }
  if (!last) start();
}

// ----------------------------------------------------------------------------------------------------------- stress

stress::stress(stress_options options) : options_{std::move(options)}, ctx_{options_.threads} {
  std::mt19937_64 random{options_.seed};
  for (std::size_t i = 0; i < shared_places; ++i) {
    places_.push_back(std::make_unique<guarded>());
    places_.back()->name = "stress:" + std::to_string(i);
    places_.back()->fixed_lease = i == 3;
  }
  int number = 0;
  auto const add = [&](actor::strand on, shared_client& c, guarded* own) {
    actors_.push_back(std::make_unique<actor>(*this, std::move(on), c, ++number, random(), own));
  };
  for (int i = 0; i < options_.stable_clients; ++i) {
    stable_.push_back(std::make_unique<shared_client>(shared_client{make_client(i)}));
    for (int k = 0; k < options_.actors_per_stable; ++k) add(asio::make_strand(ctx_), *stable_.back(), nullptr);
  }
  for (int i = 0; i < options_.solo_actors; ++i) {
    stable_.push_back(std::make_unique<shared_client>(shared_client{make_client(i)}));
    places_.push_back(std::make_unique<guarded>());
    places_.back()->name = "stress:own:" + std::to_string(i);
    add(asio::make_strand(ctx_), *stable_.back(), places_.back().get());
  }
  for (int i = 0; i < options_.short_lived_clients; ++i) {
    short_lived_.push_back(std::make_unique<short_lived>(*this, ctx_, random()));
    for (int k = 0; k < options_.actors_per_short_lived; ++k) {
      add(short_lived_.back()->executor(), short_lived_.back()->client(), nullptr);
    }
  }
}

stress::~stress() = default;

conch::config stress::client_config(int which) const {
  conch::config c;
  c.url = options_.url;
  c.lease = 3s;
  c.claim = 500ms;
  c.command_timeout = 300ms;
  c.reconnect_min = 5ms;
  c.reconnect_max = 200ms;
  c.local_slice = which % 3 == 0 ? 5ms : which % 3 == 1 ? 0ms : 1ms;
  return c;
}

bool stress::wait_until(std::function<bool()> const& done, std::chrono::seconds limit) {
  auto const end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// Everything that ran on an actor's strand before has ended when this returns.
void stress::barrier() {
  std::atomic<std::size_t> passed{0};
  for (auto const& a : actors_) asio::post(a->executor(), [&] { ++passed; });
  if (!wait_until([&] { return passed == actors_.size(); }, 30s)) {
    tally_.complain("the threads are stuck");
    std::abort();  // `passed` is still in use: a core tells more
  }
}

/// With waiters and holds of many strands under way.
void stress::close_all() {
  std::atomic<std::size_t> closed{0};
  auto const strand = asio::make_strand(ctx_);
  bool const not_initiating = false;
  for (auto const& c : stable_) {
    auto done = [&](error_code ec) {
      if (ec && ec != errc::timed_out) tally_.complain("async_close: " + ec.message());
      ++closed;
    };
    ++tally_.closes;
    c->client->async_close(100ms, asio::bind_executor(strand, tracked<decltype(done)>{tally_, strand, not_initiating,
                                                                                      "async_close", done}));
  }
  if (!wait_until([&] { return closed == stable_.size(); }, 30s)) tally_.complain("async_close did not complete");
  if (!wait_until([&] { return static_cast<std::size_t>(ended_) == actors_.size(); }, 30s)) {
    tally_.complain(std::to_string(actors_.size() - static_cast<std::size_t>(ended_)) + " actors wait forever");
  }
}

void stress::run(std::function<void()> const& disturb) {
  auto work = asio::make_work_guard(ctx_);
  std::vector<std::thread> threads;
  for (int i = 0; i < options_.threads; ++i) threads.emplace_back([this] { ctx_.run(); });
  for (auto const& a : actors_) a->start();
  for (auto const& s : short_lived_) s->start();

  auto const end = std::chrono::steady_clock::now() + options_.length;
  while (std::chrono::steady_clock::now() < end) disturb();

  stopping_ = true;
  barrier();
  close_all();
  for (auto const& c : stable_) {
    auto const s = c->client->stats();
    if (s.waiting != 0 || s.held != 0) {
      tally_.complain("a closed client counts " + std::to_string(s.waiting) + " waiting and " + std::to_string(s.held) +
                      " held");
    }
  }
  stable_.clear();
  work.reset();
  // Closed clients leave nothing behind that would keep the io_context running.
  std::atomic<bool> joined{false};
  std::thread joiner{[&] {
    for (std::thread& t : threads) t.join();
    joined = true;
  }};
  if (!wait_until([&] { return joined.load(); }, 30s)) {
    tally_.complain("io_context::run() does not return though all clients are closed");
    ctx_.stop();
  }
  joiner.join();
  if (tally_.started != tally_.completed) tally_.complain("operations were started that never completed");
}

}  // namespace conch::test
