// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/core.hpp"

#include "base/failure.hpp"
#include "base/fork_safe_mutex.hpp"
#include "base/identity.hpp"
#include "base/introduction.hpp"
#include "base/process.hpp"
#include "base/readable.hpp"
#include "client/checked.hpp"
#include "client/completion.hpp"
#include "client/questions.hpp"
#include "client/registry.hpp"
#include "engine/detached.hpp"

#include <conch/owner.hpp>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace conch::detail {

namespace {

engine::cancel_type strongest(asio::cancellation_type type) {
  if ((type & asio::cancellation_type::terminal) != asio::cancellation_type::none) return engine::cancel_type::terminal;
  if ((type & asio::cancellation_type::partial) != asio::cancellation_type::none) return engine::cancel_type::partial;
  return engine::cancel_type::total;
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------ nodes

void retain(hold_node* n) noexcept { n->references.fetch_add(1, std::memory_order_relaxed); }

void let_go(hold_node* n) noexcept {
  if (n->references.fetch_sub(1, std::memory_order_acq_rel) == 1 && n->core->is_here()) {
    core_ptr const outlives = std::move(n->core);
    delete n;
  }
}

// ------------------------------------------------------------------------------------------------------------- core

/// One input: the client is locked from the start to finish().
class client_core::locked_input {
 public:
  explicit locked_input(client_core& core) : core_{core} {
    if (!core.is_here()) return;
    core.mutex_.lock();
    if (core.gone_) {
      core.mutex_.unlock();
      return;
    }
    is_locked_ = true;
    now_ = clock::now();
  }
  locked_input(locked_input const&) = delete;
  locked_input& operator=(locked_input const&) = delete;
  ~locked_input() {
    if (is_locked_) core_.mutex_.unlock();
    completed_.clear();
    if (!is_nested_) memory_.is_used = false;
  }

  /// False: there is nothing to be done in a child of a fork, or when the io_context is gone.
  explicit operator bool() const noexcept { return is_locked_; }
  time_point time() const noexcept { return now_; }
  /// Unlocks the client, and carries out what came of the input.
  void finish() {
    if (!is_locked_) return;
    core_.settle(now_, completed_);
    core_.own_executor_.give_up_work(no_more_work_);
    is_locked_ = false;
    core_.mutex_.unlock();
    for (ended& e : completed_) core_.completions_.complete(e);
  }

 private:
  /// Its memory is used again and again.
  struct memory {
    std::vector<ended> batch;
    bool is_used = false;
  };
  static memory& of_this_thread() {
    thread_local memory one;
    return one;
  }

  client_core& core_;
  memory& memory_ = of_this_thread();
  bool const is_nested_ = std::exchange(memory_.is_used, true);  // in a completion of another input
  std::vector<ended> own_;
  std::vector<ended>& completed_ = is_nested_ ? own_ : memory_.batch;
  std::optional<asio::any_io_executor> no_more_work_;
  time_point now_{};
  bool is_locked_ = false;
};

template <class F>
void client_core::enter(F&& f) {
  locked_input now{*this};
  if (now) f(now.time());
  now.finish();
}

std::shared_ptr<client_core> client_core::make(asio::any_io_executor executor, config settings,
                                               std::unique_ptr<servers::target const> target) {
  if (is_for_one_thread(context_of(executor))) {
    throw boost::system::system_error{
        make_error_code(errc::invalid_config,
                        "the io_context was made with BOOST_ASIO_CONCURRENCY_HINT_UNSAFE, and conch posts to it from "
                        "other threads; make it "
                        "with io_context{1}, and set single_threaded if one thread does everything")};
  }
  auto* const made = new client_core(std::move(executor), std::move(settings), std::move(target));
  std::shared_ptr<client_core> const core{made, [](client_core* c) { c->is_here() ? delete c : leave_alone(c); }};
  core_registry::of(core->executor()).add(core);
  client_numbers::add(core);
  return core;
}

// cppcheck-suppress passedByValue ; moved into its member, after strand_ has looked at it
client_core::client_core(asio::any_io_executor executor, config settings, std::unique_ptr<servers::target const> target)
    : own_executor_{std::move(executor)},
      strand_{settings.single_threaded ? own_executor_.get()
                                       : asio::any_io_executor{asio::make_strand(own_executor_.get())}},
      settings_{std::move(settings)},
      target_{std::move(target)},
      id_{new_client_id()},
      number_{client_numbers::next()},
      mutex_{!settings_.single_threaded},
      cohort_{settings_, timers_, *this, stats_},
      completions_{own_executor_, *this, nodes_, settings_.single_threaded},
      watchers_{completions_},
      danger_log_{*this, target_->shown()},
      observing_{settings_, mutex_, own_executor_, *this, completions_},
      requests_{cohort_, deployment_, *target_, completions_},
      introducing_{settings_, id_, timers_, *this},
      holder_names_{[this](std::string const& lock) { learn_holder(lock); }},
      random_{static_cast<std::minstd_rand::result_type>(seed_of(id_))},
      close_{settings_, timers_, cohort_, deployment_, completions_, [this] { stop_alarm(); }},
      alarm_{std::make_unique<alarm>(strand_)} {
  deployment_ = target_->make({settings_, id_, *this, strand_, timers_, cohort_, *this, stats_});
  cohort_.use(*deployment_.backend, target_->shown());
  cohort_.name_holders_by(holder_names_);
  introducing_.begin(*deployment_.backend, clock::now());
  inform("this client is " + name_and_id_of_client(*settings_.label, "", id_));
}

client_core::~client_core() { client_numbers::remove(number_); }

error_code client_core::elsewhere() const {
  if (is_here()) return {};
  return make_error_code(
      errc::closed,
      "this process is a fork of the one that made the client, and that one has its connection and its locks: "
      "make a client after the fork");
}

error_code client_core::refusal_of(acquire_options const& options) const {
  error_code const gone = elsewhere();
  return gone ? gone : checked_acquire(*this, options);
}

namespace {

/// A thread of this process, for a client whose own thread is in another one. It is never ended.
asio::any_io_executor thread_of_this_process() {
  static fork_safe_mutex& guard = *new fork_safe_mutex;
  static asio::thread_pool* pool = nullptr;
  static std::uint64_t process = 0;
  std::lock_guard const guarded{guard};
  if (process != this_process()) {
    pool = new asio::thread_pool{1};
    process = this_process();
  }
  return pool->get_executor();
}

}  // namespace

asio::any_io_executor client_core::failures_run_on() const {
  return has_own_thread_ && !is_here() ? thread_of_this_process() : executor();
}

statistics client_core::stats() {
  if (!is_here()) return {};
  std::lock_guard const guard{mutex_};
  statistics copy = stats_;
  deployment_.backend->report(copy);
  for (auto const& one : deployment_.connections) one->report(copy);
  copy.locks = observing_.names();
  return copy;
}

node_ref client_core::prepare(settings_ptr const& lock, acquire_options const& options, bool once,
                              acquire_handler handler, bool on_own_executor, engine::permit permit) {
  node_ref node{new hold_node{lock->core, std::move(handler)}};
  if (!on_own_executor) node->runs_on = work_of(executor(), node->on_acquired);
  node->once = once;
  node->fixed = !options.renew.value_or(lock->renew);
  node->lease = std::chrono::duration_cast<std::chrono::milliseconds>(options.lease.value_or(lock->lease));
  if (!options.note.empty() || options.task != nullptr) {
    owner_ptr task = options.task != nullptr ? options.task->state() : nullptr;
    node->note = std::make_unique<noted>(*node, lock, options.note, std::move(task));
  }
  if (options.at_least != duration::zero())
    node->at_least = std::chrono::ceil<std::chrono::milliseconds>(options.at_least);
  node->max_hold = options.max_hold.value_or(lock->max_hold.value_or(duration::max()));
  node->permit = std::move(permit);
  auto slot = asio::get_associated_cancellation_slot(node->on_acquired);
  if (slot.is_connected()) {
    slot.assign([node](asio::cancellation_type type) {
      node_ref const outlives = node;
      outlives->core->cancel(*outlives, type);
    });
  }
  return node;
}

/// With the client locked, just before the cohort is given the node.
void client_core::begin(node_ref node, std::optional<duration> wait, time_point now) {
  hold_node& n = nodes_.add(std::move(node));
  if (!n.runs_on) own_executor_.begin_operation();
  if (n.note) {
    n.note->keep_node();
    introducing_.add(*n.note, now);
  }
  if (wait) n.until = later_by(now, std::max(*wait, duration::zero()));
}

void client_core::acquire(settings_ptr const& lock, acquire_options const& options, bool once, acquire_handler handler,
                          bool on_own_executor, engine::permit permit) {
  if (error_code const wrong = refusal_of(options)) {
    post_at_once(failures_run_on(), std::move(handler), wrong, hold{number_});
    return;
  }
  node_ref node = prepare(lock, options, once, std::move(handler), on_own_executor, std::move(permit));
  enter([&](time_point now) {
    hold_node& n = *node;
    begin(std::move(node), options.wait, now);
    if (n.permit.kind == engine::permit_kind::segments) {
      n.permit.start = static_cast<std::uint32_t>(random_()) % n.permit.limit;
    }
    cohort_.acquire(n, lock->name, now);
  });
}

std::vector<node_ref> client_core::prepare_tries(std::vector<wanted>& locks, acquire_options const& options) {
  std::vector<node_ref> nodes;
  for (wanted& w : locks) nodes.push_back(prepare(w.lock, options, true, std::move(w.handler), true, {}));
  return nodes;
}

void client_core::try_all(std::vector<wanted> const& locks, std::vector<node_ref> nodes, std::optional<duration> wait) {
  std::vector<engine::named_acquisition> all;
  for (std::size_t i = 0; i < locks.size(); ++i) all.push_back({&*nodes[i], locks[i].lock->name});
  enter([&](time_point now) {
    for (node_ref& node : nodes) begin(std::move(node), wait, now);
    cohort_.try_all(all, now);
  });
}

void client_core::ask_who_has(std::string const& lock, std::function<void(std::string holder)> handler) {
  // Not here: this is inside of an input.
  asio::post(strand_, [keep = shared_from_this(), lock, handler = std::move(handler)] {
    detail::ask_who_has(std::make_shared<lock_settings>(lock_settings{keep, lock, keep->settings_.lease, true}),
                        handler);
  });
}

void client_core::learn_holder(std::string const& lock) {
  ask_who_has(lock, [this, lock](std::string holder) {
    enter([&](time_point) { holder_names_.answered(lock, std::move(holder)); });
  });
}

/// One of those that are lost within ten seconds: all may be.
void client_core::log_new_holder(std::string const& lock, time_point now) {
  if (now < next_new_holder_) return;
  next_new_holder_ = now + std::chrono::seconds{10};
  ask_who_has(lock, [this, lock](std::string const& holder) {
    if (!holder.empty()) inform("lock " + in_quotes(lock) + " is now held by " + holder);
  });
}

void client_core::look_for_deadlock(engine::noted_acquire& n) {
  // Not here: this is inside of an input.
  asio::post(strand_, [keep = shared_from_this(), node = node_ref{&static_cast<noted&>(n).node()}] {
    start_walk(node->note->settings, [keep, node](error_code why, engine::wait_walk const& walk, auto const&) {
      if (!why && walk.is_to_end(keep->id_, node->note->task(), node->note->lock()))
        keep->refuse(*node, to_chain(walk).text());
    });
  });
}

void client_core::refuse(hold_node& n, std::string const& why) {
  enter([&](time_point now) {
    if (n.phase != engine::acquisition_phase::waiting) return;
    n.note->refusal = make_error_code(errc::would_deadlock, why);
    cohort_.cancel(n, strongest(asio::cancellation_type::terminal), now);
  });
}

void client_core::cancel(hold_node& n, asio::cancellation_type type) {
  if (type == asio::cancellation_type::none) return;
  enter([&](time_point now) { cohort_.cancel(n, strongest(type), now); });
}

void client_core::release(node_ref n, release_handler handler, bool on_own_executor) {
  error_code wrong = elsewhere();
  if (!wrong && n->given_back.exchange(true)) wrong = make_error_code(errc::not_held);
  if (wrong) {
    post_at_once(failures_run_on(), std::move(handler), wrong, false);
    return;
  }
  n->on_released.swap(handler);
  if (!on_own_executor) n->runs_on = work_of(executor(), n->on_released);
  enter([&](time_point now) {
    if (!n->runs_on) own_executor_.begin_operation();
    changed(*n);
    watchers_.stop_all(*n, asio::error::operation_aborted);
    cohort_.release(*n, now);
  });
}

void client_core::extend(node_ref n, duration lease, release_handler handler) {
  error_code wrong = checked_lease(*this, "the lease of async_extend", lease);
  if (n->given_back) wrong = make_error_code(errc::not_held);
  if (error_code const gone = elsewhere()) wrong = gone;
  if (wrong) {
    post_at_once(failures_run_on(), std::move(handler), wrong, false);
    return;
  }
  auto const call = std::make_shared<extension_call>(std::move(handler));
  call->runs_on = work_of(executor(), call->handler);
  enter([&](time_point now) {
    n->made_calls().extensions.push_back(call);
    cohort_.extend(*n, std::chrono::duration_cast<std::chrono::milliseconds>(lease), now);
  });
}

void client_core::detach(node_ref n, detach_handler handler) {
  engine::capabilities const offered = deployment_.backend->offers();
  error_code wrong = elsewhere();
  if (!wrong && !offered.adoption) wrong = engine::not_offered(offered, "hold::async_detach");
  if (!wrong && n->at_least.count() != 0)
    wrong = make_error_code(errc::not_supported, "hold::async_detach of a hold with acquire_options::at_least");
  if (!wrong && n->given_back.exchange(true)) wrong = make_error_code(errc::not_held);
  if (wrong) {
    post_at_once(failures_run_on(), std::move(handler), wrong, std::string{});
    return;
  }
  auto const call = std::make_shared<detach_call>(std::move(handler));
  call->runs_on = work_of(executor(), call->handler);
  enter([&](time_point now) {
    changed(*n);
    n->made_calls().detaching = call;
    watchers_.stop_all(*n, asio::error::operation_aborted);
    cohort_.detach(*n, now);
  });
}

void client_core::adopt(settings_ptr const& lock, std::string_view detached, acquire_handler handler,
                        bool on_own_executor, engine::permit permit) {
  auto const from = engine::read_detached(detached);
  error_code wrong = elsewhere();
  if (wrong) {
    // nothing else matters
  } else if (!from) {
    wrong = make_error_code(errc::invalid_config, "this text is not what hold::async_detach gives");
  } else if (from->kind != permit.kind) {
    wrong = make_error_code(errc::invalid_config, "the detached hold is of a lock of another kind");
  } else if (from->name != lock->name) {
    wrong = make_error_code(errc::invalid_config, "the detached hold is of the lock " + readable(from->name) +
                                                      ", and this is " + readable(lock->name));
  } else {
    wrong = checked_lease(*this, "the lease of the detached hold", from->lease);
  }
  if (wrong) {
    post_at_once(failures_run_on(), std::move(handler), wrong, hold{number_});
    return;
  }
  if (permit) permit.weight = from->share;
  acquire_options options;
  options.lease = from->lease;
  node_ref node = prepare(lock, options, true, std::move(handler), on_own_executor, std::move(permit));
  node->adopts = std::make_unique<engine::adoption const>(engine::adoption{from->origin(), from->next_index()});
  enter([&](time_point now) {
    hold_node& n = *node;
    begin(std::move(node), std::nullopt, now);
    cohort_.acquire(n, lock->name, now);
  });
}

void client_core::abandon(hold_node& n) {
  if (n.given_back.load(std::memory_order_acquire) || !is_here() || n.given_back.exchange(true)) return;
  enter([&](time_point now) {
    changed(n);
    watchers_.stop_all(n, asio::error::operation_aborted);
    cohort_.abandon(n, now);
    nodes_.remove(n);  // the caller refers to it as well
  });
}

std::uint32_t client_core::permits_of(hold_node const& n) {
  if (!is_here()) return 0;
  std::lock_guard const guard{mutex_};
  return n.permit.kind == engine::permit_kind::semaphore ? n.permit.weight : 1;
}

std::shared_ptr<hold_watcher> client_core::watch(node_ref n, hold_event event, lost_handler handler) {
  auto const w = std::make_shared<hold_watcher>(std::move(handler), event);
  bool const of_request = event.what == hold_event::kind::request;
  w->runs_on = work_of(failures_run_on(), w->handler);
  if (error_code const why = elsewhere()) {
    w->complete(failures_run_on(), why, false);
    return w;
  }
  auto slot = asio::get_associated_cancellation_slot(w->handler);
  if (slot.is_connected()) {
    slot.assign([n, w](asio::cancellation_type) {
      node_ref const outlives = n;
      outlives->core->stop_watching(*outlives, std::shared_ptr{w});
    });
  }
  enter([&](time_point now) {
    if (of_request && !deployment_.backend->offers().inspection) {
      completions_.call(w, n, engine::not_offered(deployment_.backend->offers(), "hold::async_requested"));
    } else if (n->phase == engine::acquisition_phase::holding && event.what == hold_event::kind::renewal &&
               n->deadline() > event.known) {
      completions_.call(w, n);
    } else if (n->endangered && event.what == hold_event::kind::danger) {
      completions_.call(w, n);
    } else if (n->phase == engine::acquisition_phase::holding) {
      watchers_.add(*n, w);
      if (of_request) cohort_.watch_requests(*n, now);
    } else {
      error_code const why = n->loss && !n->given_back ? n->loss : make_error_code(errc::not_held);
      completions_.call(w, n, why);
    }
  });
  return w;
}

void client_core::stop_watching(hold_node& n, std::shared_ptr<hold_watcher> const& w) {
  enter([&](time_point) { watchers_.stop(n, w); });
}

// ------------------------------------------------------------------------------------------------ input and output

void client_core::enter_with(input& i) {
  enter([&](time_point now) { i.apply(now); });
}

void client_core::run(input&& i) {
  try {
    completions_.begin_turn();
    try {
      locked_input now{*this};
      if (now) i.apply(now.time());
      now.finish();
    } catch (...) {
      completions_.leave_turn();
      throw;
    }
    completions_.end_turn();
  } catch (...) {  // of a user's handler
    i.carry_out();
    throw;
  }
  i.carry_out();
}

void client_core::settle(time_point now, std::vector<ended>& batch) {
  introducing_.settle(now);
  close_.settle();
  if (!close_.done() && timers_.next() < armed_) {
    armed_ = timers_.next();
    alarm_->arm(armed_);
    if (!alarm_started_) {
      alarm_started_ = true;
      asio::post(strand_, [this, keep = shared_from_this()] { start_alarm(); });
    }
  }
  danger_log_.write();
  completions_.take(batch);
}

void client_core::stop_alarm() {
  asio::post(strand_, [this, keep = shared_from_this()] {
    if (alarm_) alarm_->stop();
  });
}

void client_core::start_alarm() {
  {
    std::lock_guard const guard{mutex_};
    if (gone_ || close_.done()) return;
  }
  alarm_->start(shared_from_this(), [this] {
    enter([this](time_point now) {
      armed_ = timer_queue::never;
      cohort_.tick(now);
    });
  });
}

void client_core::on_acquired(engine::acquisition& a, engine::acquired how, error_code why) {
  auto& n = static_cast<hold_node&>(a);
  changed(n);
  bool const is_granted = how == engine::acquired::granted;
  if (!is_granted && n.note && n.note->refusal) why = n.note->refusal;
  completions_.acquired(n, is_granted, why);
}

void client_core::on_lost(engine::acquisition& a, error_code why) {
  auto& n = static_cast<hold_node&>(a);
  n.loss = why;
  danger_log_.lost(why);
  if (settings_.log) log_new_holder(a.lock->name, clock::now());
  changed(n);
  watchers_.stop_all(n, why);
}

void client_core::on_requested(engine::acquisition& a) { watchers_.requested(static_cast<hold_node&>(a)); }

void client_core::on_renewed(engine::acquisition& a) { watchers_.renewed(static_cast<hold_node&>(a)); }

void client_core::on_endangered(engine::acquisition& a, engine::danger const& d) {
  danger_log_.endangered(a.lock->name, d);
  watchers_.endangered(static_cast<hold_node&>(a));
}

void client_core::on_safe_again(engine::acquisition& a) { danger_log_.safe_again(a.lock->name); }

void client_core::on_released(engine::acquisition& a, bool was_held, error_code why) {
  completions_.released(static_cast<hold_node&>(a), was_held, why);
}

/// All that have asked for another lease meanwhile: the last one has been reached.
void client_core::on_extended(engine::acquisition& a, bool is_held, error_code why) {
  auto& n = static_cast<hold_node&>(a);
  if (!n.calls) return;
  for (auto& call : std::exchange(n.calls->extensions, {})) {
    completions_.call(std::move(call), node_ref{&n}, why, is_held);
  }
}

void client_core::on_detached(engine::acquisition& a, error_code why) {
  auto& n = static_cast<hold_node&>(a);
  auto call = std::move(n.calls->detaching);
  if (!why) {
    engine::place const& p = *n.lock->place;
    std::uint32_t const share = n.permit ? n.permit.weight : 1;
    call->text =
        engine::to_text(engine::detached{n.lock->name, id_ + '.' + engine::to_text(deployment_.backend->grant_of(p)),
                                         n.fence, p.lease, n.permit.kind, share});
  }
  completions_.call(std::move(call), nodes_.remove(n), why);
}

void client_core::on_observed(engine::acquisition& a, engine::observation const& o) {
  observing_.add(static_cast<hold_node&>(a), o);
}

void client_core::note(bool is_error, std::string_view words) {
  log(is_error ? log_level::error : log_level::warning, words);
}

void client_core::inform(std::string_view words) { log(log_level::info, words); }

void client_core::log(log_level level, std::string_view words) {
  if (settings_.log) settings_.log(level, readable_line(words));
}

// ------------------------------------------------------------------------------------------------ requests and the end

void client_core::ask(std::shared_ptr<client_request> q) {
  if (error_code const why = elsewhere()) {
    q->why = why;
    q->complete(failures_run_on(), {}, false);
    return;
  }
  enter([&](time_point now) { requests_.ask(std::move(q), close_.begun(), now); });
}

void client_core::withdraw(std::shared_ptr<client_request> const& q) {
  enter([&](time_point) { requests_.withdraw(q); });
}

void client_core::close(duration timeout, close_handler handler) {
  if (error_code const why = elsewhere()) return post_at_once(failures_run_on(), std::move(handler), why);
  bool begun = false;
  enter([&](time_point now) {
    if (close_.begun()) return;
    begun = true;
    auto const call = std::make_shared<close_call>(std::move(handler));
    call->runs_on = work_of(executor(), call->handler);
    close_.begin(now, timeout, call);
  });
  if (!begun) post_at_once(executor(), std::move(handler), make_error_code(errc::closed));
}

void client_core::close_in_background() {
  enter([&](time_point now) {
    if (!close_.begun()) close_.begin(now, duration::zero(), nullptr);
  });
}

void client_core::context_gone() {
  if (!is_here()) return;
  std::vector<node_ref> nodes;
  std::vector<reported_event> unreported;
  {
    std::lock_guard const guard{mutex_};
    gone_ = true;
    nodes = nodes_.remove_all();
    unreported = observing_.stop();
    introducing_.drop();
  }
  // The end of a handler may end a coroutine, and with it a client, mutexes and holds. So nothing is locked now.
  for (node_ref const& n : nodes) {
    acquire_handler acquired{std::move(n->on_acquired)};
    release_handler released;
    released.swap(n->on_released);
    if (auto const calls = std::move(n->calls)) {
      for (auto const& w : calls->watchers) w->drop();
      for (auto const& call : calls->extensions) call->drop();
      if (calls->detaching) calls->detaching->drop();
    }
    n->runs_on = {};
  }
  requests_.drop();
  close_.drop();
  completions_.drop();
  std::vector<std::unique_ptr<server_connection>> connections;
  {
    std::lock_guard const guard{mutex_};
    for (auto const& one : deployment_.connections) one->report(stats_);  // what they have counted stays
    connections.swap(deployment_.connections);
  }
  connections.clear();
  alarm_.reset();
  strand_ = {};
  own_executor_.drop();
}

}  // namespace conch::detail
