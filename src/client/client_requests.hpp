// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "client/completions.hpp"
#include "engine/admin_request.hpp"
#include "servers/scheme.hpp"

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace conch::detail {

/// An admin_request of the cohort, with the handler to be called.
class client_request : public engine::admin_request, public pending_call {
 public:
  client_request(core_ptr c, kind w, std::string of) : core{std::move(c)} {
    what = w;
    name = std::move(of);
  }

  core_ptr const core;
  node_ref of_hold;                                           // of a downgrade: the hold that gives a part of it back
  engine::permit_kind of_kind = engine::permit_kind::shared;  // of a downgrade: what the hold must be of
  std::uint32_t given_back = 0;                               // of a downgrade of a semaphore: how many permits
  engine::admin_result result;
  error_code why;
  // its entry in client_requests; with the client locked
  std::optional<std::list<std::shared_ptr<client_request>>::iterator> entry;
};

/// The requests and orders of operators that are not answered yet. With the client locked, but for drop().
class client_requests final : private engine::admin_events {
 public:
  client_requests(engine::cohort& cohort, servers::deployment& servers, servers::target const& target,
                  completions& results) noexcept
      : cohort_{cohort},
        servers_{servers},
        target_{target},
        results_{results} {}

  void ask(std::shared_ptr<client_request> q, bool is_closing, time_point now);
  void withdraw(std::shared_ptr<client_request> const& q);

  /// The context goes away: destroys all handlers without a call. No other thread may use this then.
  void drop();

 private:
  void on_admin_answered(engine::admin_request& i, engine::admin_result const& result, error_code why) override;
  static bool is_answered_here(client_request& q, bool is_closing);
  static bool is_downgraded_here(client_request& q, hold_node& n);

  engine::cohort& cohort_;
  servers::deployment& servers_;
  servers::target const& target_;
  completions& results_;
  std::list<std::shared_ptr<client_request>> unanswered_;
};

}  // namespace conch::detail
