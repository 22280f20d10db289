// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/queue/line.hpp"

#include "base/readable.hpp"
#include "protocol/drift.hpp"
#include "protocol/wire.hpp"
#include "servers/zookeeper/names.hpp"

#include <algorithm>
#include <utility>

namespace conch::zookeeper {

using conch::retry_reason;
using engine::place_state;

namespace {

bool is_usable(std::int64_t fence) { return fence > 0 && fence < protocol::fence_limit; }

}  // namespace

/// The node and those before it, in one round trip.
void line::make_node(standing& s, time_point now) {
  if (is_too_long(s)) return fail(s, lease_too_long(s), now);
  s.written = true;
  s.check.cancel();
  ask_for_rights(s, now);
  terms asks = s.asks;
  asks.interval_ms = s.interval_ms = static_cast<std::uint32_t>(s.at_least.count());
  on_.sent.send(about::node,
                create{s.path_of(node_prefix(on_.env.client_id, asks, s.number)),
                       {},
                       node_kind::ephemeral_sequential,
                       on_.session.nodes().who()},
                s, nullptr, now);
  list(s, now);
}

/// What is as long as config::lease, which asks for the session, is as long as the session that the servers give.
bool line::is_too_long(standing const& s) const {
  return s.lease > on_.session.timeout() && s.lease > on_.env.settings.lease;
}

error_code line::lease_too_long(standing const& s) const {
  std::string const asked = std::to_string(engine::whole_ms(on_.env.settings.lease).count());
  return make_error_code(
      errc::invalid_config,
      "a lease of " + std::to_string(s.lease.count()) + " ms is longer than the session of " +
          std::to_string(engine::whole_ms(on_.session.timeout()).count()) + " ms: raise config::lease (" + asked +
          " ms), which asks for the session, and maxSessionTimeout at the servers if that is less (lock " +
          readable(s.name) + ')');
}

/// A folder may be older than the rights to the root are strict. Its rights are read once, before the node is created,
/// so that nothing is granted in one that others may change.
void line::ask_for_rights(standing& s, time_point now) {
  if (on_.session.nodes().has_user() &&
      std::exchange(s.checked_in, on_.sent.session_number()) != on_.sent.session_number()) {
    on_.sent.send(about::rights, get_acl{s.folder}, s, nullptr, now);
  }
}

void line::list(standing& s, time_point now) {
  ++s.lists;
  on_.sent.send(about::list, get_children{s.folder}, s, nullptr, now);
}

/// This is the node of the place.
void line::found(standing& s, std::string path, std::int64_t created, time_point now) {
  if (!read_node_name(last_of(path))) return on_.session.drop("the name of a new node is not what was asked for", now);
  s.node = std::move(path);
  s.created = created;
}

/// The nodes before the place.
void line::look(standing& s, children const& all, time_point now) {
  remove_strays(s, all, now);
  verdict found = judge(all.names, last_of(s.node));
  using kind = verdict::kind;
  if (found.is == kind::not_there) return has_no_node(s, now);
  if (found.is == kind::granted) return take_turn(s, false, now);
  bool const is_kept = found.is == kind::kept;
  bool const is_refused = found.is != kind::waits && !is_kept;
  s.refusal = is_refused ? error_of(found, s) : error_code{};
  if (!is_refused && !s.wait && !s.riders.empty()) {  // the try has ended, and others want the node
    standing& next = shares_.pass_on(s, now);
    shares_.become_idle(s, now);
    on_.env.up.busy(s, now);
    return look(next, all, now);
  }
  // a later answer shows whether the lock has become free before it was to leave
  if (s.state == place_state::leaving && s.lists > 0 && !is_refused) return;
  // Only then does a try report that the lock is busy: otherwise a later one could find its node, and no holder.
  if (is_refused || s.state == place_state::leaving || !s.wait) return leave(s, now);
  if (!s.wait) {
    shares_.become_idle(s, now);
    return on_.env.up.busy(s, now);
  }
  enter(s, place_state::in_line);
  on_.env.up.queued(s, now);
  shares_.rest_riders(s, now);
  if (is_kept) keeps_.measure(s, found.ahead.watched.front().name, now);
  on_.all.watch(s, std::move(found.ahead), now);
}

/// Removes nodes of this client that none of its places knows: left by a request of which the answer was lost.
void line::remove_strays(standing& s, children const& all, time_point now) {
  for (std::string const& one : all.names) {
    if (!one.starts_with(on_.env.client_id)) continue;
    auto const name = read_node_name(one);
    if (!name || name->client != on_.env.client_id || name->number == s.number) continue;
    if (!is_known(name->number)) on_.sent.send(about::stray, remove{s.path_of(one)}, s, nullptr, now);
  }
}

/// One of those before the place is gone. None comes in before it, so if all that are left are known, they show whether
/// it has its turn. Otherwise the folder tells which are left; it has done so before the turn of this place comes, for
/// more are watched than block it.
void line::gone(standing& s, std::string const& path, time_point now) {
  ++on_.env.stats.pushes;
  view::step const next = s.ahead.gone(last_of(path), share_of(s.asks));
  if (s.state != place_state::in_line) return;
  if (next == view::step::granted) take_turn(s, true, now);
  if (next == view::step::lists && s.lists == 0) list(s, now);
}

void line::take_turn(standing& s, bool pushed, time_point now) {
  s.has_turn = true;
  s.by_push = pushed;
  on_.all.unwatch(s);
  if (!is_proved(now)) return on_.session.prove_soon(now);
  if (s.interval_ms == 0) return own(s, now);
  keeps_.make(s, now);  // it is granted with the answer
}

bool line::is_proved(time_point now) const { return on_.session.deadline() > now + on_.session.timeout() / 16; }

/// What came of the node that keeps the lock for the interval. Without it nothing is granted, nor long after it was
/// made.
void line::kept(standing& s, reply const& a, time_point now) {
  s.keep_sent_on = 0;
  if (!s.waits() && s.state != place_state::leaving) return;
  if (a.what == status::ok) return is_proved(now) ? own(s, now) : on_.session.prove_soon(now);
  if (a.what == status::no_node) return has_no_node(s, now);
  std::string const asked = "create " + s.keep;
  // an earlier one is there, which this server did not remove
  if (a.what == status::node_exists) return ask_later(s, a.what, asked, now);
  request_refused(s, a.what, asked, now);
}

/// The times of the node that keeps the lock: when it was made, and when this client wrote to it. The second is the
/// leader's time now, so no other clock is compared with it.
void line::interval_measured(standing& s, stat const& keep, std::uint32_t interval_ms, time_point now) {
  if (s.state != place_state::in_line) return;
  // Unsigned, so that nothing overflows whatever the server sends.
  auto const written = static_cast<std::uint64_t>(std::max(keep.modified_ms, keep.created_ms));
  std::uint64_t const passed = written - static_cast<std::uint64_t>(keep.created_ms);
  duration const left = std::chrono::milliseconds{interval_ms - std::min<std::uint64_t>(passed, interval_ms)};
  s.awaits_end = true;
  on_.env.timers.arm(s.check, now + left + protocol::drift_of(left));
}

/// Its own client may be gone.
void line::interval_over(standing& s, time_point now) {
  if (s.state != place_state::in_line || s.ahead.watched.size() != 1) return;
  std::string const node = s.path_of(s.ahead.watched.front().name);
  on_.all.unwatch(s);
  on_.sent.send(about::kept_end, remove{node}, s, nullptr, now, node);
  list(s, now);
}

void line::own(standing& s, time_point now) {
  // Clamped, so that the sum cannot overflow whatever the server sends.
  std::int64_t const created =
      std::clamp<std::int64_t>(s.created, -2 * protocol::fence_limit, 2 * protocol::fence_limit);
  s.fence = on_.session.nodes().birth() + created;
  if (!is_usable(s.fence)) {
    return fail(s,
                make_error_code(errc::protocol, "the fence " + std::to_string(s.fence) +
                                                    " is not possible: the clock with which " + on_.env.root +
                                                    " was made is wrong"),
                now);
  }
  s.has_turn = s.wants_renewal = false;
  s.chosen = 0;
  s.heard_from = s.valid_from = now;
  s.full_until = now + protocol::good_for(held_.lease_of(s));
  s.deadline = std::min(on_.session.deadline(), s.full_until);
  s.confirmed = s.deadline >= s.full_until;
  on_.sent.progressed();
  enter(s, place_state::owned);
  if (s.carrier == nullptr) shares_.granted_to_owner(s, now);
  on_.env.up.granted(s, s.by_push, now);
}

void line::leave(standing& s, time_point now) {
  s.has_turn = false;
  s.leave_sent = true;
  shares_.carry_no_more(s);
  on_.all.unwatch(s);
  on_.sent.send(about::leave, remove{s.node}, s, nullptr, now);
}

void line::gone_from_line(standing& s, time_point now) {
  shares_.become_idle(s, now);
  on_.env.up.left(s, now);
}

/// The node is gone, or was never made. A waiter asks for another one, behind all others.
void line::has_no_node(standing& s, time_point now) {
  if (s.state == place_state::leaving) return gone_from_line(s, now);
  if (s.written) on_.env.up.asked_again(s, retry_reason::reconnected, now);
  keeps_.let_go(s, time_point::min(), now);
  on_.all.begin(s);
  s.written = false;
  if (on_.session.is_open()) make_node(s, now);
}

/// The time counts from when the connection was lost.
void line::patience(standing& s, time_point since) {
  if (s.trouble_since == time_point{}) s.trouble_since = since;
  on_.env.timers.arm(s.check, s.trouble_since + on_.env.settings.offline_timeout);
}

void line::fail(standing& s, error_code why, time_point now) {
  shares_.pass_on_the_asking(s, now);
  shares_.become_idle(s, now);
  ++s.references;  // the place must outlive its clean-up and the event
  if (s.written) owed_.owe(s, nullptr, now);
  on_.env.up.failed(s, why, now);
  on_.all.drop(s);
}

/// One bad key harms one lock: what the server refuses ends the place that has asked for it, and nothing else.
void line::request_refused(standing& s, status what, std::string const& asked, time_point now) {
  if (!s.waits() && s.state != place_state::leaving) return;
  if (refusal_of(what).then != remedy::none) return ask_later(s, what, asked, now);
  if (s.waits()) return fail(s, error_of(what, asked), now);
  ++s.references;
  shares_.become_idle(s, now);
  if (s.written) owed_.owe(s, nullptr, now);
  on_.env.up.left(s, now);
  on_.all.drop(s);
}

/// Not for longer than the servers may be away.
void line::ask_later(standing& s, status what, std::string const& asked, time_point now) {
  if (s.later_since == time_point{}) s.later_since = now;
  if (s.waits() && now - s.later_since >= on_.env.settings.offline_timeout) return fail(s, error_of(what, asked), now);
  on_.all.unwatch(s);
  s.told_on = 0;
  s.asks_later = true;
  on_.env.timers.arm(s.check, now + on_.pause.next());
}

error_code line::error_of(status what, std::string const& asked) const {
  return to_error(what, asked, on_.session.server());
}

/// The lock is not what was asked for.
error_code line::error_of(verdict const& v, standing const& s) const {
  if (v.is == verdict::kind::has_no_place) {
    return make_error_code(
        errc::server_refused,
        "the node numbers of " + s.folder +
            " are used up, so the order of its nodes is lost: remove the folder when no client holds "
            "this lock; then the numbers start again");
  }
  if (v.is == verdict::kind::owner_is_away) {
    return make_error_code(
        errc::not_supported,
        "in ZooKeeper an owner nests within one client only, and this one belongs to another client: " +
            std::string{v.whose});
  }
  auto const other = read_node_name(v.whose);
  return make_error_code(errc::wrong_type, "the name is that of " +
                                               std::string{kind_in_words(other ? other->terms : terms{})} + ", and " +
                                               std::string{kind_in_words(s.asks)} + " was asked for");
}

}  // namespace conch::zookeeper
