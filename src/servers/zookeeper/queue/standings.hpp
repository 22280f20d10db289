// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "servers/zookeeper/queue/environment.hpp"
#include "servers/zookeeper/queue/requests.hpp"
#include "servers/zookeeper/queue/standing.hpp"
#include "servers/zookeeper/watches.hpp"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace conch::zookeeper {

/// The places that are not idle, in order, how far the connection has come with them, and what they watch.
class standings {
 public:
  /// `resume`: checks those that rest.
  standings(environment const& env, requests& sent, callback resume) noexcept : env_{env}, sent_{sent}, rest_{resume} {}
  standings(standings const&) = delete;
  standings& operator=(standings const&) = delete;

  void begin(standing& s);
  void add(standing& s, bool rests) { (rests ? resting_ : active_).push_back(s); }
  void rest(standing& s, time_point now);
  void put_off(standing& s);
  /// It has the node of that number now.
  void know(standing& s) { standing_[s.number] = &s; }
  void forget(standing const& s) { standing_.erase(s.number); }
  /// None: no place that is not idle has that number.
  standing* find(std::uint64_t number) const;
  void drop(standing& s);

  void watch(standing& s, view ahead, time_point now);
  void watch(standing& s, std::string const& path, time_point now);
  void unwatch(standing& s);
  void pass_on_watches(standing& from, standing& to);
  /// In the order in which they came.
  std::vector<standing*> waiting_for(std::string const& path) const { return watched_.at(path); }
  /// It is no longer waited for.
  std::vector<standing*> take_waiting(std::string const& path) { return watched_.take(path); }

  bool is_empty() const noexcept { return active_.empty() && resting_.empty(); }
  bool has_rest() const noexcept { return !resting_.empty(); }
  bool may_list() const noexcept { return resting_.empty() && sent_.window().has_room(); }
  /// The first that rests, which rests no more.
  standing& next();
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
  list<standing> active_, resting_;
  std::unordered_map<std::uint64_t, standing*> standing_;  // by number: all that are not idle
  watches watched_;
  timer rest_;
};

}  // namespace conch::zookeeper
