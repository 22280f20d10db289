// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/optional_mutex.hpp"
#include "base/top_names.hpp"
#include "client/completions.hpp"

#include <conch/observer.hpp>

#include <memory>
#include <string>
#include <vector>

namespace conch::detail {

/// An event for the observer, with what it names. It keeps the node, so that no other acquire gets the same number
/// before the event is reported.
struct reported_event {
  reported_event(hold_node& n, engine::observation const& o);

  void report(observer& to) const;

  node_ref node;
  std::string name;
  engine::observation what;  // but for its name
  std::int64_t fence;
  bool shared;
};

/// Tells config::observer what becomes of acquires and holds, in order, and keeps the figures of config::top_k. One
/// handler at a time reports; nothing is locked while it does.
class observing final : private pending_call {
 public:
  /// `mutex`: the client's.
  observing(config const& settings, optional_mutex& mutex, own_executor& own, host& owner, completions& results);

  // ---- With the client locked.
  void add(hold_node& n, engine::observation const& o);
  auto names() const { return top_names_.report(); }
  /// What was not reported, to be destroyed with the client unlocked; nothing is reported any more.
  std::vector<reported_event> stop();

 private:
  void complete(asio::any_io_executor const&, error_code, bool) override { post(); }
  void drop() override {}
  void count_name(engine::observation const& o);
  void post();
  void report();

  config const& settings_;
  optional_mutex& mutex_;
  own_executor& own_executor_;
  host& owner_;
  completions& results_;
  std::vector<reported_event> events_;  // not reported yet; empty without an observer
  bool is_reporting_ = false;           // a handler is on its way, or reports
  bool is_stopped_ = false;
  top_names top_names_;
};

}  // namespace conch::detail
