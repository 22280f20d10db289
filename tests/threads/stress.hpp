// Many threads, one io_context, several clients, and everything a program may do to them at random moments.
#pragma once

#include <conch/conch.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace conch::test {

namespace asio = boost::asio;

/// What happened, over all threads.
struct tally {
  using counter = std::atomic<std::uint64_t>;

  counter started{}, completed{};
  counter grants{}, busy{}, timed_out{}, aborted{}, closed{}, unreachable{};
  counter cancels{};               // emitted while the operation had not completed
  counter granted_after_cancel{};  // of these: the grant was already under way
  counter hit_in_flight{};         // of these: aborted, and a clean-up went out for a request that was written
  counter released{}, released_late{}, abandoned{}, lost{}, closes{};

  /// What must not happen, in words. Bounded.
  void complain(std::string what);
  std::vector<std::string> complaints() const;
  std::string in_words() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> complaints_;
};

/// A completion handler that can be neither lost nor called twice, inside its initiation or beside its executor,
/// without being noticed.
template <class F>
class tracked {
 public:
  using strand = asio::strand<asio::io_context::executor_type>;

  tracked(tally& t, strand const& on, bool const& initiating, char const* what, F f)
      : tally_{&t},
        strand_{on},
        initiating_{&initiating},
        what_{what},
        f_{std::move(f)} {
    ++t.started;
  }
  tracked(tracked&& other) noexcept
      : tally_{std::exchange(other.tally_, nullptr)},
        strand_{other.strand_},
        initiating_{other.initiating_},
        what_{other.what_},
        f_{std::move(other.f_)} {}
  tracked& operator=(tracked&&) = delete;
  ~tracked() {
    if (tally_ != nullptr) tally_->complain(std::string{what_} + ": its handler was dropped");
  }

  template <class... Args>
  void operator()(Args&&... args) {
    tally* const t = std::exchange(tally_, nullptr);
    if (t == nullptr) std::abort();  // called twice
    ++t->completed;
    if (!strand_.running_in_this_thread()) {
      t->complain(std::string{what_} + " completed beside its executor");
    } else if (*initiating_) {
      t->complain(std::string{what_} + " completed inside its initiation");
    }
    f_(std::forward<Args>(args)...);
  }

 private:
  tally* tally_;
  strand strand_;
  bool const* initiating_;
  char const* what_;
  F f_;
};

/// What a lock guards. No member is atomic: the lock itself has to make one holder's writes visible to the next, and
/// ThreadSanitizer checks that it does.
struct guarded {
  std::string name;
  bool fixed_lease = false;
  std::uint64_t entries = 0;
  std::int64_t last_fence = 0;
  int inside = 0;  // the actor that is in its critical section
};

class stress;

/// A client that its actors share.
struct shared_client {
  std::unique_ptr<conch::client> client;
};

/// One task: acquires, holds, releases, cancels, over and over, until the end.
class actor {
 public:
  using strand = asio::strand<asio::io_context::executor_type>;

  /// `own`: alone with its client and its lock, which is how it can tell what a cancellation hit.
  actor(stress& in, strand on, shared_client& from, int number, std::uint64_t seed, guarded* own);

  void start() {
    asio::post(strand_, [this] { next(); });
  }
  strand const& executor() const noexcept { return strand_; }

 private:
  void next();
  void plan_cancel();
  void emit(asio::cancellation_type type);
  void acquired(error_code ec, conch::hold h);
  void account(error_code ec, bool granted);
  void enter();
  void leave();
  void give_back();
  int roll(int sides) { return std::uniform_int_distribution<int>{0, sides - 1}(random_); }
  template <class F>
  auto handler(char const* what, F f) {
    return asio::bind_executor(strand_, tracked<F>{tally_, strand_, initiating_, what, std::move(f)});
  }

  stress& in_;
  tally& tally_;
  strand strand_;
  shared_client& from_;
  int const number_;
  guarded* const own_;
  std::minstd_rand random_;
  asio::steady_timer pause_;
  asio::steady_timer cancel_timer_;
  asio::cancellation_signal signal_;
  asio::cancellation_signal watch_signal_;
  bool initiating_ = false;
  bool pending_ = false;
  bool cancelled_ = false;
  bool once_ = false;
  std::uint64_t scripts_before_ = 0, disconnects_before_ = 0;
  guarded* at_ = nullptr;
  bool touched_ = false;
  conch::hold hold_;
};

/// A client that is closed or destroyed and made anew while its actors use it. All on one strand, so that no actor is
/// between asking whether its hold is valid and acting on it when the client is taken away.
class short_lived {
 public:
  short_lived(stress& in, asio::io_context& ctx, std::uint64_t seed);

  void start();
  shared_client& client() noexcept { return client_; }
  actor::strand const& executor() const noexcept { return strand_; }

 private:
  void replace();

  stress& in_;
  actor::strand strand_;
  std::minstd_rand random_;
  asio::steady_timer timer_;
  shared_client client_;
  bool initiating_ = false;
};

struct stress_options {
  std::string url;
  std::uint64_t seed = 1;
  std::chrono::milliseconds length{5000};
  int threads = 8;
  int stable_clients = 3, actors_per_stable = 8;
  int short_lived_clients = 3, actors_per_short_lived = 4;
  int solo_actors = 4;
};

class stress {
 public:
  explicit stress(stress_options options);
  ~stress();

  /// Runs everything; `disturb` is called again and again by the calling thread meanwhile.
  void run(std::function<void()> const& disturb);

  conch::config client_config(int which) const;
  std::unique_ptr<conch::client> make_client(int which) {
    return std::make_unique<conch::client>(ctx_.get_executor(), client_config(which));
  }
  bool stopping() const noexcept { return stopping_.load(std::memory_order_relaxed); }
  void actor_ended() noexcept { ++ended_; }
  guarded& place(int i) { return *places_[static_cast<std::size_t>(i) % shared_places]; }
  tally& counts() noexcept { return tally_; }

  static constexpr std::size_t shared_places = 4;

 private:
  bool wait_until(std::function<bool()> const& done, std::chrono::seconds limit);
  void barrier();
  void close_all();

  stress_options const options_;
  tally tally_;
  asio::io_context ctx_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> ended_{0};
  std::vector<std::unique_ptr<guarded>> places_;
  std::vector<std::unique_ptr<shared_client>> stable_;
  std::vector<std::unique_ptr<short_lived>> short_lived_;
  std::vector<std::unique_ptr<actor>> actors_;
};

}  // namespace conch::test
