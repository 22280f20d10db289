// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/server/catch_up.hpp"
#include "protocol/siblings.hpp"

#include <set>
#include <span>

namespace conch::protocol {

using namespace engine;

/// Locks that go from one server to another with their slot. The server that has the slot resumes them like a new
/// connection: clean-ups, then requests under the same ids with the old tickets, then renewals. What the other one has
/// in flight is only marked: its answers come, and are those of a server that may not have had the slot any more.
class moves final : public neighbour {
 public:
  moves(common_parts& on, place_keeper& mine, cleanups& pending, asking& asks, renewals& renews, orders& asked,
        catch_up& rest) noexcept
      : on_{on},
        mine_{mine},
        cleanups_{pending},
        asks_{asks},
        renews_{renews},
        asked_{asked},
        rest_{rest} {}

  /// Gives all that is known of the locks of slots that another server has to that server: places, clean-ups, kicks,
  /// questions. What is in flight stays, and its answers are read for nothing but the clock.
  void part(time_point now);
  /// Asks once more for all that is known of these slots: the server has ended their subscriptions.
  void ask_once_more(std::set<unsigned> const& slots, time_point now);

  /// Ends the connection, if there is one.
  void leave(std::string_view why) { on_.link.leave(why); }

  /// Is nothing of it needed, and nothing in flight?
  bool is_unused() const noexcept { return cleanups_.settled() && on_.sent.empty() && !has_requests(); }
  bool has_requests() const noexcept { return on_.all.has_any() || !asked_.empty(); }

  // As a neighbour.
  void receive(server_place& p, time_point now) override;
  void receive(cleanup& c, time_point now) override;
  void receive(admin_request& i, admin_events* whose, time_point now) override;
  void receive_unwatched(std::string name, grant_id id) override;
  void take_over(time_point now) override;
  bool renew_behind_asking(std::span<server_place* const> places, bool alone, time_point now) override;
  void renew_each_alone(std::span<server_place* const> places, time_point now) override;
  cleanups& pending_cleanups() noexcept override { return cleanups_; }
  place_keeper& keeper() noexcept override { return mine_; }

 private:
  common_parts& on_;
  place_keeper& mine_;
  cleanups& cleanups_;
  asking& asks_;
  renewals& renews_;
  orders& asked_;
  catch_up& rest_;
  bool has_received_ = false;  // what take_over() resumes
};

}  // namespace conch::protocol
