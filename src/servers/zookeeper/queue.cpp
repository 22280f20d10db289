// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/queue.hpp"

#include "servers/zookeeper/names.hpp"

#include <algorithm>
#include <utility>

namespace conch::zookeeper {

using engine::milliseconds;
using engine::place_state;
using engine::receipt;

queue::queue(config const& settings, std::string const& client_id, std::string root, std::string secret,
             std::uint64_t seed, timer_queue& timers, wire& out, engine::backend_events& up, statistics& stats)
    : on_{{settings, client_id, std::move(root), std::move(secret), timers, up, stats},
          seed,
          out,
          arrivals_,
          {&rest_, call<&catch_up::resume_backlog>}},
      keeps_{on_},
      owed_{on_, {&rest_, call<&catch_up::resume_backlog>}},
      shares_{on_, keeps_, owed_},
      held_{on_, shares_},
      line_{on_, keeps_, owed_, shares_, held_},
      rest_{on_, keeps_, owed_, shares_, held_, line_},
      arrivals_{on_, keeps_, owed_, shares_, held_, line_, rest_} {}

engine::capabilities queue::offers() const noexcept {
  return {.several_owners = true,
          .intervals = true,
          .where = "zookeeper://",
          .instead = "redis://, postgresql:// and memory:// have it"};
}

std::unique_ptr<engine::place> queue::make_place(std::string_view name, engine::permit const& share) {
  return std::make_unique<standing>(rest_, name, share, folder_of(on_.env.root, name));
}

void queue::report(statistics& to) const { to.cleanups_pending = owed_.count(); }

void queue::ask(engine::place& p, bool wait, milliseconds lease, time_point now) {
  auto& s = static_cast<standing&>(p);
  enter(s, place_state::asking);
  s.wait = wait;
  s.lease = lease;
  s.written = false;
  s.trouble_since = {};
  bool const rides = shares_.ride(s, now);
  bool const others_first =
      // they asked earlier, or there is no room
      !rides && (on_.all.has_rest() || (on_.session.is_open() && !on_.all.may_list()));
  if (!rides) {
    on_.all.begin(s);
    on_.all.add(s, others_first);
  }
  on_.session.need_deadline(now);
  if (!on_.session.is_open()) {
    line_.patience(s, now);
    on_.session.want(now);
  } else if (!rides && !others_first) {
    line_.make_node(s, now);
  }
}

void queue::leave_unless_granted(engine::place& p, time_point now) {
  auto& s = static_cast<standing&>(p);
  if (!s.written || s.carrier != nullptr || !s.riders.empty()) {
    ++s.references;
    shares_.step_out(s, now);
    on_.env.up.left(s, now);
    return on_.all.drop(s);
  }
  shares_.carry_no_more(s);
  enter(s, place_state::leaving);
  if (!on_.session.is_open()) {
    on_.env.timers.arm(s.check, now + on_.env.settings.command_timeout);
  } else if (s.told_on == on_.sent.connection_number() && (s.node.empty() || on_.all.may_list())) {
    line_.list(s, now);  // the lock may be its own already, and the event under way
  } else if (s.told_on == on_.sent.connection_number()) {
    s.told_on = 0;
    on_.all.put_off(s);
  }  // else resume_backlog comes first
}

void queue::give_up(engine::place& p, receipt* r, time_point now) {
  auto& s = static_cast<standing&>(p);
  ++s.references;
  if (shares_.step_out(s, now) && s.written) {
    owed_.owe(s, r, now);
  } else if (r != nullptr) {
    on_.env.up.released(*r, false, {}, now);
  }
  --s.references;  // the caller checks whether the place is still needed
}

void queue::release(engine::place& p, std::optional<engine::milliseconds> again, receipt* r, time_point now) {
  auto& s = static_cast<standing&>(p);
  bool const valid = s.deadline > now;
  ++s.references;
  bool const is_last = shares_.step_out(s, now);
  if (!is_last) {
    if (r != nullptr) on_.env.up.released(*r, valid || s.made_in == on_.sent.session_number(), {}, now);
  } else {
    owed_.owe(s, r, now, valid);
  }
  if (again) ask(s, true, *again, now);
  on_.all.drop(s);
}

/// After a loss. The session may go on: then the node is removed when the delay has passed.
void queue::detach(engine::place& p, time_point now) {
  auto& s = static_cast<standing&>(p);
  duration const delay = on_.env.settings.lock_delay;
  time_point const until = std::max(now, s.deadline) + delay + protocol::drift_of(delay);
  bool const is_last = shares_.step_out(s, now);
  if (is_last && s.made_in == on_.sent.session_number()) owed_.owe_later(s, until);
}

/// The end of the session would end the delay of a lost hold, too: then it is left to itself.
void queue::closed() { owed_.has_delayed() ? on_.session.abandon() : on_.session.close(); }

error_code queue::too_late(engine::place const& p, time_point now) const {
  auto const& s = static_cast<standing const&>(p);
  if (std::string const words = on_.session.silence(now); !words.empty())
    return make_error_code(errc::unreachable, words);
  bool const waits_for_others = s.state == place_state::asking && !s.written;
  if (on_.session.is_open() && waits_for_others) {
    return make_error_code(
        errc::timed_out,
        "others of this client are asked for before it, and the server has not answered all of them yet");
  }
  if (on_.session.is_open())
    return make_error_code(errc::timed_out, s.state == place_state::asking ? "the server has not answered yet" : "");
  bool const in_vain =
      !on_.session.trouble().empty() ||
      (s.trouble_since != time_point{} && now - s.trouble_since >= on_.session.answers_usually_within());
  return make_error_code(in_vain ? errc::unreachable : errc::timed_out, on_.session.why_not_open());
}

}  // namespace conch::zookeeper
