// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "zookeeper/queue.hpp"

#include "base/mutant.hpp"
#include "base/readable.hpp"
#include "base/turns.hpp"
#include "protocol/drift.hpp"
#include "protocol/wire.hpp"
#include "zookeeper/names.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace conch::zookeeper {

namespace {

using conch::retry_reason;
using engine::milliseconds;
using engine::receipt;
using at = engine::place::state;

bool is_usable(std::int64_t fence) { return fence > 0 && fence < protocol::fence_limit; }

std::string path_of(standing const& s, std::string_view node) { return s.folder + '/' + std::string{node}; }

bool waits(standing const& s) { return s.at == at::asking || s.at == at::in_line; }

}  // namespace

standing::standing(queue& keeper, std::string_view lock_name, engine::permit const& share, std::string in_folder)
    : engine::place{lock_name, share}, of{keeper}, folder{std::move(in_folder)}, check{this, [](void* self, time_point now) {
                                                                                         auto& s = *static_cast<standing*>(self);
                                                                                         s.of.check(s, now);
                                                                                       }} {}

queue::queue(config const& settings, std::string const& client_id, std::string root, std::string secret, std::uint64_t seed,
             engine::timer_queue& timers, wire& out, engine::backend_events& up, engine::log_sink& log, statistics& stats)
    : settings_{settings}, client_id_{client_id}, root_{std::move(root)}, secret_{std::move(secret)}, timers_{timers}, up_{up}, stats_{stats},
      session_{settings, root_, secret_, seed, timers, out, *this, log, stats}, rest_{this, [](void* self, time_point now) {
                                                                                        static_cast<queue*>(self)->go_on(now);
                                                                                      }} {}

queue::~queue() {
  pending_.splice_back(resting_cleanups_);
  while (!pending_.empty()) delete &pending_.pop_front();
}

engine::capabilities queue::offers() const noexcept {
  return {.instead = "zookeeper:// has locks with one owner; redis://, postgresql:// and memory:// have this one, too"};
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
  begin(s);
  bool const others_first = !resting_.empty();  // they asked earlier
  (others_first ? resting_ : active_).push_back(s);
  session_.need_deadline(now);
  if (!connected()) {
    patience(s, now);
    session_.want(now);
  } else if (!others_first) {
    make_node(s, now);
  }
}

/// Another node is asked for.
void queue::begin(standing& s) {
  s.number = ++numbers_;
  s.made_in = sessions_;
  s.told_on = 0;
  s.node.clear();
  s.ahead = 0;
  s.folders_made = 0;
  s.listing = s.leave_sent = s.first = s.wants_renewal = false;
  unwatch(s);
}

/// The node and what stands before it, in one round trip.
void queue::make_node(standing& s, time_point now) {
  if (s.lease > session_.timeout()) {
    return fail(s,
                make_error_code(errc::invalid_config, "a lease of " + std::to_string(s.lease.count()) + " ms is longer than the session of " +
                                                          std::to_string(engine::whole_ms(session_.timeout()).count()) +
                                                          " ms, which is config::lease within the limits of the server"),
                now);
  }
  s.written = true;
  s.check.cancel();
  s.listing = true;
  send(about::node, create{path_of(s, node_prefix(client_id_, s.number)), {}, node_kind::ephemeral_sequential, session_.who()}, s, nullptr, now);
  send(about::list, get_children{s.folder}, s, nullptr, now);
}

void queue::list(standing& s, time_point now) {
  if (std::exchange(s.listing, true)) return;
  send(about::list, get_children{s.folder}, s, nullptr, now);
}

void queue::node_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.at;
  auto const* const made = a.what == status::ok ? std::get_if<created>(&a.content) : nullptr;
  if (s.number != r.number || s.at == at::idle) return came_of(r.number, made != nullptr ? made->path : std::string{}, now);  // given up meanwhile
  if (made != nullptr) {
    found(s, made->path, made->node.created, now);
  } else if (s.at == at::leaving) {
    gone_from_line(s, now);
  } else if (a.what == status::no_node && s.folders_made < 3) {
    ++s.folders_made;
    send(about::folder, create{s.folder, {}, node_kind::container, session_.who()}, s, nullptr, now);
    make_node(s, now);
  } else if (a.what == status::no_node) {
    session_.drop("the folder of a lock is not there, nor can it be made", now);  // a new connection makes what is above it
  } else {
    fail_as(s, a, now);
  }
}

/// This is the node of the place.
void queue::found(standing& s, std::string path, std::int64_t created, time_point now) {
  auto const name = read_node_name(last_of(path));
  if (!name) return session_.drop("the name of a new node is not what was asked for", now);
  s.node = std::move(path);
  s.sequence = name->sequence;
  s.created = created;
}

void queue::list_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.at;
  if (s.number != r.number) return;
  s.listing = false;
  if (s.node.empty() || s.leave_sent || s.at == at::idle || s.at == at::owned) return;
  if (a.what == status::ok) {
    auto const* const all = std::get_if<children>(&a.content);
    if (all == nullptr) return session_.drop("an answer of another kind than was asked for", now);
    look(s, *all, now);
  } else if (a.what != status::no_node) {
    fail_as(s, a, now);
  } else {
    has_no_node(s, now);
  }
}

/// What stands before the place, and who is watched.
void queue::look(standing& s, children const& all, time_point now) {
  bool is_there = false;
  std::size_t ahead = 0;
  std::optional<node_name> next, second;
  std::string_view next_name, second_name;
  std::string_view const mine = last_of(s.node);
  for (std::string const& one : all.names) {
    auto const name = read_node_name(one);
    if (!name) continue;
    if (one == mine) {
      is_there = true;
      continue;
    }
    // Left by a request of which the answer was lost.
    bool const is_stray = name->client == client_id_ && name->number != s.number;
    if (is_stray) send(about::stray, remove{path_of(s, one)}, s, nullptr, now);
    if (!is_before(name->sequence, s.sequence)) continue;
    ++ahead;
    if (!next || is_before(next->sequence, name->sequence)) {
      second = std::exchange(next, name);
      second_name = std::exchange(next_name, one);
    } else if (!second || is_before(second->sequence, name->sequence)) {
      second = name;
      second_name = one;
    }
  }
  s.ahead = ahead;
  if (!is_there) return has_no_node(s, now);  // somebody else has removed it
  if (ahead == 0) return stands_first(s, false, now);
  // A try tells only then that it is busy: else one that comes after it could find its node, and no holder.
  if (s.at == at::leaving || (!s.wait && !CONCH_MUTANT(try_stays))) return leave(s, now);
  if (!s.wait) {
    become_idle(s);
    return up_.busy(s, now);
  }
  enter(s, at::in_line);
  up_.queued(s, now);
  watch(s, path_of(s, next_name), second ? path_of(s, second_name) : std::string{}, now);
}

/// Watches these two, and no others. What is watched already stays so.
void queue::watch(standing& s, std::string before, std::string before_that, time_point now) {
  for (std::string const* old : {&s.before, &s.before_that}) {
    if (!old->empty() && *old != before && *old != before_that) watched_.erase(*old);
  }
  s.before = std::move(before);
  s.before_that = std::move(before_that);
  for (std::string const* one : {&s.before, &s.before_that}) {
    if (!one->empty() && watched_.emplace(*one, &s).second) send(about::watch, get_data{*one, true}, s, nullptr, now, *one);
  }
}

void queue::unwatch(standing& s) {
  for (std::string* one : {&s.before, &s.before_that}) {
    if (!one->empty()) watched_.erase(*one);
    one->clear();
  }
  if (std::exchange(s.watches_itself, false)) watched_.erase(s.node);
}

void queue::watch_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.at;
  if (s.number != r.number || a.what == status::ok) return;
  auto const found = watched_.find(r.path);
  if (found == watched_.end() || found->second != &s) return;
  if (a.what != status::no_node) return fail_as(s, a, now);
  watched_.erase(found);
  if (!CONCH_MUTANT(gone_before_watched)) gone(s, r.path, now);
}

void queue::noticed(notice const& n, time_point now) {
  auto const found = watched_.find(n.path);
  if (found == watched_.end()) return;
  standing& s = *found->second;
  bool const is_own = s.at == at::owned;
  if (n.what == notice::event::deleted && is_own) {
    removed(s, now);
  } else if (n.what == notice::event::deleted) {
    watched_.erase(found);
    gone(s, n.path, now);
  } else if (!CONCH_MUTANT(not_watched_again)) {
    send(is_own ? about::watch_own : about::watch, get_data{n.path, true}, s, nullptr, now,
         n.path);  // somebody has written to it, and that has used the watch up
  }
}

/// One of those before the place is gone. If nobody else stood before it, that is its grant: nobody comes in before it. Otherwise the folder tells
/// who is left; it has done so before the turn of this place comes, for whoever stands second looks when the first one goes.
void queue::gone(standing& s, std::string const& path, time_point now) {
  ++stats_.pushes;
  bool const was_next = path == s.before;
  (was_next ? s.before : s.before_that).clear();
  if (s.at != at::in_line) return;
  if (was_next && (s.ahead == 1 || CONCH_MUTANT(death_before_is_a_grant))) return stands_first(s, true, now);
  if (!was_next && s.ahead == 2) {
    s.ahead = 1;
    return;
  }
  list(s, now);
}

void queue::stands_first(standing& s, bool pushed, time_point now) {
  s.ahead = 0;
  s.first = true;
  s.by_push = pushed;
  unwatch(s);
  if (CONCH_MUTANT(granted_without_proof) || session_.deadline() > now + session_.timeout() / 16) own(s, now);
  else session_.prove_soon(now);
}

void queue::own(standing& s, time_point now) {
  s.fence = CONCH_MUTANT(fence_of_sequence) ? session_.birth() + s.sequence : session_.birth() + s.created;
  if (!is_usable(s.fence)) {
    return fail(s,
                make_error_code(errc::protocol,
                                "the fence " + std::to_string(s.fence) + " is not possible: the clock with which " + root_ + " was made is wrong"),
                now);
  }
  s.first = s.wants_renewal = false;
  s.segment = 0;
  s.heard_from = s.valid_from = now;
  s.full_until = now + validity(s.lease);
  s.deadline = CONCH_MUTANT(session_deadline_ignored) ? s.full_until : std::min(session_.deadline(), s.full_until);
  if (CONCH_MUTANT(lock_node_written)) send(about::nothing, set_data{s.node, {}}, s, nullptr, now);
  s.confirmed = s.deadline >= s.full_until;
  ++progress_;
  enter(s, at::owned);
  up_.granted(s, s.by_push, now);
}

// ---------------------------------------------------------------------------------------------------------- a hold

/// A hold lasts as long as the session does, and not longer than the lease that was asked for. No message: the heartbeat is for all holds.
void queue::renew(std::span<engine::place* const> places, time_point now) {
  bool any_waits = false;
  for (engine::place* p : places) {
    auto& s = static_cast<standing&>(*p);
    if (s.at != at::owned || !s.may_renew(now) || s.made_in != sessions_) continue;
    watch_own(s, now);
    if (prolong(s, now)) {
      up_.extended(s, now);
    } else {
      s.wants_renewal = any_waits = true;
    }
  }
  if (any_waits) session_.prove_soon(now);
}

/// A hold that lasts long enough to be renewed is told if somebody removes its node. A short one costs no message for that.
void queue::watch_own(standing& s, time_point now) {
  if (!connected() || std::exchange(s.watches_itself, true)) return;
  watched_.emplace(s.node, &s);
  send(about::watch_own, get_data{s.node, true}, s, nullptr, now, s.node);
}

/// Nobody asks for it, so others may have the lock by now.
void queue::removed(standing& s, time_point now) {
  become_idle(s);
  up_.lost(s, now);
}

bool queue::prolong(standing& s, time_point now) {
  time_point const full = now + validity(s.lease);
  time_point const until = CONCH_MUTANT(session_deadline_ignored) ? full : std::min(session_.deadline(), full);
  if (until <= s.deadline || now >= s.deadline) return false;
  s.deadline = until;
  s.valid_from = s.heard_from = now;
  s.confirmed = s.confirmed || until >= s.full_until;
  s.wants_renewal = false;
  ++stats_.renewals;
  return true;
}

void queue::proved(time_point now) {
  std::vector<standing*> to_look_at;
  active_.for_each([&](standing& s) {
    if (s.made_in != sessions_ || !(s.first || s.wants_renewal)) return;
    ++s.references;
    to_look_at.push_back(&s);
  });
  for (standing* s : to_look_at) {
    if (s->first && (waits(*s) || s->at == at::leaving)) stands_first(*s, s->by_push, now);
    else if (s->at == at::owned && s->wants_renewal && s->may_renew(now) && prolong(*s, now)) up_.extended(*s, now);
    drop(*s);
  }
}

void queue::release(engine::place& p, std::optional<milliseconds> again, receipt* r, time_point now) {
  auto& s = static_cast<standing&>(p);
  bool const valid = s.deadline > now;
  ++s.references;
  become_idle(s);
  owe(s, r, now, valid);
  if (again) ask(s, true, *again, now);
  drop(s);
}

// ----------------------------------------------------------------------------------------------- leaving and giving up

void queue::leave_unless_granted(engine::place& p, time_point now) {
  auto& s = static_cast<standing&>(p);
  if (!s.written) {
    become_idle(s);
    up_.left(s, now);
    return;
  }
  bool const stands = s.at == at::in_line || s.first;
  enter(s, at::leaving);
  if (!connected()) {
    timers_.arm(s.check, now + settings_.command_timeout);
  } else if (stands && s.told_on == connections_) {
    list(s, now);  // the lock may be its own already, and the event under way
  }                // else the answer that is under way, or go_on, comes first
}

void queue::leave(standing& s, time_point now) {
  s.first = false;
  s.leave_sent = true;
  unwatch(s);
  send(about::leave, remove{s.node}, s, nullptr, now);
}

void queue::leave_answer(in_flight const& r, reply const&, time_point now) {
  standing& s = *r.at;
  if (s.number != r.number || !s.leave_sent) return;
  if (s.at == at::leaving) return gone_from_line(s, now);
  if (s.at != at::asking) return;
  become_idle(s);
  up_.busy(s, now);
}

void queue::gone_from_line(standing& s, time_point now) {
  become_idle(s);
  up_.left(s, now);
}

void queue::give_up(engine::place& p, receipt* r, time_point now) {
  auto& s = static_cast<standing&>(p);
  become_idle(s);
  if (s.written) {
    owe(s, r, now);
  } else if (r != nullptr) {
    up_.released(*r, false, {}, now);
  }
}

/// What is left of an idle place is removed.
void queue::owe(standing& s, receipt* r, time_point now, bool was_valid) {
  auto* const c = new cleanup{s, s.number};
  ++cleanups_;
  c->node = s.node;
  c->made_in = s.made_in;
  c->was_valid = was_valid;
  c->whom = r;
  if (r != nullptr) r->pending = c;
  pending_.push_back(*c);
  if (c->made_in != sessions_) return finish(*c, was_valid, {}, now);  // it went with its session
  bool const is_known_on_this = s.told_on == connections_;
  if (c->node.empty()) unknown_.emplace(c->number, c);
  if (!connected()) return;
  if (!c->node.empty()) {
    if (!CONCH_MUTANT(cleanup_not_sent)) send_cleanup(*c, now);
  } else if (!is_known_on_this) {
    search(s, c->number, c, now);
  }  // else the answer to the creation is under way
}

void queue::send_cleanup(cleanup& c, time_point now) {
  c.sent = true;
  send(about::clean_up, remove{c.node}, c.at, &c, now);
}

void queue::cleanup_answer(in_flight const& r, reply const& a, time_point now) {
  cleanup& c = *r.of_cleanup;
  c.sent = false;
  if (a.what == status::ok) {
    ++progress_;
    finish(c, true, {}, now);
  } else if (a.what == status::no_node) {
    finish(c, c.resent && c.was_valid && !CONCH_MUTANT(resent_release_is_a_loss), {}, now);
  } else {
    finish(c, false, error_of(a, c.at), now);
  }
}

void queue::finish(cleanup& c, bool was_mine, error_code why, time_point now) {
  standing& s = c.at;
  receipt* const whom = c.whom;
  if (whom != nullptr) forget(*whom);
  unknown_.erase(c.number);
  --cleanups_;
  delete &c;
  if (whom != nullptr) up_.released(*whom, was_mine, why, now);
  drop(s);
}

void queue::forget(receipt& r) noexcept {
  if (r.pending != nullptr) static_cast<cleanup*>(r.pending)->whom = nullptr;
  r.pending = nullptr;
}

time_point queue::late_after(receipt const& r) const {
  auto const* const c = static_cast<cleanup const*>(r.pending);
  return c != nullptr && c->sent && connected() ? last_answer_ + settings_.command_timeout : time_point::min();
}

// ------------------------------------------------------------------------------------ a creation without its answer

/// Was a node made under that number? The server first hears of all that the leader knows. What an earlier connection had under way for this session
/// the leader has carried out by then, or refuses: the session has moved.
void queue::search(standing& s, std::uint64_t number, cleanup* c, time_point now) {
  send(about::nothing, sync{s.folder}, s, c, now);
  if (c != nullptr) c->sent = true;
  send(about::search, get_children{s.folder}, s, c, now);
  in_flight_.back().number = number;
}

/// Of a creation that was given up: its node, or none.
void queue::came_of(std::uint64_t number, std::string node, time_point now) {
  auto const owed = unknown_.find(number);
  if (owed == unknown_.end()) return;
  cleanup& c = *owed->second;
  if (node.empty()) return finish(c, false, {}, now);
  unknown_.erase(owed);
  c.node = std::move(node);
  send_cleanup(c, now);
}

void queue::search_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.at;
  std::string found;
  if (auto const* const all = std::get_if<children>(&a.content)) {
    std::string const prefix = node_prefix(client_id_, r.number);
    auto const one = std::find_if(all->names.begin(), all->names.end(), [&](std::string const& n) { return n.starts_with(prefix); });
    if (one != all->names.end() && !CONCH_MUTANT(lost_creation_forgotten)) found = path_of(s, *one);
  }
  if (r.of_cleanup != nullptr || s.number != r.number || s.at == at::idle) return came_of(r.number, std::move(found), now);
  if (found.empty()) return has_no_node(s, now);
  send(about::found, get_data{found, false}, s, nullptr, now, found);
  s.listing = true;
  send(about::list, get_children{s.folder}, s, nullptr, now);
}

void queue::found_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.at;
  if (s.number != r.number || s.at == at::idle) return came_of(r.number, r.path, now);
  auto const* const node = std::get_if<data>(&a.content);
  bool const is_mine = node != nullptr && node->node.owner == session_.id();
  if (is_mine) return found(s, r.path, node->node.created, now);
  has_no_node(s, now);
}

// --------------------------------------------------------------------------------------- connections and sessions

void queue::opened(time_point now) {
  last_answer_ = now;
  rest_all();
  go_on(now);
  up_.connection_changed(now);
}

void queue::interrupted(time_point now) {
  lost_at_ = now;
  ++connections_;
  watched_.clear();
  std::deque<in_flight> const unanswered = std::exchange(in_flight_, {});
  auto const again = [](cleanup& c) {
    c.resent = c.resent || c.sent;
    c.sent = false;
  };
  pending_.for_each(again);
  resting_cleanups_.for_each(again);
  rest_all();
  auto const unheard = [](standing& s) {
    s.before.clear();
    s.before_that.clear();
    s.listing = s.leave_sent = s.first = s.watches_itself = false;
  };
  resting_.for_each(unheard);
  go_on(now);
  for (in_flight const& one : unanswered) drop(*one.at);
  up_.connection_changed(now);
}

void queue::ended(time_point now) {
  ++sessions_;
  rest_all();
  go_on(now);
}

void queue::refused(error_code why, time_point now) {
  std::vector<standing*> asking;
  auto const look = [&](standing& s) {
    if (!waits(s)) return;
    ++s.references;
    asking.push_back(&s);
  };
  active_.for_each(look);
  resting_.for_each(look);
  for (standing* s : asking) {
    if (waits(*s)) fail(*s, why, now);
    drop(*s);
  }
  up_.connection_refused(why, now);
}

/// Everything is to be looked at, in the order of asking.
void queue::rest_all() {
  active_.splice_back(resting_);
  resting_.splice_back(active_);
  pending_.splice_back(resting_cleanups_);
  resting_cleanups_.splice_back(pending_);
}

/// Does one turn of the work that follows a new connection, the end of one, or of the session.
void queue::go_on(time_point now) {
  std::size_t left = CONCH_IN_ONE_TURN;
  for (; left != 0 && !resting_cleanups_.empty(); --left) {
    cleanup& c = resting_cleanups_.pop_front();
    pending_.push_back(c);
    if (c.made_in != sessions_ && !CONCH_MUTANT(cleanup_of_earlier_session)) {
      finish(c, c.was_valid, {}, now);
    } else if (connected() && !c.sent && !CONCH_MUTANT(release_forgotten_on_reconnect)) {
      if (c.node.empty()) search(c.at, c.number, &c, now);
      else send_cleanup(c, now);
    }
  }
  for (; left != 0 && !resting_.empty(); --left) {
    standing& s = resting_.pop_front();
    active_.push_back(s);
    go_on_with(s, now);
  }
  if (!resting_.empty() || !resting_cleanups_.empty()) timers_.arm(rest_, engine::in_next_turn(now));
}

void queue::go_on_with(standing& s, time_point now) {
  if (s.made_in != sessions_ && !CONCH_MUTANT(id_over_sessions)) {
    if (s.at == at::owned) return removed(s, now);
    bool const waited = waits(s);
    has_no_node(s, now);
    if (waited && !connected()) patience(s, lost_at_);
    return;
  }
  if (!connected()) {
    if (waits(s)) patience(s, lost_at_);
    else if (s.at == at::leaving) timers_.arm(s.check, lost_at_ + settings_.command_timeout);
    return;
  }
  if (s.told_on == connections_ || s.at == at::owned) return;
  s.check.cancel();
  if (!s.written) return make_node(s, now);
  if (s.node.empty()) {
    if (waits(s)) up_.asked_again(s, retry_reason::reconnected, now);
    return search(s, s.number, nullptr, now);
  }
  if (s.at == at::leaving || !CONCH_MUTANT(watches_thought_kept)) list(s, now);  // the watches went with the connection
}

/// The node is gone, or was never made. Whoever waits asks for another one, behind all others.
void queue::has_no_node(standing& s, time_point now) {
  if (s.at == at::leaving) return gone_from_line(s, now);
  if (s.written) up_.asked_again(s, retry_reason::reconnected, now);
  begin(s);
  s.written = false;
  if (connected()) make_node(s, now);
}

/// The time counts from when the connection was lost.
void queue::patience(standing& s, time_point since) {
  if (s.trouble_since == time_point{}) s.trouble_since = since;
  timers_.arm(s.check, s.trouble_since + settings_.offline_timeout);
}

void queue::check(standing& s, time_point now) {
  if (connected()) return;
  if (s.at == at::leaving) {
    become_idle(s);
    owe(s, nullptr, now);
    up_.left(s, now);
  } else if (waits(s)) {
    fail(s, make_error_code(errc::unreachable, why_not_connected()), now);
  }
}

// ------------------------------------------------------------------------------------------- requests and answers

void queue::send(about what, request const& r, standing& s, cleanup* c, time_point now, std::string path) {
  ++stats_.scripts;
  ++s.references;
  if (c == nullptr) s.told_on = connections_;  // a clean-up says nothing about what the place asks for now
  in_flight_.push_back({what, &s, s.number, c, std::move(path)});
  session_.send(r, now);
}

void queue::answered(reply const& a, time_point now) {
  if (in_flight_.empty()) return session_.drop("an answer to nothing", now);
  in_flight const r = std::move(in_flight_.front());
  in_flight_.pop_front();
  last_answer_ = now;
  r.at->trouble_since = {};
  switch (r.what) {
    case about::node: node_answer(r, a, now); break;
    case about::folder:
      if (a.what == status::no_auth && r.at->number == r.number && waits(*r.at)) fail_as(*r.at, a, now);
      break;
    case about::list: list_answer(r, a, now); break;
    case about::watch: watch_answer(r, a, now); break;
    case about::watch_own:
      if (a.what == status::no_node && r.at->number == r.number && r.at->at == at::owned) removed(*r.at, now);
      break;
    case about::leave: leave_answer(r, a, now); break;
    case about::clean_up: cleanup_answer(r, a, now); break;
    case about::search: search_answer(r, a, now); break;
    case about::found: found_answer(r, a, now); break;
    case about::stray:
    case about::nothing: break;
  }
  drop(*r.at);
}

error_code queue::error_of(reply const& a, standing const& s) const {
  std::string const lock = " (lock " + readable(s.name) + ')';
  if (a.what == status::no_auth) return make_error_code(errc::access_denied, "no right to the nodes of " + s.folder + lock);
  return make_error_code(errc::server_refused, "ZooKeeper's error " + std::to_string(static_cast<int>(a.what)) + lock);
}

void queue::fail_as(standing& s, reply const& a, time_point now) {
  if (waits(s)) fail(s, error_of(a, s), now);
  else if (s.at == at::leaving) gone_from_line(s, now);
}

void queue::fail(standing& s, error_code why, time_point now) {
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
  s.first = s.wants_renewal = false;
  unwatch(s);
  if (active_.empty() && resting_.empty()) session_.need_no_deadline();
}

void queue::drop(standing& s) {
  --s.references;
  if (s.references == 0 && s.at == at::idle) up_.settled(s);
}

std::string queue::why_not_connected() const { return session_.trouble().empty() ? "there is no connection yet" : session_.trouble(); }

error_code queue::too_late(engine::place const& p) const {
  auto const& s = static_cast<standing const&>(p);
  if (connected()) return make_error_code(errc::timed_out, s.at == at::asking ? "the server has not answered yet" : "");
  return make_error_code(session_.trouble().empty() ? errc::timed_out : errc::unreachable, why_not_connected());
}

error_code queue::no_answer() const { return make_error_code(errc::unreachable, connected() ? "the server has not answered" : why_not_connected()); }

}  // namespace conch::zookeeper
