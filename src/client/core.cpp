// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/core.hpp"

#include "base/identity.hpp"
#include "base/readable.hpp"
#include "client/admin.hpp"
#include "client/completion.hpp"
#include "client/registry.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/execution/relationship.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <utility>

namespace conch::detail {

namespace {

engine::cancel_type strongest(asio::cancellation_type type) {
  if ((type & asio::cancellation_type::terminal) != asio::cancellation_type::none) return engine::cancel_type::terminal;
  if ((type & asio::cancellation_type::partial) != asio::cancellation_type::none) return engine::cancel_type::partial;
  return engine::cancel_type::total;
}

/// A watcher's cancellation slot refers to it, and the handler may own that slot: only the handler's end ends that circle.
void forget(loss_watcher& w) {
  lost_handler const dropped{std::move(w.handler)};
  w.whose = {};
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------ nodes

hold_node::hold_node(core_ptr c, acquire_handler handler) : core{std::move(c)}, on_acquired{std::move(handler)} {
  std::lock_guard const guard{core->nodes_mutex_};
  next = core->nodes_;
  if (next != nullptr) next->previous = this;
  core->nodes_ = this;
}

void client_core::strike_off(hold_node& n) noexcept {
  std::lock_guard const guard{nodes_mutex_};
  if (n.next != nullptr) n.next->previous = n.previous;
  if (n.previous != nullptr) {
    n.previous->next = n.next;
  } else {
    nodes_ = n.next;
  }
}

void retain(hold_node* n) noexcept { n->references.fetch_add(1, std::memory_order_relaxed); }

void let_go(hold_node* n) noexcept {
  if (n->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    core_ptr const outlives = std::move(n->core);
    outlives->strike_off(*n);
    delete n;
  }
}

// ------------------------------------------------------------------------------------------------------------- core

template <class F>
void client_core::enter(F&& f) {
  thread_local std::vector<ready> spare;  // its memory is used again
  std::vector<ready> batch = std::move(spare);
  asio::any_io_executor no_more_work;
  {
    std::lock_guard const guard{mutex_};
    if (gone_) return;
    time_point const now = clock::now();
    f(now);
    settle(now, batch);
    if (operations_on_own_executor_ == 0 && own_work_) no_more_work.swap(own_work_);
  }
  carry_out(batch);
  batch.clear();
  spare = std::move(batch);
}

/// The same for what is compiled elsewhere.
void client_core::enter_for(std::function<void(time_point)> const& f) { enter(f); }

std::shared_ptr<client_core> client_core::make(asio::any_io_executor executor, config settings) {
  auto core = std::make_shared<client_core>(std::move(executor), std::move(settings));
  core_registry::of(core->executor_).add(core);
  return core;
}

// cppcheck-suppress passedByValue ; moved into its member, after strand_ has looked at it
client_core::client_core(asio::any_io_executor executor, config settings)
    : executor_{std::move(executor)}, own_executor_{asio::prefer(asio::require(executor_, asio::execution::blocking.never),
                                                                 asio::execution::relationship.fork)},
      strand_{settings.single_threaded ? executor_ : asio::any_io_executor{asio::make_strand(executor_)}}, settings_{std::move(settings)},
      id_{new_client_id()}, mutex_{!settings_.single_threaded}, cohort_{settings_, timers_, *this, stats_},
      deployment_{backends::make({settings_, id_, *this, strand_, timers_, cohort_, *this, stats_})},
      random_{static_cast<std::minstd_rand::result_type>(seed_of(id_))}, close_timer_{this,
                                                                                      [](void* self, time_point now) {
                                                                                        static_cast<client_core*>(self)->close_due(now);
                                                                                      }},
      alarm_{std::make_unique<alarm>(strand_)}, nodes_mutex_{!settings_.single_threaded} {
  cohort_.use(*deployment_.backend);
}

client_core::~client_core() = default;

statistics client_core::stats() {
  std::lock_guard const guard{mutex_};
  statistics copy = stats_;
  deployment_.backend->report(copy);
  return copy;
}

node_ref client_core::prepare(settings_ptr const& lock, bool once, acquire_handler handler, bool on_own_executor, engine::permit permit) {
  node_ref node{new hold_node{lock->core, std::move(handler)}};
  if (!on_own_executor) node->whose = work_of(executor_, node->on_acquired);
  node->once = once;
  node->fixed = !lock->renew;
  node->lease = std::chrono::duration_cast<std::chrono::milliseconds>(lock->lease);
  if (lock->max_hold) node->max_hold = *lock->max_hold;
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

/// With the engine locked, just before it is given to the engine.
void client_core::begin(node_ref node, std::optional<duration> wait, time_point now) {
  hold_node& n = *node;
  n.of_engine = std::move(node);
  begin_operation(n);
  if (wait) n.until = later_by(now, std::max(*wait, duration::zero()));
}

void client_core::acquire(settings_ptr const& lock, std::optional<duration> wait, bool once, acquire_handler handler, bool on_own_executor,
                          engine::permit permit) {
  node_ref node = prepare(lock, once, std::move(handler), on_own_executor, std::move(permit));
  enter([&](time_point now) {
    hold_node& n = *node;
    begin(std::move(node), wait, now);
    if (n.permit.kind == engine::permit_kind::segments) {
      n.permit.start = static_cast<std::uint32_t>(random_()) % n.permit.limit;
    }
    cohort_.acquire(n, lock->name, now);
  });
}

std::vector<node_ref> client_core::prepare_tries(std::vector<wanted>& locks) {
  std::vector<node_ref> nodes;
  for (wanted& w : locks) nodes.push_back(prepare(w.lock, true, std::move(w.handler), true, {}));
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

void client_core::cancel(hold_node& n, asio::cancellation_type type) {
  if (type == asio::cancellation_type::none) return;
  enter([&](time_point now) { cohort_.cancel(n, strongest(type), now); });
}

void client_core::release(node_ref n, release_handler handler, bool on_own_executor) {
  if (n->given_back.exchange(true)) {
    post_at_once(executor_, std::move(handler), make_error_code(errc::not_held), false);
    return;
  }
  n->on_released.swap(handler);
  if (!on_own_executor) n->whose = work_of(executor_, n->on_released);
  enter([&](time_point now) {
    begin_operation(*n);
    stop_watchers(*n, asio::error::operation_aborted);
    cohort_.release(*n, now);
  });
}

void client_core::abandon(hold_node& n) {
  if (n.given_back.exchange(true)) return;
  enter([&](time_point now) {
    stop_watchers(n, asio::error::operation_aborted);
    cohort_.abandon(n, now);
    n.of_engine = {};  // the caller refers to it as well
  });
}

/// Those that run at home share one piece of work, which lasts until the last of them is posted.
void client_core::begin_operation(hold_node const& n) {
  if (n.whose || operations_on_own_executor_++ != 0) return;
  own_work_ = asio::prefer(executor_, asio::execution::outstanding_work.tracked);
}

void client_core::end_operation(hold_node const& n) {
  if (!n.whose) --operations_on_own_executor_;
}

void client_core::watch_loss(node_ref n, lost_handler handler) {
  auto const w = std::make_shared<loss_watcher>(loss_watcher{std::move(handler), {}});
  w->whose = work_of(executor_, w->handler);
  auto slot = asio::get_associated_cancellation_slot(w->handler);
  if (slot.is_connected()) {
    slot.assign([n, w](asio::cancellation_type) {
      node_ref const outlives = n;
      outlives->core->stop_watching(*outlives, std::shared_ptr{w});
    });
  }
  enter([&](time_point) {
    if (n->at == engine::acquisition::phase::holding) {
      w->at_hold = n->watchers.insert(n->watchers.end(), w);
    } else {
      error_code const why = n->loss && !n->given_back ? n->loss : make_error_code(errc::not_held);
      ready_.push_back({ready::kind::watcher, n, why, false, w});
    }
  });
}

void client_core::stop_watching(hold_node& n, std::shared_ptr<loss_watcher> const& w) {
  enter([&](time_point) {
    if (!w->at_hold) return;
    n.watchers.erase(*std::exchange(w->at_hold, std::nullopt));
    ready_.push_back({ready::kind::watcher, node_ref{&n}, asio::error::operation_aborted, false, w});
  });
}

void client_core::stop_watchers(hold_node& n, error_code why) {
  for (auto const& w : n.watchers) {
    w->at_hold.reset();
    ready_.push_back({ready::kind::watcher, node_ref{&n}, why, false, w});
  }
  n.watchers.clear();
}

// ------------------------------------------------------------------------------------------------ input and output

void client_core::enter_with(input& i) {
  enter([&](time_point now) { i.apply(now); });
}

void client_core::settle(time_point, std::vector<ready>& batch) {
  // The cheap question first: idle() looks at every lock.
  if ((closing_ == closing::draining || closing_ == closing::giving_back) && deployment_.backend->settled() && cohort_.idle()) {
    end_close({});
  }
  if (closing_ != closing::done && timers_.next() < armed_) {
    armed_ = timers_.next();
    alarm_->arm(armed_);
    if (!alarm_started_) {
      alarm_started_ = true;
      asio::post(strand_, [this, keep = shared_from_this()] { start_alarm(); });
    }
  }
  batch.swap(ready_);
}

void client_core::start_alarm() {
  {
    std::lock_guard const guard{mutex_};
    if (gone_ || closing_ == closing::done) return;
  }
  alarm_->start(shared_from_this(), [this] {
    enter([this](time_point now) {
      armed_ = engine::timer_queue::never;
      cohort_.tick(now);
    });
  });
}

/// Calls call(handler, what it is to be called with...) for an operation that has ended. Nothing of `r` is needed any more then.
template <class Call>
void client_core::end_of_operation(ready& r, Call const& call) {
  if (r.what == ready::kind::released) {
    release_handler handler{std::move(r.node->on_released)};
    r.node = {};
    call(std::move(handler), r.why, r.was_held);
    return;
  }
  bool const granted = r.what == ready::kind::granted;
  acquire_handler handler{std::move(r.node->on_acquired)};
  hold h = granted ? hold{std::move(r.node)} : hold{};
  r.node = {};
  call(std::move(handler), granted ? error_code{} : r.why, std::move(h));
}

void client_core::carry_out(std::vector<ready>& batch) {
  for (ready& r : batch) {
    switch (r.what) {
      case ready::kind::granted:
      case ready::kind::not_granted:
      case ready::kind::released: complete_operation(r); break;
      case ready::kind::watcher: {
        lost_handler handler{std::move(r.watcher->handler)};
        post_completion(executor_, std::exchange(r.watcher->whose, {}), std::move(handler), r.why);
        break;
      }
      case ready::kind::answered: r.asked->complete(executor_); break;
      case ready::kind::closed: {
        close_handler handler{std::move(*on_closed_)};
        on_closed_.reset();
        post_completion(executor_, std::exchange(whose_close_, {}), std::move(handler), r.why);
        break;
      }
    }
  }
}

void client_core::complete_operation(ready& r) {
  if (r.node->whose) {
    auto whose = std::exchange(r.node->whose, {});
    end_of_operation(r, [&](auto handler, auto... args) { post_completion(executor_, std::move(whose), std::move(handler), std::move(args)...); });
  } else if (settings_.single_threaded) {
    if (due_here_.empty() && !in_turn_) want_turn();
    due_here_.push_back(std::move(r));
  } else {
    end_of_operation(r, [&]<class Handler, class... Args>(Handler handler, Args... args) {
      own_executor_.execute(completion<Handler, Args...>{std::move(handler), {std::move(args)...}});
    });
  }
}

// Where one thread does everything, a handler at home need not go through the event loop by itself. It is called when the
// handler that is running now has ended (its turn), which is as good as behind it in the loop's queue. The loop sees to
// everybody else after a few of them.

void client_core::want_turn() {
  own_executor_.execute([keep = shared_from_this()] {
    keep->begin_turn();
    keep->end_turn();
  });
}

void client_core::begin_turn() { in_turn_ = settings_.single_threaded; }

void client_core::end_turn() {
  if (!in_turn_) return;
  constexpr std::size_t more = 16;  // of those that come up in this turn
  struct end {
    client_core& core;
    ~end() { core.leave_turn(); }
  } const at_the_end{*this};
  for (std::size_t left = due_here_.size() + more; left != 0 && !due_here_.empty(); --left) {
    ready r{std::move(due_here_.front())};
    due_here_.pop_front();
    end_of_operation(r, []<class Handler, class... Args>(Handler handler, Args... args) {
      completion<Handler, Args...>{std::move(handler), {std::move(args)...}}();
    });
  }
}

void client_core::leave_turn() {
  in_turn_ = false;
  if (!due_here_.empty()) want_turn();
}

void client_core::on_acquired(engine::acquisition& a, engine::acquired how, error_code why) {
  auto& n = static_cast<hold_node&>(a);
  bool const granted = how == engine::acquired::granted;
  end_operation(n);
  if (granted) {
    ready_.push_back({ready::kind::granted, node_ref{&n}, why, false, nullptr});
  } else {
    ready_.push_back({ready::kind::not_granted, std::move(n.of_engine), why, false, nullptr});
  }
}

void client_core::on_lost(engine::acquisition& a, error_code why) {
  auto& n = static_cast<hold_node&>(a);
  n.loss = why;
  stop_watchers(n, why);
}

void client_core::on_released(engine::acquisition& a, bool was_held, error_code why) {
  auto& n = static_cast<hold_node&>(a);
  end_operation(n);
  ready_.push_back({ready::kind::released, std::move(n.of_engine), why, was_held, nullptr});
}

void client_core::note(bool is_error, std::string_view words) { log(is_error ? log_level::error : log_level::warning, words); }

void client_core::log(log_level level, std::string_view words) {
  if (settings_.log) settings_.log(level, readable(words, readable_line));
}

// ---------------------------------------------------------------------------------------------------------- closing

void client_core::close(duration timeout, close_handler handler) {
  bool begun = false;
  enter([&](time_point now) {
    if (closing_ != closing::no) return;
    begun = true;
    on_closed_.emplace(std::move(handler));
    whose_close_ = work_of(executor_, *on_closed_);
    begin_close(now, timeout, true);
  });
  if (!begun) post_at_once(executor_, std::move(handler), make_error_code(errc::closed));
}

void client_core::close_in_background() {
  enter([&](time_point now) {
    if (closing_ == closing::no) begin_close(now, duration::zero(), false);
  });
}

void client_core::begin_close(time_point now, duration timeout, bool drain) {
  closing_ = closing::draining;
  cohort_.close(now);
  deployment_.backend->prepare_close(now);
  if (drain && timeout > duration::zero()) {
    timers_.arm(close_timer_, later_by(now, timeout));
  } else {
    close_due(now);
  }
}

/// It ends when for a second the server has not got on with what is given back, however much that is. Whoever awaits it is told after
/// the first.
void client_core::close_due(time_point now) {
  std::uint64_t const progress = deployment_.backend->progress();
  if (closing_ == closing::draining) {
    closing_ = closing::giving_back;
    cohort_.give_back_everything(now);
  } else if (closing_ != closing::giving_back) {
    return;
  } else {
    tell_closed(make_error_code(errc::timed_out));
    if (progress == progress_ && !cohort_.ending()) {
      end_close(make_error_code(errc::timed_out));
      return;
    }
  }
  progress_ = progress;
  timers_.arm(close_timer_, now + std::min<duration>(settings_.command_timeout, std::chrono::seconds{1}));
}

void client_core::tell_closed(error_code why) {
  if (closed_told_ || !on_closed_) return;
  closed_told_ = true;
  ready_.push_back({ready::kind::closed, {}, why, false, nullptr});  // behind the waiters that it ended
}

void client_core::end_close(error_code why) {
  closing_ = closing::done;
  close_timer_.cancel();
  for (auto const& way : deployment_.transports) way->shut_down();
  asio::post(strand_, [this, keep = shared_from_this()] {
    if (alarm_) alarm_->stop();
  });
  tell_closed(why);
}

void client_core::context_gone() {
  std::vector<node_ref> nodes;
  {
    std::lock_guard const guard{mutex_};
    gone_ = true;
    std::lock_guard const nodes_guard{nodes_mutex_};
    for (hold_node* n = nodes_; n != nullptr; n = n->next) nodes.emplace_back(n);
  }
  // Destroying a handler may destroy a coroutine, and with it a client, mutexes and holds: nothing is locked now.
  for (node_ref const& n : nodes) {
    acquire_handler acquired{std::move(n->on_acquired)};
    release_handler released;
    released.swap(n->on_released);
    std::list<std::shared_ptr<loss_watcher>> watchers;
    watchers.swap(n->watchers);
    for (auto const& w : watchers) forget(*w);
    n->whose = {};
    n->of_engine = {};
  }
  for (ready const& r : ready_) {
    if (r.watcher) forget(*r.watcher);
    if (r.asked) r.asked->drop();
  }
  for (auto const& q : std::exchange(client_requests_, {})) {
    q->at_core.reset();
    q->drop();
  }
  on_closed_.reset();
  whose_close_ = {};
  ready_.clear();
  due_here_.clear();
  for (auto& way : deployment_.transports) way.reset();
  alarm_.reset();
  strand_ = {};
  own_work_ = {};
  own_executor_ = {};
  executor_ = {};
}

// --------------------------------------------------------------------------------- what the public templates call

asio::any_io_executor const& own_executor_of(settings_ptr const& lock) noexcept { return lock->core->executor(); }

asio::any_io_executor const& own_executor_of(node_ref const& node) noexcept { return node->core->executor(); }

asio::any_io_executor executor_of(hold_node const* node) noexcept {
  return node != nullptr ? node->core->executor() : asio::any_io_executor{asio::system_executor{}};
}

asio::any_io_executor executor_of(lock_settings const* lock) noexcept { return lock->core->executor(); }

asio::any_io_executor executor_of(client_core const* core) noexcept { return core->executor(); }

void start_acquire(settings_ptr lock, std::optional<duration> wait, bool once, acquire_handler handler, bool on_own_executor) {
  lock->core->acquire(lock, wait, once, std::move(handler), on_own_executor);
}

void start_release(node_ref node, release_handler handler, bool on_own_executor) {
  if (!node) {
    post_at_once(asio::system_executor{}, std::move(handler), make_error_code(errc::not_held), false);
    return;
  }
  client_core& core = *node->core;
  core.release(std::move(node), std::move(handler), on_own_executor);
}

void start_lost(node_ref node, lost_handler handler) {
  if (!node) {
    post_at_once(asio::system_executor{}, std::move(handler), make_error_code(errc::not_held));
    return;
  }
  client_core& core = *node->core;
  core.watch_loss(std::move(node), std::move(handler));
}

void start_close(core_ptr core, duration timeout, close_handler handler) { core->close(timeout, std::move(handler)); }

}  // namespace conch::detail
