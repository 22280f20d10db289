// One server, and each worker behind a proxy of its own.
#pragma once

#include "chaos/history_judge.hpp"
#include "chaos/nemesis.hpp"
#include "support/tcp_proxy.hpp"

namespace conch::test {

class server_nemesis final : public redis_nemesis {
 public:
  explicit server_nemesis(chaos_options const& options);

  void calm() override;
  /// The server may have lost what it acknowledged between these two moments, which are given as the fences of grants
  /// then.
  std::vector<data_loss> const& data_losses() const { return losses_; }

 private:
  redis_server& keeper_of(std::string const&) override { return *server_; }
  std::vector<redis_server*> keepers() override { return {&*server_}; }
  void strike() override;
  bool is_up() override { return server_up_ && !server_stopped_; }
  std::vector<std::string> arguments_of(worker const& w) override;
  void replaced(worker const& w) override;

  tcp_proxy& proxy_of(worker const& w) { return *proxies_[static_cast<std::size_t>(w.number)]; }
  void hurt_server(int chance);
  void hurt_link(worker const& w, int chance);
  void hurt_by_command(int chance);
  void server_back(bool keep_data);

  std::unique_ptr<redis_server> server_;
  bool server_up_ = true, server_stopped_ = false;
  data_loss loss_;  // if it comes back without its data
  std::vector<std::unique_ptr<tcp_proxy>> proxies_;
  std::vector<data_loss> losses_;
};

}  // namespace conch::test
