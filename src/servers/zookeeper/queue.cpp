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
      cleanups_{on_, {&rest_, call<&catch_up::resume_backlog>}},
      shared_{on_, keeps_, cleanups_},
      held_{on_, shared_},
      line_{on_, keeps_, cleanups_, shared_, held_},
      rest_{on_, keeps_, cleanups_, shared_, held_, line_},
      arrivals_{on_, keeps_, cleanups_, shared_, held_, line_, rest_} {}

engine::capabilities queue::offers() const noexcept {
  return {.several_owners = true,
          .intervals = true,
          .where = "zookeeper://",
          .instead = "redis://, postgresql:// and memory:// have it"};
}

std::unique_ptr<engine::place> queue::make_place(std::string_view name, engine::permit const& share) {
  return std::make_unique<queue_place>(rest_, name, share, folder_of(on_.env.root, name));
}

void queue::report(statistics& to) const { to.cleanups_pending = cleanups_.count(); }

void queue::ask(engine::place& given, bool wait, milliseconds lease, time_point now) {
  auto& p = static_cast<queue_place&>(given);
  enter(p, place_state::asking);
  p.wait = wait;
  p.lease = lease;
  p.written = false;
  p.trouble_since = {};
  bool const shares = shared_.share_node(p, now);
  bool const others_first =
      // they asked earlier, or there is no room
      !shares && (on_.all.has_rest() || (on_.session.is_open() && !on_.all.may_list()));
  if (!shares) {
    on_.all.begin(p);
    on_.all.add(p, others_first);
  }
  on_.session.need_deadline(now);
  if (!on_.session.is_open()) {
    line_.patience(p, now);
    on_.session.want(now);
  } else if (!shares && !others_first) {
    line_.make_node(p, now);
  }
}

void queue::leave_unless_granted(engine::place& given, time_point now) {
  auto& p = static_cast<queue_place&>(given);
  if (!p.written || p.primary != nullptr || !p.sharers.empty()) {
    ++p.references;
    shared_.withdraw(p, now);
    on_.env.up.left(p, now);
    return on_.all.drop(p);
  }
  shared_.stop_sharing(p);
  enter(p, place_state::leaving);
  if (!on_.session.is_open()) {
    on_.env.timers.arm(p.check, now + on_.env.settings.command_timeout);
  } else if (p.last_sent_on == on_.sent.connection_number() && (p.node.empty() || on_.all.may_list())) {
    line_.list(p, now);  // the lock may be its own already, and the event under way
  } else if (p.last_sent_on == on_.sent.connection_number()) {
    p.last_sent_on = 0;
    on_.all.put_off(p);
  }  // else resume_backlog comes first
}

void queue::give_up(engine::place& given, receipt* r, time_point now) {
  auto& p = static_cast<queue_place&>(given);
  ++p.references;
  if (shared_.withdraw(p, now) && p.written) {
    cleanups_.add(p, r, now);
  } else if (r != nullptr) {
    on_.env.up.released(*r, false, {}, now);
  }
  --p.references;  // the caller checks whether the place is still needed
}

void queue::release(engine::place& given, std::optional<engine::milliseconds> again, receipt* r, time_point now) {
  auto& p = static_cast<queue_place&>(given);
  bool const valid = p.deadline > now;
  ++p.references;
  bool const is_last = shared_.withdraw(p, now);
  if (!is_last) {
    if (r != nullptr) on_.env.up.released(*r, valid || p.made_in == on_.sent.session_number(), {}, now);
  } else {
    cleanups_.add(p, r, now, valid);
  }
  if (again) ask(p, true, *again, now);
  on_.all.drop(p);
}

/// After a loss. The session may go on: then the node is removed when the delay has passed.
void queue::detach(engine::place& given, time_point now) {
  auto& p = static_cast<queue_place&>(given);
  duration const delay = on_.env.settings.lock_delay;
  time_point const until = std::max(now, p.deadline) + delay + protocol::drift_of(delay);
  bool const is_last = shared_.withdraw(p, now);
  if (is_last && p.made_in == on_.sent.session_number()) cleanups_.add_later(p, until);
}

/// The end of the session would end the delay of a lost hold, too: then it is left to itself.
void queue::closed() { cleanups_.has_delayed() ? on_.session.abandon() : on_.session.close(); }

error_code queue::too_late(engine::place const& given, time_point now) const {
  auto const& p = static_cast<queue_place const&>(given);
  if (std::string const words = on_.session.silence(now); !words.empty())
    return make_error_code(errc::unreachable, words);
  bool const waits_for_others = p.state == place_state::asking && !p.written;
  if (on_.session.is_open() && waits_for_others) {
    return make_error_code(
        errc::timed_out,
        "others of this client are asked for before it, and the server has not answered all of them yet");
  }
  if (on_.session.is_open())
    return make_error_code(errc::timed_out, p.state == place_state::asking ? "the server has not answered yet" : "");
  bool const in_vain =
      !on_.session.trouble().empty() ||
      (p.trouble_since != time_point{} && now - p.trouble_since >= on_.session.answers_usually_within());
  return make_error_code(in_vain ? errc::unreachable : errc::timed_out, on_.session.why_not_open());
}

}  // namespace conch::zookeeper
