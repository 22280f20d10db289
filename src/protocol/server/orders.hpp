// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "engine/admin_request.hpp"
#include "protocol/replies.hpp"
#include "protocol/server/cleanups.hpp"
#include "protocol/server/common_parts.hpp"
#include "protocol/server/grant_ids.hpp"
#include "protocol/siblings.hpp"

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace conch::protocol {

using namespace engine;

/// Questions and orders about a lock, which have no place in its line.
class orders {
 public:
  /// `whole`: as admin_request::at.
  orders(common_parts& on, grant_ids& ids, watchers& watching, backend& whole) noexcept
      : on_{on},
        ids_{ids},
        watchers_{watching},
        whole_{whole} {}

  void administer(admin_request& i, admin_events& whose, time_point now);
  void withdraw(admin_request& i) noexcept;
  /// The request has timed out, or it is time to send it again.
  void due(admin_request& i, time_point now);
  void answered(in_flight const& r, answer const& a, time_point now);

  // The server's pushes to the watchers of free locks.
  void freed(std::string_view name, grant_id id, bool more, time_point now);
  /// False: it is not a watcher's.
  bool lease_ends_in(std::string_view name, grant_id id, milliseconds left, time_point now);
  /// Tells the server of watchers that have been withdrawn.
  void unwatch(std::size_t& left, time_point now);
  bool has_unwatched() const noexcept { return !unwatched_.empty(); }

  // The connection.
  /// Sends all requests again on a new connection: none of them has been answered.
  void repeat(time_point now);
  /// Ends the orders that must not be repeated: it is not known whether they were carried out.
  void connection_ended(std::string_view why, time_point now);
  /// All are to end with it, in turns.
  void end_all(error_code why) { ending_ = why; }
  void end_some(std::size_t& left);
  bool is_ending() const noexcept { return static_cast<bool>(ending_); }
  bool empty() const noexcept { return asked_.empty(); }

  // From one server to another.
  /// A request that must not be repeated stays until it is answered.
  void part(time_point now);
  void receive(admin_request& i, admin_events* whose, time_point now);
  /// False: there is no connection, so that the server has forgotten the watcher.
  bool receive_unwatched(std::string name, grant_id id);
  void take_over(time_point now);
  /// Asks once more about those of these slots: the server has ended their subscriptions.
  void watch_again(std::set<unsigned> const& slots, time_point now);

 private:
  void send(admin_request& i, bool with_source, time_point now);
  void watch_answered(admin_request& i, answer const& a, time_point now);
  void watch_for(admin_request& i, milliseconds left, time_point now);
  void order_answered(admin_request& i, answer const& a, time_point now);
  void verify_successor(order const& o, order_reply const& reply, time_point now);
  void end(admin_request& i, admin_result const& result, error_code why);
  void question_answered(admin_request& i, answer const& a);
  static bool is_question(admin_request const& i);
  static bool may_be_repeated(admin_request const& i);
  static std::optional<order_reply> read(order const& o, answer const& a);

  common_parts& on_;
  grant_ids& ids_;
  watchers& watchers_;
  backend& whole_;
  list<admin_request> asked_;                                    // not answered yet
  std::unordered_map<std::uint64_t, admin_request*> by_serial_;  // the same
  // orders whose caller no longer waits; the clients that they let in are checked on
  std::unordered_map<std::uint64_t, order> orphans_;
  // watchers that are gone, and that the server still has
  std::vector<std::pair<std::string, grant_id>> unwatched_;
  admin_events* events_ = nullptr;
  error_code ending_;  // set: all are to end with it
};

}  // namespace conch::protocol
