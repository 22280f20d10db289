#include "sim/judges/observer.hpp"

#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>
#include <limits>

// What the clients are told and what they believe; observer_server.cpp has what the server does.
namespace conch::sim {

namespace {

using phase = engine::acquisition_phase;

constexpr std::int64_t hand_offs_per_grant = 4096;

nanos count(duration d) { return d.count(); }

std::string lock_words(int name) { return "lock " + std::to_string(name); }

std::string client_words(sim_acquisition const& a) { return "client " + std::to_string(a.client->number()); }

}  // namespace

observer::observer(world& w, plan const& p) : history_{p}, world_{w}, plan_{p} {
  locks_.resize(static_cast<std::size_t>(p.names));
  using kind = fault_plan::kind;
  for (fault_plan const& f : p.faults) {
    clobbers_ = clobbers_ || f.what == kind::clobber_lock;
    refuses_ = refuses_ || f.what == kind::refuse || f.what == kind::refuse_inside;
    clock_steps_ =
        clock_steps_ || f.what == kind::step_back || f.what == kind::step_forward || f.what == kind::failover;
  }
  // That of a claim that an operator's script makes.
  shortest_validity_ = std::chrono::milliseconds{100} - protocol::drift_of(std::chrono::milliseconds{100});
  for (client_plan const& c : p.clients) {
    shortest_validity_ = std::min(shortest_validity_, c.settings.claim - protocol::drift_of(c.settings.claim));
  }
  for (int i = 0; i < p.names; ++i) keys_.push_back(key_of(i));
}

std::string observer::owner_id(sim_acquisition const& a) const { return a.client->id() + "." + engine::to_text(a.id); }

bool observer::is_disowned(sim_acquisition const& a) const {
  return forward_ || is_forged(a) || a.orphaned_at >= 0 ||
         a.fence / hand_offs_per_grant <= locks_[static_cast<std::size_t>(a.lock_number)].disowned;
}

/// Perhaps: a grant of that id was published by a client, not by a script.
bool observer::is_forged(sim_acquisition const& a) const {
  return !forged_.empty() && !a.client->settings().settings.verify_pushes && forged_.contains(owner_id(a));
}

/// P2: what the server has lost is not handed on in memory once another client may have been granted the lock. A client
/// that does not know of the loss goes by the server's last word, for 5 ms.
void observer::not_handed_on_by_an_old_word(sim_acquisition const& a) const {
  lock_watch const& w = locks_[static_cast<std::size_t>(a.lock_number)];
  std::int64_t const fence = a.fence / hand_offs_per_grant;
  bool const handed_on = a.fence % hand_offs_per_grant != 0 && a.adopts == nullptr;
  bool const overtaken = fence <= w.disowned && w.highest_written > fence;
  if (!handed_on || !overtaken || is_forged(a) || plan_.replicas != 0 || plan_.shards != 0 || plan_.detaches) return;
  nanos const word_lasts =
      5 * millisecond + 2 * (plan_.latency + plan_.jitter) + 2 * plan_.timer_lateness + millisecond;
  bool const well =
      undisturbed(a.client->connection(a.lock_number), w.disowned_at) && a.client->last_pause_end() < w.disowned_at;
  if (well && world_.now() > w.disowned_at + word_lasts) {
    throw violation{2,
                    client_words(a) + " was handed " + lock_words(a.lock_number) + " in memory with fence " +
                        std::to_string(a.fence) + ", " + std::to_string((world_.now() - w.disowned_at) / millisecond) +
                        " ms after the server lost that grant, and after fence " + std::to_string(w.highest_written)};
  }
}

/// For what a stranger forged that knows the id: no client believes it for longer than a claim, and no token is further
/// ahead than that.
void observer::judge_forged(sim_acquisition const& a) const {
  if (forged_.empty()) return;
  nanos const claim = plan_.longest_claim();
  std::string const who = client_words(a) + " was granted " + lock_words(a.lock_number);
  std::int64_t const clock = world_.server_us(world_.now()) - protocol::fence_epoch_us;
  std::int64_t const highest = std::max(clock + (claim + claim / 16 + second / 10) / microsecond,
                                        locks_[static_cast<std::size_t>(a.lock_number)].highest_written);
  if (a.fence / hand_offs_per_grant > highest) throw violation{2, who + " with a fence that no server gave"};
  if (!is_forged(a)) return;
  lock_state const is = look(a.lock_number);
  // and the notice is under way
  bool const taken_since = taken_away_.contains(owner_id(a) + " " + std::to_string(a.fence / hand_offs_per_grant));
  bool const in_truth = (is.owned && is.owner == owner_id(a)) || taken_since;
  if (!in_truth && a.deadline() > a.client->local_now() + duration{claim})
    throw violation{1, who + " by nobody, and believes it for longer than a claim"};
}

bool observer::is_believed(sim_acquisition const& a) const {
  return a.active && a.phase == phase::holding && a.client->local_now() < a.deadline();
}

void observer::first_fence(int name, std::int64_t fence) { watch(name).highest_written = fence; }

void observer::data_lost() {
  for (lock_watch& w : locks_) {
    w.disowned = std::max(w.disowned, w.highest_written);
    w.disowned_at = world_.now();
    w.passed = {};
    history_.disowned(static_cast<int>(&w - locks_.data()), w.disowned, world_.now());
  }
  adopted_.clear();  // where that is forgotten, the origin may be back
}

void observer::lock_tampered(int name) {
  for (auto const& [id, fence] : owners_of(name)) taken_away_.insert(id + " " + std::to_string(fence));
  watch(name).disowned = std::max(watch(name).disowned, watch(name).highest_written);
  watch(name).disowned_at = world_.now();
  watch(name).passed = {};
  history_.disowned(name, std::numeric_limits<std::int64_t>::max(), world_.now());  // whatever was in its key
}

void observer::clock_forward() {
  forward_ = true;
  history_.clock_forward(world_.now());
}

void observer::forged(std::string const& id) {
  forged_.insert(id);
  for (lock_watch const& w : locks_) {
    for (sim_acquisition const* a : w.active) {
      if (is_forged(*a)) history_.left_out(*a);
    }
  }
}

/// Whatever the number was, it is gone.
void observer::fence_spoilt(int name) {
  watch(name).highest_written = watch(name).highest_granted = 0;
  history_.fence_forgotten(name, world_.now());
}

/// When the server's clock has passed the time for which the last fence is remembered, it may be forgotten: also where
/// that clock is set back later.
void observer::clock_shows(std::int64_t ms) {
  for (lock_watch& w : locks_) {
    if (w.kept_until_ms == 0 || ms <= w.kept_until_ms) continue;
    w.highest_written = w.highest_granted = w.kept_until_ms = 0;
    history_.fence_forgotten(static_cast<int>(&w - locks_.data()), world_.now());
  }
}

/// Half of the shortest retention, at least, is left of a fence when a hold ends. (Operators of the simulation keep
/// them for 2 s.)
std::int64_t observer::least_kept_ms() const {
  std::int64_t least = 2000;
  for (client_plan const& c : plan_.clients)
    least = std::min<std::int64_t>(least, count(c.settings.fence_retention) / millisecond);
  return least / 2;
}

/// P11: one bad key harms one lock.
void observer::drops_connection(sim_client const& c, std::string_view why) const {
  if (!plan_.harms_no_other(-1) || plan_.spikes != 0) return;
  throw violation{11, "client " + std::to_string(c.number()) +
                          " leaves its connection although nothing is wrong with it: " + std::string{why}};
}

void observer::refused() { refused_at_ = world_.now(); }

void observer::asked(sim_acquisition& a) {
  a.asked_at = world_.now();
  a.waiting = true;
  a.serial = ++asked_;
  watch(a.lock_number).waiting.push_back(&a);
  watch(a.lock_number).stirred(a.serial, world_.now());
  history_.asked(a, world_.now());
}

/// A grant without a promise of exclusion is not part of the history.
void observer::record_grant(sim_acquisition const& a) {
  history_.granted(a, world_.now());
  bool const by_an_old_word = a.fence % hand_offs_per_grant != 0 &&
                              a.fence / hand_offs_per_grant <= locks_[static_cast<std::size_t>(a.lock_number)].disowned;
  if (is_forged(a) || a.orphaned_at >= 0 || by_an_old_word) history_.left_out(a);
}

void observer::answered(sim_acquisition& a, bool granted) {
  lock_watch& w = watch(a.lock_number);
  nanos const now = world_.now();
  std::erase(w.waiting, &a);
  a.waiting = false;
  waited_ += now - a.asked_at;
  w.stirred(a.serial, now);
  if (!granted) history_.refused(a, now);
  not_too_late(a);
  // Each may cost a leave; a cancellation after a time-out a second one.
  gave_up_ += (granted ? 0U : 1U) + (a.cancelled ? 1U : 0U) + (a.cancelled_again ? 1U : 0U) +
              (a.until != time_point::max() ? 1U : 0U);
  if (!granted) return;
  not_after_giving_up(a);
  a.active = true;
  a.granted_at = now;
  a.seen_deadline = a.deadline();
  look_at_hold(a);
  look_for_orphan(a, true);
  record_grant(a);
  not_handed_on_though_asked(a);
  std::string const who =
      client_words(a) + " was granted " + lock_words(a.lock_number) + ", fence " + std::to_string(a.fence);
  // In memory the id stays the same, and the grant is another.
  if (!is_disowned(a))
    not_within_interval(a.lock_number, who, a.fence % hand_offs_per_grant == 0 ? owner_id(a) : std::string{});
  note_interval(a);

  if (a.deadline() <= a.client->local_now()) throw violation{3, who + ", after its deadline"};
  if (a.fence <= 0) throw violation{2, who + ", which is not a token"};
  bool const adopts = a.adopts != nullptr;
  if (a.fence <= w.highest_granted && !is_disowned(a)) {
    throw violation{2, who + ", after fence " + std::to_string(w.highest_granted)};
  }
  judge_forged(a);
  not_handed_on_by_an_old_word(a);
  // While there are two masters, what the one has granted may be delivered before what the other granted earlier. In
  // which order they write fences is looked at in answered_elsewhere.
  if (!is_forged(a) && a.orphaned_at < 0) w.highest_granted = std::max(w.highest_granted, a.fence);
  for (sim_acquisition const* other : w.active) {
    if ((is_disowned(*other) || is_disowned(a)) && !same_server_granted(a, *other)) continue;
    std::string const holder = client_words(*other) + " with fence " + std::to_string(other->fence);
    if (is_believed(*other)) throw violation{1, who + ", while it is held by " + holder};
    // A process that goes on at this moment has not run its timers yet.
    bool const slept = other->client->paused() || other->client->last_pause_end() == now;
    if (other->phase == phase::holding && !slept) throw violation{9, who + ", before the loss was told to " + holder};
  }
  for (sim_acquisition const* other : w.waiting) {
    bool const leaving = other->cancelled || other->until <= a.client->local_now();
    if (other->client == a.client && other->order < a.order && !leaving && !adopts && !other->adopts) {
      throw violation{5, who + ", before another coroutine of that client that asked earlier"};
    }
  }
  if (a.fixed && !adopts && a.fence % hand_offs_per_grant != 0 &&
      a.deadline() < a.client->local_now() + a.lease * 9 / 10) {
    throw violation{3, who + " locally, with what is left of another's lease instead of its own"};
  }
  auto& began = w.slice_began[a.client->number()];
  if (adopts) {
    // Not handed on in memory: its index is that of the grant that it goes on with.
  } else if (a.fence % hand_offs_per_grant == 0) {
    began = a.client->local_now();
  } else if (a.client->local_now() - began >= a.client->settings().settings.local_slice) {
    throw violation{5, who + " locally, past the slice of its client"};
  }
  backed_by_server(a);
  waited_too_long(a);
  w.active.push_back(&a);
}

// P11: an attempt that ends without the lock says why, and it is so.
void observer::attempt_failed(sim_acquisition const& a, bool busy, error_code const& why) {
  lock_watch& w = watch(a.lock_number);
  nanos const others_were_there = w.stirred_by_others(a.serial);
  bool const one_attempt = a.until <= a.asked || (a.once && a.until == time_point::max());
  if (!one_attempt || a.cancelled || a.client->is_closed()) return;
  std::string const who = client_words(a) + " was told of " + lock_words(a.lock_number) + " that ";
  if (why == errc::unreachable) {
    // Its own clock decides whether its patience has run out.
    if (a.client->local_now() - a.asked < a.client->settings().settings.offline_timeout)
      throw violation{11, who + "the server cannot be reached, at once"};
    return;
  }
  if ((!busy && why != errc::timed_out) || plan_.permits != engine::permit_kind::none) return;
  // In a script for several, those after one that is busy, or could not be read, may be answered busy too. They are
  // then tried alone.
  if (a.who->several != nullptr && a.who->several->trying) return;
  auto const same_client = [&](sim_acquisition const* other) { return other->client == a.client; };
  bool const neighbour = std::any_of(w.active.begin(), w.active.end(), same_client) ||
                         std::any_of(w.waiting.begin(), w.waiting.end(), same_client);
  // In a world that is explored an answer of the server may take no time.
  if (world_.now() == a.asked_at && !neighbour && !plan_.is_explored())
    throw violation{11, who + "it is not free, without asking, and nobody here has it or asked for it"};
  bool const somebody = !w.active.empty() || !w.waiting.empty();
  nanos const settled = plan_.calm() && !plan_.has_delays()
                            ? 60 * (plan_.latency + plan_.jitter) + 10 * millisecond + 4 * plan_.timer_lateness
                            : plan_.set_back() + 3 * plan_.longest_lease() + 2 * plan_.longest_claim() + second;
  if (!somebody && others_were_there + settled < a.asked_at)
    throw violation{11, who + "it is not free, and nobody has it or asked for it"};
}

// P4 for the waits that end otherwise: a time-out and a cancellation end within one command time-out.
/// Several locks at once: all or nothing, within one time for all, and not after a cancellation.
void observer::several_answered(sim_client const& c, several_locks const& s, bool granted) const {
  std::string const who = "client " + std::to_string(c.number());
  if (granted) {
    for (std::size_t i = 0; i < s.slots.size(); ++i) {
      auto const* const one = s.slots[i].get();
      if (one == nullptr)
        throw violation{1, who + " was told that it has all it asked for, without lock " + std::to_string(s.names[i])};
      bool const valid = one->phase == engine::acquisition_phase::holding && c.local_now() < one->deadline();
      if (!valid)
        throw violation{
            9, who + " was told that it has all it asked for, and lock " + std::to_string(s.names[i]) + " was lost"};
    }
  }
  if (c.paused() || c.last_pause_end() >= s.began) return;
  nanos const slack = count(c.settings().settings.command_timeout) * 102 / 100 + 3 * millisecond + plan_.timer_lateness;
  // The tries, and the wait that was under way, may each take one command time-out more; where the server is slow,
  // every lock.
  bool const slow = plan_.has({fault_plan::kind::slow});
  nanos const steps = slow ? 1 + static_cast<nanos>(s.names.size()) : 2;
  if (s.until && c.local_now() > *s.until + duration{steps * slack})
    throw violation{4, who + " got its answer long after its time-out for several locks"};
  // What was tried is answered first, whatever is cancelled meanwhile: how long that takes is known only where nothing
  // is wrong.
  nanos const connecting = 40 * (plan_.latency + plan_.jitter);
  if (plan_.calm() && s.cancelled && world_.now() - s.cancelled_at > slack + connecting)
    throw violation{4, who + " got its answer long after it cancelled, for several locks"};
}

void observer::not_too_late(sim_acquisition const& a) const {
  sim_client const& c = *a.client;
  nanos const slack = 3 * millisecond + plan_.timer_lateness;
  bool const slept = c.paused() || c.last_pause_end() >= a.asked_at;
  if (slept) return;
  nanos const timeout = count(c.settings().settings.command_timeout) * 102 / 100;
  if (a.until != time_point::max() && c.local_now() > a.until + duration{timeout + slack}) {
    throw violation{4, client_words(a) + " got its answer long after its time-out for " + lock_words(a.lock_number)};
  }
  if (a.once && a.until == time_point::max()) {
    // One attempt: patience with a server that is away, what was asked before it went, and a place here that is being
    // left. A connection attempt whose packets are lost takes all the time it has, and so may one before it whose name
    // or address says nothing. The next comes after a pause.
    nanos const connecting =
        2 * (count(c.settings().settings.connect_timeout) + count(c.settings().settings.reconnect_max));
    nanos const patience =
        (count(c.settings().settings.offline_timeout) + 3 * count(c.settings().settings.command_timeout)) * 102 / 100;
    // What a master has granted that is none any more is asked for again; that of the new one may last as long as a
    // claim until it is given back.
    nanos const claim =
        plan_.synced ? std::min<nanos>(count(c.settings().settings.claim), a.lease.count() * millisecond) : 0;
    bool const too_late = world_.now() - a.asked_at > patience + slack + connecting + claim;
    // Attempts at one lock are made one after the other, and each has time for one answer.
    bool const has_had_its_turn = world_.now() - c.last_turn_over(a.lock_number, a.owner) > 2 * timeout + slack;
    if (too_late && has_had_its_turn)
      throw violation{4, client_words(a) + " got its answer to one attempt too late, for " + lock_words(a.lock_number)};
  }
  if (!a.cancelled) return;
  if (a.cancelled_again && a.cancel_again_as == engine::cancel_type::terminal && world_.now() > a.cancelled_again_at) {
    throw violation{4, client_words(a) + " got its answer after it cancelled for the second time, and for good, for " +
                           lock_words(a.lock_number)};
  }
  nanos const taken = world_.now() - a.cancelled_at;
  nanos const allowed = a.cancel_as == engine::cancel_type::terminal ? 0 : timeout + slack;
  if (taken > allowed) {
    throw violation{4, client_words(a) + " got its answer long after it cancelled, for " + lock_words(a.lock_number)};
  }
}

// P3: a client that believes in a hold is the owner on the server, and will be until the deadline.
void observer::backed_by_server(sim_acquisition const& a) {
  if (!is_believed(a) || is_disowned(a)) return;
  lock_state const is = look(a.lock_number);
  std::string const who = client_words(a) + " believes it holds " + lock_words(a.lock_number) + " as " + owner_id(a);
  if (!is.owned) throw violation{3, who + ", which the server knows nothing of"};
  if (is.owner != owner_id(a)) throw violation{3, who + ", but the server's owner is " + is.owner};
  if (is.fence != a.fence / hand_offs_per_grant)
    throw violation{
        2, who + " with fence " + std::to_string(a.fence) + ", but the server gave it " + std::to_string(is.fence)};
  nanos const until = a.client->true_time(a.deadline());
  nanos const over = world_.true_time_of_server_ms(is.expires_ms);
  if (until > over) {
    throw violation{
        3, who + " for " + std::to_string((until - over) / microsecond) + " us longer than the server keeps it"};
  }
}

void observer::waited_too_long(sim_acquisition const& a) {
  lock_watch const& w = watch(a.lock_number);
  nanos since = std::max(w.last_end, a.asked_at);
  for (sim_acquisition const* other : w.active) {
    // Told of its loss, and its body may go on until the deadline.
    since = std::max(since, std::min(world_.now(), other->client->true_time(other->seen_deadline)));
  }
  nanos const hop = plan_.latency + plan_.jitter + plan_.timer_lateness;
  auto const clients = static_cast<nanos>(plan_.clients.size());
  // After a loss the lock stays for the delay, and for longer if a renewal was under way.
  if (plan_.calm() && w.delayed_until_ms == 0 && !plan_.has_intervals()) {
    nanos const bound = (12 + 4 * clients) * hop + 25 * millisecond;
    if (world_.now() - since > bound) {
      throw violation{4, client_words(a) + " waited for " + lock_words(a.lock_number) + " for " +
                             std::to_string((world_.now() - since) / millisecond) + " ms while nobody held it"};
    }
    return;
  }
  since = std::max(since, trouble_until_);
  nanos const bound = plan_.set_back() + 3 * plan_.longest_lease() + 2 * plan_.longest_claim() + 2 * second +
                      8 * plan_.spike + 20 * hop;
  if (world_.now() - since > bound) {
    throw violation{4, client_words(a) + " waited for " + lock_words(a.lock_number) + " for " +
                           std::to_string((world_.now() - since) / millisecond) +
                           " ms, all faults being over, while nobody held it"};
  }
}

void observer::lost(sim_acquisition& a) {
  sim_client& c = *a.client;
  history_.lost(a, world_.now());
  // Told by the server itself, which has nothing to be given back.
  if (protocol::server_place const* place = c.place(a.lock_number);
      place != nullptr && place->state == engine::place_state::idle) {
    c.open_ids_.erase(a.id);
  }
  lock_state const is = look(a.lock_number);
  // A client need not know of a change of master before the news has reached it, and the Sentinels that it asks.
  link_ptr const by = plan_.shards != 0 ? c.keeper_of(a) : nullptr;
  bool const by_a_former_master = by != nullptr && world_.is_superseded(*by);
  needless_loss(a, is_disowned(a) || revoked_falsely_.contains(owner_id(a)) || by_a_former_master,
                is.owned && is.owner == owner_id(a) && is.fence == a.fence / hand_offs_per_grant);
  told_in_time(a);
  warned_in_time(a);
  note_delay(a);
  if (c.settings().settings.lock_delay > duration::zero()) {  // it stays there
    c.open_ids_.erase(a.id);
    delayed_.insert(owner_id(a));
  }
  bool const bound_to_end = a.fixed || a.max_hold != duration::max() || c.is_closed();
  // An operator who meddles with one lock, or with the scripts, costs no hold of another.
  if (plan_.harms_no_other(a.lock_number, true) && !plan_.orders && plan_.spikes == 0 && plan_.may_kill &&
      !bound_to_end) {
    throw violation{10, client_words(a) + " lost " + lock_words(a.lock_number) + " although nothing was wrong"};
  }
}

void observer::released(sim_acquisition& a) {
  lock_watch& w = watch(a.lock_number);
  w.stirred(a.serial, world_.now());
  if (!a.active) return;
  history_.released(a, world_.now());
  if (a.phase == phase::holding) told_in_time(a);
  heard_of_requests(a);
  a.released_valid = is_believed(a);
  a.release_asked_at = world_.now();
  a.release_strays = plan_.shards != 0 && a.client->keeper_of(a) != a.client->connection(a.lock_number);
  nanos const end = std::min(world_.now(), a.client->true_time(a.seen_deadline));
  w.last_end = std::max(w.last_end, end);
  held_ += world_.now() - a.asked_at;
  a.active = false;
  std::erase(w.active, &a);
}

/// It is not believed any more from here on, and renewed once more.
void observer::detaching(sim_acquisition& a) {
  watch(a.lock_number).stirred(a.serial, world_.now());
  if (a.active) history_.released(a, world_.now());
  if (a.active && a.phase == phase::holding) told_in_time(a);
}

/// P3: the adopter has the whole lease. P1: this client no longer believes in it, and nothing that it sends names it
/// any more.
void observer::detached(sim_acquisition& a, error_code why) {
  lock_watch& w = watch(a.lock_number);
  w.stirred(a.serial, world_.now());
  if (!why) history_.release_answered(a, history::outcome::held, world_.now());
  if (why == errc::lost) history_.lost(a, world_.now());
  std::string const who = client_words(a) + ", which let go of " + lock_words(a.lock_number) + ",";
  bool const is_gone = let_go(a, why, who);
  std::erase(w.active, &a);
  w.last_end = std::max(w.last_end, world_.now());
  // Nothing is to be given back of what has left, nor of what the server has nothing of any more.
  bool const server_said_lost =
      why == errc::lost && (a.lock == nullptr || a.lock->place->state == engine::place_state::idle);
  if (is_gone || server_said_lost) a.client->open_ids_.erase(a.id);
  if (!is_gone) return;
  lock_state const is = look(a.lock_number);
  if (is.owned) w.last_end = std::max(w.last_end, world_.true_time_of_server_ms(is.expires_ms));
  w.passed = {};
  if (is_disowned(a)) return;
  if (!is.owned || is.owner != owner_id(a))
    throw violation{3, who + " was told that others may have it, and the server's owner is " + is.owner};
  if (is.state != 'h') throw violation{3, who + " has left a claim"};
  std::int64_t const asked_ms = world_.server_us(a.detach_asked_at) / 1000;
  if (!clock_steps_ && is.expires_ms < asked_ms + a.lease.count())
    throw violation{3, who + " has left less than its lease"};
}

/// The end of a detach. Has the hold left its client?
bool observer::let_go(sim_acquisition& a, error_code why, std::string const& who) {
  if (!a.active) throw violation{11, who + " was answered twice"};
  a.active = false;
  sim_client const& c = *a.client;
  nanos const waited = world_.now() - a.detach_asked_at;
  nanos const timeout =
      count(c.settings().settings.command_timeout) * 102 / 100 + 3 * millisecond + plan_.timer_lateness;
  if (!c.paused() && c.last_pause_end() < a.detach_asked_at && waited > timeout)
    throw violation{4, who + " was answered too late"};
  if (why) {
    bool const may = why == errc::lost || why == errc::unreachable || (why == errc::closed && c.is_closed());
    if (!may) throw violation{11, who + " was told of an error that it cannot have: " + why.message()};
    if (why == errc::unreachable && waited < count(c.settings().settings.command_timeout) * 98 / 100)
      throw violation{11, who + " was told too early that there is no answer"};
    return false;
  }
  detached_.insert(owner_id(a));
  detached_.insert(owner_id(a) + " " + std::to_string(a.fence / hand_offs_per_grant));
  return true;
}

/// P1: of those that show the same origin one at most is told that it has the lock.
void observer::only_one_adopts(std::string const& origin, std::string const& id, std::string const& who) {
  auto const [by, is_first] = adopted_.emplace(origin, id);
  if (!is_first && by->second != id) throw violation{1, who + " came after " + by->second + ", which has it"};
}

void observer::release_answered(sim_acquisition& a, bool was_held, bool failed) {
  watch(a.lock_number).stirred(a.serial, world_.now());
  using history::outcome;
  history_.release_answered(a, failed ? outcome::unknown : was_held ? outcome::held : outcome::not_held, world_.now());
  std::string const who = client_words(a) + " released " + lock_words(a.lock_number);
  bool const asked_once = a.client->up(a.lock_number) && a.client->up_since(a.lock_number) <= a.release_asked_at;
  // it may have been asked for at two nodes
  bool const moved = a.release_strays || (plan_.shards != 0 && trouble_until_ >= a.release_asked_at);
  // Its hold was good when its release was refused, and nobody knows what that script had done by then.
  bool const refused_before = refused_at_ >= a.release_asked_at;
  if (was_held && !failed && asked_once && !moved && !refused_before && released_as_nobody_.contains(owner_id(a)) &&
      !released_as_owner_.contains(owner_id(a))) {
    throw violation{11, who + " and was told it still held it, but the server knew better"};
  }
  if (was_held && !a.released_valid && !failed) throw violation{7, who + " too late and was told it still held it"};
  if (!was_held && !failed && a.released_valid && released_as_owner_.contains(owner_id(a))) {
    throw violation{8, who + " in time and was told it no longer held it"};
  }
}

void observer::gone(sim_acquisition& a) {
  lock_watch& w = watch(a.lock_number);
  history_.gone(a, world_.now());
  w.stirred(a.serial, world_.now());
  if (a.active) {
    note_delay(a);
    w.last_end = std::max(w.last_end, std::min(world_.now(), a.client->true_time(a.seen_deadline)));
    std::erase(w.active, &a);
    a.active = false;
  }
  if (a.waiting) std::erase(w.waiting, &a);
  a.waiting = false;
}

void observer::checked(sim_client& c) {
  nothing_forgotten(c);
  look_for_claims(c);
  for (int name = 0; name < plan_.names; ++name) {
    protocol::server_place const* const place = c.place(name);
    if (place != nullptr && place->state == engine::place_state::in_line)
      told_ticket(c, place->id, place->waiting.ticket);
    for (sim_acquisition* a : watch(name).active) {
      if (a->client != &c || a->phase != phase::holding) continue;
      look_at_hold(*a);
      told_in_time(*a);
      warned_in_time(*a);
      if (a->orphaned_at >= 0) look_for_orphan(*a, false);
      if (a->deadline() == a->seen_deadline) continue;
      if (a->deadline() < a->seen_deadline)
        throw violation{3, client_words(*a) + " had the deadline of " + lock_words(name) + " moved back"};
      a->seen_deadline = a->deadline();
      history_.renewed(*a);
      look_for_orphan(*a, true);
      backed_by_server(*a);
      duration const claim{plan_.longest_claim()};  // the releaser's
      duration const slack = claim + c.settings().settings.command_timeout;
      duration longest = duration::max();
      // The lease that the line was joined with may have been another coroutine's, and longer. That does not make a
      // fixed lease longer, which begins before its claim ends.
      bool const extended = a->extended_at != time_point::min();
      duration const before = extended ? a->extended_at - a->granted : duration{};
      if (a->fixed) longest = before + (extended ? duration{plan_.longest_lease()} : duration{a->lease}) + claim;
      if (a->max_hold != duration::max())
        longest = std::min(longest, std::max(a->max_hold, before) + duration{plan_.longest_lease()} + slack);
      if (longest != duration::max() && a->deadline() > a->granted + longest) {
        throw violation{4, client_words(*a) + " prolongs " + lock_words(name) + " past what was asked for"};
      }
    }
  }
}

// P6: what was asked for and is wanted no more is owed to the server, until it has been told.
void observer::nothing_forgotten(sim_client& c) {
  if (clobbers_ || denied_until_ >= 0) return;  // what is denied to a client it cannot give back
  std::size_t orphans = 0;
  for (auto at = c.open_ids_.begin(); at != c.open_ids_.end();) {
    auto const& [id, request] = *at;
    protocol::server_place const* const place = c.place(request.name);
    bool const live = place != nullptr && place->id == id && place->state != engine::place_state::idle;
    if (!live && world_.now() - request.written > count(c.settings().settings.lease) * 98 / 100) {
      at = c.open_ids_.erase(at);  // the lease bounds the rest
      continue;
    }
    // Told by the server after the holder was told by its own clock: nothing is left to give back.
    auto const& active = watch(request.name).active;
    bool const told = std::any_of(active.begin(), active.end(), [&, lost_id = id](sim_acquisition const* a) {
      return a->client == &c && a->id == lost_id && a->told;
    });
    // Not there any more, as the server has answered to a renewal. It may have been written for a holder, and answered
    // when there was none.
    bool const gone = lost_in_between_.contains(c.id() + "." + engine::to_text(id));
    if (!live && (told || gone)) {
      at = c.open_ids_.erase(at);
      continue;
    }
    orphans += live ? 0U : 1U;
    ++at;
  }
  if (orphans > c.owed())
    throw violation{6, "client " + std::to_string(c.number()) + " has forgotten to give back what it asked for"};
}

void observer::writes(sim_client& c, protocol::command const& what) {
  auto const number_of = [&](std::string_view lock_name) {
    int name = 0;
    while (name < plan_.names && name_of(name) != lock_name) ++name;
    return name;
  };
  auto const names_it = [&](engine::grant_id id, std::string_view name) {
    if (plan_.shards == 0) return;
    auto const [of, is_new] = c.locks_of_ids_.emplace(id.count, number_of(name));
    if (!is_new && of->second != number_of(name))
      throw violation{8, c.id() + " asks for two locks under the id " + engine::to_text(id) +
                             ", which one server may have some time"};
  };
  if (auto const* acquire = std::get_if<protocol::acquire_command>(&what)) {
    ++acquire_scripts_;
    names_it(acquire->id, acquire->name);
    shows_ticket(c, *acquire);
    if (acquire->wait) c.open_ids_[acquire->id] = {number_of(acquire->name), world_.now()};
    if (c.dead_ids_.contains(acquire->id))
      throw violation{8, "client " + std::to_string(c.number()) + " asks again under an id it has released"};
  } else if (auto const* tries = std::get_if<protocol::acquire_all_command>(&what)) {
    ++acquire_scripts_;
    for (protocol::attempt const& item : tries->items) {
      names_it(item.id, item.name);
      if (c.dead_ids_.contains(item.id))
        throw violation{8, "client " + std::to_string(c.number()) + " tries again under an id it has released"};
    }
  } else if (auto const* release = std::get_if<protocol::release_command>(&what)) {
    ++release_scripts_;
    c.open_ids_.erase(release->id);
    if (release->new_id != 0) c.open_ids_[release->new_id] = {number_of(release->name), world_.now()};
    if (c.dead_ids_.contains(release->new_id))
      throw violation{8, "client " + std::to_string(c.number()) + " queues under an id it has released"};
    if (!release->keep) c.dead_ids_.insert(release->id);
    // A client that leaves has no place that could be lost.
    tickets_.erase(c.id() + "." + engine::to_text(release->id));
  } else if (auto const* renew = std::get_if<protocol::renew_command>(&what)) {
    ++renew_scripts_;
    for (protocol::renewal const& item : renew->items) {
      int const name = number_of(item.name);
      auto const& active = watch(name).active;
      bool const held = std::any_of(active.begin(), active.end(), [&](sim_acquisition const* a) {
        return a->client == &c && a->id == item.id && (a->phase == phase::holding || a->phase == phase::detaching);
      });
      // Once more, for no longer than it has been told already.
      protocol::server_place const* const place = c.place(name);
      duration const asked = item.lease - c.settings().settings.lock_delay;
      bool const only_looks = place != nullptr && place->id == item.id &&
                              c.local_now() + asked * 98 / 100 - std::chrono::milliseconds{6} <= place->deadline;
      bool const to_be_acknowledged = plan_.synced && place != nullptr && place->id == item.id;
      // Or to hand it on in memory, if it is still ours.
      engine::place const* const of_cohort = c.engine_->find(item.name);
      bool const asks_first = of_cohort != nullptr && place != nullptr && place->id == item.id &&
                              static_cast<engine::lock_entry const*>(of_cohort->owner)->proving;
      if (!held && !only_looks && !to_be_acknowledged && !asks_first)
        throw violation{
            6, "client " + std::to_string(c.number()) + " renews " + lock_words(name) + ", which it no longer holds"};
    }
  }
}

/// As the server said first: a place gets no worse, and better only by being found earlier in the line.
void observer::told_ticket(sim_client const& c, engine::grant_id id, std::int64_t ticket) {
  if (ticket == 0) return;
  auto const [known, is_new] = tickets_.emplace(c.id() + "." + engine::to_text(id), ticket);
  if (!is_new) known->second = std::min(known->second, ticket);
}

/// P5: a client that knows its place shows it with every question.
void observer::shows_ticket(sim_client const& c, protocol::acquire_command const& question) const {
  auto const known = tickets_.find(c.id() + "." + engine::to_text(question.id));
  if (known == tickets_.end() || known->second == question.ticket) return;
  throw violation{5, known->first + " asks again and does not show its place, " + std::to_string(known->second) +
                         ", but " + std::to_string(question.ticket)};
}

// ---------------------------------------------------------------------------------- at the end

void observer::nothing_owned_by_the_living() {
  // A replica that missed a release brings the hold back, and a clock that went back keeps it longer than the client
  // can know: then only the lease ends it.
  using kind = fault_plan::kind;
  bool const rewound = plan_.has({kind::failover, kind::promotion, kind::step_back});
  bool const away = plan_.has({kind::server_restart, kind::server_wiped, kind::slow});
  for (int name = 0; name < plan_.names; ++name) {
    lock_state const is = look(name);
    for (auto const& c : world_.clients()) {
      // Nobody can leave the line of a lock whose key holds something else.
      if (!c->alive() || rewound || spoilt(name) || denied_until_ >= 0) continue;
      auto const mine = [&](std::string const& id) { return id.substr(0, id.find('.')) == c->id(); };
      // While a server is away, a place in its line outlives the patience of a clean-up: it is given back when it is
      // pushed, or passed over. Where the push went to a connection that was gone, it ends with its claim.
      bool const a_claim = away && is.state == 'c';
      // What was let go ends with its lease, if nobody takes it over; what was lost, with the delay.
      bool const let_go = detached_.contains(is.owner) || delayed_.contains(is.owner);
      if (is.owned && mine(is.owner) && !a_claim && !let_go)
        throw violation{6, lock_words(name) + " is left behind, owned by " + is.owner};
      for (auto const& [id, ticket] : is.line) {
        // After a role change, too, a client may be away for long; or when it cannot connect, or is refused. The longer
        // leases of others keep the line.
        nanos const patience = count(c->settings().settings.lease);
        bool const was_away = c->longest_absence() > patience;
        bool const put_off =
            plan_.shards != 0 && std::any_of(plan_.faults.begin(), plan_.faults.end(), [&](fault_plan const& f) {
              return !f.concerns_one_client() && f.length + f.length2 + std::max<nanos>(f.told, 0) > patience;
            });
        bool const given_up =
            away || was_away || put_off || plan_.refuses_for(patience) || plan_.has({kind::role_change});
        if (mine(id) && !given_up) throw violation{6, id + " is left behind in the line for " + lock_words(name)};
      }
    }
  }
  for (auto const& c : world_.clients()) {
    if (!c->alive()) continue;
    if (c->stats().waiting != 0 || c->stats().held != 0) {
      throw violation{6, "client " + std::to_string(c->number()) + " still counts " +
                             std::to_string(c->stats().waiting) + " waiting and " + std::to_string(c->stats().held) +
                             " held"};
    }
  }
}

bool observer::is_of_the_living(std::string const& key) const {
  return std::any_of(world_.clients().begin(), world_.clients().end(),
                     [&](auto const& c) { return c->alive() && key.find(c->id()) != std::string::npos; });
}

void observer::nothing_left() {
  std::vector<redis_model::key_info> keys;
  for (std::size_t i = 0; i < world_.nodes(); ++i) {
    if (!world_.is_master(i)) continue;
    auto const some = world_.model_of(i).keys();
    keys.insert(keys.end(), some.begin(), some.end());
  }
  for (auto const& key : keys) {
    // A limit that was set stays for its retention, and with it the waiters that died.
    bool const was_set = std::any_of(plan_.faults.begin(), plan_.faults.end(), [&](fault_plan const& f) {
      return f.what == fault_plan::kind::set_limit && key.name.starts_with(keys_[static_cast<std::size_t>(f.name)]);
    });
    bool const ordered = plan_.orders && plan_.permits == engine::permit_kind::semaphore;
    if ((was_set || ordered) && key.expires_at_ms) continue;
    // What a dead client told outlives it.
    if (key.name.ends_with("}:i") && key.expires_at_ms && !is_of_the_living(key.name)) continue;
    // The ends of many owners, all of which have died, stay as long as the fence.
    if (!key.name.ends_with(":f") && !key.name.ends_with(":e"))
      throw violation{6, "the key " + key.name + " is left behind"};
    if (!key.expires_at_ms) throw violation{6, "the key " + key.name + " never ends"};
  }
}

observer::spent observer::spent_by_all() const {
  spent s;
  s.extensions = extensions_;
  s.shortest = plan_.longest_lease();
  for (client_plan const& c : plan_.clients) {
    s.shortest =
        std::min({s.shortest, count(c.settings.claim), count(c.settings.lease), count(c.settings.renew_every) * 2});
    for (actor_plan const& a : c.actors) {
      for (operation const& o : a.work)
        s.shortest = std::min({s.shortest, o.lease, o.extend_after != 0 ? o.extend_to : o.lease});
    }
  }
  s.shortest = std::max<decltype(s.shortest)>(s.shortest, 1);  // a smaller schedule may have no lease
  for (auto const& c : world_.clients()) {
    s.checks += c->stats().safety_checks;
    s.late += c->stats().pushes_late;
    s.doubted += c->stats().pushes_doubted;
    s.kicks += c->stats().kicks;
    s.pushes += c->stats().pushes;
  }
  // Nobody forges where nothing is wrong: only fences that are ahead of the clock are asked about.
  bool const ahead = !plan_.first_fences.empty() || plan_.epoch_us < protocol::fence_epoch_us;
  if (!ahead) not_over("pushes that are doubted", s.doubted, 0);
  return s;
}

void observer::not_over(std::string const& what, std::uint64_t spent, std::uint64_t allowed) {
  if (spent > allowed)
    throw violation{10, what + ": " + std::to_string(spent) + ", allowed " + std::to_string(allowed)};
}

void observer::cost() {
  if (!plan_.calm() || plan_.clients.empty()) return;
  auto const [checks, late, doubted, kicks, pushes, shortest, extensions] = spent_by_all();
  // Each pushed grant is asked about where a claim is not enough.
  std::uint64_t const verified = plan_.has_delays() ? pushes : 0;
  // A grant may be kept for less than its next waiter wants: it is given back, and asked for anew.
  std::uint64_t const anew = plan_.has_intervals() ? asked_ : 0;
  not_over("acquire scripts", acquire_scripts_,
           asked_ + checks + late + doubted + unknown_scripts_ + told_of_more_ + verified + anew);
  not_over("release scripts", release_scripts_, owners_ + gave_up_ + kicks + unknown_scripts_ + told_of_more_);
  not_over("pushes", pushes, claims_);
  not_over("lost pushes", claims_, pushes);
  not_over("kicks", kicks, claims_);
  not_over("safety checks", checks, static_cast<std::uint64_t>(waited_ * 5 / 2 / shortest) + owners_ + asked_);
  // One may be under way already. And a hand-over in memory may ask first.
  std::uint64_t handed_on = 0;
  for (auto const& c : world_.clients()) handed_on += c->stats().grants_local;
  not_over("renewals", renew_scripts_,
           static_cast<std::uint64_t>(held_ * 4 / shortest) + owners_ + 2 * extensions + handed_on + gave_up_);
}

}  // namespace conch::sim
