// The recorder: a Redis server that nothing is ever done to, and on it a resource for every lock, which the holders
// enter, write and leave with their fences. It knows nothing of conch.
#pragma once

#include "support/history/history.hpp"
#include "support/redis_probe.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace conch::test {

/// A moment of CLOCK_BOOTTIME in nanoseconds: the same in all processes of the machine.
using nanoseconds_of_boot = std::int64_t;

constexpr nanoseconds_of_boot in_ns(std::chrono::nanoseconds d) { return d.count(); }

/// What a worker says about a refusal: its fence was smaller than one the resource had seen.
struct refusal {
  std::string who;  // WORKER.INCARNATION.TASK
  std::string lock, step;
  std::int64_t fence = 0;            // its own ...
  std::int64_t seen = 0;             // ... and the greater one
  nanoseconds_of_boot granted = 0;   // its own grant
  nanoseconds_of_boot valid_to = 0;  // until when its hold had said it was valid; told lost earlier: until then
  nanoseconds_of_boot other = 0;     // when the holder of the greater fence had the lock already
};

/// A client entered while another had not left.
struct overlap {
  std::string inside, entered;
  std::int64_t inside_fence = 0, entered_fence = 0;
};

/// One hold, from its grant until nobody believed in it any more.
struct visit {
  static constexpr char const* nobody = "-";

  std::string who, lock;  // WORKER.INCARNATION.TASK
  std::int64_t fence = 0;
  nanoseconds_of_boot granted = 0;
  nanoseconds_of_boot ended = 0;  // released, told lost, or not valid any more
  int weight = 1, limit = 1;      // what it has of the lock
  std::string owner = nobody;     // of a reentrant lock
};

/// A worker's client has connected to a server.
struct arrival {
  std::string worker;  // WORKER.INCARNATION
  int port = 0;
  nanoseconds_of_boot at = 0;
};

class witness {
 public:
  explicit witness(std::string const& url);

  enum class answer { accepted, refused, wrong };

  // For workers. enter: the first word of a hold; write and leave: of the same hold.
  answer enter(std::string const& lock, std::string const& who, std::int64_t fence, nanoseconds_of_boot now);
  answer write(std::string const& lock, std::string const& who, std::int64_t fence);
  answer leave(std::string const& lock, std::string const& who, std::int64_t fence);
  /// After a refusal: the greater fence, and since when its holder had the lock.
  std::int64_t seen() const noexcept { return seen_; }
  nanoseconds_of_boot seen_at() const noexcept { return seen_at_; }
  void report(refusal const& r);
  void count(std::string_view what, std::int64_t by = 1);
  void longest(std::string_view what, std::int64_t value);
  /// One more grant for this task.
  void progress(std::string const& who);
  void complain(std::string const& what);
  void visited(visit const& v);
  void arrived(arrival const& a);
  /// What a task asked for and was told.
  void told(history::operation const& o);

  // For the orchestrator.
  std::vector<refusal> take_refusals();
  std::vector<overlap> overlaps();
  std::vector<std::string> take_complaints();
  std::vector<visit> take_visits();
  std::vector<arrival> take_arrivals();
  history::operations take_operations();
  std::map<std::string, std::int64_t> counts();
  std::map<std::string, std::int64_t> all_progress();

 private:
  answer step(char const* what, std::string const& lock, std::string const& who, std::int64_t fence,
              nanoseconds_of_boot t);
  std::vector<std::string> take_list(std::string const& key);
  std::map<std::string, std::int64_t> numbers(std::string const& key);

  redis_probe probe_;
  std::int64_t seen_ = 0;
  nanoseconds_of_boot seen_at_ = 0;
};

}  // namespace conch::test
