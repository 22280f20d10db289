// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/observing.hpp"

#include <exception>
#include <mutex>
#include <utility>

// What goes to the observer of a client, and to the figures of single locks.
namespace conch::detail {

namespace {

/// Can others have the lock at the same time? A writer has all of a lock, and so has the owner of a reentrant_mutex.
bool is_shared(engine::permit const& p) noexcept {
  using engine::permit_kind;
  return p.kind == permit_kind::semaphore || p.kind == permit_kind::segments ||
         (p.kind == permit_kind::shared && p.weight < p.limit);
}

}  // namespace

reported_event::reported_event(hold_node& n, engine::observation const& o)
    : node{&n},
      name{o.name},
      what{o},
      fence{n.fence},
      shared{is_shared(n.permit)} {}

void reported_event::report(observer& to) const {
  using kind = engine::observation::kind;
  lock_event const e{name,
                     static_cast<lock_kind>(node->permit.kind),
                     shared,
                     reinterpret_cast<std::uintptr_t>(node.get()),
                     fence,
                     what.at,
                     node->note ? node->note->note() : std::string_view{}};
  switch (what.what) {
    case kind::waiting: to.on_waiting(e); break;
    case kind::queued: to.on_queued(e); break;
    case kind::retried: to.on_retried(e, what.again); break;
    case kind::granted: to.on_granted(e, what.path, what.took); break;
    case kind::not_granted: to.on_not_granted(e, what.why, what.took); break;
    case kind::endangered: to.on_endangered(e, what.took); break;
    case kind::safe_again: to.on_safe_again(e); break;
    case kind::released: to.on_released(e, what.took); break;
    case kind::lost: to.on_lost(e, what.why, what.took); break;
    case kind::detached: to.on_detached(e, what.took); break;
  }
}

observing::observing(config const& settings, optional_mutex& mutex, own_executor& own, host& owner,
                     completions& results)
    : settings_{settings},
      mutex_{mutex},
      own_executor_{own},
      owner_{owner},
      results_{results},
      top_names_{settings.top_k} {}

void observing::add(hold_node& n, engine::observation const& o) {
  if (top_names_.counts()) count_name(o);
  if (!settings_.observer) return;
  events_.emplace_back(n, o);
  if (!std::exchange(is_reporting_, true)) results_.call({owner_.keep(), static_cast<pending_call*>(this)}, {});
}

void observing::count_name(engine::observation const& o) {
  using kind = engine::observation::kind;
  switch (o.what) {
    case kind::granted:
    case kind::not_granted: top_names_.waited(o.name, o.took, o.what == kind::granted); break;
    case kind::released:
    case kind::lost:
    case kind::detached: top_names_.held(o.name, o.took, o.what == kind::lost); break;
    default: break;
  }
}

std::vector<reported_event> observing::stop() {
  is_stopped_ = true;
  return std::exchange(events_, {});
}

void observing::post() {
  own_executor_.execute([this, keep = owner_.keep()] { report(); });
}

/// Reports what has come so far. What comes meanwhile gets its own turn of the event loop, so that other handlers are
/// not kept waiting.
void observing::report() {
  std::vector<reported_event> batch;
  {
    std::lock_guard const guard{mutex_};
    batch = std::exchange(events_, {});
  }
  for (reported_event const& e : batch) {
    try {
      e.report(*settings_.observer);
    } catch (std::exception const& thrown) {
      owner_.log(log_level::error, std::string{"the observer has thrown: "} + thrown.what());
    } catch (...) {
      owner_.log(log_level::error, "the observer threw something other than a std::exception");
    }
  }
  bool more = false;
  {
    std::lock_guard const guard{mutex_};
    is_reporting_ = more = !is_stopped_ && !events_.empty();
  }
  if (more) post();
}

}  // namespace conch::detail
