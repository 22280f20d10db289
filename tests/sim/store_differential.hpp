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
template <class Side, class Note>
void compare_store_with_scripts(Side& side, int steps, Note note) {
  std::vector<std::string> const clients = side.clients();
  scripted_server scripts{clients};
  memory::store store;
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
    engine::command const command = side.command(client);
    auto const expected = scripts.carry_out(command, client);
    pushed.clear();
    auto const answer = store.carry_out(command, client, side.now());
    ASSERT_EQ(described(answer), described(expected.answer))
        << "step " << step << " at " << side.now() << ", " << client << " sends\n" << described(command);
    ASSERT_EQ(pushed, expected.pushes)
        << "step " << step << " at " << side.now() << ", " << client << " sends\n" << described(command);
    note(command, answer, pushed);
  }
}

}  // namespace conch::sim
