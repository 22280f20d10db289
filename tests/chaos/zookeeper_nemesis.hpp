// An ensemble of three, with a proxy between each follower and the leader, and each worker behind a proxy to each of
// them.
#pragma once

#include "chaos/nemesis.hpp"
#include "support/tcp_proxy.hpp"
#include "support/zookeeper_ensemble.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace conch::test {

class zookeeper_nemesis final : public nemesis {
 public:
  explicit zookeeper_nemesis(chaos_options const& options);

  void calm() override;
  std::string left() override;

 private:
  void strike() override;
  bool is_up() override { return hurt_ == nobody; }
  void take_away(std::string const& lock) override;
  std::vector<std::string> arguments_of(worker const& w) override;

  void supervise();
  void hurt_link(worker const& w, int chance);
  void hurt_servers(int chance);
  void cut_off(std::size_t follower);

  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);

  zookeeper_ensemble ensemble_;
  std::vector<std::vector<std::unique_ptr<tcp_proxy>>> links_;  // of each worker, to each server
  std::size_t hurt_ = nobody;                                   // one at a time: a majority goes on
};

}  // namespace conch::test
