// A second process for the tests: takes one lock, says what happens to it, does what it is told.
//
//   conch-lock-holder URL[,URL...] NAME LEASE_MS [CLAIM_MS [LOCK_DELAY_MS [AT_LEAST_MS]]]
//
// With several URLs the lock is a quorum's, and CLAIM_MS that of its votes. 0: a third of the lease. AT_LEAST_MS: of a
// mutex.
// NAME is that of a mutex, or "@semaphore/NAME": one permit of one, "@writer/NAME", "@reader/NAME",
// "@striped/NAME": one segment of one, "@reentrant/NAME", "@multi/NAME": the mutexes "NAME a" and "NAME b" together,
// "@multi/NAME,NAME...": these together, named in this order.
// Writes lines: "asking", "held FENCE", "failed WORDS", "lost WORDS", "use valid|invalid", "released 0|1".
// Reads lines: "use" (is the lock still ours?), "release", "acquire" (again). Ends with its input.

#include "client/checked.hpp"

#include <conch/conch.hpp>
#include <conch/striped_mutex.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;

void say(std::string const& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

class holder {
 public:
  holder(asio::io_context& ctx, conch::config settings, std::string name, std::chrono::milliseconds at_least)
      : client_{ctx.get_executor(), std::move(settings)},
        name_{std::move(name)},
        at_least_{at_least} {}

  void acquire() {
    say("asking");
    auto const taken = [](auto& mine, auto h) {
      mine = std::move(h);
      mine.async_lost([](conch::error_code why) {
        if (why != asio::error::operation_aborted) say("lost " + why.message());
      });
    };
    auto const told = [this, taken](conch::error_code ec, conch::hold h) {
      say(ec ? "failed " + ec.message() : "held " + std::to_string(h.fence()));
      if (!ec) taken(hold_, std::move(h));
    };
    auto const all_told = [this, taken](conch::error_code ec, conch::multi_hold h) {
      say(ec ? "failed " + ec.message() : "held " + std::to_string(h.holds().front().fence()));
      if (!ec) taken(several_, std::move(h));
    };
    std::string const kind = name_.starts_with('@') ? name_.substr(1, name_.find('/') - 1) : "";
    std::string const name = kind.empty() ? name_ : name_.substr(kind.size() + 2);
    if (kind.empty()) {
      conch::mutex{client_, name}.async_acquire({.at_least = at_least_}, told);
    } else if (kind == "semaphore") {
      conch::semaphore{client_, name, 1}.async_acquire(told);
    } else if (kind == "writer") {
      conch::shared_mutex{client_, name}.async_acquire(told);
    } else if (kind == "reader") {
      conch::shared_mutex{client_, name}.async_acquire_shared(told);
    } else if (kind == "striped") {
      conch::striped_mutex{client_, name, 1}.async_acquire_any(told);
    } else if (kind == "reentrant") {
      auto const lock = conch::detail::checked_lock(client_.core(), name, {});
      conch::detail::start_acquire_permit(lock, conch::detail::request_of(conch::owner{}.state()), {}, false, told);
    } else if (kind == "multi") {
      std::vector<conch::mutex> locks;
      bool const two = name.find(',') == std::string::npos;
      std::string const names = two ? name + " a," + name + " b" : name;
      for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
        end = names.find(',', at);
        locks.emplace_back(client_, names.substr(at, end == std::string::npos ? end : end - at));
      }
      conch::multi_lock{std::move(locks)}.async_acquire(all_told);
    } else {
      say("failed: no such kind of lock");
    }
  }

  void obey(std::string const& order) {
    if (order == "use") say(hold_.valid() || several_.valid() ? "use valid" : "use invalid");
    if (order == "acquire") acquire();
    if (order == "release") {
      auto const done = [](conch::error_code, bool was_held) { say(was_held ? "released 1" : "released 0"); };
      if (several_) {
        several_.async_release(done);
      } else {
        hold_.async_release(done);
      }
    }
  }

 private:
  conch::client client_;
  std::string name_;
  std::chrono::milliseconds at_least_;
  conch::hold hold_;
  conch::multi_hold several_;
};

asio::awaitable<void> listen(asio::posix::stream_descriptor& input, holder& h) {
  std::string buffer;
  for (;;) {
    std::size_t const size =
        co_await asio::async_read_until(input, asio::dynamic_buffer(buffer), '\n', asio::use_awaitable);
    std::string const order = buffer.substr(0, size - 1);
    buffer.erase(0, size);
    h.obey(order);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    asio::io_context ctx;
    conch::config settings;
    std::string const url = argv[1];
    if (url.find(',') == std::string::npos) settings.url = url;
    for (std::size_t at = 0; settings.url != url && at != std::string::npos;) {
      std::size_t const end = url.find(',', at);
      settings.quorum.servers.push_back(url.substr(at, end - at));
      at = end == std::string::npos ? end : end + 1;
    }
    settings.lease = std::chrono::milliseconds{std::atoi(argv[3])};
    int const claim = argc > 4 ? std::atoi(argv[4]) : 0;
    settings.claim = claim > 0 ? std::chrono::milliseconds{claim} : settings.lease / 3;
    if (argc > 5) settings.lock_delay = std::chrono::milliseconds{std::atoi(argv[5])};
    settings.quorum.vote_claim = settings.claim;
    settings.command_timeout = settings.lease / 3;
    settings.stop_margin = settings.lease / 10;
    // or the session would be longer
    settings.zookeeper.session_margin = std::min(settings.zookeeper.session_margin, settings.lease / 4);
    holder h{ctx, settings, argv[2], std::chrono::milliseconds{argc > 6 ? std::atoi(argv[6]) : 0}};
    asio::posix::stream_descriptor input{ctx, ::dup(STDIN_FILENO)};
    asio::co_spawn(ctx, listen(input, h), [&](std::exception_ptr) { ctx.stop(); });
    h.acquire();
    ctx.run();
    return 0;
  } catch (std::exception const& e) {
    say(std::string{"failed "} + e.what());
    return 1;
  }
}
