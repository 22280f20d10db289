// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/simulated/target.hpp"

#include "base/checks.hpp"
#include "servers/simulated/connection.hpp"
#include "servers/simulated/ensemble_connection.hpp"
#include "servers/zookeeper/scheme.hpp"

#include <utility>

namespace conch::simulated {

namespace {

/// What holds for all of them.
class target : public servers::target {
 public:
  target(std::unique_ptr<servers::target> real, surroundings& world) : real_{std::move(real)}, world_{world} {}

  std::string shown() const final { return real_->shown(); }
  std::string identity() const final { return real_->identity(); }
  servers::site where() const final { return real_->where(); }
  bool is_over_tls() const noexcept final { return real_->is_over_tls(); }
  // Nobody in a world forges a push, and ids without them are easier to read.
  bool needs_nonces() const noexcept final { return false; }

  void check(config& c) const final {
    real_->check(c);
    if (c.sync_replicas != 0)
      detail::refuse(errc::not_supported, "sync_replicas is set, and a simulated server has no replicas");
  }

  std::optional<std::string> guard_key(config const& c, std::string_view name) const final {
    return real_->guard_key(c, name);
  }

 protected:
  servers::target const& real() const noexcept { return *real_; }
  server& simulated() const { return world_.server_named(where().server); }

 private:
  std::unique_ptr<servers::target> const real_;
  surroundings& world_;
};

class lock_server final : public target {
 public:
  using target::target;

  servers::deployment make(servers::client_services const& client) const override {
    return servers::make_single(*this, client);
  }

  std::unique_ptr<transport> make_transport(servers::client_services const& client) const override {
    return std::make_unique<connection>(client, simulated(), shown(), where().part);
  }
};

class ensemble_server final : public target {
 public:
  using target::target;

  servers::deployment make(servers::client_services const& client) const override {
    auto to_ensemble = std::make_unique<ensemble_connection>(client, simulated(), shown());
    zookeeper::over_wire whole = zookeeper::make_over(*to_ensemble, real(), client);
    to_ensemble->report_to(whole.receiver);
    whole.made.connections.push_back(std::move(to_ensemble));
    return std::move(whole.made);
  }
};

}  // namespace

std::unique_ptr<servers::target> stand_in_for(std::unique_ptr<servers::target> real, surroundings& world) {
  if (zookeeper::is_ensemble(*real)) return std::make_unique<ensemble_server>(std::move(real), world);
  return std::make_unique<lock_server>(std::move(real), world);
}

}  // namespace conch::simulated
