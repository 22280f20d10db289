// A library without locks, for `conch run`.
#pragma once

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/locks.hpp"

namespace conch::test {

namespace asio = boost::asio;

/// What becomes of the locks of `conch run`, as the library would tell it. All times count from the grant.
struct lock_story {
  std::optional<error_code> refused = std::nullopt;  // the end of the acquire; none: it is granted
  bool until_stopped = false;                        // it is refused when the wait is given up
  bool granted_when_stopped = false;                 // the grant overtakes the end of the wait
  duration valid_for = std::chrono::hours{1};        // the first deadline
  std::optional<duration> lease = std::nullopt;      // none: as valid_for
  struct renewal {
    duration at;
    duration valid_for;
  };
  std::vector<renewal> renewals = {};
  std::vector<duration> endangered_at = {};
  std::vector<duration> safe_at = {};
  std::optional<duration> lost_at = std::nullopt;
  bool is_held_at_check = true;
  error_code release_fails = {};
  std::string fault = {};  // what this library does wrong, to see who notices
};

/// A library without locks: it tells a story. What is asked of it is a line "call WHAT" on standard output.
class fake_locks : public cli::run_locks {
 public:
  fake_locks(asio::io_context& context, lock_story story) : context_{context}, story_{std::move(story)} {}

  /// A second acquire is granted for an hour.
  void acquire(std::function<void(error_code)> done) override {
    called("acquire");
    if (std::exchange(was_asked_, true)) story_ = {.fault = story_.fault};
    if (story_.until_stopped || story_.granted_when_stopped) {
      waiting_ = std::move(done);
      return;
    }
    answer(std::move(done));
  }

  void when_short_of_replicas(std::function<void()>) override {}
  void when_endangered(std::function<void(std::optional<duration>)> told) override { endangered_ = std::move(told); }
  void stop_waiting() override {
    called("stop_waiting");
    if (!waiting_ || has("wait_not_given_up")) return;
    if (story_.until_stopped) story_.refused = asio::error::operation_aborted;
    answer(std::exchange(waiting_, nullptr));
  }

  bool valid() const override { return clock::now() < deadline_; }
  time_point deadline() const override { return has("deadline_stays") && valid() ? first_deadline_ : deadline_; }
  duration lease() const override { return story_.lease.value_or(story_.valid_for); }
  std::int64_t fence(std::string const&) const override { return 4096; }
  std::uint32_t segment() const override { return 0; }

  void when_lost(std::function<void(error_code)> told) override { lost_ = std::move(told); }

  void when_renewed(time_point known, std::function<void(error_code)> told) override {
    if (has("renewals_not_told")) return;
    if (deadline_ > known && !has("deadline_stays")) {
      asio::post(context_, [told = std::move(told)] { told({}); });
      return;
    }
    followers_.push_back({known, std::move(told)});
    called("follows");
  }

  void check(std::function<void(bool)> done) override {
    called("check");
    asio::post(context_,
               [held = story_.is_held_at_check || has("held_without_asking"), done = std::move(done)] { done(held); });
  }

  void release(std::function<void(error_code, bool)> done) override {
    if (!has("not_released")) called("release");
    deadline_ = time_point::min();
    asio::post(context_, [why = story_.release_fails, done = std::move(done)] { done(why, !why); });
  }

  void drop() override {
    called("drop");
    timers_.clear();
  }

  void close(std::function<void()> done) override {
    called("close");
    asio::post(context_, std::move(done));
  }

  static void called(std::string const& what) {
    std::string const line = "call " + what + '\n';
    [[maybe_unused]] auto const written = ::write(STDOUT_FILENO, line.data(), line.size());
  }

 private:
  bool has(std::string_view fault) const { return story_.fault == fault; }

  void answer(std::function<void(error_code)> done) {
    asio::post(context_, [this, done = std::move(done)] {
      if (story_.refused) {
        done(has("no_answer_is_not_free") ? make_error_code(errc::timed_out) : *story_.refused);
        return;
      }
      time_point const now = clock::now();
      deadline_ = first_deadline_ = now + story_.valid_for;
      called("granted " + std::to_string(now.time_since_epoch().count()));
      for (lock_story::renewal const& one : story_.renewals) {
        at(now + one.at, [this, one, now] { renew(now + one.valid_for); });
      }
      for (duration const moment : story_.endangered_at) {
        at(now + moment, [this] { endanger(std::chrono::milliseconds{250}); });
      }
      for (duration const moment : story_.safe_at) {
        at(now + moment, [this] { endanger(std::nullopt); });
      }
      if (story_.lost_at) at(now + *story_.lost_at, [this] { lose(); });
      done({});
    });
  }

  void at(time_point when, std::function<void()> what) {
    asio::steady_timer& timer = timers_.emplace_back(context_);
    timer.expires_after(std::max(when - clock::now(), duration::zero()));
    timer.async_wait([what = std::move(what)](error_code why) {
      if (!why) what();
    });
  }

  void renew(time_point until) {
    deadline_ = until;
    if (has("only_one_renewal_told") && std::exchange(told_once_, true)) return;
    tell_followers({}, until);
  }

  void endanger(std::optional<duration> left) {
    if (!has("danger_not_told")) endangered_(left);
    // Later: a signal that is still pending absorbs a second one.
    if (has("danger_told_twice")) at(clock::now() + std::chrono::seconds{1}, [this, left] { endangered_(left); });
  }

  void lose() {
    deadline_ = time_point::min();
    if (has("loss_not_told")) return;
    error_code const why = make_error_code(errc::lost);
    if (lost_) std::exchange(lost_, nullptr)(why);
    tell_followers(why, time_point::max());
  }

  void tell_followers(error_code why, time_point until) {
    for (follower& one : std::exchange(followers_, {})) {
      if (until > one.known) one.told(why);
      else followers_.push_back(std::move(one));
    }
  }

  struct follower {
    time_point known;
    std::function<void(error_code)> told;
  };

  asio::io_context& context_;
  lock_story story_;
  time_point deadline_ = time_point::min(), first_deadline_ = time_point::min();
  bool was_asked_ = false;
  bool told_once_ = false;
  std::vector<follower> followers_;
  std::function<void(error_code)> waiting_, lost_;
  std::function<void(std::optional<duration>)> endangered_;
  std::list<asio::steady_timer> timers_;
};

}  // namespace conch::test
