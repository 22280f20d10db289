// The processes of one chaos run and everything bad that happens to them.
#pragma once

#include "chaos/witness.hpp"
#include "support/redis_server.hpp"
#include "support/tcp_proxy.hpp"

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

  explicit nemesis(chaos_options const& options);
  ~nemesis();

  /// Lets things happen until then.
  void rage_until(steady::time_point end);
  /// Undoes everything: all processes run, all links are clean.
  void calm();
  /// Reaps, and throws `unexpected` if a worker ended by itself.
  void look_after_workers();
  /// Asks the workers to end; says who did not do so in time, or not well.
  std::vector<std::string> end_workers(std::chrono::seconds limit);

  /// Names of all tasks that run now.
  std::vector<std::string> tasks() const;
  bool was_killed(std::string const& name) const { return killed_.contains(name); }
  /// A server may have lost what it acknowledged between these two moments, which are given as the fences of grants then.
  std::vector<std::pair<std::int64_t, std::int64_t>> const& data_losses() const { return losses_; }
  std::map<std::string, std::uint64_t> const& events() const { return events_; }
  redis_server& server() { return *server_; }
  std::string witness_url() const { return "unix://" + recorder_->socket_path(); }

 private:
  struct worker {
    int number = 0;
    int incarnation = 0;
    int pid = 0;  // 0: not running
    bool stopped = false;
    std::unique_ptr<tcp_proxy> proxy;
    std::string name() const { return "w" + std::to_string(number) + "." + std::to_string(incarnation); }
  };

  void start(worker& w);
  void strike();
  void hurt_worker(worker& w, int roll);
  void hurt_server(int roll);
  void hurt_link(worker& w, int roll);
  void hurt_by_command(int roll);
  void delete_lock();
  void server_back(bool keep_data);
  void later(std::chrono::milliseconds after, std::function<void()> what);
  void run_due();
  int roll(int sides) { return std::uniform_int_distribution<int>{0, sides - 1}(random_); }
  void note(std::string const& what) { ++events_[what]; }

  chaos_options const options_;
  std::mt19937_64 random_;
  std::unique_ptr<redis_server> recorder_;
  std::unique_ptr<redis_server> server_;
  bool server_up_ = true, server_stopped_ = false;
  std::int64_t lost_from_ = 0;
  std::vector<worker> workers_;
  std::multimap<steady::time_point, std::function<void()>> later_;
  std::set<std::string> killed_;
  std::vector<std::pair<std::int64_t, std::int64_t>> losses_;
  std::map<std::string, std::uint64_t> events_;
};

}  // namespace conch::test
