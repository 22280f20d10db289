#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The state of the live page, without I/O and clock: the workers' reports go in, JSON comes out.
namespace live_page {

using time_point = std::chrono::steady_clock::time_point;

/// A report of a worker: one line of JSON.
struct report {
  /// ready asks granted released lost refused overwrote unserved counted failed looked sold done
  std::string what;
  std::int64_t fence = 0;   ///< granted, lost, refused, overwrote
  std::int64_t waited = 0;  ///< granted: in µs
  std::int64_t at = 0;      ///< granted: the time, in µs of the clock that all processes of a machine share
  std::int64_t until = 0;   ///< granted: the hold's deadline without a renewal, by the same clock
  bool round = false;       ///< granted: in a round, where the worker holds the lock for a while
  bool locked = true;       ///< counted, failed, done: the count with the lock, or the one without
  std::int64_t value = 0;   ///< counted: the value written; looked: the items left
  std::size_t segment = 0;  ///< looked: from 1
  std::int64_t sold = 0;    ///< sold: the items that this worker's buyers have bought
  std::int64_t unsure = 0;  ///< sold: the items of orders whose write was not answered
  std::int64_t mistakes = 0;
  std::string why;     ///< lost, unserved, failed
  std::string client;  ///< ready: conch::client::id()
};

/// Empty: the line is not a report.
std::optional<report> parse_report(std::string_view line);

/// What the lock's server reports about the lock.
struct inspection {
  std::string holder;  ///< the id of a client, or a description if it is not a worker; empty: the lock is free
  std::int64_t fence = 0;
  std::int64_t waiting = -1;              ///< -1: unknown
  std::string trouble;                    ///< why the server did not answer
  std::string holder_name;                ///< label and note, or the id
  std::vector<std::string> waiter_names;  ///< the first of the queue
};

/// A server of the lock, as the page's own client sees it.
struct lock_server {
  std::string url;
  bool up = false;
};

class scene {
 public:
  scene(std::string lock, std::string kept_by) : lock_(std::move(lock)), kept_by_(std::move(kept_by)) {}

  std::string const& kept_by() const noexcept { return kept_by_; }

  // ---- the workers, numbered from 1
  void joined(std::size_t worker, int process);
  void gone(std::size_t worker);
  void heard(std::size_t worker, report const& r, time_point now);

  /// An increment over HTTP.
  void counted_here(std::int64_t fence);

  // ---- actions on the workers
  /// The worker that holds the lock; 0: none.
  std::size_t holder() const noexcept { return holder_; }
  void round(bool goes);
  bool round_goes() const noexcept { return round_; }
  void stopped(std::size_t worker, time_point now);
  void continued(time_point now);
  /// The frozen worker; 0: none.
  std::size_t stopped_worker() const noexcept { return stopped_; }
  /// Another worker got the lock that the frozen one held.
  bool is_replaced() const noexcept { return stopped_ != 0 && successor_ != 0; }

  // ---- two counts, with and without the lock
  void count_begins(bool locked, int target, std::size_t workers);
  bool counts(bool locked) const noexcept { return count_of(locked).workers != 0; }
  /// All workers have finished, so the counter is final.
  bool count_is_complete(bool locked) const noexcept {
    return counts(locked) && count_of(locked).done >= count_of(locked).workers;
  }
  /// `value`: the counter; empty: it could not be read.
  void count_ends(bool locked, std::optional<std::int64_t> value);

  // ---- the flash sale
  void sale_begins(int items, std::size_t segments, std::size_t workers);
  bool sale_goes() const noexcept { return sale_.workers != 0; }
  bool sale_is_complete() const noexcept { return sale_goes() && sale_.done >= sale_.workers; }
  /// `left`: the final stock; empty if it could not be read.
  void sale_ends(std::optional<std::int64_t> left);

  void inspected(inspection seen);
  void lock_servers(std::vector<lock_server> servers);

  /// Why the sale cannot run with this server; empty: it can.
  void no_sale(std::string why) { no_sale_ = std::move(why); }

  /// A command that kills the lock's server; empty: unknown.
  void kill_command(std::string command) { kill_command_ = std::move(command); }

  /// Call it once per second.
  void second_passed();

  void say(std::string text);

  std::string to_json(time_point now) const;

 private:
  struct worker {
    int process = 0;
    std::string client;
    bool ready = false;
    bool ended = false;
    std::int64_t waiting = 0;
    std::int64_t grants = 0;
  };
  struct count {
    int target = 0;
    std::size_t workers = 0;  ///< workers that take part; 0: the count is not running
    std::size_t done = 0;
    std::int64_t confirmed = 0;
    std::int64_t failed = 0;
    std::int64_t value = 0;
    std::optional<std::int64_t> in_the_end;
    std::vector<std::size_t> writers;  ///< index: the value; element: the worker that wrote it last
    std::string example;               ///< describes a lost update
  };
  struct sale {
    int items = 0;
    std::size_t workers = 0;
    std::size_t done = 0;
    std::vector<std::int64_t> stock;
    std::vector<std::int64_t> left;
    std::int64_t sold = 0;
    std::int64_t unsure = 0;
    std::int64_t mistakes = 0;
    std::string verdict;
  };
  struct grant {
    std::size_t worker = 0;
    std::int64_t fence = 0;
    std::int64_t waited = 0;
  };
  struct second {
    std::int64_t grants = 0;
    std::int64_t p50 = 0;
    std::int64_t p99 = 0;
  };

  count& count_of(bool locked) noexcept { return locked ? with_ : without_; }
  count const& count_of(bool locked) const noexcept { return locked ? with_ : without_; }
  worker& at(std::size_t number);
  void granted(std::size_t number, report const& r, time_point now);
  void counted(std::size_t number, report const& r);
  void lost(std::size_t number, report const& r, time_point now);
  void record_grant(std::size_t number, std::int64_t fence, std::int64_t waited);
  std::string name_of(std::size_t number) const;
  /// The frozen worker's hold has expired: it is no longer the holder, but does not know.
  bool has_expired(time_point now) const noexcept { return stopped_ != 0 && holder_ == stopped_ && now >= hold_ends_; }
  std::string_view state_of(std::size_t number, time_point now) const;
  static boost::json::object to_json(count const& c);
  boost::json::object sale_to_json() const;

  std::string lock_;
  std::string kept_by_;
  std::vector<worker> workers_;
  std::size_t holder_ = 0;
  std::int64_t fence_ = 0;
  std::int64_t until_ = 0;
  time_point since_{};
  time_point hold_ends_{};  ///< without a renewal
  inspection seen_;
  std::vector<lock_server> servers_;
  std::string no_sale_;
  std::string kill_command_;
  std::int64_t refused_ = 0;  ///< late writes that the store refused
  std::int64_t passed_ = 0;
  std::deque<grant> recent_;
  std::vector<std::int64_t> waits_;  ///< in this second
  std::int64_t grants_ = 0;          ///< in this second
  std::deque<second> series_;
  bool round_ = false;
  std::size_t stopped_ = 0;
  std::int64_t stopped_fence_ = 0;
  std::int64_t stopped_until_ = 0;
  time_point stopped_at_{};
  std::size_t successor_ = 0;  ///< the worker that got the lock after the frozen one
  std::size_t continued_ = 0;  ///< the worker that woke up and has not reported its loss yet
  time_point continued_at_{};
  count with_;
  count without_;
  sale sale_;
  std::int64_t log_id_ = 0;  ///< of the latest line
  std::deque<std::pair<std::int64_t, std::string>> log_;
};

}  // namespace live_page
