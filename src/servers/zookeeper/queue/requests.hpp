// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/request_window.hpp"
#include "servers/zookeeper/queue/environment.hpp"
#include "servers/zookeeper/queue/queue_place.hpp"
#include "servers/zookeeper/session.hpp"

#include <conch/clock.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace conch::zookeeper {

/// What a request asks, and so which part reads its answer.
enum class about : std::uint8_t {
  node,
  folder,
  list,
  watch,
  leave,
  clean_up,
  stray,
  search,
  found,
  rights,
  keep,
  keep_end,
  kept_end,
  nothing
};

struct in_flight {
  about what;
  queue_place* place;
  std::uint64_t number;
  cleanup* of_cleanup;
  std::string path;  // that is watched
  time_point written{};
  std::size_t together = 0;  // of a list: how many are in flight with it, itself included (request_window)
};

/// What is written on this connection and not answered yet. Counts connections and sessions.
class requests {
 public:
  requests(environment const& env, session& with) noexcept : env_{env}, session_{with} {}
  requests(requests const&) = delete;
  requests& operator=(requests const&) = delete;

  void send(about what, request const& r, queue_place& p, cleanup* c, time_point now, std::string path = {});
  void search(queue_place& p, std::uint64_t number, cleanup* c, time_point now);
  bool has_any() const noexcept { return !in_flight_.empty(); }
  /// The oldest is answered. `others_wait`: for room.
  in_flight take(bool others_wait, time_point now);
  /// What is under way for the node that `to` has now is answered to it.
  void pass_on(queue_place& from, queue_place& to);

  void opened(time_point now) noexcept { last_answer_ = now; }
  /// Returns what is not answered any more.
  std::deque<in_flight> interrupted(time_point now);
  void session_ended() noexcept { ++sessions_; }

  std::uint64_t session_number() const noexcept { return sessions_; }
  std::uint64_t connection_number() const noexcept { return connections_; }
  time_point last_answer() const noexcept { return last_answer_; }
  time_point lost_at() const noexcept { return lost_at_; }
  protocol::request_window const& window() const noexcept { return window_; }
  /// Something was granted, or given back.
  void progressed() noexcept { ++progress_; }
  std::uint64_t progress() const noexcept { return progress_; }

 private:
  environment const& env_;
  session& session_;
  std::deque<in_flight> in_flight_;
  /// For lists of a folder, which are the longer the more clients are queued.
  protocol::request_window window_;
  std::uint64_t sessions_ = 1;  // counts sessions; a place of an earlier one has no node
  std::uint64_t connections_ = 1;
  std::uint64_t progress_ = 0;
  time_point last_answer_{}, lost_at_{};
};

}  // namespace conch::zookeeper
