// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "zookeeper/queue.hpp"

#include "base/readable.hpp"
#include "base/turns.hpp"
#include "protocol/drift.hpp"
#include "protocol/wire.hpp"
#include "zookeeper/acl.hpp"
#include "zookeeper/faults.hpp"
#include "zookeeper/names.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace conch::zookeeper {

namespace {

using conch::retry_reason;
using engine::milliseconds;
using at = engine::place::state;

bool is_usable(std::int64_t fence) { return fence > 0 && fence < protocol::fence_limit; }

}  // namespace

standing::standing(queue& keeper, std::string_view lock_name, engine::permit const& share, std::string in_folder)
    : engine::place{lock_name, share}, of{keeper}, folder{std::move(in_folder)}, asks{terms_of(permit)}, check{this, [](void* self, time_point now) {
                                                                                                                 auto& s =
                                                                                                                     *static_cast<standing*>(self);
                                                                                                                 s.of.check(s, now);
                                                                                                               }} {}

queue::queue(config const& settings, std::string const& client_id, std::string root, std::string secret, std::uint64_t seed,
             engine::timer_queue& timers, wire& out, engine::backend_events& up, statistics& stats)
    : settings_{settings}, client_id_{client_id}, root_{std::move(root)}, secret_{std::move(secret)}, timers_{timers}, up_{up}, stats_{stats},
      session_{settings, root_, secret_, seed, timers, out, *this, stats}, rest_{this, [](void* self,
                                                                                          time_point now) { static_cast<queue*>(self)->go_on(now); }},
      later_{this, [](void* self, time_point now) { static_cast<queue*>(self)->go_on(now); }}, pauses_{~seed} {}

queue::~queue() {
  pending_.splice_back(resting_cleanups_);
  while (!pending_.empty()) delete &pending_.pop_front();
}

engine::capabilities queue::offers() const noexcept {
  return {.several_owners = true, .where = "zookeeper://", .instead = "redis://, postgresql:// and memory:// have it"};
}

std::unique_ptr<engine::place> queue::make_place(std::string_view name, engine::permit const& share) {
  return std::make_unique<standing>(*this, name, share, folder_of(root_, name));
}

duration queue::validity(milliseconds lease) const noexcept { return protocol::good_for(lease); }

void queue::report(statistics& to) const { to.cleanups_pending = cleanups_; }

// -------------------------------------------------------------------------------------------- asking and being first

void queue::ask(engine::place& p, bool wait, milliseconds lease, time_point now) {
  auto& s = static_cast<standing&>(p);
  enter(s, at::asking);
  s.wait = wait;
  s.lease = lease;
  s.written = false;
  s.trouble_since = {};
  bool const rides = ride(s, now);
  bool const others_first = !rides && (!resting_.empty() || (connected() && !may_list()));  // they asked earlier, or there is no room
  if (!rides) {
    begin(s);
    (others_first ? resting_ : active_).push_back(s);
  }
  session_.need_deadline(now);
  if (!connected()) {
    patience(s, now);
    session_.want(now);
  } else if (!rides && !others_first) {
    make_node(s, now);
  }
}

/// Another node is asked for.
void queue::begin(standing& s) {
  standing_.erase(s.number);
  unwatch(s);
  s.its_node() = {.number = ++numbers_, .made_in = sessions_};
  standing_.emplace(s.number, &s);
  s.has_turn = s.wants_renewal = false;
}

/// The node and what stands before it, in one round trip.
void queue::make_node(standing& s, time_point now) {
  if (is_too_long(s)) return fail(s, lease_too_long(s), now);
  s.written = true;
  s.check.cancel();
  ask_for_rights(s, now);
  send(about::node, create{s.path_of(node_prefix(client_id_, s.asks, s.number)), {}, node_kind::ephemeral_sequential, session_.who()}, s, nullptr,
       now);
  list(s, now);
}

/// What is as long as config::lease, which asks for the session, is as long as the session that the servers give.
bool queue::is_too_long(standing const& s) const { return s.lease > session_.timeout() && s.lease > settings_.lease; }

milliseconds queue::lease_of(standing const& s) const { return std::min(s.lease, engine::whole_ms(session_.timeout())); }

error_code queue::lease_too_long(standing const& s) const {
  std::string const asked = std::to_string(engine::whole_ms(settings_.lease).count());
  return make_error_code(errc::invalid_config, "a lease of " + std::to_string(s.lease.count()) + " ms is longer than the session of " +
                                                   std::to_string(engine::whole_ms(session_.timeout()).count()) + " ms: raise config::lease (" +
                                                   asked +
                                                   " ms), which asks for the session, and maxSessionTimeout at the servers if that is less (lock " +
                                                   readable(s.name) + ')');
}

void queue::list(standing& s, time_point now) {
  ++s.lists;
  send(about::list, get_children{s.folder}, s, nullptr, now);
}

void queue::node_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.at;
  auto const* const made = a.what == status::ok ? std::get_if<created>(&a.content) : nullptr;
  if (s.number != r.number || s.at == at::idle) return came_of(r.number, made != nullptr ? made->path : std::string{}, now);  // given up meanwhile
  if (made != nullptr) {
    found(s, made->path, made->node.created, now);
  } else if (s.at == at::leaving && refusal_of(a.what).then == remedy::none) {
    gone_from_line(s, now);
  } else if (a.what == status::no_node && s.folders_made < 3) {
    ++s.folders_made;
    send(about::folder, create{s.folder, {}, node_kind::container, session_.who()}, s, nullptr, now);
    make_node(s, now);
  } else {
    s.written = refusal_of(a.what).then != remedy::none;  // else nothing was made
    request_refused(s, a.what, "create a node in " + s.folder, now);
  }
}

/// A folder may be older than the rights to the root are strict. Who may change it is asked for once, before the node, so that nothing is granted in
/// one that others may change.
void queue::ask_for_rights(standing& s, time_point now) {
  if (session_.has_user() && std::exchange(s.checked_in, sessions_) != sessions_) send(about::rights, get_acl{s.folder}, s, nullptr, now);
}

void queue::rights_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.at;
  auto const* const who_may = std::get_if<rights>(&a.content);
  if (who_may == nullptr) {
    s.checked_in = 0;  // it is not there yet, or the next request says why
    return;
  }
  if (s.number != r.number || !s.waits() || !writers_beside(session_.own_rights(), who_may->all).anyone) return;
  s.checked_in = 0;
  fail(s,
       make_error_code(errc::access_denied, session_.server() + ": others may change " + s.folder +
                                                ", so that this lock is not safe behind user and " +
                                                "password of the URL: restrict it (setAcl), or remove it (lock " + readable(s.name) + ')'),
       now);
}

/// The node of the place is asked for behind it. If the folder cannot be made, only this lock is harmed.
void queue::folder_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.at;
  bool const there = a.what == status::ok || a.what == status::node_exists;
  if (there || s.number != r.number || !s.waits()) return;
  if (a.what == status::no_node) return session_.drop("the root was removed: " + root_, now);  // with all locks; a new connection makes it again
  request_refused(s, a.what, "create " + s.folder, now);
}

/// This is the node of the place.
void queue::found(standing& s, std::string path, std::int64_t created, time_point now) {
  if (!read_node_name(last_of(path))) return session_.drop("the name of a new node is not what was asked for", now);
  s.node = std::move(path);
  s.created = created;
}

void queue::list_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.at;
  if (s.number != r.number) return;
  --s.lists;
  if (s.node.empty() || s.leave_sent || s.at == at::idle || s.at == at::owned) return;
  if (a.what == status::ok) {
    auto const* const all = std::get_if<children>(&a.content);
    if (all == nullptr) return session_.drop("an answer of the wrong kind", now);
    look(s, *all, now);
    s.later_since = {};
    pauses_.begin_anew();
  } else if (a.what != status::no_node) {
    request_refused(s, a.what, "list " + s.folder, now);
  } else {
    has_no_node(s, now);
  }
}

/// What stands before the place.
void queue::look(standing& s, children const& all, time_point now) {
  remove_strays(s, all, now);
  verdict found = judge(all.names, last_of(s.node));
  using kind = verdict::kind;
  if (found.is == kind::not_there) return has_no_node(s, now);
  if (found.is == kind::granted) return take_turn(s, false, now);
  bool const is_refused = found.is != kind::waits;
  s.refusal = is_refused ? error_of(found, s) : error_code{};
  if (!is_refused && !s.wait && !s.riders.empty()) {  // the try is over, and others want the node
    standing& next = pass_on(s, now);
    become_idle(s);
    up_.busy(s, now);
    return look(next, all, now);
  }
  if (s.at == at::leaving && s.lists > 0 && !is_refused) return;  // a later answer says whether the lock has become free before it was to leave
  // A try tells only then that it is busy: else one that comes after it could find its node, and no holder.
  if (is_refused || s.at == at::leaving || !s.wait) return leave(s, now);
  if (!s.wait) {
    become_idle(s);
    return up_.busy(s, now);
  }
  enter(s, at::in_line);
  up_.queued(s, now);
  rest_riders(s, now);
  watch(s, std::move(found.ahead), now);
}

/// Removes nodes of this client that none of its places knows: left by a request of which the answer was lost.
void queue::remove_strays(standing& s, children const& all, time_point now) {
  for (std::string const& one : all.names) {
    if (!one.starts_with(client_id_)) continue;
    auto const name = read_node_name(one);
    if (!name || name->client != client_id_ || name->number == s.number) continue;
    if (!is_known(name->number)) send(about::stray, remove{s.path_of(one)}, s, nullptr, now);
  }
}

/// Watches these, and no others. What is watched already stays so.
void queue::watch(standing& s, view ahead, time_point now) {
  auto const is_in = [](view const& v, std::string const& name) {
    return std::any_of(v.watched.begin(), v.watched.end(), [&](node_ahead const& one) { return one.name == name; });
  };
  view const before = std::exchange(s.ahead, std::move(ahead));
  for (node_ahead const& one : before.watched) {
    if (!is_in(s.ahead, one.name)) watched_.leave(s.path_of(one.name), s);
  }
  for (node_ahead const& one : s.ahead.watched) {
    if (!is_in(before, one.name)) watch(s, s.path_of(one.name), now);
  }
}

void queue::watch(standing& s, std::string const& path, time_point now) {
  if (watched_.join(path, s)) send(about::watch, get_data{path, true}, s, nullptr, now, path);
}

void queue::unwatch(standing& s) {
  for (node_ahead const& one : s.ahead.watched) watched_.leave(s.path_of(one.name), s);
  s.ahead = {};
  if (std::exchange(s.watches_itself, false)) watched_.leave(s.node, s);
}

void queue::watch_answer(in_flight const& r, reply const& a, time_point now) {
  if (a.what == status::ok) return;
  if (a.what == status::no_node) {
    is_gone(r.path, now);
    return;
  }
  std::vector<standing*> const waiting = watched_.take(r.path);  // the server tells them nothing
  for (standing* s : waiting) ++s->references;
  for (standing* s : waiting) {
    if (s->node == r.path) s->watches_itself = false;
    else request_refused(*s, a.what, "read " + r.path, now);
    drop(*s);
  }
}

void queue::noticed(notice const& n, time_point now) {
  if (n.what == notice::event::deleted) return is_gone(n.path, now);
  // Somebody has written to it, and that has used the watch up.
  auto const waiting = watched_.at(n.path);
  if (!waiting.empty()) send(about::watch, get_data{n.path, true}, *waiting.front(), nullptr, now, n.path);
}

/// A node is gone. Whatever one of those that wait for that does, the others hear of it.
void queue::is_gone(std::string const& path, time_point now) {
  std::vector<standing*> waiting = watched_.take(path);
  for (standing* s : waiting) ++s->references;
  for (standing* s : waiting) {
    if (s->at == at::owned && s->node == path) removed(*s, now);
    else gone(*s, path, now);
    drop(*s);
  }
}

/// One of those before the place is gone. Nobody comes in before it, so if all that are left are known, they say whether it has its turn. Otherwise
/// the folder tells who is left; it has done so before the turn of this place comes, for more are watched than keep it out.
void queue::gone(standing& s, std::string const& path, time_point now) {
  ++stats_.pushes;
  view::step const next = s.ahead.gone(last_of(path), share_of(s.asks));
  if (s.at != at::in_line) return;
  if (next == view::step::granted) take_turn(s, true, now);
  if (next == view::step::lists && s.lists == 0) list(s, now);
}

void queue::take_turn(standing& s, bool pushed, time_point now) {
  s.has_turn = true;
  s.by_push = pushed;
  unwatch(s);
  if (session_.deadline() > now + session_.timeout() / 16) own(s, now);
  else session_.prove_soon(now);
}

void queue::own(standing& s, time_point now) {
  // Clamped, so that the sum cannot overflow whatever the server says.
  std::int64_t const created = std::clamp<std::int64_t>(s.created, -2 * protocol::fence_limit, 2 * protocol::fence_limit);
  s.fence = session_.birth() + created;
  if (!is_usable(s.fence)) {
    return fail(s,
                make_error_code(errc::protocol,
                                "the fence " + std::to_string(s.fence) + " is not possible: the clock with which " + root_ + " was made is wrong"),
                now);
  }
  s.has_turn = s.wants_renewal = false;
  s.segment = 0;
  s.heard_from = s.valid_from = now;
  s.full_until = now + validity(lease_of(s));
  s.deadline = std::min(session_.deadline(), s.full_until);
  s.confirmed = s.deadline >= s.full_until;
  ++progress_;
  enter(s, at::owned);
  if (s.carrier == nullptr) granted_to_owner(s, now);
  up_.granted(s, s.by_push, now);
}

// ------------------------------------------------------------------------------------------- requests and answers

void queue::send(about what, request const& r, standing& s, cleanup* c, time_point now, std::string path) {
  ++stats_.scripts;
  ++s.references;
  if (c == nullptr) s.told_on = connections_;  // a clean-up says nothing about what the place asks for now
  if (c == nullptr && tells_of_node(what)) ++s.tellers;
  bool const is_list = what == about::list;
  if (is_list) window_.uses(s.lease, now);
  in_flight_.push_back({what, &s, s.number, c, std::move(path), now, is_list ? window_.written(1) : 0});
  session_.send(r, now);
}

void queue::answered(reply const& a, time_point now) {
  if (in_flight_.empty()) return session_.drop("an unexpected answer", now);
  in_flight const r = std::move(in_flight_.front());
  in_flight_.pop_front();
  last_answer_ = now;
  r.at->trouble_since = {};
  if (r.together != 0) window_.answered(1, r.together, r.written, !resting_.empty(), now);
  if (r.of_cleanup == nullptr && tells_of_node(r.what) && r.at->number == r.number) --r.at->tellers;
  switch (r.what) {
    case about::node: node_answer(r, a, now); break;
    case about::folder: folder_answer(r, a, now); break;
    case about::list: list_answer(r, a, now); break;
    case about::watch: watch_answer(r, a, now); break;
    case about::leave: leave_answer(r, a, now); break;
    case about::clean_up: cleanup_answer(r, a, now); break;
    case about::search: search_answer(r, a, now); break;
    case about::rights: rights_answer(r, a, now); break;
    case about::found: found_answer(r, a, now); break;
    case about::stray:
    case about::nothing: break;
  }
  drop(*r.at);
  if (connected() && !resting_.empty() && window_.has_room()) go_on(now);
}

error_code queue::error_of(status what, std::string const& asked, standing const& s) const {
  return to_error(what, asked, session_.server(), s.name);
}

/// The lock is not what was asked for.
error_code queue::error_of(verdict const& v, standing const& s) const {
  std::string const lock = " (lock " + readable(s.name) + ')';
  if (v.is == verdict::kind::has_no_place) {
    return make_error_code(errc::server_refused, "the node numbers of " + s.folder +
                                                     " are used up, so the order of its nodes is lost: remove the folder when no client holds "
                                                     "this lock; then the numbers start again" +
                                                     lock);
  }
  if (v.is == verdict::kind::owner_is_away) {
    return make_error_code(errc::not_supported, "in ZooKeeper an owner nests within one client only, and this one belongs to another client: " +
                                                    std::string{v.whose} + lock);
  }
  auto const other = read_node_name(v.whose);
  return make_error_code(errc::wrong_type, "the name is that of " + std::string{other ? kind_in_words(other->terms) : "another kind of lock"} +
                                               ", and " + std::string{kind_in_words(s.asks)} + " was asked for" + lock);
}

/// One bad key harms one lock: what the server refuses ends the place that has asked for it, and nothing else.
void queue::request_refused(standing& s, status what, std::string const& asked, time_point now) {
  if (!s.waits() && s.at != at::leaving) return;
  if (refusal_of(what).then != remedy::none) return ask_later(s, what, asked, now);
  if (s.waits()) return fail(s, error_of(what, asked, s), now);
  ++s.references;
  become_idle(s);
  if (s.written) owe(s, nullptr, now);
  up_.left(s, now);
  drop(s);
}

/// Not for longer than the servers may be away.
void queue::ask_later(standing& s, status what, std::string const& asked, time_point now) {
  if (s.later_since == time_point{}) s.later_since = now;
  if (s.waits() && now - s.later_since >= settings_.offline_timeout) return fail(s, error_of(what, asked, s), now);
  unwatch(s);
  s.told_on = 0;
  s.asks_later = true;
  timers_.arm(s.check, now + pause_before_next());
}

duration queue::pause_before_next() { return std::max(settings_.reconnect_min, pauses_.next(settings_)); }

void queue::fail(standing& s, error_code why, time_point now) {
  pass_on_the_asking(s, now);
  become_idle(s);
  ++s.references;  // the place must outlive its clean-up and the event
  if (s.written) owe(s, nullptr, now);
  up_.failed(s, why, now);
  drop(s);
}

void queue::become_idle(standing& s) {
  enter(s, at::idle);
  s.unlink();
  s.check.cancel();
  carry_no_more(s);
  dismount(s);
  BOOST_ASSERT_MSG(s.riders.empty(), "a place without a node has riders");
  standing_.erase(s.number);
  s.has_turn = s.wants_renewal = false;
  unwatch(s);
  if (active_.empty() && resting_.empty()) session_.need_no_deadline();
}

void queue::drop(standing& s) {
  --s.references;
  if (s.references == 0 && s.at == at::idle) up_.settled(s);
}

std::string queue::why_not_connected() const {
  if (!session_.trouble().empty()) return session_.trouble();
  std::string const attempt = session_.unfinished_attempt();
  return attempt.empty() ? "there is no connection yet" : attempt;
}

error_code queue::too_late(engine::place const& p, time_point now) const {
  auto const& s = static_cast<standing const&>(p);
  if (std::string const words = session_.silence(now); !words.empty()) return make_error_code(errc::unreachable, words);
  bool const waits_for_others = s.at == at::asking && !s.written;
  if (connected() && waits_for_others) {
    return make_error_code(errc::timed_out, "others of this client are asked for before it, and the server has not answered all of them yet");
  }
  if (connected()) return make_error_code(errc::timed_out, s.at == at::asking ? "the server has not answered yet" : "");
  bool const in_vain = !session_.trouble().empty() || (s.trouble_since != time_point{} && now - s.trouble_since >= session_.answers_usually_within());
  return make_error_code(in_vain ? errc::unreachable : errc::timed_out, why_not_connected());
}

error_code queue::no_answer() const { return make_error_code(errc::unreachable, connected() ? "the server has not answered" : why_not_connected()); }

}  // namespace conch::zookeeper
