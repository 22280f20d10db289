#include "sim/judges/levels_judge.hpp"

#include "sim/worlds/sim_levels.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

using step = engine::owner_levels::step;
using wait_end = engine::owner_levels::wait_end;
using after_exit = engine::owner_levels::after_exit;
using state = sim_level::state;

bool asks(sim_level const& l) { return l.at == state::asking || (l.at == state::in_line && l.called && l.has_turn); }

bool is_valid(sim_hold const& h, time_point now) {
  return h.x->phase == engine::acquisition_phase::holding && !h.given_back && now < h.x->deadline();
}

}  // namespace

bool levels_judge::same_lock(sim_level const& a, sim_level const& b) {
  return &a.by == &b.by && a.lock_number == b.lock_number;
}

std::string levels_judge::words(sim_level const& l) const {
  return "client " + std::to_string(client_.number()) + ": " + l.by.id + ", which wants lock " +
         std::to_string(l.lock_number) + (l.todo.writes ? " to write," : " to read,");
}

/// The hold in which its owner must nest, or none.
sim_hold const* levels_judge::present_hold(sim_level const& l, levels const& all, time_point now) const {
  auto const known = youngest_.find({l.by.number, l.lock_number});
  if (known == youngest_.end()) return nullptr;
  auto const hold = known->second.lock();
  bool const has_level = std::any_of(
      all.begin(), all.end(), [&](sim_level const* other) { return other->at == state::inside && other->in == hold; });
  return hold != nullptr && has_level && is_valid(*hold, now) ? hold.get() : nullptr;
}

void levels_judge::entered(sim_level const& l, engine::owner_levels::entry const& e, levels const& all,
                           time_point now) const {
  bool const shared = world_.schedule().permits == engine::permit_kind::shared;
  sim_hold const* const hold = present_hold(l, all, now);
  bool const writes = hold != nullptr && std::any_of(all.begin(), all.end(), [&](sim_level const* other) {
                        return other->at == state::inside && other->in.get() == hold && other->todo.writes;
                      });
  bool const under_way = std::any_of(all.begin(), all.end(), [&](sim_level const* other) {
    return other != &l && same_lock(*other, l) && asks(*other);
  });
  std::string const who = words(l);
  auto const must = [&](int promise, bool so, char const* what) {
    if (!so) throw violation{promise, who + " " + what};
  };
  if (e.next == step::nests) {
    auto const* const in = static_cast<sim_hold const*>(e.in.get());
    must(1, in != nullptr && in->x->lock_number == l.lock_number && in->x->owner == l.by.id,
         "has a level in a hold of something else");
    must(3, is_valid(*in, now), "has a level in a hold that is lost");
    must(6, hold == in, "has a level in a hold that was to be given back");
    must(1, !l.todo.writes || writes, "is let in, and its owner only reads");
    return;
  }
  if (e.next == step::refused) {
    must(11, hold != nullptr && l.todo.writes && !writes && shared,
         "was told that it would wait for its owner, which does not only read");
    return;
  }
  must(10, hold == nullptr, "does not nest in the hold that its owner has");
  switch (e.next) {
    case step::busy:
      must(11, under_way && l.is_attempt(), "was told that it is busy, and nothing of its owner is under way");
      return;
    case step::waits:
      must(11, !l.is_attempt(), "waits for its owner, and was to wait for nobody");
      must(4, under_way && shared, "waits for its owner, which does not ask");
      return;
    default:
      must(4, !under_way || !shared, "asks beside another acquire of its owner, and may wait for that forever");
      return;
  }
}

void levels_judge::waited(sim_level const& l, wait_end why, time_point now) const {
  if (why == wait_end::timed_out && now < l.until)
    throw violation{11, words(l) + " was told that it is too late, and has time left"};
  if (why == wait_end::is_cancelled && !l.cancelled)
    throw violation{11, words(l) + " was told that it is cancelled, and is not"};
  if (why != wait_end::is_cancelled && l.cancelled) throw violation{4, words(l) + " goes on although it is cancelled"};
}

void levels_judge::granted(sim_level const& l) { youngest_[{l.by.number, l.lock_number}] = l.in; }

void levels_judge::left(sim_level const& l, after_exit after, levels const& all) const {
  std::uint32_t writes = 0, reads = 0;
  for (sim_level const* other : all) {
    if (other->at == state::inside && other->in == l.in) ++(other->todo.writes ? writes : reads);
  }
  bool const last = writes + reads == 0;
  if (last && after != after_exit::release)
    throw violation{6, words(l) + " has left its last level, and keeps the lock"};
  if (!last && after == after_exit::release) throw violation{7, words(l) + " gives back what others of its owner have"};
  if (l.in->writes != writes || l.in->reads != reads) {
    throw violation{11, words(l) + " has left " + std::to_string(writes) + " levels that write and " +
                            std::to_string(reads) + " that read, and " + std::to_string(l.in->writes) + " and " +
                            std::to_string(l.in->reads) + " are counted"};
  }
}

void levels_judge::order_ended(sim_hold const& h, error_code why, engine::reader_order_end const& told, nanos asked_at,
                               time_point now) const {
  std::string const who = "client " + std::to_string(client_.number()) +
                          ", which makes a reader of its writer of lock " + std::to_string(h.x->lock_number) + ",";
  bool const valid = is_valid(h, now);
  if (valid && !told.was_held && why != errc::lost)
    throw violation{11, who + " was told that it has lost it, and has it"};
  if (told.was_held && !valid && !h.given_back) throw violation{11, who + " was told that it had it, and it is lost"};
  if (told.told) world_.watcher().order_failed(client_, who, h.x->lock_number, asked_at, told.told);
}

void levels_judge::over(sim_level const& l, levels const& all) const {
  auto const has_or_wants = [&](sim_level const* other) {
    bool const has = other->at == state::inside, wants = other->at == state::in_line || other->at == state::asking;
    return (has || wants) && &other->by == &l.by;
  };
  if (std::none_of(all.begin(), all.end(), has_or_wants) && !l.by.levels.empty())
    throw violation{6, words(l) + " has and wants nothing any more, and something is left in the tables of its owner"};
}

void levels_judge::nobody_waits_for_ever(levels const& all) const {
  for (sim_level const* l : all) {
    if (l->at != state::in_line || l->called || l->ending) continue;
    bool const under_way = std::any_of(all.begin(), all.end(),
                                       [&](sim_level const* other) { return same_lock(*other, *l) && asks(*other); });
    if (!under_way) throw violation{4, words(*l) + " waits for its owner, which asks for nothing"};
  }
}

void levels_judge::counts_a_reader(sim_hold const& h, levels const& all, time_point now) const {
  sim_acquisition const& x = *h.x;
  if (h.asked_for.weight == 1 || h.order_refused || !is_valid(h, now)) return;
  // what the server was told may be gone with its last writes
  if (world_.schedule().has({fault_plan::kind::failover})) return;
  bool reads = false;
  for (sim_level const* l : all) {
    if (l->at != state::inside || l->in.get() != &h) continue;
    if (l->todo.writes) return;
    reads = true;
  }
  guarded_write const as_writer{x.lock_number, client_.id() + "." + engine::to_text(x.id),
                                x.fence / engine::hand_offs_per_grant, h.asked_for.weight};
  if (reads && world_.watcher().owns(as_writer))
    throw violation{6, "client " + std::to_string(client_.number()) + " only reads lock " +
                           std::to_string(x.lock_number) + ", and nobody tells the server, which counts a writer"};
}

}  // namespace conch::sim
