// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "engine/backend.hpp"
#include "protocol/server_place.hpp"
#include "quorum/member.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::quorum {

class events;
class locks;
class servers;
struct cohort_place;
struct quorum_lock;

/// One lock at one server.
struct vote {
  vote(quorum_lock& q, member& m, std::string_view name) : in{q}, from{m}, place{*m.server, name, {}} {
    place.owner = this;
  }

  quorum_lock& in;
  member& from;
  protocol::server_place place;
  bool refused = false;  // the server answered busy, or we left its queue
  // why the vote could not be obtained, until the server answers otherwise
  error_code trouble;
  // owned: the vote did not become ours earlier than this
  time_point since{};
  time_point not_before = time_point::min();  // idle: not to be asked earlier
  // of a hold: when the server reported that the vote is not ours
  time_point gone_at = time_point::min();
  // the rivals that it was given back for: client and ticket
  std::vector<std::pair<std::int64_t, std::int64_t>> yielded_to;
  unsigned rests = 0;  // how often the vote rested, in a row
  // the vote rests until then at least, however the lock moves
  time_point rests_until = time_point::min();
};

enum class lock_phase : std::uint8_t {
  idle,
  starting,  // waits for room; or there is no ticket yet: too few servers have reported their time
  collecting,
  leaving,  // a quorum that comes now is still taken
  held,
};

/// One lock.
struct quorum_lock : list_hook<quorum_lock> {
  quorum_lock(locks& all, events& to, servers& at_servers, std::string lock_name);

  std::string const name;
  locks& in;
  events& listener;
  std::vector<std::unique_ptr<vote>> votes;
  cohort_place* front = nullptr;  // set: the cohort asks for the lock, or holds it
  lock_phase phase = lock_phase::idle;
  bool wait = false;
  bool pushed = false;  // the last vote came by push
  bool reported_in_line = false;
  // asked for, and too few servers have answered: how many are in flight with it, itself included; else 0
  std::size_t together = 0;
  engine::milliseconds lease{}, at_least{};
  time_point kept_until = time_point::min();  // the hold has ended: of its votes (place::kept_until)
  std::int64_t ticket = 0;
  std::int64_t floor = 0;        // no fence at or below this is of use
  std::int64_t agreeing_on = 0;  // strict_fence: the fence that a quorum is to accept; 0: not begun
  time_point began{};            // when this attempt first asked
  time_point since{};            // when it began to ask, to agree, or to leave
  time_point won_at{};           // held: since when
  time_point ask_others_at = timer_queue::never;
  duration pause{};         // before the others are asked again
  std::uint64_t round = 0;  // changes when an attempt or a hold ends
  std::uint32_t keepers = 0;
  conch::timer timer;

  bool asks() const noexcept { return phase == lock_phase::collecting || phase == lock_phase::leaving; }
  /// A try whose end is not yet reported.
  bool tries() const noexcept { return !wait && phase == lock_phase::collecting; }
};

/// Keeps a quorum_lock alive while a function works on it, or the cohort has a place at it.
class keeping {
 public:
  explicit keeping(quorum_lock& q) noexcept : b_{q} { ++b_.keepers; }
  keeping(keeping const&) = delete;
  keeping& operator=(keeping const&) = delete;
  ~keeping();

 private:
  quorum_lock& b_;
};

/// The cohort's place at a lock. The lock may outlive it: votes are given back in the background.
struct cohort_place final : engine::place {
  cohort_place(quorum_lock& l, std::string_view lock_name) : place{lock_name, {}}, lock{l}, keep{l} {}

  quorum_lock& lock;
  keeping const keep;
};

inline cohort_place& made_here(engine::place& p) noexcept { return static_cast<cohort_place&>(p); }
inline cohort_place const& made_here(engine::place const& p) noexcept { return static_cast<cohort_place const&>(p); }

}  // namespace conch::quorum
