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
void line::make_node(queue_place& p, time_point now) {
  if (is_too_long(p)) return fail(p, lease_too_long(p), now);
  p.written = true;
  p.check.cancel();
  ask_for_rights(p, now);
  terms asks = p.asks;
  asks.interval_ms = p.interval_ms = static_cast<std::uint32_t>(p.at_least.count());
  on_.sent.send(about::node,
                create{p.path_of(node_prefix(on_.env.client_id, asks, p.number)),
                       {},
                       node_kind::ephemeral_sequential,
                       on_.session.nodes().who()},
                p, nullptr, now);
  list(p, now);
}

/// What is as long as config::lease, which asks for the session, is as long as the session that the servers give.
bool line::is_too_long(queue_place const& p) const {
  return p.lease > on_.session.timeout() && p.lease > on_.env.settings.lease;
}

error_code line::lease_too_long(queue_place const& p) const {
  std::string const asked = std::to_string(engine::whole_ms(on_.env.settings.lease).count());
  return make_error_code(
      errc::invalid_config,
      "a lease of " + std::to_string(p.lease.count()) + " ms is longer than the session of " +
          std::to_string(engine::whole_ms(on_.session.timeout()).count()) + " ms: raise config::lease (" + asked +
          " ms), which asks for the session, and maxSessionTimeout at the servers if that is less (lock " +
          readable(p.name) + ')');
}

/// A folder may be older than the rights to the root are strict. Its rights are read once, before the node is created,
/// so that nothing is granted in one that others may change.
void line::ask_for_rights(queue_place& p, time_point now) {
  if (on_.session.nodes().has_user() &&
      std::exchange(p.checked_in, on_.sent.session_number()) != on_.sent.session_number()) {
    on_.sent.send(about::rights, get_acl{p.folder}, p, nullptr, now);
  }
}

void line::list(queue_place& p, time_point now) {
  ++p.lists;
  on_.sent.send(about::list, get_children{p.folder}, p, nullptr, now);
}

/// This is the node of the place.
void line::found(queue_place& p, std::string path, std::int64_t created, time_point now) {
  if (!read_node_name(last_of(path))) return on_.session.drop("the name of a new node is not what was asked for", now);
  p.node = std::move(path);
  p.created = created;
}

/// The nodes before the place.
void line::look(queue_place& p, children const& all, time_point now) {
  remove_strays(p, all, now);
  verdict found = judge(all.names, last_of(p.node));
  using kind = verdict::kind;
  if (found.is == kind::not_there) return has_no_node(p, now);
  if (found.is == kind::granted) return take_turn(p, false, now);
  bool const is_kept = found.is == kind::kept;
  bool const is_refused = found.is != kind::waits && !is_kept;
  p.refusal = is_refused ? error_of(found, p) : error_code{};
  if (!is_refused && !p.wait && !p.sharers.empty()) {  // the try has ended, and others want the node
    queue_place& next = shared_.pass_on(p, now);
    shared_.become_idle(p, now);
    on_.env.up.busy(p, now);
    return look(next, all, now);
  }
  // a later answer shows whether the lock has become free before it was to leave
  if (p.state == place_state::leaving && p.lists > 0 && !is_refused) return;
  // Only then does a try report that the lock is busy: otherwise a later one could find its node, and no holder.
  if (is_refused || p.state == place_state::leaving || !p.wait) return leave(p, now);
  if (!p.wait) {
    shared_.become_idle(p, now);
    return on_.env.up.busy(p, now);
  }
  enter(p, place_state::in_line);
  on_.env.up.queued(p, now);
  shared_.rest_sharers(p, now);
  if (is_kept) keeps_.measure(p, found.ahead.watched.front().name, now);
  on_.all.watch(p, std::move(found.ahead), now);
}

/// Removes nodes of this client that none of its places knows: left by a request of which the answer was lost.
void line::remove_strays(queue_place& p, children const& all, time_point now) {
  for (std::string const& one : all.names) {
    if (!one.starts_with(on_.env.client_id)) continue;
    auto const name = read_node_name(one);
    if (!name || name->client != on_.env.client_id || name->number == p.number) continue;
    if (!is_known(name->number)) on_.sent.send(about::stray, remove{p.path_of(one)}, p, nullptr, now);
  }
}

/// One of those before the place is gone. None comes in before it, so if all that are left are known, they show whether
/// it has its turn. Otherwise the folder tells which are left; it has done so before the turn of this place comes, for
/// more are watched than block it.
void line::gone(queue_place& p, std::string const& path, time_point now) {
  ++on_.env.stats.pushes;
  view::step const next = p.ahead.gone(last_of(path), share_of(p.asks));
  if (p.state != place_state::in_line) return;
  if (next == view::step::granted) take_turn(p, true, now);
  if (next == view::step::lists && p.lists == 0) list(p, now);
}

void line::take_turn(queue_place& p, bool pushed, time_point now) {
  p.has_turn = true;
  p.by_push = pushed;
  on_.all.unwatch(p);
  if (!is_proved(now)) return on_.session.prove_soon(now);
  if (p.interval_ms == 0) return own(p, now);
  keeps_.make(p, now);  // it is granted with the answer
}

bool line::is_proved(time_point now) const { return on_.session.deadline() > now + on_.session.timeout() / 16; }

/// What came of the node that keeps the lock for the interval. Without it nothing is granted, nor long after it was
/// made.
void line::kept(queue_place& p, reply const& a, time_point now) {
  p.keep_sent_on = 0;
  if (!p.waits() && p.state != place_state::leaving) return;
  if (a.what == status::ok) return is_proved(now) ? own(p, now) : on_.session.prove_soon(now);
  if (a.what == status::no_node) return has_no_node(p, now);
  std::string const asked = "create " + p.keep;
  // an earlier one is there, which this server did not remove
  if (a.what == status::node_exists) return ask_later(p, a.what, asked, now);
  request_refused(p, a.what, asked, now);
}

/// The times of the node that keeps the lock: when it was made, and when this client wrote to it. The second is the
/// leader's time now, so no other clock is compared with it.
void line::interval_measured(queue_place& p, stat const& keep, std::uint32_t interval_ms, time_point now) {
  if (p.state != place_state::in_line) return;
  // Unsigned, so that nothing overflows whatever the server sends.
  auto const written = static_cast<std::uint64_t>(std::max(keep.modified_ms, keep.created_ms));
  std::uint64_t const passed = written - static_cast<std::uint64_t>(keep.created_ms);
  duration const left = std::chrono::milliseconds{interval_ms - std::min<std::uint64_t>(passed, interval_ms)};
  p.awaits_end = true;
  on_.env.timers.arm(p.check, now + left + protocol::drift_of(left));
}

/// Its own client may be gone.
void line::interval_over(queue_place& p, time_point now) {
  if (p.state != place_state::in_line || p.ahead.watched.size() != 1) return;
  std::string const node = p.path_of(p.ahead.watched.front().name);
  on_.all.unwatch(p);
  on_.sent.send(about::kept_end, remove{node}, p, nullptr, now, node);
  list(p, now);
}

void line::own(queue_place& p, time_point now) {
  // Clamped, so that the sum cannot overflow whatever the server sends.
  std::int64_t const created =
      std::clamp<std::int64_t>(p.created, -2 * protocol::fence_limit, 2 * protocol::fence_limit);
  p.fence = on_.session.nodes().birth() + created;
  if (!is_usable(p.fence)) {
    return fail(p,
                make_error_code(errc::protocol, "the fence " + std::to_string(p.fence) +
                                                    " is not possible: the clock with which " + on_.env.root +
                                                    " was made is wrong"),
                now);
  }
  p.has_turn = p.wants_renewal = false;
  p.chosen = 0;
  p.heard_from = p.valid_from = now;
  p.full_until = now + protocol::good_for(held_.lease_of(p));
  p.deadline = std::min(on_.session.deadline(), p.full_until);
  p.confirmed = p.deadline >= p.full_until;
  on_.sent.progressed();
  enter(p, place_state::owned);
  if (p.primary == nullptr) shared_.granted_to_owner(p, now);
  on_.env.up.granted(p, p.by_push, now);
}

void line::leave(queue_place& p, time_point now) {
  p.has_turn = false;
  p.leave_sent = true;
  shared_.stop_sharing(p);
  on_.all.unwatch(p);
  on_.sent.send(about::leave, remove{p.node}, p, nullptr, now);
}

void line::gone_from_line(queue_place& p, time_point now) {
  shared_.become_idle(p, now);
  on_.env.up.left(p, now);
}

/// The node is gone, or was never made. A waiter asks for another one, behind all others.
void line::has_no_node(queue_place& p, time_point now) {
  if (p.state == place_state::leaving) return gone_from_line(p, now);
  if (p.written) on_.env.up.asked_again(p, retry_reason::reconnected, now);
  keeps_.let_go(p, time_point::min(), now);
  on_.all.begin(p);
  p.written = false;
  if (on_.session.is_open()) make_node(p, now);
}

/// The time counts from when the connection was lost.
void line::patience(queue_place& p, time_point since) {
  if (p.trouble_since == time_point{}) p.trouble_since = since;
  on_.env.timers.arm(p.check, p.trouble_since + on_.env.settings.offline_timeout);
}

void line::fail(queue_place& p, error_code why, time_point now) {
  shared_.pass_on_the_asking(p, now);
  shared_.become_idle(p, now);
  ++p.references;  // the place must outlive its clean-up and the event
  if (p.written) cleanups_.add(p, nullptr, now);
  on_.env.up.failed(p, why, now);
  on_.all.drop(p);
}

/// One bad key harms one lock: what the server refuses ends the place that has asked for it, and nothing else.
void line::request_refused(queue_place& p, status what, std::string const& asked, time_point now) {
  if (!p.waits() && p.state != place_state::leaving) return;
  if (refusal_of(what).then != remedy::none) return ask_later(p, what, asked, now);
  if (p.waits()) return fail(p, error_of(what, asked), now);
  ++p.references;
  shared_.become_idle(p, now);
  if (p.written) cleanups_.add(p, nullptr, now);
  on_.env.up.left(p, now);
  on_.all.drop(p);
}

/// Not for longer than the servers may be away.
void line::ask_later(queue_place& p, status what, std::string const& asked, time_point now) {
  if (p.later_since == time_point{}) p.later_since = now;
  if (p.waits() && now - p.later_since >= on_.env.settings.offline_timeout) return fail(p, error_of(what, asked), now);
  on_.all.unwatch(p);
  p.last_sent_on = 0;
  p.asks_later = true;
  on_.env.timers.arm(p.check, now + on_.pause.next());
}

error_code line::error_of(status what, std::string const& asked) const {
  return to_error(what, asked, on_.session.server());
}

/// The lock is not what was asked for.
error_code line::error_of(verdict const& v, queue_place const& p) const {
  if (v.is == verdict::kind::has_no_place) {
    return make_error_code(
        errc::server_refused,
        "the node numbers of " + p.folder +
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
                                               std::string{kind_in_words(p.asks)} + " was asked for");
}

}  // namespace conch::zookeeper
