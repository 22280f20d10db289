// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

// Several locks tried in one script. Each has an id of its own, and gets the answer that a script of its own would have given. From then on
// it is a lock like any other, also when it is asked for again after a reconnect or a "later".
namespace conch::protocol {

namespace {

/// Locks in one script. Each keeps the server from other clients for about 5 us: a try passes nothing on. More locks are tried by one script
/// after the other, each when the one before it has taken all of its locks.
constexpr std::size_t most_in_one_script = 64;

/// Fewer in the simulator, whose multi_locks are small.
std::size_t in_one_script() { return std::min<std::size_t>(most_in_one_script, in_one_turn); }

/// The reply that a script for this lock alone would have given.
acquire_reply of_one(tries_reply const& all, std::size_t place) {
  acquire_reply one;
  bool const taken = place < all.fences.size();
  one.what = all.too_late ? acquire_reply::kind::too_late : taken ? acquire_reply::kind::granted : acquire_reply::kind::busy;
  if (taken && !all.too_late) one.fence = place < all.fences.size() ? all.fences[place] : all.fences.empty() ? all.server_us : all.fences.back();
  return one;
}

}  // namespace

void server::gather() { gathering_ = true; }

void server::send_gathered(time_point now) {
  gathering_ = false;
  std::vector<place*> const places = std::exchange(gathered_, {});
  if (places.size() == 1) {
    send_acquire(*places.front(), false, now);
  } else if (places.size() > 1) {
    std::size_t const first = std::min(places.size(), in_one_script());
    std::vector<tried> later;
    for (place* s : std::span{places}.subspan(first)) later.push_back({s, s->id, s->lease});
    for (tried const& one : later) ++one.at->references;
    send_tries(std::span{places}.first(first), std::move(later), false, now);
  }
}

void server::send_gathered_by_slot(time_point now) {
  gathering_ = false;
  std::vector<place*> places = std::exchange(gathered_, {});
  while (!places.empty()) {
    auto const others = std::stable_partition(places.begin(), places.end(), [slot = places.front()->slot](place* s) { return s->slot == slot; });
    gathered_.assign(places.begin(), others);
    places.erase(places.begin(), others);
    send_gathered(now);
  }
}

void server::send_tries(std::span<place* const> places, std::vector<tried> later, bool with_source, time_point now) {
  std::int64_t const not_after_us = on_.link.not_after(now);
  std::vector<attempt> items;
  std::vector<tried> batch;
  milliseconds longest{};
  for (place* s : places) {
    longest = std::max(longest, s->lease);
    about_to_ask(*s, not_after_us);
    ++s->references;
    s->asks_for_lease();
    items.push_back({s->name, s->id, s->lease});
    batch.push_back({s, s->id, s->lease});
  }
  ++on_.env.stats.scripts;
  out_.send(acquire_all_command{items, retention_of(on_.env.settings, longest), not_after_us, with_source});
  trying_.push_back({std::move(batch), std::move(later)});
  in_flight asked{request::acquire_all, 0, 0, nullptr, nullptr, now};
  asked.size = static_cast<std::uint32_t>(places.size());
  window_.uses(longest, now);
  push_request(asked);
}

/// Goes on with the locks behind those that a script has tried. Nothing was written for them yet.
void server::try_the_rest(std::vector<tried> const& later, of_the_rest what, answer const& a, time_point now) {
  // Behind the clean-ups that wait for room: one of them may be of an earlier grant of these locks.
  if (what == of_the_rest::next && !resting_cleanups_.empty()) what = of_the_rest::each_alone;
  std::vector<place*> next;
  std::vector<tried> after;
  for (tried const& one : later) {
    place& s = *one.at;
    if (one.moved || s.id != one.id || s.at != place::state::asking) continue;
    switch (what) {
      case of_the_rest::next:
        if (next.size() < in_one_script()) {
          next.push_back(&s);
        } else {
          ++s.references;
          after.push_back(one);
        }
        break;
      case of_the_rest::busy:
        become_idle(s);
        look_after(s, s.id, now);
        on_.env.up.busy(s, now);
        break;
      case of_the_rest::each_alone: ask_once_more(s, retry_reason::server_busy, now); break;
      case of_the_rest::as_these:  // a new connection asks again
        if (a.what != fault::none && a.what != fault::reconnect) acquire_fault(s, a, now);
        break;
    }
  }
  if (!next.empty()) send_tries(next, std::move(after), false, now);
  for (tried const& one : later) drop(*one.at);
}

void server::tries_answer(in_flight const& r, answer const& a, time_point now) {
  std::vector<tried> const batch = std::move(trying_.front().in_script);
  std::vector<tried> later = std::move(trying_.front().later);
  trying_.pop_front();
  auto const reply = read_tries(a, batch.size());
  bool const too_late = reply && reply->too_late;
  bool const all_taken = reply && reply->fences.size() == batch.size();
  if (a.what == fault::none && !reply) on_.link.drop("an answer of the acquire_all script that has the wrong length");
  if (a.what == fault::reconnect) on_.link.drop(a.words);
  if (reply) on_.link.clock().sample(r.written, reply->server_us, now);

  std::vector<place*> again;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    place& s = *batch[i].at;
    if (batch[i].moved) {
      if (reply && !reply->too_late && i < reply->fences.size()) owe_if_carried_out(s, batch[i].id, of_one(*reply, i), now);
      continue;
    }
    if (s.id != batch[i].id || s.at == place::state::idle) continue;  // an answer for any other id grants nothing
    bool const asks = s.at == place::state::asking;
    if (reply) {
      in_flight of_its_own = r;
      of_its_own.lease = batch[i].lease;
      ask_result(s, of_its_own, of_one(*reply, i), now);
    } else if (a.what == fault::no_script && asks) {
      again.push_back(&s);
    } else if (a.what != fault::none && a.what != fault::reconnect && asks) {
      acquire_fault(s, a, now);
    }
  }
  if (!again.empty()) {
    send_tries(again, std::move(later), source_is_due(r), now);
  } else {
    bool const next = all_taken || a.what == fault::no_script;  // then the tries of this script were all given up
    auto const what = too_late ? of_the_rest::each_alone : next ? of_the_rest::next : reply ? of_the_rest::busy : of_the_rest::as_these;
    try_the_rest(later, what, a, now);
  }
  for (tried const& one : batch) drop(*one.at);
}

}  // namespace conch::protocol
