// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/client.hpp>
#include <conch/clock.hpp>
#include <conch/error.hpp>
#include <conch/hold.hpp>
#include <conch/mutex.hpp>
#include <conch/named_lock.hpp>

#include <boost/asio/associator.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace conch {

/// A leader, as the server saw it.
struct leader {
  std::string client{};   ///< client::id() of the leader; zeros: it does not use this library
  std::string label{};    ///< config::label of that client; empty: it has none
  std::string note{};     ///< acquire_options::note of its campaign; empty: there is none
  std::int64_t term = 0;  ///< the fence; greater than that of every earlier leader; 0: there is no leader
  std::chrono::system_clock::time_point since{};  ///< as lock_holder::since

  explicit operator bool() const noexcept { return term != 0; }  ///< Is there a leader?
};

/// An election that was won, or an empty one. It is the hold of the lock of that name and can be used as one: valid(),
/// deadline(), async_lost(), async_endangered(), async_requested() and so on. Its destructor resigns. Thread safety: as
/// hold.
class [[nodiscard]] leadership : public hold {
 public:
  /// Leads nothing.
  leadership() noexcept = default;
  /// From the hold of an election that was acquired or adopted as a mutex. Implicit, because with_lock and async_adopt
  /// give holds.
  leadership(hold office) noexcept : hold{std::move(office)} {}

  /// The fence, under its other name: send it with all that the leader orders. 0 when empty.
  std::int64_t term() const noexcept { return fence(); }

  /// Gives the office to the next candidate: async_release() under its other name.
  template <asio::completion_token_for<void(error_code, bool)> Token = asio::deferred_t>
  auto async_resign(Token&& token = {}) {
    return async_release(std::forward<Token>(token));
  }
};

namespace detail {

/// The handler of a campaign, as an acquire calls it.
template <class Handler>
struct elected {
  Handler handler;
  void operator()(error_code ec, hold office) { std::move(handler)(ec, leadership{std::move(office)}); }
};

/// One async_leader, or async_observe: asks who leads until it is another than the one known.
class observation {
 public:
  struct question {
    bool once = false;
    std::int64_t known_term = 0;
    duration every = std::chrono::seconds{1};
  };

  observation(mutex office, question asked) : office_{std::move(office)}, asked_{asked} {}

  template <class Self>
  void operator()(Self& self) {
    self.reset_cancellation_state(asio::enable_total_cancellation());
    look(self);
  }

  template <class Self>
  void operator()(Self& self, error_code ec, lock_status const& status) {
    leader now;
    if (!ec) ec = read(status, now);
    if (ec || asked_.once || is_news(now)) return complete(self, ec, std::move(now));
    wait(self, now);
  }

  /// The office is free, or it is time to ask again.
  template <class Self>
  void operator()(Self& self, error_code ec) {
    was_free_ = watches_ && !ec;
    bool const is_over = !ec || ec == errc::timed_out || ec == errc::unreachable;  // a slow server answers the next one
    if (!is_over) return complete(self, ec, {});
    look(self);
  }

 private:
  static error_code read(lock_status const& status, leader& now) {
    if (!status.locked()) return {};
    if (status.kind != lock_kind::mutex) return make_error_code(errc::wrong_type);
    if (status.holders.empty()) return {};
    lock_holder const& holder = status.holders.front();
    now = {holder.client, holder.label, holder.note, holder.fence, holder.since};
    return {};
  }

  /// Terms grow, so a smaller one is old news, or the known one without the hand-offs in its process.
  bool is_news(leader const& now) const { return now ? now.term > asked_.known_term : asked_.known_term > 0; }

  // What is moved into an operation is gone: these use copies.
  template <class Self>
  void look(Self& self) {
    if (is_cancelled(self)) return complete(self, asio::error::operation_aborted, {});
    mutex const office = office_;
    office.async_inspect(std::move(self));
  }

  /// After a push "free" that the next answer does not confirm only the time is waited for: else the two could follow
  /// each other without a pause.
  template <class Self>
  void wait(Self& self, leader const& now) {
    if (is_cancelled(self)) return complete(self, asio::error::operation_aborted, {});
    mutex const office = office_;
    watches_ = now && !was_free_;
    if (watches_) {
      office.async_wait_free(asked_.every, std::move(self));
      return;
    }
    if (!pause_) pause_ = std::make_shared<asio::steady_timer>(office.get_executor());
    asio::steady_timer& timer = *pause_;
    timer.expires_after(asked_.every);
    timer.async_wait(std::move(self));
  }

  template <class Self>
  static bool is_cancelled(Self const& self) {
    return self.cancelled() != asio::cancellation_type::none;
  }

  template <class Self>
  void complete(Self& self, error_code ec, leader now) {
    pause_.reset();
    if (ec) now = {};
    self.complete(ec, std::move(now));
  }

  mutex office_;
  question asked_;
  std::shared_ptr<asio::steady_timer> pause_;  // not before it is needed: one that waits to begin can be copied
  bool watches_ = false;                       // it waits for a free office, not only for the time to pass
  bool was_free_ = false;                      // and was told so
};

}  // namespace detail

/// An election by its name: its candidates campaign, one of them leads, and anybody can ask who does. It is the mutex
/// of that name: its holder leads, and whatever works with a mutex works with it, such as with_lock, async_acquire (the
/// other name of async_campaign) or async_request_release, which asks the leader to resign. Copies are cheap. Thread
/// safety: as client.
///
///     conch::election scheduler{client, "scheduler"};
///     conch::leadership mine = co_await scheduler.async_campaign({.note = "10.0.0.7:8080"});
///     order(mine.term());
///     co_await mine.async_resign();
///
/// A leader that dies or freezes leads until its lease ends; the next one follows up to a claim later.
///
/// Give each candidate a client of its own: candidates of one client can hand the office on in memory
/// (config::local_slice), and others then still see the term, and perhaps the note, of the first.
class election : public mutex {
 public:
  using hold_type = leadership;  ///< What with_lock gives to its body.

  /// As mutex. Throws boost::system::system_error: errc::invalid_name, errc::invalid_config.
  election(client& through, std::string name, lock_options options = {}) : mutex{through, std::move(name), options} {}

  /// Waits until this candidate leads: in the order in which the candidates began.
  ///
  /// `options`: those of an acquire. The note tells others what they need to know of the leader, such as its address.
  /// Result: a leadership, or an error; never both, and never an office left behind.
  /// Completion signature: void(error_code, leadership)
  /// Lifetimes, executor, cancellation, errors, thread safety, round trips: as mutex::async_acquire.
  template <asio::completion_token_for<void(error_code, leadership)> Token = asio::deferred_t>
  auto async_campaign(acquire_options options, Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, leadership)>(initiate_campaign{{lock_.get()}}, token, lock_,
                                                                     options);
  }
  /// The same without options: without a note, until elected.
  template <asio::completion_token_for<void(error_code, leadership)> Token = asio::deferred_t>
  auto async_campaign(Token&& token = {}) {
    return async_campaign(acquire_options{}, std::forward<Token>(token));
  }

  /// Who leads? It may be outdated when it is read. A candidate leads from the server's grant on, before it knows.
  ///
  /// Result: the leader; an empty one, without an error, if there is none.
  /// Completion signature: void(error_code, leader)
  /// Lifetimes, executor, cancellation, thread safety, round trips: as async_inspect.
  /// Errors: those of async_inspect: errc::not_supported over a quorum of servers and ZooKeeper. errc::wrong_type, if
  /// the name is that of another kind of lock.
  template <asio::completion_token_for<void(error_code, leader)> Token = asio::deferred_t>
  auto async_leader(Token&& token = {}) const {
    return observe({.once = true}, token);
  }

  /// Completes when the leader is another than the one with `known_term`, or when there is none any more; at once if it
  /// is so already. `known_term` 0: when there is a leader.
  ///
  ///     conch::leader now;
  ///     for (;;) {
  ///       now = co_await scheduler.async_observe(now.term);
  ///       connect_to(now.note);  // empty: there is no leader
  ///     }
  ///
  /// Effects: the server notifies the client by a push when the office becomes free. It does not when the office passes
  /// to a candidate that was waiting, or is taken when it was free: that is found by a question, each second. So a
  /// change can be seen up to a second late; a leader between two questions is not seen at all. To be sooner, campaign:
  /// a candidate gets a push when it leads.
  /// Result: the leader; an empty one, without an error, if there is none.
  /// Completion signature: void(error_code, leader)
  /// Lifetimes: nothing needs to outlive the operation. A client that is destroyed ends it with errc::closed; while
  /// there is no leader, at the next question.
  /// Executor, cancellation, thread safety: as async_inspect.
  /// Errors: those of async_leader; a server that cannot be reached fails it after config::offline_timeout.
  /// Round trips: those of async_leader at the beginning and with each question; while there is a leader also one to
  /// ask for the push, each time.
  template <asio::completion_token_for<void(error_code, leader)> Token = asio::deferred_t>
  auto async_observe(std::int64_t known_term, Token&& token = {}) const {
    return observe({.known_term = known_term}, token);
  }
  /// The same with another time between two questions: 10 ms to 1 day; less and more count as these.
  template <asio::completion_token_for<void(error_code, leader)> Token = asio::deferred_t>
  auto async_observe(std::int64_t known_term, duration every, Token&& token = {}) const {
    using std::chrono::hours, std::chrono::milliseconds;
    duration const bounded = std::clamp<duration>(every, milliseconds{10}, hours{24});
    return observe({.known_term = known_term, .every = bounded}, token);
  }

  /// @cond
  CONCH_DETAIL_MISTAKES_OF_ACQUIRE(async_campaign, leadership)
  /// @endcond

 private:
  struct initiate_campaign : detail::initiation_at<detail::lock_settings> {
    template <class Handler>
    void operator()(Handler&& handler, detail::settings_ptr lock, acquire_options const& options) const {
      bool const on_own_executor = detail::runs_on_client_executor(detail::own_executor_of(lock), handler);
      detail::elected<std::decay_t<Handler>> told{std::forward<Handler>(handler)};
      detail::start_acquire(std::move(lock), options, false, std::move(told), on_own_executor);
    }
  };

  template <class Token>
  auto observe(detail::observation::question asked, Token& token) const {
    return asio::async_compose<Token, void(error_code, leader)>(detail::observation{*this, asked}, token,
                                                                get_executor());
  }
};

}  // namespace conch

/// @cond
namespace boost::asio {
/// Executor, allocator and cancellation slot are those of the handler inside.
template <template <class, class> class Associator, class Handler, class Default>
struct associator<Associator, conch::detail::elected<Handler>, Default> : Associator<Handler, Default> {
  static auto get(conch::detail::elected<Handler> const& told) noexcept {
    return Associator<Handler, Default>::get(told.handler);
  }
  static auto get(conch::detail::elected<Handler> const& told, Default const& otherwise) noexcept {
    return Associator<Handler, Default>::get(told.handler, otherwise);
  }
};
}  // namespace boost::asio
/// @endcond
