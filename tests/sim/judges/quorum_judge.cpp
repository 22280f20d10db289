// What each script has done to each lock at its server, and whether every vote is looked after by whoever has it.
#include "sim/judges/script_calls.hpp"
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/quorum_world.hpp"
#include "sim/worlds/words.hpp"

#include <algorithm>

namespace conch::sim {

quorum_world::seen_lock quorum_world::look(server& s, int name) const {
  seen_lock is;
  std::string const& key = keys_[static_cast<std::size_t>(name)];
  if (std::string const* const lock = s.model.text_at(key)) {
    std::string_view const text = *lock;
    auto const first = text.find(' '), second_gap = text.find(' ', first + 1);
    is.owner = text.substr(0, first);
    is.fence = number(text.substr(first + 1, second_gap - first - 1));
    is.state = text.back();
    is.ends_ms = s.model.expires_at_ms(key).value_or(0);
    if (is.ends_ms == 0) throw violation{6, "a vote has no end"};
  }
  if (std::string const* const fence = s.model.text_at(fence_keys_[static_cast<std::size_t>(name)])) is.kept_fence = number(*fence);
  return is;
}

/// Votes end by themselves only where nobody can look after them.
void quorum_world::patrol(int which) {
  server& s = *servers_[static_cast<std::size_t>(which)];
  set_clock(s);
  for (int name = 0; name < names; ++name) {
    seen_lock& known = s.locks[static_cast<std::size_t>(name)];
    if (known.owner.empty() || look(s, name).owner == known.owner) continue;
    if (!known.looked_after) {
      s.forsaken.push_back(known.owner);
      constexpr nanos on_its_way = 100 * millisecond;
      after(on_its_way, [this, which, id = known.owner, since = known.since] { forsaken(which, id, since); });
    }
    known = {};
    known.since = now_;
  }
}

void quorum_world::forsaken(int which, id_text const& id, nanos since) {
  server& s = *servers_[static_cast<std::size_t>(which)];
  if (std::erase(s.forsaken, id) == 0) return;  // somebody has spoken of it after all
  if (s.set_back) return;                       // what was long over may be there again
  if (std::find(s.denied.begin(), s.denied.end(), id) != s.denied.end()) return;
  for (auto const& c : clients_) {
    if (!c->alive || c->paused || !c->owns(id) || c->disturbed >= since || s.disturbed >= since) continue;
    if (linked(c->number, which, since))
      throw violation{
          6, "client " + std::to_string(c->number) + " let its vote " + std::string{id} + " at server " + std::to_string(which) + " run out"};
  }
}

/// What believes itself valid is on a majority; is told when a majority has said no; and is never valid again when another
/// has been granted.
void quorum_world::judge_holds() {
  for (std::size_t i = 0; i < locks_.size(); ++i) {
    for (quorum_hold* h : locks_[i].active) {
      quorum_client const& c = *h->client;
      if (h->told || !c.alive) continue;
      told_in_time(*h);
      if (forgot || c.local() >= h->deadline()) continue;
      auto const whose = [&] { return "client " + std::to_string(c.number) + " believes that it has lock " + std::to_string(i); };
      if (h->superseded) throw violation{9, whose() + " again, and another has been granted it since"};
      if (fresh_rule) continue;
      nanos const until = c.true_time(h->deadline());
      std::size_t on = 0;
      for (auto const& s : servers_) {
        set_clock(*s);
        seen_lock const vote = look(*s, static_cast<int>(i));
        // Redis counts expiry in milliseconds.
        nanos const left = (vote.ends_ms + 1) * millisecond - clock_us(*s) * microsecond;
        if (c.owns(vote.owner) && now_ + left - left * s->ppm / 1'000'000 >= until) ++on;
      }
      if (on < needed) throw violation{3, whose() + ", and only " + std::to_string(on) + " servers give it to him for so long"};
    }
  }
}

/// While one client has the lock, no vote goes to and fro as fast as the network allows. Of one acquire: a server that stood
/// still may hear of many at once. Once for each rival a vote is asked for again at once, and then more and more seldom.
void quorum_world::given_back(int which, step const& one) {
  watch& w = locks_[static_cast<std::size_t>(one.name)];
  // By its holder itself: it was leaving that line when the other votes were enough. A vote that comes late is given back, and asked for anew.
  for (quorum_hold* h : w.active) {
    if (is_vote_of(*h, one.id)) h->votes_since[static_cast<std::size_t>(which)] = 0;
  }
  if (w.active.size() != 1 || w.active.front()->client->owns(one.id)) return;
  for (auto const& c : clients_) {
    if (!c->owns(one.id)) continue;
    int const times = ++w.given_back[{which, std::string{vote_of(one.id)}}];
    auto const rivals = std::ssize(clients_) - 1;
    if (times > 8 + rivals + 2 * (now_ - w.active.front()->granted_at) / claim) {
      throw violation{10, "client " + std::to_string(c->number) + " has given the vote of server " + std::to_string(which) + " back " +
                              std::to_string(times) + " times while client " + std::to_string(w.active.front()->client->number) + " has the lock"};
    }
  }
}

/// Of a confirmation that found nothing: whoever it is told by so many that they are no majority any more must act on it.
void quorum_world::refused_at(int which, step const& one) {
  for (quorum_hold* h : locks_[static_cast<std::size_t>(one.name)].active) {
    if (!h->client->owns(one.id)) continue;
    h->refusing.insert(which);
    if (h->refusing.size() + needed <= servers_.size()) continue;
    quorum_client& c = *h->client;
    constexpr nanos heard = 100 * millisecond;
    after(heard, [this, &c, name = one.name, mine = c.process, fence = h->fence, from = now_] {
      auto const& active = locks_[static_cast<std::size_t>(name)].active;
      auto const still = std::find_if(active.begin(), active.end(),
                                      [&](quorum_hold* other) { return other->client == &c && other->fence == fence && !other->told; });
      if (still == active.end() || c.process != mine || c.paused || c.disturbed >= from) return;
      if ((*still)->refusing.size() + needed <= servers_.size()) return;
      for (int one_of : (*still)->refusing) {
        if (servers_[static_cast<std::size_t>(one_of)]->disturbed >= from || !linked(c.number, one_of, from)) return;
      }
      throw violation{9, "client " + std::to_string(c.number) + " has not been told of its loss, and a majority has said so"};
    });
  }
}

/// Since before then.
bool quorum_world::linked(int client, int which, nanos since) const {
  return std::any_of(links_.begin(), links_.end(), [&](link_ptr const& l) {
    return l->server == which && l->client == client && l->client_open && l->server_open && !l->cut && !l->deaf && l->up_since != 0 &&
           l->up_since < since && l->held_up_until <= since;
  });
}

/// Before the script: which locks it is about, and how they are.
std::vector<quorum_world::step> quorum_world::steps_of(int which, std::span<std::string_view const> argv) {
  patrol(which);
  auto const calls = calls_in(argv);
  std::vector<step> all;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (step& one : steps_of_call(which, calls[i])) {
      one.gathered = is_gathered(argv);
      one.place = i;
      all.push_back(std::move(one));
    }
  }
  return all;
}

std::vector<quorum_world::step> quorum_world::steps_of_call(int which, std::span<std::string_view const> argv) {
  server& s = *servers_[static_cast<std::size_t>(which)];
  std::string_view const what = script_name(argv[1]);
  auto const keys = static_cast<std::size_t>(number(argv[2]));
  auto const rest = argv.subspan(3 + keys);
  bool const confirms = what == "confirm";
  std::vector<step> all;
  for (std::size_t i = 0; i < (confirms ? keys / 3 : 1); ++i) {
    std::string_view const key = argv[3 + (confirms ? 3 * i : 0)];
    for (int name = 0; name < names; ++name) {
      if (keys_[static_cast<std::size_t>(name)] != key) continue;
      step one;
      one.name = name;
      one.confirms = confirms;
      one.index = i;
      one.acquires = what == "acquire";
      one.releases = what == "release";
      one.stays = one.releases && rest[1].starts_with('1');
      one.id = rest[confirms ? 3 * i + 2 : 0];
      one.lease = number(rest[confirms ? 3 * i + 3 : 2]);
      // (A stray grant is given back without a floor.)
      std::size_t const at = confirms ? 3 * i + 4 : one.acquires ? 7 : 6;
      one.floor = at < rest.size() ? number(rest[at]) - (one.acquires ? 1 : 0) : 0;
      one.was = look(s, name);
      all.push_back(std::move(one));
    }
  }
  return all;
}

/// After the script.
void quorum_world::judge(int which, step const& one, value const& reply, bool too_late) {
  server& s = *servers_[static_cast<std::size_t>(which)];
  seen_lock const is = look(s, one.name);
  auto const says = [&](id_text const& id, std::string_view words) {
    return std::string{id} + std::string{words} + " at server " + std::to_string(which);
  };
  bool const mine = one.was.owner == one.id;
  if (!one.was.owner.empty() && !mine) {
    if (is.owner != one.was.owner || is.state != one.was.state || is.ends_ms != one.was.ends_ms || is.fence != one.was.fence) {
      throw violation{7, says(one.id, " has changed the vote of " + std::string{one.was.owner})};
    }
  }
  if (one.confirms && one.was.owner.empty() && !is.owner.empty()) throw violation{7, "a confirmation of " + says(one.id, " has made a vote")};
  if (one.confirms && mine) {
    std::int64_t const least = std::max(one.was.ends_ms, clock_us(s) / 1000 + one.lease);
    if (is.owner != one.id || is.state != 'h' || is.ends_ms < least) throw violation{3, says(one.id, " is confirmed, and does not have its lease")};
  }
  bool const stayed = one.stays && mine;  // that is no release
  if (!one.acquires && !stayed && is.kept_fence < one.floor)
    throw violation{2, says({}, "a fence of " + std::to_string(one.floor) + " was told, and is not kept")};
  if (!is.owner.empty() && is.owner != one.was.owner && is.fence <= std::max({one.was.kept_fence, one.was.fence, one.floor})) {
    throw violation{2, says(is.owner, " has a fence that is not above all before it")};
  }
  bool const not_done = is.owner == one.id;  // a patient release: the first in line is not there yet
  if (one.releases && mine && !one.stays && !not_done) given_back(which, one);
  if (!too_late && one.confirms && reply.items[2 * one.index + 1].integer == 0) refused_at(which, one);
  for (quorum_hold* h : locks_[static_cast<std::size_t>(one.name)].active) {
    if (!h->client->owns(is.owner)) continue;
    h->refusing.erase(which);
    if (is_vote_of(*h, is.owner) && one.id == is.owner) has_vote(*h, which);
  }
  if (one.releases && mine && !one.stays) {
    seen_lock const& before = s.locks[static_cast<std::size_t>(one.name)];
    for (release_watch& r : locks_[static_cast<std::size_t>(one.name)].releases) {
      if (!std::string_view{one.id}.starts_with(r.votes) || one.floor < r.fence) continue;
      // One of its places in line may only have been granted by that release; or shortly before, and nobody had told the client.
      nanos const granted = before.owner == one.id ? before.since : 0;
      if (granted <= r.since) r.mine |= 1U << which;
      // (Who is told late, as after standing still, asks the server whether an old push is still true.)
      nanos const on_its_way = latency + jitter + spike + slowest();
      nanos const told = std::max(granted, r.client->disturbed + latency + jitter) + 3 * on_its_way;
      if (told <= r.since) r.known |= 1U << which;
    }
  }
  seen_lock& known = s.locks[static_cast<std::size_t>(one.name)];
  if (is.owner != known.owner) {
    known = is;
    known.since = now_;
    known.looked_after = too_late && one.acquires && is.owner == one.id;
  } else if (one.id == known.owner) {
    known.looked_after = true;
  }
  std::erase(s.forsaken, one.id);
}

}  // namespace conch::sim
