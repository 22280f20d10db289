// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/locks.hpp"

#include "base/identity.hpp"
#include "base/log_line.hpp"
#include "cli/operator.hpp"
#include "cli/option_table.hpp"
#include "cli/output.hpp"
#include "cli/show.hpp"

#include <conch/client.hpp>
#include <conch/hold.hpp>
#include <conch/log.hpp>
#include <conch/multi_lock.hpp>
#include <conch/mutex.hpp>
#include <conch/named_lock.hpp>
#include <conch/observer.hpp>
#include <conch/owner.hpp>
#include <conch/semaphore.hpp>
#include <conch/shared_mutex.hpp>
#include <conch/striped_mutex.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

namespace conch::cli {

namespace {

struct wanted_lock {
  std::variant<mutex, shared_mutex, semaphore, striped_mutex> of;

  named_lock const& name() const {
    return std::visit([](auto const& one) -> named_lock const& { return one; }, of);
  }
};

/// Has a server reported that the lock is not free? A wait also times out while no server has answered. And are holds
/// endangered?
class run_observer final : public observer {
 public:
  bool said_not_free() const noexcept { return said_; }

  std::function<void()> short_of_replicas;                    // is called once
  std::function<void(std::optional<duration>)> is_in_danger;  // the first of the holds; nothing: none any more

 private:
  void on_queued(lock_event const&) override { said_ = true; }
  void on_retried(lock_event const&, retry_reason why) override {
    using enum retry_reason;
    if (why == replicas_missing && short_of_replicas) std::exchange(short_of_replicas, {})();
    if (why == votes_given_back || why == grant_late || why == push_doubted || why == safety_check) said_ = true;
  }
  void on_not_granted(lock_event const&, error_code why, duration) override {
    if (!why) said_ = true;  // the try of one of several
  }
  void on_endangered(lock_event const& e, duration left) override {
    endangered_.insert(e.acquire);
    if (endangered_.size() == 1 && is_in_danger) is_in_danger(left);
  }
  void on_safe_again(lock_event const& e) override {
    endangered_.erase(e.acquire);
    if (endangered_.empty() && is_in_danger) is_in_danger(std::nullopt);
  }
  void on_released(lock_event const& e, duration) override { endangered_.erase(e.acquire); }
  void on_lost(lock_event const& e, error_code, duration) override { endangered_.erase(e.acquire); }

  bool said_ = false;
  std::set<std::uint64_t> endangered_;  // the numbers of their acquires
};

/// The name of the job's program, without its folder.
std::string program_of(arguments const& given) {
  std::string const& path = given.child.front();
  return path.substr(path.rfind('/') + 1);
}

config settings_of(arguments const& given, connection const& servers, std::shared_ptr<observer> looks_on) {
  config c = servers.settings;
  // A person who looks for the holder wants to know the job.
  if (!c.label) c.label = detail::label_of(program_of(given));
  if (given.lease) c.lease = *given.lease;
  if (given.grace) c.stop_margin = *given.grace;
  // As log_to_stderr, but a reader that has stopped must not keep the client from renewing.
  if (given.verbose)
    c.log = [](log_level level, std::string_view words) {
      print_error_if_there_is_room(formatted_log_line(level, words));
    };
  c.observer = std::move(looks_on);
  return c;
}

std::variant<mutex, shared_mutex, semaphore, striped_mutex> made(client& through, arguments const& given,
                                                                 std::string const& name) {
  switch (given.kind) {
    case lock_kind::shared:
    case lock_kind::exclusive: return shared_mutex{through, name};
    case lock_kind::semaphore: return semaphore{through, name, given.size};
    case lock_kind::striped: return striped_mutex{through, name, given.size};
    case lock_kind::mutex: break;
  }
  return mutex{through, name};
}

acquire_options options_of(arguments const& given) {
  acquire_options options;
  options.wait = given.wait;
  if (given.fixed_lease) options.renew = false;
  options.max_hold = given.max_hold;
  options.at_least = given.at_least;
  options.note = given.note;
  return options;
}

/// That of the `conch run` in whose job this runs; else a new one.
owner task_of_parent() {
  constexpr std::size_t longest = 64;
  char const* const given = std::getenv(child_variable::task);
  std::string_view const id = given != nullptr ? given : "";
  return id.empty() || id.size() > longest ? owner{} : owner{std::string{id}};
}

struct checks {
  std::size_t left = 0;
  bool all_held = true;
  std::function<void(bool)> done;
};

/// What was granted: one hold, or those of several mutexes.
struct held_locks {
  hold one;
  multi_hold several;
  bool is_several = false;

  /// f(the hold or the multi_hold)
  template <class F>
  auto with(F const& f) const {
    return is_several ? f(several) : f(one);
  }
};

class client_locks final : public run_locks {
 public:
  client_locks(asio::io_context& context, arguments const& given, connection const& servers)
      : client_{context.get_executor(), settings_of(given, servers, events_)},
        given_{given},
        patience_{context} {
    for (std::string const& name : given.names)
      locks_.push_back(std::make_unique<wanted_lock>(wanted_lock{made(client_, given, name)}));
  }

  /// The client lowers its margin in the same way, to a quarter of what is granted.
  duration grace() const { return std::min(client_.settings().stop_margin, client_.settings().lease / 4); }

  void acquire(std::function<void(error_code)> done) override {
    acquire_options options = options_of(given_);
    if (options.wait) {
      if (!wait_ends_) wait_ends_ = conch::detail::later_by(clock::now(), *options.wait);
      options.wait = std::min(*options.wait, *wait_ends_ - clock::now());
    }
    options.task = &task_;
    auto const slot = stop_.slot();
    if (locks_.size() > 1) {
      std::vector<mutex> all;
      for (auto const& one : locks_) all.push_back(std::get<mutex>(one->of));
      auto handler = [this, done = std::move(done)](error_code why, multi_hold h) {
        held_ = {hold{}, std::move(h), true};
        judge(why, done);
      };
      multi_lock{all}.async_acquire(options, asio::bind_cancellation_slot(slot, std::move(handler)));
      return;
    }
    auto handler = asio::bind_cancellation_slot(slot, [this, done = std::move(done)](error_code why, hold h) {
      held_ = {std::move(h), multi_hold{}, false};
      judge(why, done);
    });
    if (given_.kind == lock_kind::shared) {
      std::get<shared_mutex>(locks_.front()->of).async_acquire_shared(options, std::move(handler));
    } else {
      std::visit([&](auto& one) { one.async_acquire(options, std::move(handler)); }, locks_.front()->of);
    }
  }

  void stop_waiting() override { stop_.emit(asio::cancellation_type::terminal); }
  std::string held_by() const override { return held_by_; }
  std::string task() const override { return task_.id(); }

  bool valid() const override {
    return held_.with([](auto const& h) { return h.valid(); });
  }
  time_point deadline() const override {
    return held_.with([](auto const& h) { return h.deadline(); });
  }
  duration lease() const override { return client_.settings().lease; }
  std::int64_t fence(std::string const& name) const override {
    return held_.is_several ? held_.several.fence(name) : held_.one.fence();
  }
  std::uint32_t segment() const override { return held_.is_several ? 0 : held_.one.segment(); }

  void when_lost(std::function<void(error_code)> callback) override {
    held_.with([&](auto const& h) { h.async_lost(std::move(callback)); });
  }
  void when_renewed(time_point known, std::function<void(error_code)> callback) override {
    held_.with([&](auto const& h) { h.async_renewed(known, std::move(callback)); });
  }

  void release(std::function<void(error_code, bool)> done) override {
    if (held_.is_several) {
      held_.several.async_release(std::move(done));
    } else {
      held_.one.async_release(std::move(done));
    }
  }
  void when_short_of_replicas(std::function<void()> callback) override {
    events_->short_of_replicas = std::move(callback);
  }
  void when_endangered(std::function<void(std::optional<duration>)> callback) override {
    events_->is_in_danger = std::move(callback);
  }
  void drop() override { held_ = {}; }
  void close(std::function<void()> done) override {
    client_.async_close(duration::zero(), [done = std::move(done)](error_code) { done(); });
  }

  void check(std::function<void(bool)> done) override;

 private:
  /// The observer may receive the end a moment later than this.
  void judge(error_code why, std::function<void(error_code)> const& done) {
    asio::post(client_.get_executor(), [this, why, done] {
      error_code const known = judged(why);
      if (known != errc::timed_out) return done(known);
      patience_.expires_after(std::chrono::seconds{1});  // a person waits for the exit
      patience_.async_wait([this](error_code stopped) {
        if (!stopped) stop_waiting();
      });
      ask_who_has(0, [this, known, done] {
        patience_.cancel();
        done(known);
      });
    });
  }

  /// Those from this one on, one after another, until one is held.
  void ask_who_has(std::size_t i, std::function<void()> done) {
    if (i == locks_.size()) return done();
    auto handler = [this, i, done = std::move(done)](error_code why, lock_status const& now) {
      if (!why && now.holders.empty()) return ask_who_has(i + 1, done);
      if (!why) held_by_ = name_of(now.holders.front());
      done();
    };
    locks_[i]->name().async_inspect(asio::bind_cancellation_slot(stop_.slot(), std::move(handler)));
  }

  /// The library's words name the lock and the server, and the reason: the server may have answered that it is not
  /// ready.
  error_code judged(error_code why) const {
    bool const one_attempt = given_.wait && *given_.wait <= duration::zero();  // it times out because of an answer only
    if (why != errc::timed_out || one_attempt || events_->said_not_free()) return why;
    return make_error_code(errc::unreachable, why.message());
  }

  std::shared_ptr<run_observer> const events_ = std::make_shared<run_observer>();
  client client_;
  arguments const& given_;
  std::vector<std::unique_ptr<wanted_lock>> locks_;
  asio::cancellation_signal stop_;
  std::optional<time_point> wait_ends_;
  asio::steady_timer patience_;
  std::string held_by_;
  owner const task_ = task_of_parent();
  held_locks held_;
};

void client_locks::check(std::function<void(bool)> done) {
  if (!valid()) {
    asio::post(client_.get_executor(), [done = std::move(done)] { done(false); });
    return;
  }
  auto const all = std::make_shared<checks>(checks{locks_.size(), true, std::move(done)});
  for (auto const& one : locks_) {
    std::int64_t const granted = this->fence(one->name().name());
    one->name().async_inspect([this, all, granted](error_code why, lock_status now) {
      bool const is_known = !why && (!now.holders.empty() || now.held == 0);
      bool const mine = std::any_of(now.holders.begin(), now.holders.end(), [&](lock_holder const& h) {
        return h.client == client_.id() && same_grant(h.fence, granted);
      });
      bool const may_be_unnamed = now.held > now.holders.size();
      if (is_known && !mine && !may_be_unnamed) all->all_held = false;
      if (--all->left == 0) all->done(all->all_held && valid());
    });
  }
}

}  // namespace

library_locks locks_of(asio::io_context& context, arguments const& given, connection const& servers) {
  auto locks = std::make_unique<client_locks>(context, given, servers);
  duration const grace = locks->grace();
  return {std::move(locks), grace};
}

}  // namespace conch::cli
