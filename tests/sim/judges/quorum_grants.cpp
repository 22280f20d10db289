// From an acquire to its answer, and from a grant to its end: exclusion, fences, order and time.
#include "sim/worlds/quorum_world.hpp"

#include <algorithm>

namespace conch::sim {

void quorum_world::asks(quorum_hold& h) {
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  h.in_history = history_.asked(h.name, h.once, h.client->id, now_);
  h.fence_rounds = h.client->stats.fence_rounds;
  // Once the scripts are known everywhere.
  bool const nothing_on_its_way = w.last_stir + 2 * (latency + jitter) < now_;
  h.alone = calm && result.grants > 2 && now_ > second && w.active.empty() && w.waiting.empty() && w.tries == 0 &&
            nothing_on_its_way;
  for (std::size_t i = 0; i < servers_.size() && h.alone; ++i) {
    patrol(static_cast<int>(i));
    h.alone = servers_[i]->locks[static_cast<std::size_t>(h.name)].owner.empty();
  }
  h.wait_began = now_;
  for (quorum_hold* other : w.waiting) {
    other->alone = false;
    if (other->client == h.client) h.wait_began = std::min(h.wait_began, other->wait_began);
  }
  for (quorum_hold* other : w.active) other->alone = false;
  if (h.once) {
    h.tries = true;
    ++w.tries;
  } else {
    w.waiting.push_back(&h);
  }
}

void quorum_world::granted(quorum_hold& h) {
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  history_.granted(h.in_history, h.fence, now_);
  history_.good_until(h.in_history, h.client->true_time(h.deadline()));
  auto const who = [&h] {
    return "client " + std::to_string(h.client->number) + " is granted lock " + std::to_string(h.name);
  };
  say("client ", h.client->number, " is granted lock ", h.name, " with fence ", h.fence,
      w.active.empty() ? "" : ", others active");
  for (quorum_hold* other : w.active) {
    quorum_client& c = *other->client;
    auto const whose = [&c] { return "client " + std::to_string(c.number); };
    other->superseded = true;
    if (!other->told && &c == h.client) throw violation{9, who() + " before it is told of the loss of what it had"};
    if (other->told || forgot) continue;
    if (c.local() < other->deadline()) throw violation{1, who() + " while " + whose() + " holds it"};
    if (!c.paused) throw violation{9, who() + " and " + whose() + " has not been told of its loss"};
  }
  // (Of two that have the lock at once, because a server has given it away too early, the second may be the one to be
  // refused. A client that was paused may place a claim too late on a server's clock that was set forward, and be
  // refused likewise. The holder may hand it on in memory when the other is done already.)
  bool const in_memory = h.fence % 4096 != 0;
  bool const stood_still = h.client->disturbed + claim > now_;
  bool const overlap =
      std::any_of(w.active.begin(), w.active.end(), [&](quorum_hold* other) { return other->fence > h.fence; });
  bool const two = forgot && (in_memory || stood_still || overlap);
  // Fences that are not strict follow the clocks. After the vote that both have in common has expired unheard of, the
  // later one may come before the clocks have made up for what they differ.
  bool const too_soon = !strict && now_ - w.highest_at < claim;
  if (h.fence <= w.highest && !two && !too_soon) {
    throw violation{2, who() + " with fence " + std::to_string(h.fence) + " after " + std::to_string(w.highest)};
  }
  if (h.deadline() <= h.client->local()) throw violation{3, who() + " when its validity is over"};
  // For a lock that is free and asked for, while all are well: the cost of an expired claim would be too much.
  if (calm && w.active.empty() && now_ > 200 * millisecond) {
    nanos first = now_;
    for (quorum_hold* one : w.waiting) first = std::min(first, one->asked_at);
    nanos const idle = now_ - std::max({w.free_since, first, 200 * millisecond});
    if (idle > claim / 2) {
      throw violation{4, "lock " + std::to_string(h.name) + " was left alone for " +
                             std::to_string(idle / millisecond) + " ms although it was asked for"};
    }
  }
  waited_too_long(h);
  // P5: clients are served in the order in which they queued; requests that cross on the way, in either. What this
  // client hands on by itself is not a turn.
  // Nor do those count that asked when only the first servers had reported their time.
  constexpr nanos all_connected = 200 * millisecond;
  if (calm && h.fence % 4096 == 0 && h.asked_at > all_connected) {
    // What the two clients' ideas of the servers' clocks may differ by: half a round trip, and drift since their last
    // answers.
    nanos const allowance = 4 * (latency + jitter) + lease / 50;
    auto const queued_at = [](quorum_client const& c, engine::place const& p) {
      return c.owner->ticket_of(p) * microsecond;
    };
    for (auto const& c : clients_) {
      bool const early = std::any_of(w.waiting.begin(), w.waiting.end(), [&](quorum_hold* one) {
        return one->client == c.get() && one->asked_at <= all_connected;
      });
      if (c.get() == h.client || !c->alive || early) continue;
      engine::place const* const place = c->cohort->find(name_of(h.name));
      bool const waits = place != nullptr && place->wait && place->written &&
                         (place->state == engine::place_state::asking || place->state == engine::place_state::in_line);
      if (waits && queued_at(*c, *place) + allowance < queued_at(*h.client, *h.lock->place)) {
        ++result.overtakings;
        throw violation{5, who() + " before client " + std::to_string(c->number) + ", who queued earlier"};
      }
    }
  }
  ++result.grants;
  if (calm) ++result.calm_grants;
  if (h.fence > w.highest) w.highest_at = now_;
  w.highest = std::max(w.highest, h.fence);
  w.given_back.clear();
  h.active = true;
  h.granted_at = now_;
  h.ticket = h.client->owner->ticket_of(*h.lock->place);
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    seen_lock const& vote = servers_[i]->locks[static_cast<std::size_t>(h.name)];
    if (!is_vote_of(h, vote.owner)) continue;
    h.votes[i] = vote.owner;
    if (well(*h.client, static_cast<int>(i), vote.since)) h.votes_since[i] = vote.since;
  }
  w.granted.insert(h.client->id + "." + std::to_string(h.ticket));
  told_in_time(h);
  judge_fence(h);
  std::erase(w.waiting, &h);
  stirs(h);
  if (h.tries) --w.tries;
  w.active.push_back(&h);
  judge_holds();
  if (seldom && !healing_ && random_.chance(25)) {
    quorum_client& c = *h.client;
    after(random_.between(0, claim / 4), [this, &c, mine = c.process] {
      if (!c.alive || c.process != mine || healing_) return;
      say("fault: client ", c.number, " dies with the lock");
      c.die(true);
      revive(c, random_.between(10, 600) * millisecond);
    });
  }
}

void quorum_world::stirs(quorum_hold const& h) {
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  if (h.serial != w.last_to_stir) w.stir_of_others = w.last_stir;
  w.last_to_stir = h.serial;
  w.last_stir = now_;
}

void quorum_world::present(quorum_hold const& h) { locks_[static_cast<std::size_t>(h.name)].present.insert(h.serial); }

/// `no_attempt`: its user has ended it, or its time.
void quorum_world::answered(quorum_hold& h, bool failed, bool no_attempt, std::string const& words) {
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  std::erase(w.waiting, &h);
  history_.refused(h.in_history, now_);
  if (h.tries) --w.tries;
  answered_in_time(h);
  given_up(h);
  w.present.erase(h.serial);
  nanos const others = h.serial == w.last_to_stir ? w.stir_of_others : w.last_stir;
  stirs(h);
  auto const who = [&h] { return "client " + std::to_string(h.client->number); };
  // P11: a lock that was not granted had an owner, and servers that are up can be reached.
  if (slow && failed) throw violation{11, "an acquire of " + who() + " failed although nobody is ill: " + words};
  nanos const settled = 2 * claim + 30 * (latency + jitter + slowest());
  if ((calm || slow) && !no_attempt && w.present.empty() && others + settled < h.asked_at) {
    throw violation{11, who() + " was told that lock " + std::to_string(h.name) +
                            " is not free, and nobody has it or asked for it"};
  }
  if (calm && failed) throw violation{4, "an acquire of " + who() + " failed although nobody is ill: " + words};
  if (!failed) return;
  // What servers do not refuse is waited for, as long as was asked for. Those of one process share a wait: it began
  // with the first of them, which may have been cancelled since.
  nanos const offline = std::chrono::nanoseconds{h.client->settings.offline_timeout}.count() * 98 / 100;
  if (!errors_ && !h.once && now_ - h.wait_began < offline) {
    throw violation{4, "an acquire of " + who() + " failed after " + std::to_string((now_ - h.asked_at) / millisecond) +
                           " ms, and no server has refused it: " + words};
  }
  // They share their questions, too, and so what was answered before the last of them came. A try has its own, unless
  // it fails with the others.
  nanos const own = h.once ? h.asked_at : h.wait_began;
  auto& [at, asked] = h.client->failed_[static_cast<std::size_t>(h.name)];
  asked = std::exchange(at, now_) == now_ ? std::min(asked, own) : own;
  if (well_servers(*h.client, asked) >= needed)
    throw violation{4, "an acquire of " + who() + " failed although a majority is well: " + words};
}

/// If all are well a hold is soon on all servers: no vote stays with a client that has too few.
void quorum_world::whole(quorum_hold const& h) {
  nanos const age = now_ - h.granted_at;
  // (A try does not queue for the rest, nor does a client that was about to leave: that is mended when it is
  // confirmed.)
  bool const in_line = !h.once && !h.cancelled && h.until == time_point::max();
  if (!calm || !in_line || h.granted_at < 300 * millisecond || age < 60 * (latency + jitter) || age > claim / 2 ||
      h.fence % 4096 != 0)
    return;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    set_clock(*servers_[i]);
    std::string const* const lock = servers_[i]->model.text_at(keys_[static_cast<std::size_t>(h.name)]);
    if (lock == nullptr || !h.client->owns(*lock)) {
      throw violation{10, "server " + std::to_string(i) + " is still kept from client " +
                              std::to_string(h.client->number) + ", which has the lock"};
    }
  }
}

void quorum_world::ended(quorum_hold& h) {
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  std::erase(w.waiting, &h);
  w.present.erase(h.serial);
  stirs(h);
  if (h.waiting && h.tries) --w.tries;  // it dies
  if (h.active) judge_holds();
  if (h.active && !h.told) {
    whole(h);
    mended(h);
    history_.released(h.in_history, now_);  // or its client dies
  }
  if (std::erase(w.active, &h) != 0 && w.active.empty()) w.free_since = now_;
  w.given_back.clear();
  if (h.active) given_up(h);
  h.active = false;
}

}  // namespace conch::sim
