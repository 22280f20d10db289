// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/renewals.hpp"

#include "base/failure.hpp"
#include "base/fault.hpp"
#include "protocol/drift.hpp"
#include "protocol/replies.hpp"
#include "protocol/server/place_keeper.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace conch::protocol {

void renewals::send(std::span<server_place* const> places, renewal_mode mode, time_point now) {
  std::vector<server_place*> by_slot;
  if (on_.slots.is_cluster() && places.size() > 1) {  // of each slot a script
    by_slot.assign(places.begin(), places.end());
    std::stable_sort(by_slot.begin(), by_slot.end(),
                     [](server_place* a, server_place* b) { return a->slot < b->slot; });
    places = by_slot;
  }
  for (bool const permits : {false, true}) {
    for (bool const keep_fences : {false, true}) {
      if (!keep_fences || !mode.alone) send_kind(places, permits, keep_fences, mode, now);
    }
  }
}

/// What is left of a lease that ends, at the least, with the deadline of the hold.
milliseconds renewals::lease_left(server_place const& p, time_point now) {
  duration const left = std::max<duration>(p.deadline - now, duration::zero());
  return whole_ms(left + drift_of(left + left / 50)) + milliseconds{1};
}

void renewals::send_kind(std::span<server_place* const> places, bool permits, bool keep_fences, renewal_mode mode,
                         time_point now) {
  std::vector<renewed> batch;
  milliseconds longest{}, shortest = milliseconds::max();
  scratch_.clear();
  auto const flush = [&] {
    if (batch.empty()) return;
    ++on_.env.stats.scripts;
    ++on_.env.stats.renewal_scripts;
    bool const votes = batch.front().place->vote.terms.is_vote();  // then all are
    if (mode.asking) on_.sent.send(asking_command{}, {request_kind::asking, 0, 0, nullptr, nullptr, now});
    in_flight asked{votes ? request_kind::confirm : request_kind::renew, 0, 0, nullptr, nullptr, now};
    if (permits) asked.of = script_kind::permit_renew;
    milliseconds const kept = keep_fences ? retention_of(on_.env.settings, longest) : milliseconds{};
    command const renews =
        votes
            ? command{confirm_command{scratch_, retention_of(on_.env.settings, longest), mode.with_source, keep_fences}}
            : command{renew_command{scratch_, mode.with_source, permits, kept, mode.asking}};
    // A hold outlives a connection that has died silently: there is time for another renewal.
    duration const within = std::min<duration>(on_.env.settings.command_timeout, shortest / 3);
    on_.sent.send_renewals(renews, asked, {std::move(batch), now, within, mode});
    batch = {};
    shortest = milliseconds::max();
    scratch_.clear();
  };
  for (server_place* s : places) {
    // Checked at the moment of writing: a place that was released, cancelled or lost since is not renewed.
    bool const may = s->may_renew(now);
    bool const keeps = may && !mode.alone && held_.fence_is_due(*s, now);
    if (static_cast<bool>(s->permit) != permits || keeps != keep_fences) continue;
    bool const elsewhere = s->of->is_of_other_run(*s) && s->deadline > now;
    if (s->state != place_state::owned || !(may || elsewhere) || s->owned.renewing) continue;
    milliseconds lease = may ? s->lease : milliseconds{};
    if (elsewhere) lease = std::max(lease, lease_left(*s, now));
    bool const alone = mode.alone || s->owned.renewed_alone;
    if (!batch.empty() && (alone || batch.front().place->owned.renewed_alone || s->slot != batch.front().place->slot))
      flush();
    s->owned.renewing = true;
    if (!mode.asking) on_.link.note_sent(*s);
    ++s->references;
    std::int64_t const floor = s->vote.terms.floor_asked();
    s->asks_for_lease();
    on_.sent.window().uses(lease, now);
    scratch_.push_back({s->name, s->id, kept_at_server(on_.env.settings, lease), floor, std::optional{s->fence}});
    batch.push_back({s, s->id, may ? s->lease : milliseconds{}, floor, keep_fences});
    longest = std::max(longest, s->lease);
    shortest = std::min(shortest, s->lease);
    if (batch.size() == renewals_per_script) flush();
  }
  flush();
}

void renewals::answered(in_flight const& r, answer const& a, time_point now) {
  renewal_batch const sent = on_.sent.take_renewals(r, now);
  std::vector<renewed> const& batch = sent.places;
  auto const reply = read_renew(a, batch.size(), r.what == request_kind::confirm);
  if (a.what == fault::none && !reply) on_.link.drop("an answer of the renew script that has the wrong length");
  if (reply) on_.link.clock().sample(r.written, reply->server_us, now);

  bool const elsewhere = a.what == fault::try_later && on_.slots.is_cluster() && renewed_elsewhere(sent, a, now);

  // One bad key harms one lock: from now on each of them is renewed by itself, until that has succeeded.
  bool const is_divided = a.of_its_keys && batch.size() > 1 && !elsewhere;
  std::vector<server_place*> again, each;
  duration left = duration::max(), granted{};
  for (std::size_t i = 0; i < batch.size(); ++i) {
    server_place& p = *batch[i].place;
    place_keeper& keeper = *p.of;  // this one, unless its slot is on the way here
    if (elsewhere || p.id != batch[i].id || p.state != place_state::owned) continue;
    p.owned.renewing = false;
    using kind = renew_reply::kind;
    renew_reply::one const result = reply ? reply->locks[i] : renew_reply::one{};
    if (result.what == kind::renewed) p.owned.refused_renewal = {};
    else if (reply) p.owned.refused_renewal = to_error(fault::refused, "the server could not write the renewal");
    else if (a.what != fault::none && a.what != fault::no_script) p.owned.refused_renewal = to_error(a.what, a.words);
    p.owned.renewed_alone = is_divided || (p.owned.renewed_alone && result.what != kind::renewed);
    if (a.what == fault::no_script) {
      again.push_back(&p);
    } else if (is_divided) {
      each.push_back(&p);
    } else if (result.what == kind::failed) {
      on_.env.up.renewal_failed(p, now);
    } else if (result.what != kind::renewed) {
      keeper.not_prolonged(p, now);
    } else {
      if (r.what == request_kind::confirm) {
        p.vote.accepted = batch[i].floor;
        p.vote.refused_by = result.overtaken ? result.last_fence : 0;
      }
      if (p.heard_from >= on_.link.up_since() && p.deadline - now < left) {
        left = p.deadline - now;
        granted = p.deadline - p.valid_from;
      }
      keeper.prolonged(p, r.written, batch[i].lease, batch[i].keeps_fence, now);
    }
  }
  if (granted != duration{}) on_.sent.window().renewed(batch.size(), granted, left, now);
  if (a.what == fault::reconnect) on_.link.drop(a.words);
  if (!again.empty()) send(again, {on_.sent.source_is_due(r), sent.mode.asking, sent.mode.alone}, now);
  if (!each.empty()) send(each, {.asking = sent.mode.asking}, now);
  for (renewed const& one : batch) on_.all.drop(*one.place);
}

void renewals::went_unanswered(renewal_batch const& batch) {
  for (renewed const& one : batch.places) {
    if (one.id != 0) one.place->owned.renewing = false;
    on_.all.drop(*one.place);
  }
}

/// A node of a Cluster has put them off, whose slot is on its way: as long as that takes they are renewed where their
/// keys are. True: that is under way.
bool renewals::renewed_elsewhere(renewal_batch const& sent, answer const& a, time_point now) {
  std::vector<server_place*> still;
  for (renewed const& one : sent.places) {
    if (one.place->id == one.id && one.place->state == place_state::owned) still.push_back(one.place);
  }
  if (still.empty()) return false;
  for (server_place* s : still) s->owned.renewing = false;
  bool const is_divided = still.size() > 1 || sent.places.front().keeps_fence;
  return on_.slots.renewed_elsewhere(
      {.places = still, .asking = sent.mode.asking, .can_be_divided = is_divided && !sent.mode.alone}, a.words, now);
}

std::string renewals::why_not(server_place const& p, time_point now) const {
  if (!on_.link.connected()) return on_.link.why_not_connected();
  std::string const refused = cause_of(p.owned.refused_renewal);
  return refused.empty() ? on_.sent.silence(now) : refused;
}

}  // namespace conch::protocol
