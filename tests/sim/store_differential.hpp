// conch::memory::store against lua/*.lua on the model of Redis: random commands of a few clients, which now and then lose
// their connection. Every answer and every push must be the same.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/scripted_server.hpp"

namespace conch::sim {

/// `side` makes the commands; `note(command, answer, pushed)` counts what happened. To be called with
/// ASSERT_NO_FATAL_FAILURE.
/// With `small` steps both do so little in one command that there is often more to do.
template <class Side, class Note>
void compare_store_with_scripts(Side& side, int steps, bool small, Note note) {
  std::vector<std::string> const clients = side.clients();
  use_small_steps(small);
  scripted_server scripts{clients};
  memory::store store;
  if (small) store.set_bounds({small_steps, static_cast<std::size_t>(small_few_owners)});
  seen_grants pushed;
  std::deque<listening_client> listeners;
  std::map<std::string, listening_client*> listener_of;
  std::set<std::string> subscribed;
  for (auto const& client : clients) {
    listener_of[client] = &listeners.emplace_back(client, pushed);
    store.subscribe(client, *listener_of[client]);
    scripts.subscribe(client, true);
    subscribed.insert(client);
  }

  for (int step = 0; step < steps; ++step) {
    side.step();
    scripts.at(side.now());
    std::string const client = side.client();
    if (side.rarely()) {  // its connection is lost, or there again
      bool const on = !subscribed.contains(client);
      scripts.subscribe(client, on);
      if (on) {
        store.subscribe(client, *listener_of[client]);
        subscribed.insert(client);
      } else {
        store.unsubscribe(client);
        subscribed.erase(client);
      }
    }
    engine::command command = side.command(client);
    for (bool more = true; more;) {
      auto const expected = scripts.carry_out(command, client);
      pushed.clear();
      auto const answer = store.carry_out(command, client, side.now());
      ASSERT_EQ(described(answer), described(expected.answer)) << "step " << step << " at " << side.now() << ", " << client << " sends\n"
                                                               << described(command);
      ASSERT_EQ(pushed, expected.pushes) << "step " << step << " at " << side.now() << ", " << client << " sends\n" << described(command);
      note(command, answer, pushed);
      // An order goes on where it is told to.
      auto* const force = std::get_if<engine::force_command>(&command);
      more = force != nullptr && answer.size() == 7;
      if (!more) continue;
      force->last = answer[5];
      force->from_us = answer[6];
    }
  }
  use_small_steps(false);
}

}  // namespace conch::sim
