// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include <conch/blocking.hpp>

#include "base/process.hpp"
#include "client/core.hpp"

#include <conch/shared_mutex.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

// It uses only the public classes, and a check for a child of a fork.
namespace conch::blocking {

namespace detail {

namespace {

config for_many_threads(config settings) {
  if (settings.single_threaded) {
    throw boost::system::system_error{make_error_code(
        errc::invalid_config,
        "single_threaded must be false: the locks are called from other threads than the client's own")};
  }
  return settings;
}

/// Names the calling thread. Unlike a std::thread::id it is not used again when the thread has ended.
std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> last{0};
  thread_local std::uint64_t const mine = ++last;
  return mine;
}

}  // namespace

/// The thread of a client, and its io_context. The client, its locks and the thread itself share it.
///
/// The thread ends when the client is closed and no call of another thread is inside. It then destroys the io_context.
/// So no thread uses that meanwhile: each use of the client below is a `visit`.
class runtime : public std::enable_shared_from_this<runtime> {
 public:
  // cppcheck-suppress passedByValue ; it is moved on
  explicit runtime(config settings)
      : context_{std::in_place, 1},
        work_{asio::make_work_guard(*context_)},
        client_{context_->get_executor(), for_many_threads(std::move(settings))} {
    client_.core()->has_own_thread();
  }

  void start() {
    thread_ = std::thread{[self = shared_from_this()] { self->run(); }};
    id_ = thread_.get_id();
  }

  /// Called once, by the client's destructor.
  void close() {
    if (elsewhere()) return;  // its thread keeps a reference to it, forever
    {
      visit const here{*this};  // it may complete, on the client's thread, before this function has come back
      client_.async_close(duration::zero(), [self = shared_from_this()](error_code) {
        std::lock_guard const guard{self->mutex_};
        self->closed_ = true;
        self->stop_if_unused();
      });
    }
    if (is_own_thread()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  bool is_own_thread() const noexcept { return std::this_thread::get_id() == id_; }

  conch::client& client() noexcept { return client_; }

  /// Set in a child of a fork, where there is no such thread. Nothing here is used there then, no mutex either: a
  /// thread of the parent may have held it.
  error_code elsewhere() const { return client_.core()->elsewhere(); }
  bool is_here() const noexcept { return client_.core()->is_here(); }

  /// A use of the client below, from any thread. False: there is none any more.
  class visit {
   public:
    explicit visit(runtime& to) : of_{to} {
      std::lock_guard const guard{of_.mutex_};
      inside_ = !of_.stopped_;
      if (inside_) ++of_.visits_;
    }
    visit(visit const&) = delete;
    visit& operator=(visit const&) = delete;
    ~visit() {
      if (!inside_) return;
      std::lock_guard const guard{of_.mutex_};
      --of_.visits_;
      of_.stop_if_unused();
    }
    explicit operator bool() const noexcept { return inside_; }

   private:
    runtime& of_;
    bool inside_;
  };

  /// A thread holds a lock with this name, which must live until forget().
  void remember(std::uint64_t thread, std::string_view name) {
    std::lock_guard const guard{mutex_};
    held_.emplace(thread, name);
  }
  void forget(std::uint64_t thread, std::string_view name) noexcept {
    std::lock_guard const guard{mutex_};
    auto const found = held_.find({thread, name});
    if (found != held_.end()) held_.erase(found);
  }
  /// True: it holds a lock, and the name of each is less than this one.
  bool holds_only_lesser(std::uint64_t thread, std::string_view name) const {
    std::lock_guard const guard{mutex_};
    auto const next = held_.lower_bound({thread + 1, {}});
    return next != held_.begin() && std::prev(next)->first == thread && std::prev(next)->second < name;
  }

  /// Releases the lock without waiting for the answer.
  void give_back(hold h) noexcept {
    if (!is_here()) return;
    visit const here{*this};
    if (!here && !is_own_thread()) {
      // The release is dropped with the io_context. It must not be posted there while that is destroyed.
      std::unique_lock guard{mutex_};
      destroyed_.wait(guard, [this] { return is_destroyed_; });
    }
    hold const dropped{std::move(h)};  // before the end of the visit
  }

 private:
  void run() {
    context_->run();
    { std::lock_guard const guard{mutex_}; }  // the thread that stopped it has left stop()
    work_.reset();
    context_.reset();
    {
      std::lock_guard const guard{mutex_};
      is_destroyed_ = true;
    }
    destroyed_.notify_all();
  }

  /// With mutex_ locked.
  void stop_if_unused() {
    if (!closed_ || visits_ != 0 || stopped_) return;
    stopped_ = true;
    context_->stop();
  }

  std::optional<asio::io_context> context_;  // until the thread ends
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  conch::client client_;
  std::thread thread_;
  std::thread::id id_;

  mutable std::mutex mutex_;                                        // guards what follows
  std::multiset<std::pair<std::uint64_t, std::string_view>> held_;  // a thread, and the name of a lock that it holds
  std::condition_variable destroyed_;
  std::size_t visits_ = 0;
  bool closed_ = false;        // the close of the client has completed
  bool stopped_ = false;       // no call may enter any more
  bool is_destroyed_ = false;  // the io_context
};

namespace {

/// One acquire and the thread that waits for it.
class waiting_call {
 public:
  explicit waiting_call(asio::any_io_executor own) : own_{std::move(own)} {}

  void complete(error_code why, hold h) {
    std::lock_guard const guard{mutex_};
    why_ = why;
    hold_ = std::move(h);
    done_ = true;
    completed_.notify_one();
  }

  error_code wait(hold& granted) {
    std::unique_lock guard{mutex_};
    completed_.wait(guard, [this] { return done_; });
    granted = std::move(hold_);
    return why_;
  }

  asio::cancellation_slot slot() noexcept { return cancel_.slot(); }

  /// On any thread, once the operation is initiated. The signal is the client's thread's, which clears it when the
  /// operation completes.
  static void cancel(std::shared_ptr<waiting_call> const& call) {
    asio::post(call->own_, [call] { call->cancel_.emit(asio::cancellation_type::terminal); });
  }

 private:
  asio::any_io_executor const own_;
  asio::cancellation_signal cancel_;
  std::mutex mutex_;
  std::condition_variable completed_;
  bool done_ = false;
  error_code why_;
  hold hold_;
};

/// The last try of a thread that did not wait.
struct last_try {
  bool failed = false;
  duration took{};
};
thread_local last_try last;

[[noreturn]] void fail(error_code why) { throw boost::system::system_error{why}; }

}  // namespace

/// A lock object: its holds, and the callbacks for losses and dangers. Shared, since a loss may be about to be reported
/// when the object is destroyed.
class lock_state : public std::enable_shared_from_this<lock_state> {
 public:
  using any_lock = std::variant<conch::mutex, conch::shared_mutex>;

  lock_state(std::shared_ptr<runtime> of, any_lock lock) : runtime_{std::move(of)}, lock_{std::move(lock)} {}

  std::string const& name() const noexcept {
    return std::visit([](auto const& lock) -> std::string const& { return lock.name(); }, lock_);
  }

  /// True: taken. False: not within `wait`, or a stop was requested.
  bool acquire(share how, std::optional<duration> wait, std::stop_token const& stop) {
    if (error_code const why = runtime_->elsewhere()) fail(why);
    if (runtime_->is_own_thread()) {
      fail(make_error_code(errc::would_deadlock,
                           "a blocking call on the client's own thread, which would have to complete it"));
    }
    bool const without_limit = !wait || *wait == duration::max();
    if (without_limit && would_wait_for_itself(how))
      fail(make_error_code(errc::would_deadlock, "this thread holds the lock already"));
    if (stop.stop_requested()) return false;
    runtime::visit const here{*runtime_};
    if (!here) fail(make_error_code(errc::closed));
    if (without_limit || *wait > duration::zero()) return acquire_within(how, wait, stop);

    duration const waits = patience();
    time_point const began = clock::now();
    bool const taken = acquire_within(how, waits, stop);
    last = {!taken, waits > duration::zero() ? last.took : clock::now() - began};
    return taken;
  }

  void release(share how) noexcept {
    if (!runtime_->is_here()) return;
    hold given_back;
    {
      std::lock_guard const guard{mutex_};
      auto const found = to_be_released(how);
      if (found == holds_.end()) return;
      given_back = std::move(found->h);
      runtime_->forget(found->by, name());
      holds_.erase(found);
    }
    runtime_->give_back(std::move(given_back));
  }

  /// read(hold) of the hold that a const function is about; `none` without a hold.
  template <class Result, class Read>
  Result read(Result none, Read const& read) const {
    if (!runtime_->is_here()) return none;
    std::lock_guard const guard{mutex_};
    if (holds_.empty()) return none;
    auto const mine =
        std::find_if(holds_.rbegin(), holds_.rend(), [me = this_thread()](kept const& k) { return k.by == me; });
    return read(mine != holds_.rend() ? mine->h : holds_.back().h);
  }

  void on_lost(lost_callback callback) { set(on_loss_, std::move(callback)); }
  void on_endangered(danger_callback callback) { set(on_danger_, std::move(callback)); }

  template <class Callback>
  void set(std::shared_ptr<Callback const>& one, Callback callback) {
    if (!runtime_->is_here()) return;
    auto next = callback ? std::make_shared<Callback const>(std::move(callback)) : nullptr;
    std::unique_lock guard{mutex_};
    one.swap(next);
    if (one) {
      if (runtime::visit const here{*runtime_}; here) {
        for (kept& k : holds_) watch(k);
      }
    }
    wait_for_callback(guard);
    guard.unlock();  // before the previous one is destroyed
  }

  static std::shared_ptr<lock_state> make(std::shared_ptr<runtime> of, any_lock lock) {
    auto* const made = new lock_state{std::move(of), std::move(lock)};
    return {made, [](lock_state* one) { one->runtime_->is_here() ? delete one : leave_alone(one); }};
  }

  /// The object is destroyed.
  void end() {
    if (!runtime_->is_here()) return;
    std::vector<kept> given_back;
    std::shared_ptr<lost_callback const> of_losses;
    std::shared_ptr<danger_callback const> of_dangers;
    {
      std::unique_lock guard{mutex_};
      given_back.swap(holds_);
      of_losses.swap(on_loss_);
      of_dangers.swap(on_danger_);
      wait_for_callback(guard);
    }
    for (kept& k : given_back) {
      runtime_->forget(k.by, name());
      runtime_->give_back(std::move(k.h));
    }
  }

 private:
  struct kept {
    hold h;
    share how;
    std::uint64_t by;      // this_thread() of the thread that locked
    bool watched = false;  // for its loss
    bool watched_for_danger = false;
  };

  /// How long a try may wait: as a rule not at all.
  ///
  /// std::lock() holds one lock and tries the next. If that is busy, it gives back what it has, locks the busy one, and
  /// tries the first. Two processes that do so in step fail together, thousands of times in a row. Therefore, if the
  /// last try of this thread failed, and the name of this lock is greater than those of all locks that the thread
  /// holds, it queues. If two threads hold each other's lock, just one queues: the other fails at once, and leaves its
  /// lock to the waiting one.
  duration patience() const {
    using std::chrono::milliseconds;
    if (!last.failed || !runtime_->holds_only_lesser(this_thread(), name())) return duration::zero();
    // The other has to fail and to release, and its release has to arrive.
    return std::clamp<duration>(4 * std::min<duration>(last.took, milliseconds{250}), milliseconds{20},
                                milliseconds{1000});
  }

  bool would_wait_for_itself(share how) const {
    std::lock_guard const guard{mutex_};
    return std::any_of(holds_.begin(), holds_.end(), [how, me = this_thread()](kept const& k) {
      return k.by == me && (how == share::alone || k.how == share::alone) && k.h.valid();
    });
  }

  template <class Lock, class Token>
  static void initiate(Lock& lock, std::optional<duration> wait, Token&& token) {
    if (wait && *wait <= duration::zero()) {
      lock.async_try_acquire(std::forward<Token>(token));
    } else {
      lock.async_acquire({.wait = wait}, std::forward<Token>(token));
    }
  }

  /// With the client visited.
  bool acquire_within(share how, std::optional<duration> wait, std::stop_token const& stop) {
    hold granted;
    error_code const why = wait_for(how, wait, stop, granted);
    if (why == errc::timed_out || (why == asio::error::operation_aborted && stop.stop_requested())) return false;
    if (why) fail(why);
    if (!granted) return false;
    keep(std::move(granted), how);
    return true;
  }

  error_code wait_for(share how, std::optional<duration> wait, std::stop_token const& stop, hold& granted) {
    auto const call = std::make_shared<waiting_call>(runtime_->client().get_executor());
    auto token = asio::bind_cancellation_slot(call->slot(),
                                              [call](error_code why, hold h) { call->complete(why, std::move(h)); });
    if (auto* const of_one = std::get_if<conch::mutex>(&lock_)) {
      initiate(*of_one, wait, std::move(token));
    } else if (auto& of_many = std::get<conch::shared_mutex>(lock_); how == share::alone) {
      initiate(of_many, wait, std::move(token));
    } else {
      auto as_reader = of_many.readers();
      initiate(as_reader, wait, std::move(token));
    }
    std::stop_callback const on_stop{stop, [&call] { waiting_call::cancel(call); }};
    return call->wait(granted);
  }

  /// With the client visited.
  void keep(hold granted, share how) {
    std::lock_guard const guard{mutex_};
    holds_.push_back({std::move(granted), how, this_thread()});
    runtime_->remember(this_thread(), name());
    watch(holds_.back());
  }

  /// With mutex_ locked. A hold that was lost and is not unlocked yet may precede one that another thread has got
  /// since.
  std::vector<kept>::iterator to_be_released(share how) {
    auto found = holds_.end();
    for (auto it = holds_.begin(); it != holds_.end(); ++it) {
      if (it->how != how) continue;
      if (it->by == this_thread()) return it;
      if (found == holds_.end()) found = it;
    }
    return found;
  }

  /// With mutex_ locked and the client visited.
  void watch(kept& k) {
    if (on_loss_ && !std::exchange(k.watched, true)) {
      k.h.async_lost([self = shared_from_this(), fence = k.h.fence()](error_code why) {
        if (why != asio::error::operation_aborted) self->call(self->on_loss_, why, fence);
      });
    }
    if (on_danger_ && !std::exchange(k.watched_for_danger, true)) await_danger(k.h);
  }

  /// With mutex_ locked and the client visited, or on the client's thread; as the next one.
  void await_danger(hold const& h) {
    h.async_endangered([self = shared_from_this(), fence = h.fence()](error_code why) {
      if (why) return;
      self->call(self->on_danger_, true, fence);
      self->with_hold(fence, [&](hold const& endangered) { self->await_renewal(endangered); });
    });
  }
  void await_renewal(hold const& h) {
    h.async_renewed(h.deadline(), [self = shared_from_this(), fence = h.fence()](error_code why) {
      if (why) return;
      self->call(self->on_danger_, false, fence);
      self->with_hold(fence, [&](hold const& renewed) { self->await_danger(renewed); });
    });
  }
  /// f(the hold with that fence), if it is not unlocked.
  template <class F>
  void with_hold(std::int64_t fence, F const& f) {
    std::lock_guard const guard{mutex_};
    auto const found = find_kept(fence);
    if (found != holds_.end()) f(found->h);
  }
  std::vector<kept>::iterator find_kept(std::int64_t fence) {
    return std::find_if(holds_.begin(), holds_.end(), [fence](kept const& k) { return k.h.fence() == fence; });
  }

  /// On the client's thread.
  template <class Callback, class News>
  void call(std::shared_ptr<Callback const> const& given, News what, std::int64_t fence) {
    std::shared_ptr<Callback const> callback;
    {
      std::lock_guard const guard{mutex_};
      if (!given || find_kept(fence) == holds_.end()) return;
      callback = given;
      callback_runs_ = true;
    }
    (*callback)(what, fence);
    callback.reset();
    {
      std::lock_guard const guard{mutex_};
      callback_runs_ = false;
    }
    callback_ended_.notify_all();
  }

  void wait_for_callback(std::unique_lock<std::mutex>& guard) {
    if (runtime_->is_own_thread()) return;
    callback_ended_.wait(guard, [this] { return !callback_runs_; });
  }

  std::shared_ptr<runtime> const runtime_;  // outlives the lock
  any_lock lock_;

  mutable std::mutex mutex_;  // guards what follows
  std::vector<kept> holds_;   // in the order of their grants
  std::shared_ptr<lost_callback const> on_loss_;
  std::shared_ptr<danger_callback const> on_danger_;
  bool callback_runs_ = false;
  std::condition_variable callback_ended_;
};

}  // namespace detail

// ----------------------------------------------------------------------------------------------------------- client

client::client(config settings) : runtime_{std::make_shared<detail::runtime>(std::move(settings))} {
  runtime_->start();
}

client::~client() { runtime_->close(); }

// cppcheck-suppress returnTempReference ; it takes runtime::client() for this class
conch::client& client::async() noexcept { return runtime_->client(); }

config const& client::settings() const noexcept { return runtime_->client().settings(); }

std::string const& client::id() const noexcept { return runtime_->client().id(); }

statistics client::stats() const { return runtime_->client().stats(); }

// ------------------------------------------------------------------------------------------------------------ locks

timed_lock::timed_lock(std::shared_ptr<detail::lock_state> state) noexcept : state_{std::move(state)} {}

timed_lock::~timed_lock() { state_->end(); }

bool timed_lock::acquire(detail::share how, std::optional<duration> wait, std::stop_token stop) {
  return state_->acquire(how, wait, stop);
}

void timed_lock::release(detail::share how) noexcept { state_->release(how); }

void timed_lock::lock() { acquire(detail::share::alone, std::nullopt, {}); }

bool timed_lock::lock(std::stop_token stop) { return acquire(detail::share::alone, std::nullopt, std::move(stop)); }

bool timed_lock::try_lock() { return acquire(detail::share::alone, duration::zero(), {}); }

void timed_lock::unlock() noexcept { release(detail::share::alone); }

bool timed_lock::valid() const noexcept {
  return state_->read(false, [](hold const& h) { return h.valid(); });
}

time_point timed_lock::deadline() const noexcept {
  return state_->read(time_point::min(), [](hold const& h) { return h.deadline(); });
}

std::int64_t timed_lock::fence() const noexcept {
  return state_->read(std::int64_t{0}, [](hold const& h) { return h.fence(); });
}

void timed_lock::on_lost(lost_callback callback) { state_->on_lost(std::move(callback)); }

void timed_lock::on_endangered(danger_callback callback) { state_->on_endangered(std::move(callback)); }

std::string const& timed_lock::name() const noexcept { return state_->name(); }

mutex::mutex(client& through, std::string name, lock_options options)
    : timed_lock{detail::lock_state::make(through.runtime(), conch::mutex{through.async(), std::move(name), options})} {
}

shared_mutex::shared_mutex(client& through, std::string name, lock_options options)
    : timed_lock{detail::lock_state::make(through.runtime(),
                                          conch::shared_mutex{through.async(), std::move(name), options})} {}

void shared_mutex::lock_shared() { acquire(detail::share::with_readers, std::nullopt, {}); }

bool shared_mutex::lock_shared(std::stop_token stop) {
  return acquire(detail::share::with_readers, std::nullopt, std::move(stop));
}

bool shared_mutex::try_lock_shared() { return acquire(detail::share::with_readers, duration::zero(), {}); }

void shared_mutex::unlock_shared() noexcept { release(detail::share::with_readers); }

}  // namespace conch::blocking
