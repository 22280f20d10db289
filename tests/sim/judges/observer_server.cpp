// The observer's view of the server: what each script has done to each lock.
#include "sim/judges/observer.hpp"
#include "sim/judges/script_calls.hpp"
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/words.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace conch::sim {

namespace {

/// The first number of an answer. One that is a number alone grants (an acquire), or is the owner's release.
std::int64_t told_by(value const& reply) { return reply.items.empty() ? 1 : reply.items[0].integer; }

}  // namespace

int observer::named(std::string_view key) const {
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (keys_[i] == key) return static_cast<int>(i);
  }
  return -1;
}

std::size_t observer::receivers(std::string_view id, int name) const { return world_.listeners(name, client_of(id)); }

/// A client that gives a lock back may mistake a tool that listens to all channels for the next in the queue. One that
/// finds it free may not.
bool observer::is_told(std::string_view next, int name, bool given_back) const {
  return receivers(next, name) != 0 || (plan_.watched && given_back);
}

/// Its client is there and waits, and has no other trouble than to connect again.
bool observer::comes_back(std::string_view id) const {
  return plan_.in_order && std::any_of(world_.clients().begin(), world_.clients().end(), [&](auto const& c) {
           return c->alive() && c->id() == client_of(id) && c->owed() == 0;
         });
}

nanos observer::last_pause_of(std::string_view id) const {
  for (auto const& c : world_.clients()) {
    if (c->alive() && c->id() == client_of(id)) return c->last_pause_end();
  }
  return 0;
}

/// Does the client of this id ask for the lock, or have it?
bool observer::is_wanted(std::string_view id, int name) const {
  return std::any_of(world_.clients().begin(), world_.clients().end(), [&](auto const& c) {
    if (!c->alive() || c->id() != client_of(id)) return false;
    protocol::server_place const* const place = c->place(name);
    return place != nullptr && place->state != engine::place_state::idle && place->id == id_of(id);
  });
}

/// P4: a waiter that did not receive its grant, because its client is still connected to what is a replica now, is
/// told, and looks for the master.
void observer::passed_over(std::string_view id, int name) const {
  if (!plan_.in_order) return;
  for (auto const& c : world_.clients()) {
    if (!c->alive() || c->id() != client_of(id) || c->owed() != 0) continue;
    std::shared_ptr<link> const l = c->connection(name);
    if (l == nullptr || !l->server_open || !l->client_open || world_.is_at_master(*l)) continue;
    nanos const bound =
        plan_.replication_delay + 12 * (plan_.latency + plan_.jitter + plan_.timer_lateness) + 10 * millisecond;
    world_.after(bound, [this, client = c.get(), l, who = std::string{id}] {
      if (client->alive() && client->has(*l) && l->client_open && l->server_open && !world_.is_at_master(*l) &&
          !world_.healing()) {
        throw violation{4, "the turn of " + who + " came, and its client still waits at a replica"};
      }
    });
  }
}

bool observer::is_current(link const& l) const {
  return std::any_of(world_.clients().begin(), world_.clients().end(),
                     [&](auto const& c) { return c->alive() && c->has(l); });
}

/// Questions of a new connection are under way before it learns that it may not subscribe.
bool observer::may_not_know_yet(link const& l) const {
  if (denied_until_ < 0) return false;
  sim_client const& c = *world_.clients()[static_cast<std::size_t>(l.client)];
  nanos const heard = std::max({c.up_since(), l.down.stalled_until, l.up.stalled_until, c.last_pause_end()}) +
                      6 * (plan_.latency + plan_.jitter) + millisecond;
  return plan_.spikes != 0 || c.paused() || trouble_until_ + plan_.longest_lease() > world_.now() ||
         world_.now() <= heard;
}

lock_state observer::look(int name) const { return look(name, world_.keys_of(name)); }

lock_state observer::look(int name, keys_of_lock const& keys) const {
  std::string const& key = keys_[static_cast<std::size_t>(name)];
  lock_state s;
  redis_model const& model = keys.with(key);
  value const lock = model.peek(key);
  if (lock.is(value::kind::bulk)) {
    std::string_view rest = lock.text;
    auto const first = rest.find(' '), second_gap = rest.find(' ', first + 1);
    s.owned = true;
    s.owner = rest.substr(0, first);
    s.fence = number(rest.substr(first + 1, second_gap - first - 1));
    s.state = rest.back();
    s.expires_ms = model.expires_at_ms(key).value_or(0);
    if (s.expires_ms == 0) throw violation{6, "lock " + std::to_string(name) + " has no lease"};
  } else if (!lock.is(value::kind::nil)) {
    s.readable = false;
  }
  redis_model const& with_line = keys.with(key + ":q");
  value const line = with_line.peek(key + ":q");
  for (value const& item : line.items) {
    s.line.emplace_back(item.items[0].text, static_cast<std::int64_t>(std::stod(item.items[1].text)));
  }
  if (!s.line.empty()) s.line_expires_ms = with_line.expires_at_ms(key + ":q").value_or(0);
  redis_model const& with_fence = keys.with(key + ":f");
  value const fence = with_fence.peek(key + ":f");
  if (fence.is(value::kind::bulk)) {
    s.kept_fence = number(fence.text);
    s.fence_expires_ms = with_fence.expires_at_ms(key + ":f").value_or(0);
  }
  return s;
}

void observer::add_steps(std::span<std::string_view const> argv) {
  std::string_view const what = script_name(argv[1]);
  auto const keys = static_cast<std::size_t>(number(argv[2]));
  auto const rest = argv.subspan(3 + keys);
  if (what == "renew") {
    bool const keeps_fences = rest.size() != 2 * keys;  // then each lock has three keys
    for (std::size_t i = 0; i < (keeps_fences ? keys / 3 : keys); ++i) {
      step s{};
      s.name = named(argv[3 + i]);
      if (s.name < 0) continue;
      s.id = rest[2 * i].substr(0, rest[2 * i].find(' '));
      if (s.id != rest[2 * i]) s.fence = number(rest[2 * i].substr(s.id.size() + 1));
      s.lease = number(rest[2 * i + 1]);
      s.index = i;
      steps_.push_back(std::move(s));
    }
  } else if (what == "adopt") {
    step s{};
    s.name = named(argv[3]);
    if (s.name < 0) return;
    s.adopts = true;
    s.id = rest[0];
    s.lease = number(rest[1]);
    s.retention = number(rest[2]);
    s.origin = rest[4];
    steps_.push_back(std::move(s));
  } else if (what == "release_later") {
    step s{};
    s.name = named(argv[3]);
    if (s.name < 0) return;
    s.releases = true;
    s.id = rest[0];
    s.ends_in = number(rest[1]);
    s.lease = s.claim = number(rest[2]);
    s.retention = number(rest[3]);
    steps_.push_back(std::move(s));
  } else {
    step s{};
    s.name = named(argv[3]);
    if (s.name < 0) return;
    s.acquires = what == "acquire";
    s.releases = !s.acquires;
    s.id = rest[0];
    s.lease = number(rest[2]);
    s.claim = number(rest[3]);
    s.retention = number(rest[4]);
    s.patient = rest[1].ends_with('!');
    if (s.acquires) {
      s.waits = rest[1].starts_with("wait");
      s.together = rest[1] == "next";
      s.ticket = number(rest[5]);
    } else {
      s.keep = rest[1].starts_with('1');
      s.new_id = rest[5];
    }
    steps_.push_back(std::move(s));
  }
}

void observer::before(std::span<std::string_view const> argv, link const* by) {
  steps_.clear();
  auto const calls = calls_in(argv);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    std::size_t const first = steps_.size();
    add_steps(calls[i]);
    if (!is_gathered(argv)) break;
    for (step& s : std::span{steps_}.subspan(first)) {
      s.gathered = true;
      s.index = i;
    }
  }
  by_ = by;
  for (step& s : steps_) {
    s.was = look(s.name);
    judge_hand_over(s);
    judge_free_line(s);
    if ((s.acquires || s.releases) && watch(s.name).left)
      judge_left_over(s.name, *std::exchange(watch(s.name).left, {}));
    s.late = by != nullptr && !is_current(*by);
    // In a Cluster the slot may have gone and come back while this was on its way, or its client was paused; then the
    // client asks once more.
    bool const ended =
        plan_.shards != 0 &&
        std::max(trouble_until_, last_pause_of(s.id) + world_.time_to_reroute()) + plan_.spike >= world_.now();
    s.deaf = !ended && by != nullptr && !s.late && s.acquires && s.waits && receivers(s.id, s.name) == 0 &&
             !may_not_know_yet(*by);
  }
}

void observer::after(std::span<std::string_view const>, value const& reply) {
  auto const refuses = [](value const& one) { return one.is_error() && one.error_code() != "NOSCRIPT"; };
  if (refuses(reply) || std::any_of(reply.items.begin(), reply.items.end(), refuses)) refused();
  for (step const& s : steps_) {
    if (s.deaf) throw violation{4, std::string{s.id} + " is queued before its client is subscribed"};
  }
  for (step const& s : steps_) {
    value const& answer = answer_to(reply, s.index, s.gathered);
    bool const renews = !s.acquires && !s.releases && !s.adopts;
    bool const not_renewed =
        renews && !reply.is_error() && s.was.owned && s.was.owner == s.id && reply.items[s.index + 1].integer == -1;
    if (!s.acquires && s.was.readable) needs_no_memory(answer, not_renewed, s.id);
    bool const not_mine = renews && !reply.is_error() && reply.items[s.index + 1].integer == 0;
    if (not_mine) not_there(s.id);
    judge(s, look(s.name), answer);
  }
}

/// The answer to a renewal. Between two holders nobody is told, and the client has nothing to give back.
void observer::not_there(std::string_view id) { lost_in_between_.insert(std::string{id}); }

/// P4, P6, P9: what gives back or renews needs no memory: a server whose memory is full does it. (But where the key of
/// the fence is spoilt, a script writes nothing before it finds that.)
void observer::needs_no_memory(value const& answer, bool not_renewed, std::string_view id) const {
  bool const refused = answer.is_error() && answer.error_code() == "OOM";
  bool const is_to_blame = refused || (not_renewed && !world_.commands_fail());
  // that one refuses whole scripts
  if (!world_.memory_is_full() || !is_to_blame || plan_.has({fault_plan::kind::refuse})) return;
  throw violation{
      6, std::string{id} + " could not give back or renew what it has, because the memory of the server is full"};
}

void observer::judge(step const& s, lock_state const& is, value const& reply) {
  lock_state const& was = s.was;
  watch(s.name).owner_until_ms = is.owned ? is.expires_ms : 0;
  if (s.adopts) {
    if (was.readable && is.readable) judge_adoption(s, is, reply);
    return;
  }
  if (!s.acquires && !s.releases) judge_renewal(s, is, reply);
  if (!was.readable || !is.readable) return;
  judge_owner(s, is);
  // Under the same id the lock may be granted anew: what a replica has brought back into the line, or a late request
  // has put there.
  bool const let_go = was.owned && was.owner == s.id && detached_.contains(was.owner + " " + std::to_string(was.fence));
  if (s.releases && !s.keep && let_go && !forged_.contains(was.owner))
    throw violation{6, was.owner + " releases what it has let go"};
  if (is.owned) {
    watch(s.name).kept_until_ms = is.expires_ms + least_kept_ms();
  } else if (was.owned) {
    watch(s.name).kept_until_ms = world_.server_us(world_.now()) / 1000 + least_kept_ms();
  }
  bool const changed = is.owned && (!was.owned || is.owner != was.owner);
  if (changed) judge_new_owner(s, is);
  if (!s.acquires && !s.releases) {
    if (is.line != was.line) throw violation{7, "a renewal changed the line"};
    return;
  }
  if (s.releases && !s.keep && reply.is_error() && reply.error_code() == "WRONGTYPE" && is.owned && is.owner == s.id) {
    throw violation{6, "a release of " + std::string{s.id} + " could not pass it on, and has not given it back"};
  }
  if (!reply.is_error()) {
    judge_line(s, is, reply);
    if (told_of_more(s.acquires, s.releases, reply)) {
      ++told_of_more_;
      auto const gone = [&](auto const& one) {
        return std::find(is.line.begin(), is.line.end(), one) == is.line.end();
      };
      if (std::none_of(was.line.begin(), was.line.end(), gone))
        throw violation{10, "a script of " + std::string{s.id} +
                                " has left somebody in line to the next, and has passed over nobody"};
      watch(s.name).left = left_by(s.id, by_);
    }
    auto const told = told_by(reply);
    if (s.acquires ? told == 1 : s.keep && told == 2) judge_confirmed(s, s.id, is);
    if (s.releases && reply.items.size() > 4 && reply.items[4].integer == 1) judge_confirmed(s, s.new_id, is);
  }
  if (s.together) judge_try(s, is, reply);
  if (s.acquires) judge_echo(s, is);
  if (s.acquires && plan_.calm() && !reply.is_error()) {
    // P10: a waiter asks again when the lease that it was told should have expired, and not before.
    std::string const id{s.id};
    auto const known = not_before_.find(id);
    bool const handed = was.owned && was.owner == id;
    if (known != not_before_.end() && world_.now() < known->second && !handed)
      throw violation{10, id + " asks again before it has to"};
    if (told_by(reply) == 0)
      not_before_[id] = world_.now() + std::min(reply.items[1].integer, s.claim) * millisecond * 97 / 100;
  }
  if (s.keep && was.owned && was.owner == s.id && !reply.is_error() && told_by(reply) != 2) {
    throw violation{4, "a leave threw away the grant of " + was.owner};
  }
  bool const ends = s.ends_in != 0 && !reply.is_error();
  if (s.releases && !s.keep && was.owned && was.owner == s.id && (ends || !(is.owned && is.owner == s.id))) {
    released_as_owner_.insert(std::string{s.id});
  }
  if (s.releases && !s.keep && !reply.is_error() && !(was.owned && was.owner == s.id))
    released_as_nobody_.insert(std::string{s.id});
  if (s.acquires && !reply.is_error() && told_by(reply) == 2) {
    told_busy(s.name, s.id);
    bool const taken = is.owned && is.owner != s.id;
    bool const awaited = s.patient && !is.line.empty() && receivers(is.line.front().first, s.name) == 0;
    if (!taken && !awaited && !s.together)
      throw violation{11, "a try of " + std::string{s.id} + " was told that lock " + std::to_string(s.name) +
                              " is busy, which it is not"};
  }
  // A client that handed the lock on while more were waiting has to check on the new owner.
  hand_over& passed = watch(s.name).passed;
  if (passed.watched && (!is.owned || is.owner != passed.next_owner || is.state == 'h')) passed = {};
  if (changed && is.state == 'c' && !s.late && !is.line.empty()) {
    for (auto const& c : world_.clients()) {
      if (c->alive() && c->id() == client_of(s.id)) {
        passed = {is.owner, c->id(), world_.now(), is.expires_ms, c->connection(s.name), true};
      }
    }
  }
}

// P2, P7: the grant stays what it was; a client that is told otherwise has changed nothing.
void observer::judge_adoption(step const& s, lock_state const& is, value const& reply) {
  lock_state const& was = s.was;
  std::string const who = std::string{s.id} + ", which takes over what " + std::string{s.origin} + " has let go,";
  if (is.line != was.line) throw violation{7, who + " changed the line"};
  bool const is_owner_now = is.owned && is.owner == s.id;
  if (reply.is_error() || told_by(reply) != 1) {
    bool const same =
        is.owned == was.owned && is.owner == was.owner && is.expires_ms == was.expires_ms && is.fence == was.fence;
    if (!same && !refuses_)
      throw violation{7, who + " was told that it has nothing, and has changed lock " + std::to_string(s.name)};
    if (is_owner_now) watch(s.name).kept_until_ms = is.expires_ms + least_kept_ms();
    bool const was_there = was.owned && was.owner + " " + std::to_string(was.fence) == s.origin;
    if (!reply.is_error() && told_by(reply) == 2 && was_there)
      throw violation{11, who + " was told that it is gone, which it was not"};
    return;
  }
  judge_confirmed(s, s.id, is);
  only_one_adopts(std::string{s.origin}, std::string{s.id}, who);
  bool const from_origin = was.owned && (was.owner == s.id || was.owner + " " + std::to_string(was.fence) == s.origin);
  if (!from_origin) throw violation{7, who + " took it from " + was.owner};
  if (is.fence != was.fence) throw violation{2, who + " changed its fence"};
  std::int64_t const now_ms = world_.server_us(world_.now()) / 1000;
  if (!fence_spoilt_once(s.name) && (is.kept_fence < is.fence || is.fence_expires_ms < now_ms + s.retention))
    throw violation{2, who + " does not keep the fence for the retention"};
  for (sim_acquisition const* a : watch(s.name).active) {
    if (is_believed(*a) && !is_disowned(*a) && owner_id(*a) != is.owner)
      throw violation{1, who + " has it, while " + owner_id(*a) + " still believes it holds the lock"};
  }
  watch(s.name).kept_until_ms = is.expires_ms + least_kept_ms();
  watch(s.name).passed = {};
}

// P6: what several tries do not take they do not touch.
void observer::judge_try(step const& s, lock_state const& is, value const& reply) const {
  if (!reply.is_error() && told_by(reply) == 1) return;
  bool const same =
      is.owned == s.was.owned && is.owner == s.was.owner && is.line == s.was.line && is.kept_fence == s.was.kept_fence;
  std::string const lock = "lock " + std::to_string(s.name);
  if (!same && !refuses_)
    throw violation{6, "several tries changed " + lock + ", and " + std::string{s.id} + " was not told that it has it"};
  if (is.owned && is.owner == s.id && !(s.was.owned && s.was.owner == s.id))
    throw violation{6, "several tries took " + lock + " for " + std::string{s.id} + ", which was not told"};
}

// P7, P8: nobody but the owner's release ends a hold, and nothing shortens it.
void observer::judge_owner(step const& s, lock_state const& is) {
  lock_state const& was = s.was;
  if (!was.owned) return;
  std::string const what = "a script of " + std::string{s.id};
  bool const same = is.owned && is.owner == was.owner;
  if (!same) {
    bool const may = s.releases && !s.keep && s.id == was.owner;
    if (!may) throw violation{7, what + " took the lock from " + was.owner};
    return;
  }
  if (is.fence != was.fence) throw violation{8, what + " changed the fence of " + was.owner};
  bool const shortens = s.ends_in != 0 && s.id == was.owner;
  if (is.expires_ms < was.expires_ms && !shortens) throw violation{8, what + " shortened the lease of " + was.owner};
  if (shortens) {
    delayed_.insert(was.owner);  // it stays until the interval is over
    watch(s.name).last_end = std::max(watch(s.name).last_end, world_.true_time_of_server_ms(is.expires_ms));
  }
  if (is.state == 'c' && was.state == 'h') throw violation{8, what + " made a hold a claim"};
}

// A client that is told to be the owner has a hold, not a claim, and the whole lease.
void observer::judge_confirmed(step const& s, std::string_view id, lock_state const& is) const {
  std::string const who = std::string{id} + " was told that it owns lock " + std::to_string(s.name);
  if (!is.owned || is.owner != id) throw violation{3, who + ", which it does not"};
  if (is.state != 'h') throw violation{3, who + ", which is written down as a claim"};
  if (is.expires_ms < world_.server_us(world_.now()) / 1000 + s.lease)
    throw violation{3, who + ", but not for its lease"};
}

// Each lock of a renewal for itself, whatever the others are.
void observer::judge_renewal(step const& s, lock_state const& is, value const& reply) const {
  std::string const lock = "lock " + std::to_string(s.name);
  if (reply.is_error()) {
    if (reply.error_code() == "WRONGTYPE")
      throw violation{10, "a bad key failed the renewal of " + lock + " and of all with it"};
    return;
  }
  bool const mine = s.was.owned && s.was.owner == s.id && (s.fence == 0 || s.fence == s.was.fence);
  auto const told = reply.items[s.index + 1].integer;
  if (told == 1) judge_confirmed(s, s.id, is);
  if (told == 0 && mine)
    throw violation{10, std::string{s.id} + " was told that it does not own " + lock + ", which it does"};
  if (told == -1 && !s.was.readable && !refuses_)
    throw violation{9, "the owner of " + lock + " was not told that its key holds something else"};
  if (told == -1 && mine && !refuses_)
    throw violation{10, "the renewal of " + lock + " failed although nothing was wrong"};
}

// P6: what arrives late, by a connection its client has left, must not take what nobody will give back.
void observer::judge_echo(step const& s, lock_state const& is) const {
  if (clobbers_ || clock_steps_ || denied_until_ >= 0) return;
  // its slot had moved, and is back: what was asked for meanwhile has ended, and the answer reports it
  if (plan_.shards != 0 && !s.late) return;
  auto const stands = [&](lock_state const& l) {
    return (l.owned && l.owner == s.id) ||
           std::any_of(l.line.begin(), l.line.end(), [&](auto const& e) { return e.first == s.id; });
  };
  // what stands for that is given back when its turn comes
  if (!stands(is) || stands(s.was) || detached_.contains(std::string{s.id})) return;
  for (auto const& c : world_.clients()) {
    if (!c->alive() || c->id() != client_of(s.id) || c->owed() != 0) continue;
    // By a node to which the slot has come back: an earlier connection is ended by the next one, and there is none yet.
    if (plan_.shards != 0 && !c->up(s.name)) continue;
    // For those that a release was written for.
    if (!is_wanted(s.id, s.name))
      throw violation{
          6, "a late request for " + std::string{s.id} + " was carried out, and nobody will give back what it took"};
  }
}

// P1, P2, P5.
void observer::judge_new_owner(step const& s, lock_state const& is) {
  lock_watch& w = watch(s.name);
  ++owners_;
  if (is.state == 'c') ++claims_;
  std::string const who = is.owner + " became the owner";
  bool const spoilt = is.fence >= protocol::fence_limit;  // its client gives it back
  bool const same_moment = std::exchange(w.written_elsewhere, 0) == is.fence && is.fence == w.highest_written;
  if (!fence_spoilt_once(s.name) && is.fence <= w.highest_written && !same_moment) {
    throw violation{
        2, who + " with fence " + std::to_string(is.fence) + ", after fence " + std::to_string(w.highest_written)};
  }
  if (!spoilt) w.highest_written = is.fence;
  if (is.kept_fence < is.fence) throw violation{2, who + ", but its fence is not kept"};
  std::int64_t const now_ms = world_.server_us(world_.now()) / 1000;
  if (is.fence_expires_ms < now_ms + s.retention)
    throw violation{2, who + ", but its fence is not kept for the retention"};
  constexpr std::int64_t fence_epoch_ms = 1'577'836'800'000;
  if (is.fence_expires_ms < fence_epoch_ms + is.fence / 1000)
    throw violation{2, who + ", but its fence ends before the clock has passed it"};
  if (is.state == 'c' && is.expires_ms > now_ms + s.claim + 1)
    throw violation{4, who + " by a claim that lasts longer than asked for"};
  for (sim_acquisition const* a : w.active) {
    if (is_believed(*a) && !is_disowned(*a) && owner_id(*a) != is.owner) {
      throw violation{1, who + ", while " + owner_id(*a) + " still believes it holds the lock"};
    }
  }
  not_within_delay(s.name, is.owner);
  not_within_interval(s.name, who, is.owner);
  w.granted_us = world_.server_us(world_.now());
  w.granted_to = is.owner;
  // The clients before it either asked to leave, or cannot be told.
  for (auto const& [id, ticket] : s.was.line) {
    if (id == is.owner) break;
    if (s.releases && id == s.id) continue;
    bool const asked_first =
        s.acquires && is.owner == s.id && s.ticket != 0 && std::tie(s.ticket, s.id) < std::tie(ticket, id);
    if (asked_first) break;
    if (receivers(id, s.name) != 0 || (comes_back(id) && is_wanted(id, s.name)))
      throw violation{5, who + ", before " + id + ", which was queued earlier"};
  }
  if (is.state == 'c' && !is_told(is.owner, s.name, s.releases && s.was.owned && s.was.owner == s.id))
    throw violation{4, who + ", but nobody was told"};
}

// P4, P5: a queued client stays queued, at its place.
void observer::judge_line(step const& s, lock_state const& is, value const& reply) {
  auto const stands = [](lock_state const& l, std::string_view id) {
    return std::find_if(l.line.begin(), l.line.end(), [&](auto const& e) { return e.first == id; });
  };
  for (auto const& [id, ticket] : s.was.line) {
    auto const still = stands(is, id);
    if (still == is.line.end()) {
      bool const left = (s.releases && id == s.id) || (is.owned && is.owner == id) || receivers(id, s.name) == 0;
      if (!left) throw violation{4, id + " was forgotten in the line"};
      if (receivers(id, s.name) == 0 && !(s.releases && id == s.id) && !(is.owned && is.owner == id))
        passed_over(id, s.name);
    } else if (still->second != ticket &&
               !(s.acquires && id == s.id && still->second == s.ticket && s.ticket < ticket)) {
      throw violation{5, id + " had its ticket changed"};
    }
  }
  for (auto const& [id, ticket] : is.line) {
    if (stands(s.was, id) != s.was.line.end()) continue;
    bool const me = (s.acquires && id == s.id) || (s.releases && id == s.new_id);
    if (!me) throw violation{7, "a script put " + id + " in the queue, which did not ask"};
    if (s.acquires && !s.waits) throw violation{10, "a try of " + id + " is queued"};
    // What an earlier connection has still under way may not know the ticket yet. If the place was lost meanwhile, to a
    // script that failed half-way, it is behind others until the next question, which knows it.
    if (auto const known = tickets_.find(id); known != tickets_.end() && known->second != ticket && !s.late) {
      throw violation{5, id + " lost its place in line"};
    }
    bool const new_here = s.releases || s.ticket == 0;
    if (new_here && id != is.line.back().first) throw violation{5, id + " came last and does not stand last"};
  }
  bool const enqueued = s.acquires ? s.waits && stands(is, s.id) != is.line.end()
                                   : !s.new_id.empty() && stands(is, s.new_id) != is.line.end();
  bool const refused_late = s.acquires && !reply.items.empty() && reply.items[0].integer == 3;
  if (enqueued && is.owned && !refused_late) {
    // For the lock as the script found it: a claim that it made itself is its own doing.
    std::int64_t const lives = is.expires_ms + (is.owner == s.was.owner ? s.lease : 0);
    if (is.line_expires_ms != 0 && is.line_expires_ms < lives)
      throw violation{4, "the line for lock " + std::to_string(s.name) + " ends before its waiters' turn"};
  }
  // After a patient script it may stay free: the first in the queue is not connected yet.
  bool const awaits = (s.patient && !is.line.empty() && receivers(is.line.front().first, s.name) == 0) ||
                      told_of_more(s.acquires, s.releases, reply);
  if (!is.owned && !is.line.empty() && !refused_late && !s.together && !awaits) {
    throw violation{4, "lock " + std::to_string(s.name) + " is free although a client is queued"};
  }
}

/// Has nothing kept the client that passed it on from checking on the new owner?
bool observer::undisturbed(std::weak_ptr<link> const& connection, nanos since) const {
  auto const by = connection.lock();
  if (by == nullptr || by->cut || !by->server_open) return false;
  if (plan_.shards != 0 && trouble_until_ >= since) return false;  // it may have to wait for the end of a move
  if (by->up.stalled_until > since || by->down.stalled_until > since || refused_at_ >= since || plan_.spikes != 0)
    return false;
  using kind = fault_plan::kind;
  return !plan_.has({kind::step_back, kind::step_forward, kind::slow});
}

bool observer::looks_after(sim_client const& c, nanos since) {
  return c.alive() && !c.paused() && !c.is_closed() && c.last_pause_end() < since;
}

nanos observer::patience_with(sim_client const& c) const {
  nanos const claim = c.settings().settings.claim.count();
  return claim / 8 + 30 * millisecond + 4 * (plan_.latency + plan_.jitter + plan_.timer_lateness);
}

/// The script has not done all there was: a client that is told so has to ask again.
bool observer::told_of_more(bool acquires, bool releases, value const& reply) {
  auto const flag = [&](std::size_t i) { return reply.items.size() > i && (reply.items[i].integer & 2) != 0; };
  if (reply.is_error() || reply.items.empty()) return false;
  auto const told = reply.items[0].integer;
  if (acquires) return told == 4 || (told == 1 && flag(4));
  return releases && (told == 2 ? flag(4) : told != 3 && flag(1));
}

std::optional<observer::left_over> observer::left_by(std::string_view id, link const* by) const {
  for (auto const& c : world_.clients()) {
    if (by != nullptr && c->alive() && c->id() == client_of(id) && c->has(*by))
      return left_over{c->id(), world_.now(), c->shared(*by)};
  }
  return std::nullopt;
}

// P4: what a script leaves for the next is not left alone, if the client that was told of it is well.
void observer::judge_left_over(int name, left_over const& l) const {
  nanos const waited = world_.now() - l.at;
  if (!undisturbed(l.by, l.at) || waited <= 6 * (plan_.latency + plan_.jitter + plan_.timer_lateness) + 5 * millisecond)
    return;
  for (auto const& c : world_.clients()) {
    if (c->id() != l.client || !looks_after(*c, l.at)) continue;
    throw violation{4, "what a script left to do for lock " + std::to_string(name) + " was left alone for " +
                           std::to_string(waited / millisecond) + " ms by " + l.client + ", which was told"};
  }
}

// P4: a dead next-in-line costs at most the claim, however many there are, if the client that passed the lock on to it
// is well.
void observer::judge_hand_over(step const& s) {
  hand_over& passed = watch(s.name).passed;
  if (!passed.watched || s.was.owned) return;
  hand_over const p = std::exchange(passed, {});
  if (s.was.line.empty() || !undisturbed(p.by, p.at)) return;
  for (auto const& c : world_.clients()) {
    if (c->id() != p.releaser) continue;
    if (!looks_after(*c, p.at)) return;
    nanos const freed = world_.true_time_of_server_ms(p.claim_over_ms);
    if (world_.now() - freed > patience_with(*c)) {
      throw violation{4, "lock " + std::to_string(s.name) + " was left alone for " +
                             std::to_string((world_.now() - freed) / millisecond) + " ms after its next in line, " +
                             p.next_owner + ", did not take it"};
    }
  }
}

// P4: a dead owner costs its own lease and a claim, whatever lease an owner before it had. Judged where owners with a
// short lease follow on owners with a long one, and nothing happens but that they die.
void observer::judge_free_line(step const& s) {
  std::int64_t const ended_ms = watch(s.name).owner_until_ms;
  if (!plan_.leases_differ || s.was.owned || ended_ms == 0) return;
  std::vector<std::string> ids;
  for (auto const& [id, ticket] : s.was.line) ids.push_back(id);
  nobody_asked_in_time(s.name, ended_ms, ids);
}

/// The last lease ended at that time of the server; these are queued, and a client has come to the lock only now.
void observer::nobody_asked_in_time(int name, std::int64_t ended_ms, std::vector<std::string> const& line) const {
  nanos const freed = world_.true_time_of_server_ms(ended_ms);
  bool const one_waits = std::any_of(world_.clients().begin(), world_.clients().end(), [&](auto const& c) {
    auto const mine = [&](std::string const& id) { return client_of(id) == c->id(); };
    return looks_after(*c, freed) && std::any_of(line.begin(), line.end(), mine);
  });
  nanos const waited = world_.now() - freed, slack = plan_.longest_claim() / 8 + 30 * millisecond +
                                                     8 * (plan_.latency + plan_.jitter + plan_.timer_lateness);
  if (one_waits && waited > plan_.longest_claim() + slack) {
    throw violation{4, "lock " + std::to_string(name) + " was free for " + std::to_string(waited / millisecond) +
                           " ms after the lease of a dead owner, and nobody of those in line asked"};
  }
}

/// A client that is told when a lease ends may ask then.
void observer::told_end(std::string_view push) {
  auto const gap = push.find(' ');
  auto const known = not_before_.find(std::string{push.substr(1, gap - 1)});
  if (known == not_before_.end()) return;
  std::int64_t const left = number(push.substr(gap + 1, push.find(' ', gap + 1) - gap - 1));
  known->second = std::min(known->second, world_.now() + left * millisecond * 97 / 100);
}

// ---------------------------------------------------------------------------------------------- an operator's orders

/// What such a script grants no other judges.
void observer::ordered(int name) {
  lock_state const is = look(name);
  if (!is.owned) return;
  watch(name).highest_written = std::max(watch(name).highest_written, is.fence);
  watch(name).kept_until_ms = is.expires_ms + least_kept_ms();
}

observer::owner_fences observer::owners_of(int name) const {
  lock_state const is = look(name);
  return is.owned ? owner_fences{{is.owner, is.fence}} : owner_fences{};
}

bool observer::owns(guarded_write const& w) const {
  auto const owners = owners_of(w.name);
  auto const its = owners.find(w.id);
  return its != owners.end() && its->second == w.fence;
}

/// A guarded write is carried out for the owner, and for nobody else.
void observer::guarded(guarded_write const& w, bool owns, value const& reply) {
  bool const refused = reply.is_error() && reply.error_code() == "NOTOWNER";
  if (reply.is_error() && !refused) return;
  std::string const what =
      "a guarded write of " + w.id + " with fence " + std::to_string(w.fence) + " for lock " + std::to_string(w.name);
  if (refused && owns) throw violation{11, what + " was refused, and it is the owner"};
  if (!refused && !owns) throw violation{1, what + " was carried out, and it is not the owner"};
}

/// The client that lost it was told, and before any other was granted it.
void observer::judge_force(int name, owner_fences const& owners, std::vector<std::string> const& pushed) const {
  auto const still = owners_of(name);
  for (auto const& [id, fence] : owners) {
    std::string const words = "lock " + std::to_string(name) + " was taken from " + id;
    if (still.contains(id)) throw violation{7, words + ", which still has it"};
    if (receivers(id, name) == 0) continue;
    auto const told = std::find_if(pushed.begin(), pushed.end(), [&, mine = "!" + id + " "](std::string const& text) {
      return text.starts_with(mine);
    });
    if (told == pushed.end()) throw violation{9, words + ", which was not told"};
    // In several scripts some get it before the last have lost it.
    if (!plan_.small_steps &&
        std::any_of(pushed.begin(), told, [](std::string const& text) { return !text.starts_with('!'); })) {
      throw violation{9, words + ", which was told after the next owner"};
    }
  }
}

void observer::forced(int name, owner_fences const& owners, std::vector<std::string> const& pushed, bool more_to_do) {
  judge_force(name, owners, pushed);
  if (more_to_do) return;  // for the client that is told so
  lock_state const is = look(name);
  for (auto const& [id, ticket] : is.line) {
    if (!is.owned && !owners.empty() && receivers(id, name) != 0)
      throw violation{4, id + " is queued for a lock that was taken away and is free"};
  }
}

void observer::told_of_force(sim_acquisition const* a) const {
  if (a != nullptr && a->phase == engine::acquisition_phase::holding)
    throw violation{9, "a client that was told that its lock was taken away still believes in it"};
}

}  // namespace conch::sim
