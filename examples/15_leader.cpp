// Leader election: lead() runs in one process at a time. If the leader loses the office, lead() is cancelled and
// another process leads. Each candidate also prints who leads: its label, address and term.
//
//   example_15_leader [URL]                  two candidates in one process: the first hands over to the second
//   example_15_leader URL NAME [LEASE_MS]    one candidate, until SIGTERM or SIGINT; after SIGUSR1, or when another
//   client requests the office, it steps down and campaigns again
//
// Default of URL: $CONCH_URL (use it if the URL has a password), else memory://.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <conch/election.hpp>
#include <conch/with_lock.hpp>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;

class candidate {
 public:
  candidate(asio::io_context& ctx, conch::config settings, std::string name)
      : client_{ctx.get_executor(), std::move(settings)},
        office_{client_, "example:leader"},
        request_{ctx},
        pause_{ctx},
        name_{std::move(name)},
        address_{name_ + ".example:8080"} {}

  std::function<void()> on_lead = [] {};
  std::function<void()> on_end = [] {};

  void start() {
    auto end = [this](std::exception_ptr) {
      client_.async_close(1s, [](conch::error_code) {});
      on_end();
    };
    asio::co_spawn(request_.get_executor(), campaign(), asio::bind_cancellation_slot(stop_.slot(), end));
    see(0);
  }
  // Ends the campaign. on_end is called after the lock was released.
  void stop() { stop_.emit(asio::cancellation_type::terminal); }
  // Ends the current term, if this candidate leads.
  void step_down() { request_.cancel(); }

 private:
  // The leader's work. It ends when it steps down, loses the lock, or the campaign ends.
  asio::awaitable<void> lead(conch::leadership& office) {
    say("leads with fence " + std::to_string(office.term()));  // send it with every order of the leader
    on_lead();
    request_.expires_at(asio::steady_timer::time_point::max());
    office.async_requested([this](conch::error_code ec) {
      if (!ec) step_down();  // another client requests the lock, for example before a restart
    });
    co_await request_.async_wait(asio::as_tuple(asio::use_awaitable));
    say(office.valid() ? "steps down" : "has lost the office");
  }

  // All that an election adds to with_lock: campaign again, whatever ended the term.
  asio::awaitable<void> campaign() {
    auto term = [this](conch::leadership& office) { return lead(office); };
    for (;;) {
      conch::error_code why;
      try {
        co_await conch::with_lock(office_, {.note = address_}, term);
      } catch (boost::system::system_error const& error) {
        if (error.code() == asio::error::operation_aborted) throw;  // stop()
        why = error.code();
      }
      if (why) say("campaigns again: " + why.message());
      bool const at_once = !why || why == conch::errc::lost;
      pause_.expires_after(at_once ? 0s : 1s);  // the server refused: do not retry at full speed
      co_await pause_.async_wait(asio::use_awaitable);
    }
  }

  // Prints each leader: that is where others would send their requests. Ends with the client.
  void see(std::int64_t known) {
    office_.async_observe(known, [this, known](conch::error_code why, conch::leader now) {
      if (why == conch::errc::closed) return;
      if (why == conch::errc::unreachable) return see(known);  // that has taken config::offline_timeout
      if (why) return say("does not see who leads: " + why.message());
      say(now ? "sees the leader " + now.label + " at " + now.note + ", term " + std::to_string(now.term)
              : std::string{"sees no leader"});
      see(now.term);
    });
  }

  // All processes of a machine share this clock, so their lines can be compared.
  void say(std::string const& what) const {
    std::cout << name_ << ' ' << what << ", at " << conch::clock::now().time_since_epoch().count() << std::endl;
  }

  conch::client client_;
  conch::election office_;
  asio::steady_timer request_;
  asio::steady_timer pause_;
  asio::cancellation_signal stop_;
  std::string name_;
  std::string address_;
};

// Each leader steps down until both candidates have led.
bool hand_over(std::string const& url) {
  asio::io_context ctx;
  candidate first{ctx, {.url = url}, "first"};
  candidate second{ctx, {.url = url}, "second"};
  bool first_led = false;
  bool second_led = false;
  int ended = 0;
  auto led = [&](candidate& leader, bool& has_led) {
    has_led = true;
    auto next = [&] {
      if (!first_led || !second_led) {
        leader.step_down();
        return;
      }
      first.stop();
      second.stop();
    };
    asio::post(ctx, next);
  };
  first.on_lead = [&] { led(first, first_led); };
  second.on_lead = [&] { led(second, second_led); };
  first.on_end = second.on_end = [&] { ++ended; };
  first.start();
  second.start();
  ctx.run();
  return first_led && second_led && ended == 2;
}

void run_candidate(std::string const& url, std::string const& name, std::chrono::milliseconds lease) {
  asio::io_context ctx;
  candidate me{ctx, {.url = url, .lease = lease}, name};
  asio::signal_set end{ctx, SIGTERM, SIGINT};
  asio::signal_set request{ctx, SIGUSR1};
  std::function<void(conch::error_code, int)> const step_down = [&](conch::error_code ec, int) {
    if (ec) return;
    me.step_down();
    request.async_wait(step_down);
  };
  request.async_wait(step_down);
  end.async_wait([&](conch::error_code ec, int) {
    if (!ec) me.stop();
  });
  me.on_end = [&] {
    end.cancel();
    request.cancel();
  };
  me.start();
  ctx.run();
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";
  if (argc > 2) {
    run_candidate(url, argv[2], std::chrono::milliseconds{argc > 3 ? std::atoi(argv[3]) : 10'000});
    return 0;
  }
  return hand_over(url) ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
