// What each script has done to each lock at its server, and whether every vote is taken care of by its owner.
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
  if (std::string const* const fence = s.model.text_at(fence_keys_[static_cast<std::size_t>(name)]))
    is.kept_fence = number(*fence);
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
  if (std::erase(s.forsaken, id) == 0) return;  // another client has reported it after all
  if (s.set_back) return;                       // what was long over may be there again
  if (std::find(s.denied.begin(), s.denied.end(), id) != s.denied.end()) return;
  for (auto const& c : clients_) {
    if (!c->alive || c->paused || !c->owns(id) || c->disturbed >= since || s.disturbed >= since) continue;
    if (linked(c->number, which, since))
      throw violation{6, "client " + std::to_string(c->number) + " let its vote " + std::string{id} + " at server " +
                             std::to_string(which) + " run out"};
  }
}

/// What believes itself valid is on a majority; is told when a majority has said no; and is never valid again when
/// another has been granted.
void quorum_world::judge_holds() {
  for (std::size_t i = 0; i < locks_.size(); ++i) {
    for (quorum_hold* h : locks_[i].active) {
      quorum_client const& c = *h->client;
      if (h->told || !c.alive) continue;
      told_in_time(*h);
      if (forgot || c.local() >= h->deadline()) continue;
      auto const whose = [&] {
        return "client " + std::to_string(c.number) + " believes that it has lock " + std::to_string(i);
      };
      if (h->superseded) throw violation{9, whose() + " again, and another has been granted it since"};
      nanos const until = c.true_time(h->deadline());
      std::size_t const on = servers_where(static_cast<int>(i), h->granted_at, [&](server& s, seen_lock const& vote) {
        // Redis counts expiry in milliseconds.
        nanos const left = (vote.ends_ms + 1) * millisecond - clock_us(s) * microsecond;
        return is_vote_of(*h, vote.owner) && now_ + left - left * s.ppm / 1'000'000 >= until;
      });
      if (on < needed)
        throw violation{3, whose() + ", and only " + std::to_string(on) + " servers give it to him for so long"};
    }
  }
}

/// What each server has of the lock, by its own store. A server that has lost everything since then is believed to have
/// had it.
std::size_t quorum_world::servers_where(int name, nanos since,
                                        std::function<bool(server&, seen_lock const&)> const& holds) {
  return static_cast<std::size_t>(std::count_if(servers_.begin(), servers_.end(), [&](auto const& s) {
    if (s->emptied_at >= since - lease) return true;
    set_clock(*s);
    return holds(*s, look(*s, name));
  }));
}

/// P2, by the servers' own stores: a fence is no less than what a majority has given with its votes, and where fences
/// are strict a majority keeps it, so that each later majority gives a greater one.
void quorum_world::judge_fence(quorum_hold const& h) {
  if (forgot || h.fence % engine::hand_offs_per_grant != 0) return;
  std::int64_t const fence = h.fence / engine::hand_offs_per_grant;
  auto const who = [&] {
    return "client " + std::to_string(h.client->number) + " is granted lock " + std::to_string(h.name);
  };
  std::size_t const with_no_more = servers_where(h.name, h.granted_at, [&](server&, seen_lock const& vote) {
    return is_vote_of(h, vote.owner) && vote.fence <= fence;
  });
  if (with_no_more < needed) throw violation{2, who() + " with a fence below those of its votes"};
  if (!strict) return;
  std::size_t const kept = servers_where(h.name, h.granted_at, [&](server&, seen_lock const& vote) {
    return std::max(vote.fence, vote.kept_fence) >= fence;
  });
  if (kept < needed)
    throw violation{2, who() + " with a fence that is kept by " + std::to_string(kept) + " servers only"};
}

/// P6: what is given back, or was asked for in vain, is gone from every server that is well, and soon.
void quorum_world::given_up(quorum_hold const& h) {
  quorum_client& c = *h.client;
  if (no_kill || !c.alive || h.lock == nullptr) return;
  std::int64_t const ticket = h.ticket != 0 ? h.ticket : c.owner->ticket_of(*h.lock->place);
  if (ticket == 0) return;
  id_text const votes{c.id + "." + std::to_string(ticket)};
  nanos const soon = 4 * (latency + jitter + spike + slowest()) + 60 * millisecond;
  // Another coroutine may go on with the same votes: then they are given up when it ends.
  after(0, [this, &c, votes, soon, name = h.name, mine = c.process] {
    if (!c.alive || c.process != mine || goes_on(c, name, votes)) return;
    after(soon, [this, &c, votes, name, mine, since = now_] {
      if (c.alive && c.process == mine) nothing_left_of(c, name, votes, since);
    });
  });
}

bool quorum_world::goes_on(quorum_client& c, int name, id_text const& votes) {
  engine::place* const place = c.cohort->find(name_of(name));
  return place != nullptr && place->state != engine::place_state::idle &&
         c.id + "." + std::to_string(c.owner->ticket_of(*place)) == std::string_view{votes};
}

void quorum_world::nothing_left_of(quorum_client& c, int name, id_text const& votes, nanos since) {
  std::string const& key = keys_[static_cast<std::size_t>(name)];
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    server& s = *servers_[i];
    if (!well(c, static_cast<int>(i), since)) continue;
    auto const is_one_of = [](std::vector<id_text> const& all, std::string_view id) {
      return std::find(all.begin(), all.end(), id_text{id}) != all.end();
    };
    auto const is_left = [&](std::string_view id) {
      return id.starts_with(votes) && !is_one_of(s.denied, id) && !is_one_of(s.put_off, id) &&
             !is_one_of(s.patient, id);
    };
    set_clock(s);
    seen_lock const lock = look(s, name);
    if (is_left(lock.owner))
      throw violation{
          6, "server " + std::to_string(i) + " still has the vote " + std::string{lock.owner} + ", which was given up"};
    for (value const& item : s.model.peek(key + ":q").items) {
      if (is_left(item.items[0].text))
        throw violation{
            6, "server " + std::to_string(i) + " still has in line " + item.items[0].text + ", which was given up"};
    }
  }
}

/// While one client has the lock, no vote goes to and fro as fast as the network allows. For one acquire: a server that
/// was paused may receive many at once. Once for each rival a vote is asked for again at once, and then more and more
/// seldom.
void quorum_world::given_back(int which, step const& one) {
  watch& w = locks_[static_cast<std::size_t>(one.name)];
  // By its holder itself: it was leaving that line when the other votes were enough. A vote that comes late is given
  // back, and asked for anew.
  for (quorum_hold* h : w.active) {
    if (is_vote_of(*h, one.id)) h->votes_since[static_cast<std::size_t>(which)] = 0;
  }
  if (w.active.size() != 1 || w.active.front()->client->owns(one.id)) return;
  for (auto const& c : clients_) {
    if (!c->owns(one.id)) continue;
    int const times = ++w.given_back[{which, std::string{vote_of(one.id)}}];
    auto const rivals = std::ssize(clients_) - 1;
    if (times > 8 + rivals + 2 * (now_ - w.active.front()->granted_at) / claim) {
      throw violation{10, "client " + std::to_string(c->number) + " has given the vote of server " +
                              std::to_string(which) + " back " + std::to_string(times) + " times while client " +
                              std::to_string(w.active.front()->client->number) + " has the lock"};
    }
  }
}

/// About a confirmation that found nothing: a client that is told so by enough servers to lose its majority must act on
/// it.
void quorum_world::refused_at(int which, step const& one) {
  for (quorum_hold* h : locks_[static_cast<std::size_t>(one.name)].active) {
    if (!h->client->owns(one.id)) continue;
    auto const at = static_cast<std::size_t>(which);
    if (one.of_now && h->gone_since[at] == 0 && h->votes[at] == one.id) h->gone_since[at] = now_;
    h->refusing.insert(which);
    if (h->refusing.size() + needed <= servers_.size()) continue;
    quorum_client& c = *h->client;
    constexpr nanos heard = 100 * millisecond;
    after(heard, [this, &c, name = one.name, mine = c.process, fence = h->fence, from = now_] {
      auto const& active = locks_[static_cast<std::size_t>(name)].active;
      auto const still = std::find_if(active.begin(), active.end(), [&](quorum_hold* other) {
        return other->client == &c && other->fence == fence && !other->told;
      });
      if (still == active.end() || c.process != mine || c.paused || c.disturbed >= from) return;
      if ((*still)->refusing.size() + needed <= servers_.size()) return;
      for (int one_of : (*still)->refusing) {
        if (servers_[static_cast<std::size_t>(one_of)]->disturbed >= from || !linked(c.number, one_of, from)) return;
      }
      throw violation{
          9, "client " + std::to_string(c.number) + " has not been told of its loss, and a majority has said so"};
    });
  }
}

void quorum_world::confirmed_at(int which, step const& one, nanos heard) {
  for (quorum_hold* h : locks_[static_cast<std::size_t>(one.name)].active) {
    if (is_vote_of(*h, one.id)) h->confirmations[static_cast<std::size_t>(which)].push_back({now_, heard});
  }
}

/// A vote that has just been given. A free vote is claimed, and no longer: a client that dies with a minority is not
/// waited for like a holder. A holder asks for what a server has forgotten only when a majority has confirmed the hold
/// since, or it would not learn that it has lost it; and for as long as it holds the lock.
void quorum_world::asked_for(int which, step const& one, seen_lock const& is) {
  if (!one.acquires || is.owner != one.id || one.was.owner == one.id) return;
  watch const& w = locks_[static_cast<std::size_t>(one.name)];
  std::string_view const id = one.id;
  bool const was_held =
      std::any_of(w.granted.begin(), w.granted.end(), [&](std::string const& votes) { return id.starts_with(votes); });
  if (!was_held && one.lease > claim / millisecond) {
    throw violation{4, std::string{id} + " has the vote of server " + std::to_string(which) + " for " +
                           std::to_string(one.lease) + " ms, and is not a hold"};
  }
  for (quorum_hold const* h : w.active) {
    nanos const gone = h->gone_since[static_cast<std::size_t>(which)];
    if (h->told || gone == 0 || !one.tries || !is_vote_of(*h, id)) continue;
    auto const is_since = [&](quorum_hold::word const& of) { return of.said >= gone && of.heard + latency <= now_; };
    auto const sure =
        static_cast<std::size_t>(std::count_if(h->confirmations.begin(), h->confirmations.end(), [&](auto const& all) {
          return std::any_of(all.begin(), all.end(), is_since);
        }));
    if (sure < needed) {
      throw violation{9, "client " + std::to_string(h->client->number) + " asks server " + std::to_string(which) +
                             ", which has forgotten lock " + std::to_string(one.name) + ", for it again, and " +
                             std::to_string(sure) + " servers have confirmed it since"};
    }
    if (duration{one.lease * millisecond} < h->least_lease) {
      throw violation{4, "client " + std::to_string(h->client->number) + " asks server " + std::to_string(which) +
                             " again for its lock, for " + std::to_string(one.lease) + " ms only"};
    }
  }
}

/// Since before then.
bool quorum_world::linked(int client, int which, nanos since) const {
  return std::any_of(links_.begin(), links_.end(), [&](link_ptr const& l) {
    return l->server == which && l->client == client && l->client_open && l->server_open && !l->cut && !l->deaf &&
           l->up_since != 0 && l->up_since < since && l->held_up_until <= since;
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
      one.tries = one.acquires && rest[1] == "try";
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
    if (is.owner != one.was.owner || is.state != one.was.state || is.ends_ms != one.was.ends_ms ||
        is.fence != one.was.fence) {
      throw violation{7, says(one.id, " has changed the vote of " + std::string{one.was.owner})};
    }
  }
  if (one.confirms && one.was.owner.empty() && !is.owner.empty())
    throw violation{7, "a confirmation of " + says(one.id, " has made a vote")};
  if (one.confirms && mine) {
    std::int64_t const least = std::max(one.was.ends_ms, clock_us(s) / 1000 + one.lease);
    if (is.owner != one.id || is.state != 'h' || is.ends_ms < least)
      throw violation{3, says(one.id, " is confirmed, and does not have its lease")};
  }
  if (one.of_now) asked_for(which, one, is);
  bool const stayed = one.stays && mine;  // that is not a release
  if (!one.acquires && !stayed && is.kept_fence < one.floor)
    throw violation{2, says({}, "a fence of " + std::to_string(one.floor) + " was told, and is not kept")};
  if (!is.owner.empty() && is.owner != one.was.owner &&
      is.fence <= std::max({one.was.kept_fence, one.was.fence, one.floor})) {
    throw violation{2, says(is.owner, " has a fence that is not above all before it")};
  }
  bool const not_done = is.owner == one.id;  // a patient release: the first in line is not there yet
  if (one.releases && not_done) s.patient.push_back(one.id);
  if (one.releases && mine && !one.stays && !not_done) given_back(which, one);
  if (!too_late && one.confirms && reply.items[2 * one.index + 1].integer == 0) refused_at(which, one);
  for (quorum_hold* h : locks_[static_cast<std::size_t>(one.name)].active) {
    if (!h->client->owns(is.owner)) continue;
    h->refusing.erase(which);
    if (!is_vote_of(*h, is.owner) || one.id != is.owner) continue;
    h->gone_since[static_cast<std::size_t>(which)] = 0;
    h->votes[static_cast<std::size_t>(which)] = one.id;
    has_vote(*h, which);
  }
  if (one.releases && mine && !one.stays) {
    seen_lock const& before = s.locks[static_cast<std::size_t>(one.name)];
    for (release_watch& r : locks_[static_cast<std::size_t>(one.name)].releases) {
      if (!std::string_view{one.id}.starts_with(r.votes) || one.floor < r.fence) continue;
      // One of its places in line may only have been granted by that release; or shortly before, and nobody had told
      // the client.
      nanos const granted = before.owner == one.id ? before.since : 0;
      if (granted <= r.since) r.mine |= 1U << which;
      // (A client that is told late, as after a pause, asks the server whether an old push is still true.)
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
