// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/mutant.hpp"
#include "engine/server.hpp"

#include <algorithm>
#include <utility>
#include <vector>

// Several locks tried in one script. Each has an id of its own, and hears what a script of its own would have answered:
// from then on it is one like any other. Also when it is asked for again, after a reconnect or a "later".
namespace conch::engine {

namespace {

/// Locks in one script: it keeps the server from everybody else for about 5 us each. More than that are tried one by one: a
/// second script could not stop at what was busy in the first.
constexpr std::size_t most_in_one_script = 64;

}  // namespace

void server::gather() { gathering_ = true; }

void server::send_gathered(time_point now) {
  gathering_ = false;
  std::vector<seat*> const seats = std::exchange(gathered_, {});
  if (seats.size() > 1 && seats.size() <= most_in_one_script) {
    send_tries(seats, false, now);
  } else {
    for (seat* s : seats) {
      if (!CONCH_MUTANT(many_tries_forgotten) || s == seats.front()) send_acquire(*s, false, now);
    }
  }
}

void server::send_tries(std::span<seat* const> seats, bool with_source, time_point now) {
  std::int64_t const not_after_us = not_after(now);
  std::vector<attempt> items;
  std::vector<tried> batch;
  milliseconds longest{};
  for (seat* s : seats) {
    longest = std::max(longest, s->lease);
    about_to_ask(*s, CONCH_MUTANT(tries_never_too_late) ? 0 : not_after_us);
    if (CONCH_MUTANT(tries_not_written)) s->written = false;
    ++s->references;
    items.push_back({s->name, s->id, s->lease});
    batch.push_back({s, s->id, s->lease});
  }
  ++stats_.scripts;
  out_.send(acquire_all_command{items, retention(longest), not_after_us, with_source});
  trying_.push_back(std::move(batch));
  push_request({request::acquire_all, 0, 0, nullptr, nullptr, now});
}

void server::tries_answer(in_flight const& r, answer const& a, time_point now) {
  std::vector<tried> const batch = std::move(trying_.front());
  trying_.pop_front();
  bool const too_late = a.numbers.size() == 3 && a.numbers[0] == 3;
  bool const usable = a.what == fault::none && !a.numbers.empty() && (too_late || a.numbers.size() <= batch.size() + 1);
  if (a.what == fault::none && !usable) out_.drop_connection("an answer of the acquire_all script that has the wrong length");
  if (a.what == fault::reconnect) out_.drop_connection(a.words);
  if (usable) sample(r.written, too_late ? a.numbers[2] : a.numbers[0], now);

  std::vector<seat*> again;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    seat& s = *batch[i].at;
    if (s.id != batch[i].id || s.at == seat::state::idle) continue;  // an answer for any other id grants nothing
    bool const asks = s.at == seat::state::asking;
    if (usable) {
      in_flight of_its_own = r;
      of_its_own.lease = batch[i].lease;
      std::size_t const place = (CONCH_MUTANT(tries_dealt_backwards) ? batch.size() - 1 - i : i) + 1;
      bool const taken = place < a.numbers.size() + (CONCH_MUTANT(one_more_taken) && !too_late ? 1 : 0);
      std::int64_t const fence = place < a.numbers.size() ? a.numbers[place] : CONCH_MUTANT(one_more_taken) ? a.numbers.back() : 0;
      std::int64_t const result[] = {too_late ? 3 : taken ? 1 : 2, fence, 0};
      ask_result(s, of_its_own, result, now);
    } else if (a.what == fault::no_script && asks) {
      again.push_back(&s);
    } else if (a.what != fault::none && a.what != fault::reconnect && asks) {
      acquire_fault(s, a, now);
    }
  }
  if (!again.empty()) send_tries(again, true, now);
  for (tried const& one : batch) drop(*one.at);
}

}  // namespace conch::engine
