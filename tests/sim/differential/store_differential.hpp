// conch::memory::store against lua/*.lua on the model of Redis: random commands of a few clients, which now and then lose
// their connection. Every reply, as the client reads it, and every push must be the same.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/differential/scripted_server.hpp"

namespace conch::sim {

/// The server's time that a script tells, and that no reply of the store has; otherwise `now_us`.
inline std::int64_t clock_beside_reply(protocol::command const& c, std::vector<std::int64_t> const& numbers, std::int64_t now_us) {
  bool const orders = std::holds_alternative<protocol::force_command>(c) || std::holds_alternative<protocol::limit_command>(c) ||
                      std::holds_alternative<protocol::request_command>(c);
  if (orders && numbers.size() > 1) return numbers[1];
  if (std::holds_alternative<protocol::watch_command>(c) && numbers.size() == 3) return numbers[2];
  if (std::holds_alternative<protocol::inspect_command>(c) && !numbers.empty()) return numbers[0];
  return now_us;
}

/// `side` makes the commands; `note(command, numbers, pushed)` counts what happened. To be called with
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
  listening_clients listeners{clients, store, scripts, pushed};

  for (int step = 0; step < steps; ++step) {
    side.step();
    scripts.at(side.now());
    std::string const client = side.client();
    if (side.rarely()) listeners.change(client, scripts);
    protocol::command command = side.command(client);
    for (bool more = true; more;) {
      auto const expected = scripts.carry_out(command, client);
      pushed.clear();
      any_reply const reply = reply_of(store, command, client, side.now());
      ASSERT_EQ(reply, expected.reply) << testing::PrintToString(expected.answer) << " at step " << step << " at " << side.now() << ", " << client
                                       << " sends\n"
                                       << described(command);
      ASSERT_EQ(pushed, expected.pushes) << "step " << step << " at " << side.now() << ", " << client << " sends\n" << described(command);
      ASSERT_EQ(clock_beside_reply(command, expected.answer, side.now()), side.now()) << "step " << step;
      note(command, expected.answer, pushed);
      // An order goes on where it is told to.
      auto* const force = std::get_if<protocol::force_command>(&command);
      auto const* const order = std::get_if<protocol::order_reply>(&reply);
      more = force != nullptr && order != nullptr && order->goes_on;
      if (!more) continue;
      force->last = order->goes_on->last;
      force->from_us = order->goes_on->from_us;
    }
  }
  use_small_steps(false);
}

}  // namespace conch::sim
