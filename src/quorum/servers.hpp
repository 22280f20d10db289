// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "quorum/distinct.hpp"
#include "quorum/election.hpp"
#include "quorum/member.hpp"
#include "quorum/quorum_environment.hpp"
#include "quorum/quorum_lock.hpp"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace conch::quorum {

/// The servers of a quorum: which are there, which have a vote, and what they know together.
class servers {
 public:
  explicit servers(quorum_environment& on) noexcept : on_{on} {}
  servers(servers const&) = delete;
  servers& operator=(servers const&) = delete;
  ~servers();

  /// `shown` names the server in messages.
  member& add(protocol::wire& out, std::string shown, events& to);
  std::vector<std::unique_ptr<member>> const& all() const noexcept { return members_; }
  std::size_t size() const noexcept { return members_.size(); }
  std::size_t needed() const noexcept;

  bool connected() const noexcept { return connected_servers() >= needed(); }
  std::size_t connected_servers() const noexcept;
  /// The servers that are connected, are not so fresh that they have no vote, and have not answered with an error.
  std::size_t voters_there(quorum_lock const& q, time_point now) const;
  /// Why servers are missing; empty: no attempt to connect has failed yet.
  std::string why_no_connection() const;
  error_code no_answer() const;

  // Members that prove to be one server: together they have one vote (distinct.hpp).
  /// That member has a new connection, or has lost one.
  void met(member& m);
  /// Has the member got its own vote by that, or lost it?
  bool vote_changes(member& m);
  /// Has the log no line about it yet?
  bool is_news(member const& double_of);
  std::string why_double(member const& m) const;
  std::string all_doubles() const;
  /// Is this vote ours, and the one of its server that counts? Each member may have had one before they proved to be
  /// one server.
  bool counts(vote const& v) const noexcept;
  std::size_t owned(quorum_lock const& q) const;

  /// By then as many servers as are needed have usually answered.
  duration answers_within(engine::place const& p) const noexcept;
  duration round_trip() const;
  duration patience_with(member const& m) const;
  /// The lower median of what the servers' clocks show now. All servers count that have ever reported their time; they
  /// must be at least a quorum.
  std::optional<std::int64_t> new_ticket(time_point now) const;
  std::int64_t fence_ahead(time_point now) const;

  std::size_t pending() const noexcept;
  std::uint64_t progress() const noexcept;
  /// Clean-ups for a minority of servers that is not connected do not count.
  bool settled() const noexcept;
  void prepare_close(time_point now);
  void report(statistics& to) const;

 private:
  quorum_environment& on_;
  std::vector<std::unique_ptr<member>> members_;
  distinct_servers distinct_;
  std::set<std::pair<std::size_t, std::size_t>> logged_doubles_;  // the log has a line about them
};

}  // namespace conch::quorum
