// The client processes of one chaos run and everything bad that happens to them. What happens to the servers is of the
// class below it.
#pragma once

#include "chaos/witness.hpp"
#include "support/redis_server.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace conch::test {

struct chaos_options {
  std::chrono::seconds length{60};
  std::uint64_t seed = 1;
  int workers = 6;
  int tasks = 3;  // of each
  int locks = 3;
  std::chrono::milliseconds lease{1200};
  int slow_share = 60;          // one hold in this many lasts long enough to be renewed
  std::string kinds = "mutex";  // of the locks; "all": one of each in turn
  bool lose_data = true;
  bool sabotage = false;  // delete locks that are held, and expect the recorder to notice
  std::string client_program;
};

/// Thrown when a process does what no event of ours made it do.
struct unexpected : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class nemesis {
 public:
  using steady = std::chrono::steady_clock;

  virtual ~nemesis();

  /// Lets things happen until then.
  void rage_until(steady::time_point end);
  /// Undoes everything: all processes run, all links are clean.
  virtual void calm();
  /// Reaps, and throws `unexpected` if a worker ended by itself.
  void look_after_workers();
  /// Asks the workers to end; says who did not do so in time, or not well.
  std::vector<std::string> end_workers(std::chrono::seconds limit);

  /// Names of all tasks that run now.
  std::vector<std::string> tasks() const;
  chaos_options const& options() const { return options_; }
  bool was_killed(std::string const& name) const { return killed_.contains(name); }
  std::map<std::string, std::uint64_t> const& events() const { return events_; }
  /// What of the locks is on the servers, but for the fences of Redis, which are meant to stay. Throws
  /// std::runtime_error where they cannot say.
  virtual std::string left() = 0;
  std::string witness_url() const { return "unix://" + recorder_->socket_path(); }

 protected:
  struct worker {
    int number = 0;
    int incarnation = 0;
    int pid = 0;  // 0: not running
    bool stopped = false;
    std::string name() const { return "w" + std::to_string(number) + "." + std::to_string(incarnation); }
  };

  explicit nemesis(chaos_options const& options);

  virtual void strike() = 0;
  /// There are locks to delete, and they can be.
  virtual bool is_up() = 0;
  /// Takes the lock from its holder. Throws std::runtime_error where it cannot.
  virtual void take_away(std::string const& lock) = 0;
  /// What a worker is started with, besides.
  virtual std::vector<std::string> arguments_of(worker const& w) = 0;
  /// A process of it was killed: a new one may be a new machine.
  virtual void replaced(worker const&) {}
  /// Pauses or resumes it.
  virtual void stands_still(worker const&, bool) {}

  void start(worker& w);
  void hurt_worker(worker& w, int chance);
  void run_due();
  void later(std::chrono::milliseconds after, std::function<void()> what);
  worker& any_worker() { return workers_[static_cast<std::size_t>(roll(options_.workers))]; }
  int roll(int sides) { return std::uniform_int_distribution<int>{0, sides - 1}(random_); }
  std::uint64_t draw() { return random_(); }
  void note(std::string const& what) { ++events_[what]; }

  chaos_options const options_;
  std::vector<worker> workers_;

 private:
  void delete_lock();

  std::mt19937_64 random_;
  std::unique_ptr<redis_server> recorder_;
  std::multimap<steady::time_point, std::function<void()>> later_;
  std::set<std::string> killed_;
  std::map<std::string, std::uint64_t> events_;
};

/// Where Redis has the locks.
class redis_nemesis : public nemesis {
 public:
  std::string left() override;

 protected:
  using nemesis::nemesis;

  /// The one that has this lock now.
  virtual redis_server& keeper_of(std::string const& lock) = 0;
  /// All that have locks now.
  virtual std::vector<redis_server*> keepers() = 0;

  void take_away(std::string const& lock) override;
  void kill_a_connection(redis_server& at);
};

}  // namespace conch::test
