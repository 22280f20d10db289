// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/moves.hpp"

#include <utility>
#include <vector>

namespace conch::protocol {

void moves::part(time_point now) {
  on_.sent.mark_moved(on_.slots);
  cleanups_.part(now);  // first: they know their server by themselves, and their places may be idle
  on_.all.part(on_.slots, now);
  asked_.part(now);
}

void moves::ask_once_more(std::set<unsigned> const& slots, time_point now) {
  if (!on_.link.connected()) return;
  std::vector<server_place*> const asking = on_.all.asking_in(slots), holding = on_.all.holds_in(slots);
  for (server_place* s : asking) asks_.ask_unheard(*s, now);
  renews_.send(holding, {}, now);
  cleanups_.hasten(slots, now);
  asked_.watch_again(slots, now);
}

void moves::receive(server_place& p, time_point now) {
  has_received_ = true;
  asks_.receive(p, mine_, now);
}

void moves::receive(cleanup& c, time_point now) {
  has_received_ = true;
  cleanups_.receive(c, now);
}

void moves::receive(admin_request& i, admin_events* whose, time_point now) {
  has_received_ = true;
  asked_.receive(i, whose, now);
}

void moves::receive_unwatched(std::string name, grant_id id) {
  if (asked_.receive_unwatched(std::move(name), id)) has_received_ = true;
}

void moves::take_over(time_point now) {
  if (!std::exchange(has_received_, false)) return;
  if (!on_.link.connected()) return on_.link.want();
  rest_.resume_backlog(now);
  asked_.take_over(now);
}

bool moves::renew_behind_asking(std::span<server_place* const> places, bool alone, time_point now) {
  if (!on_.link.connected()) {
    on_.link.want();
    return false;
  }
  renews_.send(places, {.asking = true, .alone = alone}, now);
  return true;
}

void moves::renew_each_alone(std::span<server_place* const> places, time_point now) {
  renews_.send(places, {.alone = true}, now);
}

}  // namespace conch::protocol
