// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/checks.hpp"
#include "base/identity.hpp"
#include "base/votes.hpp"
#include "quorum/quorum.hpp"
#include "registry/schemes.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace conch::registry {

namespace {

/// They may be of several kinds.
class several final : public servers::target {
 public:
  explicit several(std::vector<std::unique_ptr<servers::target>> all) : all_{std::move(all)} {}

  std::string shown() const override {
    std::string names;
    for (auto const& one : all_) names += (names.empty() ? "" : ", ") + one->shown();
    return names;
  }

  bool is_quorum() const noexcept override { return true; }
  bool is_over_tls() const noexcept override {
    return std::any_of(all_.begin(), all_.end(), [](auto const& one) { return one->is_over_tls(); });
  }
  bool needs_nonces() const noexcept override {
    return std::any_of(all_.begin(), all_.end(), [](auto const& one) { return one->needs_nonces(); });
  }

  void check(config& c) const override {
    check_votes(c);
    if (c.sync_replicas != 0) {
      detail::refuse(errc::not_supported,
                     "sync_replicas is set, and several servers decide: each gives a vote, whatever its replicas have");
    }
    for (auto const& one : all_) one->check(c);
  }

  servers::deployment make(servers::client_services const& client) const override {
    servers::deployment d;
    d.nonces = servers::nonces_for(*this);
    auto votes = std::make_unique<quorum::quorum>(client.settings, client.client_id, detail::seed_of(client.client_id),
                                                  *d.nonces, client.timers, client.up, client.log, client.stats);
    for (auto const& one : all_) {
      auto to_server = one->make_transport(client);
      to_server->report_to(votes->add(*to_server, one->shown()).receiver());
      d.connections.push_back(std::move(to_server));
    }
    d.backend = std::move(votes);
    return d;
  }

 private:
  void check_votes(config& c) const {
    quorum_config& q = c.quorum;
    detail::at_least("quorum.vote_claim", q.vote_claim, std::chrono::milliseconds{50});
    q.vote_claim = std::min(q.vote_claim, c.lease);
    detail::between("quorum.min_validity", q.min_validity, duration::zero(), q.vote_claim / 2,
                    " (half of quorum.vote_claim)");
    detail::between("quorum.min_server_uptime", q.min_server_uptime, duration::zero(), std::chrono::hours{24 * 30});
    std::size_t const n = all_.size();
    detail::require(q.votes_needed == 0 || is_valid_number_of_votes(q.votes_needed, n),
                    "quorum.votes_needed must be 0, or " + std::to_string(majority_of(n)) + " to " + std::to_string(n) +
                        " (a majority to all of the servers), got " + std::to_string(q.votes_needed));
    c.claim = q.vote_claim;
  }

  std::vector<std::unique_ptr<servers::target>> const all_;
};

}  // namespace

std::unique_ptr<servers::target> make_several(std::vector<std::unique_ptr<servers::target>> all) {
  return std::make_unique<several>(std::move(all));
}

}  // namespace conch::registry
