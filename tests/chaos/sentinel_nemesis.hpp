// A master, two replicas and three Sentinels, which name the master to the workers.
#pragma once

#include "chaos/failover_judge.hpp"
#include "chaos/nemesis.hpp"
#include "chaos/role_watch.hpp"
#include "support/sentinel_set.hpp"

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace conch::test {

/// Asks all Sentinels for the master, again and again, and tells the watch of the roles.
class name_watch {
 public:
  name_watch(sentinel_set& set, role_watch& roles);
  ~name_watch();
  name_watch(name_watch const&) = delete;
  name_watch& operator=(name_watch const&) = delete;

 private:
  void keep_asking(std::size_t sentinel);

  sentinel_set& set_;
  role_watch& roles_;
  std::atomic<bool> ended_ = false;
  std::vector<std::thread> threads_;
};

class sentinel_nemesis final : public redis_nemesis {
 public:
  explicit sentinel_nemesis(chaos_options const& options);

  void calm() override;
  /// As most Sentinels say.
  promotion const& first() const { return first_; }
  std::vector<promotion> promotions();
  std::vector<standstill> const& standstills() const { return standstills_; }

 private:
  redis_server& keeper_of(std::string const&) override { return set_.server(master()); }
  std::vector<redis_server*> keepers() override { return {&set_.server(master())}; }
  enum class state : std::uint8_t { up, stopped, down };

  void strike() override;
  bool is_up() override { return states_[master()] == state::up; }
  std::vector<std::string> arguments_of(worker const& w) override;
  void stands_still(worker const& w, bool does) override { stands_still(w.name(), does); }
  void stands_still(std::string const& who, bool does);

  void hurt_servers(int chance);
  std::size_t master();
  std::optional<std::string> say(std::size_t server, std::vector<std::string> const& command);
  void kill_server(std::size_t i, std::chrono::milliseconds back_after);
  void stop_server(std::size_t i, std::chrono::milliseconds goes_on_after);
  void fail_over();
  void change_roles();
  void change_back(std::size_t to, std::string const& epoch, nanoseconds_of_boot since, int tries);
  void cut_replicas_off(std::size_t from);
  void hurt_sentinel();
  std::string epoch();

  sentinel_set set_;
  std::vector<state> states_, sentinel_states_;
  promotion first_;
  role_watch roles_;
  name_watch names_;
  steady::time_point quiet_until_{};
  bool to_be_changed_back_ = false;
  struct planned {
    nanoseconds_of_boot from, to;
  };
  std::vector<planned> without_loss_;  // in between, roles changed by FAILOVER, and by nothing else
  std::vector<standstill> standstills_;
};

}  // namespace conch::test
