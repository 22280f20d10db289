// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "servers/zookeeper/queue/environment.hpp"
#include "servers/zookeeper/queue/queue_place.hpp"
#include "servers/zookeeper/queue/requests.hpp"
#include "servers/zookeeper/watches.hpp"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace conch::zookeeper {

/// The places that are not idle, in order, how far the connection has come with them, and what they watch.
class queue_places {
 public:
  /// `resume`: checks those that rest.
  queue_places(environment const& env, requests& sent, callback resume) noexcept
      : env_{env},
        sent_{sent},
        rest_{resume} {}
  queue_places(queue_places const&) = delete;
  queue_places& operator=(queue_places const&) = delete;

  void begin(queue_place& p);
  void add(queue_place& p, bool rests) { (rests ? resting_ : active_).push_back(p); }
  void rest(queue_place& p, time_point now);
  void put_off(queue_place& p);
  /// It has the node of that number now.
  void know(queue_place& p) { by_number_[p.number] = &p; }
  void forget(queue_place const& p) { by_number_.erase(p.number); }
  /// None: no place that is not idle has that number.
  queue_place* find(std::uint64_t number) const;
  void drop(queue_place& p);

  void watch(queue_place& p, view ahead, time_point now);
  void watch(queue_place& p, std::string const& path, time_point now);
  void unwatch(queue_place& p);
  void pass_on_watches(queue_place& from, queue_place& to);
  /// In the order in which they came.
  std::vector<queue_place*> waiting_for(std::string const& path) const { return watched_.at(path); }
  /// It is no longer waited for.
  std::vector<queue_place*> take_waiting(std::string const& path) { return watched_.take(path); }

  bool is_empty() const noexcept { return active_.empty() && resting_.empty(); }
  bool has_rest() const noexcept { return !resting_.empty(); }
  bool may_list() const noexcept { return resting_.empty() && sent_.window().has_room(); }
  /// The first that rests, which rests no more.
  queue_place& next();
  void resume_soon(time_point now);
  void rest_all();
  /// All rest, and nothing that was sent for them is answered.
  void interrupted();
  template <class Function>
  void for_each_active(Function const& f) {
    active_.for_each(f);
  }
  template <class Function>
  void for_each(Function const& f) {
    active_.for_each(f);
    resting_.for_each(f);
  }

 private:
  environment const& env_;
  requests& sent_;
  std::uint64_t numbers_ = 0;  // of nodes
  // all that are not idle; resting: the present connection has not come to them, or there is no room
  list<queue_place> active_, resting_;
  std::unordered_map<std::uint64_t, queue_place*> by_number_;  // all that are not idle
  watches watched_;
  timer rest_;
};

}  // namespace conch::zookeeper
