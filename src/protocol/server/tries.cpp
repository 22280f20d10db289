// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/tries.hpp"

#include "base/turns.hpp"

#include <algorithm>
#include <utility>

namespace conch::protocol {

namespace {

/// Locks in one script. Each keeps the server from other clients for about 5 us: a try passes nothing on. More locks
/// are tried by one script after the other, each when the previous one has taken all of its locks.
constexpr std::size_t most_in_one_script = 64;

/// Fewer in the simulator, whose multi_locks are small.
std::size_t in_one_script() { return std::min<std::size_t>(most_in_one_script, in_one_turn); }

/// The reply that a script for this lock alone would have given.
acquire_reply of_one(tries_reply const& all, std::size_t place) {
  acquire_reply one;
  bool const taken = place < all.fences.size();
  one.what = all.too_late ? acquire_reply::kind::too_late
             : taken      ? acquire_reply::kind::granted
                          : acquire_reply::kind::busy;
  if (taken && !all.too_late) one.fence = all.fences[place];
  return one;
}

}  // namespace

void tries::send_together(std::span<server_place* const> places, time_point now) {
  if (places.size() == 1) {
    asks_.send(*places.front(), false, now);
  } else if (places.size() > 1) {
    std::size_t const first = std::min(places.size(), in_one_script());
    std::vector<tried> later;
    for (server_place* s : places.subspan(first)) later.push_back({s, s->id, s->lease});
    for (tried const& one : later) ++one.place->references;
    send(places.first(first), std::move(later), false, now);
  }
}

void tries::send_gathered_by_slot(time_point now) {
  std::vector<server_place*> rest = asks_.take_gathered();
  while (!rest.empty()) {
    std::vector<server_place*> of_one_slot, others;
    for (server_place* s : rest) (s->slot == rest.front()->slot ? of_one_slot : others).push_back(s);
    send_together(of_one_slot, now);
    rest = std::move(others);
  }
}

void tries::send(std::span<server_place* const> places, std::vector<tried> later, bool with_source, time_point now) {
  std::int64_t const not_after_us = on_.link.not_after(now);
  std::vector<attempt> items;
  std::vector<tried> batch;
  milliseconds longest{}, longest_kept{};
  for (server_place* s : places) {
    longest = std::max(longest, s->lease);
    longest_kept = std::max(longest_kept, longest_of(*s));
    asks_.about_to_send(*s, not_after_us);
    ++s->references;
    s->asks_for_lease();
    items.push_back({s->name, s->id, kept_from_grant(on_.env.settings, *s)});
    batch.push_back({s, s->id, s->lease});
  }
  ++on_.env.stats.scripts;
  on_.sent.window().uses(longest, now);
  on_.sent.send_tries(
      acquire_all_command{items, retention_of(on_.env.settings, longest_kept), not_after_us, with_source},
      {request_kind::acquire_all, 0, 0, nullptr, nullptr, now}, {std::move(batch), std::move(later)});
}

/// Continues with the locks after those that a script has tried. Nothing was written for them yet.
void tries::try_rest(std::vector<tried> const& later, of_the_rest what, answer const& a, time_point now) {
  // Behind the clean-ups that wait for room: one of them may be of an earlier grant of these locks.
  if (what == of_the_rest::next && cleanups_.has_rest()) what = of_the_rest::each_alone;
  std::vector<server_place*> next;
  std::vector<tried> after;
  for (tried const& one : later) {
    server_place& p = *one.place;
    if (one.moved || p.id != one.id || p.state != place_state::asking) continue;
    switch (what) {
      case of_the_rest::next:
        if (next.size() < in_one_script()) {
          next.push_back(&p);
        } else {
          ++p.references;
          after.push_back(one);
        }
        break;
      case of_the_rest::busy:
        places::end(p);
        cleanups_.verify_successor(p, p.id, now);
        on_.env.up.busy(p, now);
        break;
      case of_the_rest::each_alone: asks_.ask_once_more(p, retry_reason::server_busy, now); break;
      case of_the_rest::as_these:  // a new connection asks again
        if (a.what != fault::none && a.what != fault::reconnect) asks_.take_fault(p, a, now);
        break;
    }
  }
  if (!next.empty()) send(next, std::move(after), false, now);
  for (tried const& one : later) on_.all.drop(*one.place);
}

void tries::answered(in_flight const& r, answer const& a, time_point now) {
  auto [batch, later] = on_.sent.take_tries();
  auto const reply = read_tries(a, batch.size());
  bool const too_late = reply && reply->too_late;
  bool const all_taken = reply && reply->fences.size() == batch.size();
  if (a.what == fault::none && !reply) on_.link.drop("an answer of the acquire_all script that has the wrong length");
  if (a.what == fault::reconnect) on_.link.drop(a.words);
  if (reply) on_.link.clock().sample(r.written, reply->server_us, now);

  std::vector<server_place*> again;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    server_place& p = *batch[i].place;
    if (batch[i].moved) {
      if (reply && !reply->too_late && i < reply->fences.size())
        cleanups_.add_where_it_went(p, batch[i].id, of_one(*reply, i), now);
      continue;
    }
    if (p.id != batch[i].id || p.state == place_state::idle) continue;  // an answer for any other id grants nothing
    bool const asks = p.state == place_state::asking;
    if (reply) {
      in_flight of_its_own = r;
      of_its_own.lease = batch[i].lease;
      asks_.take_result(p, of_its_own, of_one(*reply, i), now);
    } else if (a.what == fault::no_script && asks) {
      again.push_back(&p);
    } else if (a.what != fault::none && a.what != fault::reconnect && asks) {
      asks_.take_fault(p, a, now);
    }
  }
  if (!again.empty()) {
    send(again, std::move(later), on_.sent.source_is_due(r), now);
  } else {
    bool const next = all_taken || a.what == fault::no_script;  // then the tries of this script were all given up
    auto const what = too_late ? of_the_rest::each_alone
                      : next   ? of_the_rest::next
                      : reply  ? of_the_rest::busy
                               : of_the_rest::as_these;
    try_rest(later, what, a, now);
  }
  for (tried const& one : batch) on_.all.drop(*one.place);
}

}  // namespace conch::protocol
