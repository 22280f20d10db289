// Locks with several owners, as the server has them: what each script has done to one.
#include "servers/redis/codec.hpp"
#include "sim/judges/permits_observer.hpp"
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/words.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <sstream>
#include <tuple>

namespace conch::sim {

permits_observer::permits_state permits_observer::look_at(int name) const {
  std::string const& key = keys_[static_cast<std::size_t>(name)];
  keys_of_lock const keys = world_.keys_of(name);
  redis_model const& model = keys.with(key);
  permits_state s;
  value const hash = model.peek(key);
  s.there = hash.is(value::kind::map);
  s.readable = s.there || hash.is(value::kind::nil);
  if (s.there && !model.expires_at_ms(key)) throw violation{6, lock_words(name) + " has no end"};
  for (std::size_t i = 0; i + 1 < hash.items.size(); i += 2) {
    std::string const& field = hash.items[i].text;
    std::string const& text = hash.items[i + 1].text;
    std::istringstream in{text};
    if (field == "sums") {
      std::string kind, set, first_end;
      in >> kind >> s.limit >> s.used >> first_end >> set >> s.map;
      s.first_end = number(first_end);
      s.indexed = first_end.size() > 1 && first_end.front() == '0';
    }
    if (field == "walked") s.walked = number(text);
    if (field.find('.') == std::string::npos) continue;
    owner o;
    in >> o.weight >> o.fence >> o.state >> o.ends_us >> o.segment;
    s.owners.emplace(field, o);
  }
  value const ends = keys.with(key + ":e").peek(key + ":e");
  for (value const& item : ends.items)
    s.ends.emplace(item.items[0].text, static_cast<std::int64_t>(std::stod(item.items[1].text)));
  value const line = keys.with(key + ":q").peek(key + ":q");
  for (value const& item : line.items) {
    waiter w;
    std::istringstream in{item.items[0].text};
    in >> w.id >> w.weight >> w.visited;
    w.ticket = static_cast<std::int64_t>(std::stod(item.items[1].text));
    s.line.push_back(std::move(w));
  }
  value const fence = keys.with(key + ":f").peek(key + ":f");
  if (fence.is(value::kind::bulk)) s.kept_fence = number(fence.text);
  return s;
}

bool permits_observer::fits(permits_state const& is, waiter const& w) const {
  std::int64_t const limit = is.there ? is.limit : plan_.limit;
  if (plan_.permits == engine::permit_kind::reentrant) return is.used == 0 || is.map == w.visited;
  if (plan_.permits != engine::permit_kind::segments)
    return is.used < limit && is.used + std::min(w.weight, limit) <= limit;
  for (std::int64_t segment = 1; segment <= limit; ++segment) {
    bool const free = !is.there || is.map[static_cast<std::size_t>(segment - 1)] == '0';
    if (free && w.visited.find("," + std::to_string(segment) + ",") == std::string::npos) return true;
  }
  return false;
}

void permits_observer::before(std::span<std::string_view const> argv, link const* by) {
  permit_steps_.clear();
  by_ = by;
  std::string_view const what = script_name(argv[1]);
  auto const keys = static_cast<std::size_t>(number(argv[2]));
  auto const rest = argv.subspan(3 + keys);
  bool const renews = what == "permit_renew";
  // of those that keep fences each lock has four keys
  std::size_t const renewed = renews && rest.size() != 2 * keys ? keys / 4 : keys;
  for (std::size_t i = 0; i < (renews ? renewed : 1); ++i) {
    permit_step s;
    s.name = named(argv[3 + i]);
    if (s.name < 0) continue;
    s.index = i;
    s.id = rest[renews ? 2 * i : 0];
    if (auto const blank = s.id.find(' '); renews && blank != std::string::npos) {
      s.fence = number(std::string_view{s.id}.substr(blank + 1));
      s.id.resize(blank);
    }
    s.acquires = what == "permit_acquire";
    s.releases = what == "permit_release";
    s.adopts = what == "permit_adopt";
    s.lease = number(rest[renews ? 2 * i + 1 : s.adopts ? 1 : 2]);
    bool const asks = s.acquires || s.releases;
    if (asks) s.claim = number(rest[3]);
    if (s.adopts) s.origin = rest[4];
    if (s.acquires) {
      s.waits = rest[1].starts_with("wait");
      s.ticket = number(rest[5]);
      s.me = {s.id, std::string{rest[10]}, number(rest[9]), s.ticket};
    } else if (s.releases) {
      s.keep = rest[1].starts_with('1');
      s.knows_limit = rest[6] != "0";
      s.rest = number(rest[9]);
    }
    if (asks) s.patient = rest[1].ends_with('!');
    s.was = look_at(s.name);
    judge_hand_overs(s);
    judge_free_line(s);
    permit_watch& w = watches_[static_cast<std::size_t>(s.name)];
    if (asks && w.left) judge_left_over(s.name, *std::exchange(w.left, {}));
    permit_steps_.push_back(std::move(s));
  }
}

void permits_observer::after(std::span<std::string_view const>, value const& reply) {
  if (reply.is_error() && reply.error_code() != "NOSCRIPT") refused();
  for (permit_step const& s : permit_steps_) {
    permits_state const is = look_at(s.name);
    bool const renews = !s.acquires && !s.releases && !s.adopts;
    if (renews && !s.was.readable && !reply.is_error() && reply.items[s.index + 1].integer == -1) {
      throw violation{
          9, "the owner of a permit of " + lock_words(s.name) + " was not told that its key holds something else"};
    }
    bool const has_it = s.was.owners.contains(s.id) && s.was.owners.at(s.id).ends_us > world_.server_us(world_.now());
    bool const not_renewed = renews && !reply.is_error() && has_it && reply.items[s.index + 1].integer == -1;
    if (!s.acquires && s.was.readable) needs_no_memory(reply, not_renewed, s.id);
    if (!is.readable) continue;
    judge_sums(s, is);
    judge_owners(s, is);
    watch_hand_over(s, is, by_);
    note_moves(s, is);
    if (s.adopts) judge_adoption(s, is, reply);
    if (reply.is_error() || s.adopts) continue;
    if (told_of_more(s.acquires, s.releases, reply)) {
      ++told_of_more_;
      // Or the client would ask again without end. To be queued is a result: with an old ticket others are looked at
      // anew.
      bool const same =
          is.line == s.was.line && is.owners == s.was.owners && is.ends == s.was.ends && is.walked == s.was.walked;
      if (same)
        throw violation{10, "a script of " + s.id + " has left something to do for " + lock_words(s.name) +
                                ", and has done nothing"};
      if (!is.line.empty() || s.acquires) watches_[static_cast<std::size_t>(s.name)].left = left_by(s.id, by_);
    }
    judge_answer(s, is, reply);
    if (s.acquires || s.releases) judge_places(s, is, reply);
  }
}

// P1 as the server has it: the permits together never exceed the limit, no segment has two owners, no reader is beside
// a writer (whose permit is everything); and the sums that the scripts keep are those of the owners.
void permits_observer::judge_sums(permit_step const& s, permits_state const& is) {
  int const name = s.name;
  std::int64_t taken = 0;
  std::map<std::int64_t, std::string> segments;
  std::int64_t const now = world_.server_us(world_.now());
  for (auto const& [id, o] : is.owners) {
    taken += o.weight;
    if (o.ends_us < is.first_end)
      throw violation{4, "the end of the permit of " + id + " would not be noticed in time"};
    if (is.indexed && !is.ends.empty()) {
      auto const known = is.ends.find(id);
      if (known == is.ends.end() || known->second > o.ends_us)
        throw violation{4, "the end of the permit of " + id + " is not among the ends"};
    }
    if (o.segment == 0) continue;
    auto const [place, is_new] = segments.emplace(o.segment, id);
    if (!is_new)
      throw violation{1, lock_words(name) + ": segment " + std::to_string(o.segment) + " has two owners, " +
                             place->second + " and " + id};
    if (is.map[static_cast<std::size_t>(o.segment - 1)] != '1')
      throw violation{1, "a segment with an owner counts as free"};
  }
  (void)now;
  // A lowered limit takes nothing from owners, but no client gets more.
  auto const is_new = [&](auto const& one) {
    if (s.adopts && one.first == s.id) return false;
    auto const before = s.was.owners.find(one.first);
    return before == s.was.owners.end() || before->second.fence != one.second.fence;
  };
  bool const lowered =
      plan_.permits == engine::permit_kind::semaphore && std::none_of(is.owners.begin(), is.owners.end(), is_new);
  if (taken > is.limit && !lowered)
    throw violation{
        1, lock_words(name) + ": " + std::to_string(taken) + " of " + std::to_string(is.limit) + " are given out"};
  permit_watch& w = watches_[static_cast<std::size_t>(name)];
  if (!s.was.there) w.limit_set = 0;  // nobody has come for its retention
  if (w.limit_set != 0 && is.limit != w.limit_set)
    throw violation{8, "the limit that was set for " + lock_words(name) + " is forgotten"};
  if (taken != is.used)
    throw violation{6, lock_words(name) + ": " + std::to_string(taken) + " are given out, " + std::to_string(is.used) +
                           " are counted"};
  if (plan_.permits == engine::permit_kind::reentrant) {
    if (is.map.empty() && !is.owners.empty())
      throw violation{4, "for whom " + lock_words(name) + " is held is not written down"};
    return;
  }
  auto const marked = static_cast<std::size_t>(std::count(is.map.begin(), is.map.end(), '1'));
  if (marked != segments.size()) throw violation{6, lock_words(name) + " has a segment that is taken and has no owner"};
}

// P2, P5, P7, P8: an owner of a permit keeps it unless it gives it back or its lease ends; a new one has a greater
// fence and overtook nobody.
void permits_observer::judge_owners(permit_step const& s, permits_state const& is) {
  permit_watch& w = watches_[static_cast<std::size_t>(s.name)];
  std::int64_t const now = world_.server_us(world_.now());
  std::string const script = "a script of " + s.id;
  for (auto const& [id, o] : s.was.owners) {
    auto const still = is.owners.find(id);
    if (still == is.owners.end()) {
      bool const adopted = s.adopts && s.origin == id + " " + std::to_string(o.fence) && is.owners.contains(s.id);
      bool const may = (s.releases && !s.keep && s.rest == 0 && s.id == id) || adopted || o.ends_us <= now;
      if (!may) throw violation{7, script + " took the permit of " + id};
      continue;
    }
    owner const& is_now = still->second;
    // Over, and granted anew. At the end of all numbers, where an operator has put it, the fence stays what it is.
    bool const no_greater = s.acquires && is_now.fence == o.fence && o.fence >= protocol::fence_limit;
    if (o.ends_us <= now && (is_now.fence > o.fence || no_greater)) continue;
    bool const weakened = s.releases && s.id == id && s.rest != 0 && is_now.weight == std::min(o.weight, s.rest);
    if (is_now.fence != o.fence || is_now.segment != o.segment || (is_now.weight != o.weight && !weakened)) {
      throw violation{8, script + " changed the permit of " + id};
    }
    if (is_now.ends_us < o.ends_us) throw violation{8, script + " shortened the lease of " + id};
    if (is_now.state == 'c' && o.state == 'h') throw violation{8, script + " made a hold a claim"};
    if (o.ends_us <= now && is_now.ends_us > now) throw violation{7, script + " prolonged what was over, of " + id};
  }
  std::int64_t highest = w.highest_written;
  for (auto const& [id, o] : is.owners) {
    auto const earlier_permit = s.was.owners.find(id);
    if (earlier_permit != s.was.owners.end() && earlier_permit->second.fence == o.fence) continue;
    std::string const who = id + " became an owner";
    if (s.adopts && id == s.id) {
      auto const from = s.was.owners.find(s.origin.substr(0, s.origin.find(' ')));
      bool const same = from != s.was.owners.end() && from->second.ends_us > now &&
                        s.origin == from->first + " " + std::to_string(o.fence) && from->second.fence == o.fence &&
                        from->second.weight == o.weight && from->second.segment == o.segment;
      if (!same) throw violation{7, who + " by taking over what was not there"};
      continue;
    }
    ++granted_;
    if (o.state == 'c') ++claimed_;
    if (!s.acquires && !s.releases) throw violation{7, who + " by a renewal"};
    bool const spoilt = o.fence >= protocol::fence_limit;  // its client gives it back
    if (!fence_spoilt_once(s.name) && o.fence <= w.highest_written)
      throw violation{2,
                      who + " with fence " + std::to_string(o.fence) + ", after " + std::to_string(w.highest_written)};
    if (!spoilt) highest = std::max(highest, o.fence);
    if (o.state == 'h' && id != s.id) throw violation{4, who + " as a holder, and was not told by an answer"};
    if (o.state == 'c' && !is_told(id, s.name, s.releases && s.was.owners.contains(s.id)))
      throw violation{4, who + ", but nobody was told"};
    if (o.state == 'c' && o.ends_us > now + s.claim * 1000)
      throw violation{4, who + " by a claim that lasts longer than asked for"};
    // Nobody who waited before it waits still, unless he wants none of what was free.
    auto const place =
        std::find_if(s.was.line.begin(), s.was.line.end(), [&, mine = id](waiter const& x) { return x.id == mine; });
    for (waiter const& earlier : is.line) {
      bool const before = place == s.was.line.end() ? earlier.id != id : earlier.ticket < place->ticket;
      bool const was_there =
          std::any_of(s.was.line.begin(), s.was.line.end(), [&](waiter const& x) { return x.id == earlier.id; });
      bool const shown =
          s.acquires && id == s.id && s.ticket != 0 && std::tie(s.ticket, id) < std::tie(earlier.ticket, earlier.id);
      if (!before || !was_there || shown || (receivers(earlier.id, s.name) == 0 && !comes_back(earlier.id))) continue;
      // A client that already owns it does not wait behind its own waiters; the first to own it must have been first.
      bool const reentrant = plan_.permits == engine::permit_kind::reentrant;
      bool const first = !fence_spoilt_once(s.name) &&
                         std::all_of(is.owners.begin(), is.owners.end(),
                                     [&, mine = o.fence](auto const& x) { return x.second.fence >= mine; });
      bool const wanted = reentrant ? earlier.visited == is.map || first
                                    : o.segment == 0 || earlier.visited.find("," + std::to_string(o.segment) + ",") ==
                                                            std::string::npos;
      if (wanted) throw violation{5, who + ", before " + earlier.id + ", which was queued earlier"};
    }
    if (o.segment != 0 && place != s.was.line.end() &&
        place->visited.find("," + std::to_string(o.segment) + ",") != std::string::npos) {
      throw violation{8, who + " of segment " + std::to_string(o.segment) + ", which it did not want"};
    }
  }
  w.highest_written = highest;
  // what an operator wrote may not be a number, or be the same one twice
  bool const meddled = fence_spoilt_once(s.name);
  if (!meddled && is.kept_fence < highest && is.kept_fence != 0 && w.disowned < highest &&
      is.owners.size() > s.was.owners.size()) {
    throw violation{2, "the fence of " + lock_words(s.name) + " is not kept"};
  }
  std::set<std::int64_t> fences;
  for (auto const& [id, o] : is.owners) {
    if (!fences.insert(o.fence).second && !meddled)
      throw violation{2, "two owners of " + lock_words(s.name) + " have the same fence"};
  }
}

// P4, P5: a queued client stays queued, at its place, and not when there is enough for it.
void permits_observer::judge_places(permit_step const& s, permits_state const& is, value const& reply) const {
  auto const find = [](permits_state const& l, std::string const& id) {
    return std::find_if(l.line.begin(), l.line.end(), [&](waiter const& x) { return x.id == id; });
  };
  bool const too_late = s.acquires && !reply.items.empty() && reply.items[0].integer == 3;
  for (waiter const& x : s.was.line) {
    auto const still = find(is, x.id);
    if (still == is.line.end()) {
      bool const left = (s.releases && x.id == s.id) || is.owners.contains(x.id) || receivers(x.id, s.name) == 0;
      if (!left) throw violation{4, x.id + " was forgotten in the line"};
      if (receivers(x.id, s.name) == 0 && !(s.releases && x.id == s.id) && !is.owners.contains(x.id))
        passed_over(x.id, s.name);
    } else if (still->ticket != x.ticket) {
      // The earlier of two places counts: a late request may have taken one at the end.
      bool const shown =
          s.acquires && x.id == s.id && s.ticket != 0 && still->ticket == s.ticket && s.ticket < x.ticket;
      if (!shown) throw violation{5, x.id + " had its ticket changed"};
    }
  }
  // A forged grant is given back as what it claimed to be, which need not be what is queued.
  bool const as_forged = misdescribed_.contains(std::string{s.id});
  // So is a grant that nobody waits for any more. What was asked for under its id may be in line again after a failover
  // that lost that it was granted.
  bool const as_pushed = !s.knows_limit && plan_.has({fault_plan::kind::failover});
  if (s.releases && !as_forged && !as_pushed && find(is, s.id) != is.line.end())
    throw violation{6, s.id + " has left and is still queued"};
  for (waiter const& x : is.line) {
    if (find(s.was, x.id) != s.was.line.end()) continue;
    if (!s.acquires || x.id != s.id) throw violation{7, "a script put " + x.id + " in the queue, which did not ask"};
    if (!s.waits) throw violation{10, "a try of " + x.id + " is queued"};
    if (s.ticket == 0 && x.id != is.line.back().id) throw violation{5, x.id + " came last and does not stand last"};
    if (s.ticket != 0 && x.ticket != s.ticket) throw violation{5, x.id + " lost its place in line"};
  }
  // A head that is too large to get its turn soon must not keep the others from theirs when it is dead: a client that
  // asks again finds out.
  bool const asked_again =
      s.acquires && s.ticket != 0 && !too_late && !reply.items.empty() && reply.items[0].integer == 0;
  bool const same_head = !is.line.empty() && !s.was.line.empty() && is.line.front().id == s.was.line.front().id;
  // The patient script awaits it: it may not have come back yet.
  if (asked_again && !s.patient && same_head && is.line.front().id != s.id &&
      receivers(is.line.front().id, s.name) == 0) {
    throw violation{
        4, s.id + " asked again behind " + is.line.front().id + ", of which nobody hears, and it is in line still"};
  }
  // A client that gives back a grant that it did not want knows no limit, and if no permit is owned neither does the
  // server: those in line then ask by themselves.
  bool const unknown = !s.knows_limit && !is.there;
  // A patient script grants nothing while one is awaited.
  bool const awaits = s.patient && std::any_of(is.line.begin(), is.line.end(),
                                               [&](waiter const& x) { return receivers(x.id, s.name) == 0; });
  bool const unfinished = told_of_more(s.acquires, s.releases, reply);
  if (!too_late && !unknown && !awaits && !unfinished) judge_line(s.name, is);
}

void permits_observer::judge_line(int name, permits_state const& is) const {
  bool const in_order = plan_.permits == engine::permit_kind::semaphore || plan_.permits == engine::permit_kind::shared;
  for (waiter const& x : is.line) {
    if (fits(is, x)) throw violation{4, "there is enough for " + x.id + ", which is queued for " + lock_words(name)};
    if (in_order) break;
  }
}

// P4, as observer::judge_free_line: dead owners cost their own leases and a claim.
void permits_observer::judge_free_line(permit_step const& s) {
  permits_state const& last = watches_[static_cast<std::size_t>(s.name)].last;
  if (!plan_.leases_differ || s.was.line.empty() || last.owners.empty()) return;
  std::int64_t ended_us = 0;
  for (auto const& [id, o] : last.owners) ended_us = std::max(ended_us, o.ends_us);
  if (ended_us > world_.server_us(world_.now())) return;
  std::vector<std::string> ids;
  for (waiter const& x : s.was.line) ids.push_back(x.id);
  nobody_asked_in_time(s.name, ended_us / 1000, ids);
}

// P4: however many next in the queue are dead, each costs at most its claim, if the client that passed a permit on to
// it is well.
void permits_observer::judge_hand_overs(permit_step const& s) {
  permit_watch& w = watches_[static_cast<std::size_t>(s.name)];
  if (w.passed.empty() || s.was.line.empty()) return;
  // What the expired leases free, the earliest first: which of them makes room for a queued client?
  std::int64_t const now = world_.server_us(world_.now());
  // The hash is gone when all of its owners' leases have ended.
  permits_state left = s.was.there ? s.was : w.last;
  left.line = s.was.line;
  std::vector<std::pair<std::int64_t, std::string>> over;
  for (auto const& [id, o] : left.owners) {
    if (o.ends_us <= now) over.emplace_back(o.ends_us, id);
  }
  std::sort(over.begin(), over.end());
  for (auto const& [ends, id] : over) {
    owner const o = left.owners.at(id);
    left.owners.erase(id);
    left.used -= o.weight;
    if (o.segment != 0) left.map[static_cast<std::size_t>(o.segment - 1)] = '0';
    bool const in_order =
        plan_.permits == engine::permit_kind::semaphore || plan_.permits == engine::permit_kind::shared;
    auto const last = in_order ? std::next(left.line.begin()) : left.line.end();
    if (std::none_of(left.line.begin(), last, [&](waiter const& x) { return fits(left, x); })) continue;
    for (hand_over const& p : w.passed) {
      if (std::find(p.heirs.begin(), p.heirs.end(), id) == p.heirs.end() || !undisturbed(p.by, p.at)) continue;
      for (auto const& c : world_.clients()) {
        if (c->id() != p.from || !looks_after(*c, p.at)) continue;
        nanos const freed = world_.true_time_of_server_ms(ends / 1000);
        if (world_.now() - freed > patience_with(*c)) {
          throw violation{4, lock_words(s.name) + " was left alone for " +
                                 std::to_string((world_.now() - freed) / millisecond) + " ms after its next in line, " +
                                 id + ", did not take it"};
        }
      }
    }
    return;
  }
}

void permits_observer::watch_hand_over(permit_step const& s, permits_state const& is, link const* by) {
  permit_watch& w = watches_[static_cast<std::size_t>(s.name)];
  for (hand_over& p : w.passed) {
    std::erase_if(p.heirs, [&](std::string const& id) {
      auto const at = is.owners.find(id);
      return at == is.owners.end() || at->second.state == 'h';
    });
  }
  std::erase_if(w.passed, [](hand_over const& p) { return p.heirs.empty(); });
  w.last = is;
  std::int64_t last_end = is.owners.empty() && !s.was.owners.empty() ? world_.server_us(world_.now()) : 0;
  for (auto const& [id, o] : is.owners) last_end = std::max(last_end, o.ends_us);
  if (last_end != 0) w.kept_until_ms = last_end / 1000 + least_kept_ms();
  hand_over passed{{}, std::string{client_of(s.id)}, world_.now(), {}};
  for (auto const& [id, o] : is.owners) {
    if (o.state == 'c' && id != s.id && !s.was.owners.contains(id)) passed.heirs.push_back(id);
  }
  // Another client that was granted it holds it now, and was told nothing of the others.
  bool const granted = s.acquires && is.owners.contains(s.id);
  if (passed.heirs.empty() || is.line.empty() || granted || by == nullptr) return;
  for (auto const& c : world_.clients()) {
    if (!c->alive() || c->id() != passed.from || by == nullptr || !c->has(*by)) continue;
    passed.by = c->shared(*by);
    w.passed.push_back(passed);
  }
}

// As observer::judge_adoption; that the permit stays what it was judge_owners has seen.
void permits_observer::judge_adoption(permit_step const& s, permits_state const& is, value const& reply) {
  std::string const who = s.id + ", which takes over what " + s.origin + " has let go,";
  if (is.line != s.was.line) throw violation{7, who + " changed the line"};
  std::int64_t const now = world_.server_us(world_.now());
  auto const from = s.was.owners.find(s.origin.substr(0, s.origin.find(' ')));
  bool const was_there = from != s.was.owners.end() && from->second.ends_us > now &&
                         s.origin == from->first + " " + std::to_string(from->second.fence);
  if (reply.is_error()) return;
  std::int64_t const told = reply.items[0].integer;
  if (told == 2 && was_there) throw violation{11, who + " was told that it is gone, which it was not"};
  auto const mine = is.owners.find(s.id);
  if (told != 1) {
    if (is.owners != s.was.owners)
      throw violation{7, who + " was told that it has nothing, and has changed " + lock_words(s.name)};
    return;
  }
  if (mine == is.owners.end()) throw violation{3, who + " was told that it has it, which it has not"};
  if (mine->second.state != 'h') throw violation{3, who + " is written down as a claim"};
  if (mine->second.ends_us < now + s.lease * 1000) throw violation{3, who + " has it, but not for its lease"};
  if (!fence_spoilt_once(s.name) && is.kept_fence < mine->second.fence)
    throw violation{2, who + " does not keep the fence"};
  only_one_adopts(s.origin, s.id, who);
  for (sim_acquisition const* a : watches_[static_cast<std::size_t>(s.name)].active) {
    if (believed(*a) && !disowned(*a) &&
        owner_id(*a) + " " + std::to_string(a->fence / engine::hand_offs_per_grant) == s.origin)
      throw violation{1, who + " has it, while that one still believes it has"};
  }
}

// A client that is told to own a permit has it, as a hold, for its whole lease.
void permits_observer::judge_answer(permit_step const& s, permits_state const& is, value const& reply) {
  auto const told = reply.items[s.acquires || s.releases ? 0 : s.index + 1].integer;
  std::int64_t const now = world_.server_us(world_.now());
  bool const yes = s.acquires || !s.releases ? told == 1 : s.keep && told == 2;
  auto const mine = is.owners.find(s.id);
  if (yes) {
    std::string const who = s.id + " was told that it owns a permit of " + lock_words(s.name);
    if (mine == is.owners.end()) throw violation{3, who + ", which it does not"};
    if (mine->second.state != 'h') throw violation{3, who + ", which is written down as a claim"};
    if (mine->second.ends_us < now + s.lease * 1000) throw violation{3, who + ", but not for its lease"};
    if (s.acquires && s.me.weight == 0) {
      if (reply.items[3].integer != mine->second.weight) throw violation{8, who + ", but not how much"};
      bool const had_it = s.was.owners.contains(s.id);
      if (!had_it && is.used < is.limit)
        throw violation{8, s.id + " asked for all that is free of " + lock_words(s.name) + ", and there is more"};
    }
  }
  bool const in_order = plan_.permits == engine::permit_kind::semaphore || plan_.permits == engine::permit_kind::shared;
  bool const not_done = s.patient && s.releases && told == 3;
  if (not_done && mine == is.owners.end()) throw violation{7, s.id + " was told to release again, and it owns nothing"};
  if (not_done) return;
  if (s.acquires && told == 2) told_busy(s.name, s.id);
  if (s.acquires && told == 2 && !s.patient && (is.line.empty() || !in_order) && fits(is, s.me)) {
    throw violation{4, "a try of " + s.id + " was told that " + lock_words(s.name) + " is busy, and there is enough"};
  }
  auto const before = s.was.owners.find(s.id);
  bool const owned = before != s.was.owners.end() && before->second.ends_us > now;
  if (s.releases && !s.keep && s.rest == 0) {
    bool const had_left = owned && detached_.contains(s.id + " " + std::to_string(before->second.fence));
    if (had_left && !misdescribed_.contains(s.id)) throw violation{6, s.id + " releases what it has let go"};
    if (mine != is.owners.end()) throw violation{6, s.id + " gave its permit back and still has it"};
    if ((told == 1) != owned) throw violation{7, s.id + " gave its permit back and was told something else"};
    (owned ? released_as_owner_ : released_as_nobody_).insert(s.id);
  }
  if (s.keep && owned && told != 2) throw violation{4, "a leave threw away the permit of " + s.id};
  bool const is_meant = owned && (s.fence == 0 || s.fence == before->second.fence);
  if (!s.acquires && !s.releases && told == 0 && is_meant)
    throw violation{10, s.id + " was told that it owns nothing, which it does"};
}

void permits_observer::first_fence(int name, std::int64_t fence) {
  watches_[static_cast<std::size_t>(name)].highest_written = fence;
}

void permits_observer::data_lost() {
  for (permit_watch& w : watches_) {
    w.disowned = std::max(w.disowned, w.highest_written);
    w.limit_set = 0;
    w.passed.clear();
    history_.disowned(static_cast<int>(&w - watches_.data()), w.disowned, world_.now());
  }
  adopted_.clear();  // where that is forgotten, the origin may be back
}

void permits_observer::fence_spoilt(int name) {
  watches_[static_cast<std::size_t>(name)].highest_written = 0;
  history_.fence_forgotten(name, world_.now());
}

void permits_observer::clock_shows(std::int64_t ms) {
  for (permit_watch& w : watches_) {
    if (w.kept_until_ms == 0 || ms <= w.kept_until_ms) continue;
    w.highest_written = w.kept_until_ms = 0;
    history_.fence_forgotten(static_cast<int>(&w - watches_.data()), world_.now());
  }
}

void permits_observer::lock_tampered(int name) {
  permit_watch& w = watches_[static_cast<std::size_t>(name)];
  w.disowned = std::max(w.disowned, w.highest_written);
  w.passed.clear();
  history_.disowned(name, std::numeric_limits<std::int64_t>::max(), world_.now());  // whatever was in its key
  if (!look_at(name).there) w.limit_set = 0;
}

void permits_observer::ordered(int name) {
  permit_watch& w = watches_[static_cast<std::size_t>(name)];
  for (auto const& [id, o] : look_at(name).owners) w.highest_written = std::max(w.highest_written, o.fence);
}

permits_observer::owner_fences permits_observer::owners_of(int name) const {
  owner_fences ids;
  for (auto const& [id, o] : look_at(name).owners) {
    if (o.ends_us > world_.server_us(world_.now())) ids.emplace(id, o.fence);
  }
  return ids;
}

bool permits_observer::owns(guarded_write const& w) const {
  if (!observer::owns(w)) return false;
  permits_state const is = look_at(w.name);
  return is.owners.at(w.id).weight >= w.least_share;
}

void permits_observer::forced(int name, owner_fences const& owners, std::vector<std::string> const& pushed,
                              bool more_to_do) {
  judge_force(name, owners, pushed);
  if (!owners.empty() && !more_to_do) judge_line(name, look_at(name));
}

std::int64_t permits_observer::limit_set_of(int name) const {
  // nobody has come for its retention
  return look_at(name).there ? watches_[static_cast<std::size_t>(name)].limit_set : 0;
}

void permits_observer::limit_set(int name, std::int64_t limit, bool surely, bool more_to_do) {
  permit_watch& w = watches_[static_cast<std::size_t>(name)];
  w.limit_set = surely ? limit : 0;
  // What failed may have been carried out, and may have been a change.
  std::int64_t const highest =
      surely ? limit : std::max({limit, w.highest_limit, static_cast<std::int64_t>(plan_.limit)}) + greatest_change;
  std::int64_t const lowest = surely ? limit : 1;
  w.highest_limit = std::max(w.highest_limit, highest);
  history_.limited(name, w.highest_limit);
  w.lowest_limit = w.lowest_limit == 0 ? lowest : std::min(w.lowest_limit, lowest);
  if (!surely) return;
  permits_state const is = look_at(name);
  if (is.limit != limit)
    throw violation{8, "the limit of " + lock_words(name) + " was set to " + std::to_string(limit) + " and is another"};
  if (!more_to_do) judge_line(name, is);
}

}  // namespace conch::sim
