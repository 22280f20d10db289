// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server.hpp"

#include "base/failure.hpp"

#include <algorithm>

// Renewals: many holds in one script.
namespace conch::protocol {

void server::renew(std::span<engine::place* const> places, time_point now) {
  if (!on_.link.connected()) return;
  std::vector<place*> mine;
  for (engine::place* s : places) mine.push_back(made_here(s));
  send_renewals(mine, {}, now);
}

void server::send_renewals(std::span<place* const> places, renewal_way way, time_point now) {
  std::vector<place*> by_slot;
  if (client_.servers != nullptr && places.size() > 1) {  // of each slot a script
    by_slot.assign(places.begin(), places.end());
    std::stable_sort(by_slot.begin(), by_slot.end(), [](place* a, place* b) { return a->slot < b->slot; });
    places = by_slot;
  }
  for (bool const permits : {false, true}) {
    for (bool const keep_fences : {false, true}) {
      if (!keep_fences || !way.alone) send_renewals_of(places, permits, keep_fences, way, now);
    }
  }
}

/// Must the renewal prolong how long the fence is kept? From the grant on a fence is kept for the retention and the lease, which is longer
/// than most holds. A long hold renews this, so that at least half of the retention is left when it ends, by itself or because this client
/// is gone. With the defaults that is every five minutes.
bool server::fence_is_due(place const& s, time_point now) const { return now + s.lease + on_.env.settings.fence_retention / 2 > s.fence_until; }

/// A server that has not granted a hold, or not in this run, may not have it, or for less long than its holder believes. So it is also asked
/// about one that is not renewed.
bool server::granted_elsewhere(place const& s) const { return s.run != on_.link.runs().number() && !s.terms.is_vote(); }

/// Of a lease that ends with the deadline of the hold, at the least.
milliseconds server::lease_left(place const& s, time_point now) {
  duration const left = std::max<duration>(s.deadline - now, duration::zero());
  return whole_ms(left + drift_of(left + left / 50)) + milliseconds{1};
}

void server::send_renewals_of(std::span<place* const> places, bool permits, bool keep_fences, renewal_way way, time_point now) {
  std::vector<renewed> batch;
  milliseconds longest{}, shortest = milliseconds::max();
  scratch_.clear();
  auto const flush = [&] {
    if (batch.empty()) return;
    ++on_.env.stats.scripts;
    ++on_.env.stats.renewal_scripts;
    bool const votes = batch.front().at->terms.is_vote();  // then all are
    if (way.asking) {
      out_.send(asking_command{});
      push_request({request::asking, 0, 0, nullptr, nullptr, now});
    }
    if (votes) {
      out_.send(confirm_command{scratch_, retention_of(on_.env.settings, longest), way.with_source, keep_fences});
    } else {
      out_.send(
          renew_command{scratch_, way.with_source, permits, keep_fences ? retention_of(on_.env.settings, longest) : milliseconds{}, way.asking});
    }
    // A hold outlives a connection that has died silently: there is time for another renewal.
    renewing_.push_back({std::move(batch), now, std::min<duration>(on_.env.settings.command_timeout, shortest / 3), way});
    on_.env.timers.arm(overdue_, std::min(overdue_.at(), now + renewing_.back().answer_within));
    in_flight asked{votes ? request::confirm : request::renew, 0, 0, nullptr, nullptr, now};
    if (permits) asked.of = script::permit_renew;
    push_request(asked);
    batch = {};
    shortest = milliseconds::max();
    scratch_.clear();
  };
  for (place* s : places) {
    // Checked at the moment of writing: a place that was released, cancelled or lost since is not renewed.
    bool const may = s->may_renew(now);
    bool const keeps = may && !way.alone && fence_is_due(*s, now);
    if (static_cast<bool>(s->permit) != permits || keeps != keep_fences) continue;
    bool const elsewhere = s->of->granted_elsewhere(*s) && s->deadline > now;
    if (s->at != place::state::owned || !(may || elsewhere) || s->renewing) continue;
    milliseconds lease = may ? s->lease : milliseconds{};
    if (elsewhere) lease = std::max(lease, lease_left(*s, now));
    bool const alone = way.alone || s->renewed_alone;
    if (!batch.empty() && (alone || batch.front().at->renewed_alone || s->slot != batch.front().at->slot)) flush();
    s->renewing = true;
    if (!way.asking) on_.link.tell(*s);
    ++s->references;
    std::int64_t const floor = s->terms.floor_asked();
    s->asks_for_lease();
    window_.uses(lease, now);
    scratch_.push_back({s->name, s->id, lease, floor, std::optional{s->fence}});
    batch.push_back({s, s->id, may ? s->lease : milliseconds{}, floor, keep_fences});
    longest = std::max(longest, s->lease);
    shortest = std::min(shortest, s->lease);
    if (batch.size() == renewals_per_script) flush();
  }
  flush();
}

void server::prolonged(place& s, time_point written, milliseconds lease, bool keeps_fence, time_point now) {
  ++on_.env.stats.renewals;
  if (keeps_fence) s.fence_until = written + on_.env.settings.fence_retention + lease;
  own(s, s.fence, s.segment, written, lease, true, false, now);
}

void server::renew_answer(in_flight const& r, answer const& a, time_point now) {
  renewal_batch const sent = std::move(renewing_.front());
  std::vector<renewed> const& batch = sent.places;
  renewing_.pop_front();
  auto const reply = read_renew(a, batch.size(), r.what == request::confirm);
  if (a.what == fault::none && !reply) on_.link.drop("an answer of the renew script that has the wrong length");
  if (reply) on_.link.clock().sample(r.written, reply->server_us, now);

  bool const elsewhere = a.what == fault::try_later && client_.servers != nullptr && renew_elsewhere(sent, a, now);

  // One bad key harms one lock: from now on each of them is renewed by itself, until that has succeeded.
  bool const is_divided = a.of_its_keys && batch.size() > 1 && !elsewhere;
  std::vector<place*> again, each;
  duration left = duration::max(), granted{};
  for (std::size_t i = 0; i < batch.size(); ++i) {
    place& s = *batch[i].at;
    server& keeper = *s.of;  // this one, unless its slot is on the way here
    if (elsewhere || s.id != batch[i].id || s.at != place::state::owned) continue;
    s.renewing = false;
    using kind = renew_reply::kind;
    renew_reply::one const result = reply ? reply->locks[i] : renew_reply::one{};
    if (result.what == kind::renewed) s.refused_renewal = {};
    else if (reply) s.refused_renewal = to_error(fault::refused, "the server could not write the renewal");
    else if (a.what != fault::none && a.what != fault::no_script) s.refused_renewal = to_error(a.what, a.words);
    s.renewed_alone = is_divided || (s.renewed_alone && result.what != kind::renewed);
    if (a.what == fault::no_script) {
      again.push_back(&s);
    } else if (is_divided) {
      each.push_back(&s);
    } else if (result.what == kind::failed) {
      on_.env.up.renewal_failed(s, now);
    } else if (result.what != kind::renewed && s.run != keeper.on_.link.runs().number() && !s.terms.is_vote()) {
      keeper.lose_and_give_back(s, now);  // another server: it may have our place of before that grant
    } else if (result.what != kind::renewed) {
      keeper.lose(s, now);
    } else {
      if (r.what == request::confirm) {
        s.accepted = batch[i].floor;
        s.refused_by = result.overtaken ? result.last_fence : 0;
      }
      if (s.heard_from >= on_.link.up_since() && s.deadline - now < left) {
        left = s.deadline - now;
        granted = s.deadline - s.valid_from;
      }
      keeper.prolonged(s, r.written, batch[i].lease, batch[i].keeps_fence, now);
    }
  }
  if (granted != duration{}) window_.renewed(batch.size(), granted, left, now);
  if (a.what == fault::reconnect) on_.link.drop(a.words);
  if (!again.empty()) send_renewals(again, {source_is_due(r), sent.way.asking, sent.way.alone}, now);
  if (!each.empty()) send_renewals(each, {.asking = sent.way.asking}, now);
  for (renewed const& one : batch) drop(*one.at);
}

/// A node of a Cluster has put them off, whose slot is on its way: as long as that takes they are renewed where their keys are. True: that is
/// under way.
bool server::renew_elsewhere(renewal_batch const& sent, answer const& a, time_point now) {
  std::vector<place*> still;
  for (renewed const& one : sent.places) {
    if (one.at->id == one.id && one.at->at == place::state::owned) still.push_back(one.at);
  }
  if (still.empty()) return false;
  for (place* s : still) s->renewing = false;
  bool const is_divided = still.size() > 1 || sent.places.front().keeps_fence;
  return client_.servers->renewed_elsewhere(*this, {.places = still, .asking = sent.way.asking, .can_be_divided = is_divided && !sent.way.alone},
                                            a.words, now);
}

bool server::renew_behind_asking(std::span<place* const> places, bool alone, time_point now) {
  if (!on_.link.connected()) {
    on_.link.want();
    return false;
  }
  send_renewals(places, {.asking = true, .alone = alone}, now);
  return true;
}

void server::renew_each_alone(std::span<place* const> places, time_point now) { send_renewals(places, {.alone = true}, now); }

std::string server::why_not_renewed(engine::place const& p, time_point now) const {
  if (!on_.link.connected()) return on_.link.why_not_connected();
  std::string const refused = cause_of(static_cast<place const&>(p).refused_renewal);
  return refused.empty() ? silence(now) : refused;
}

}  // namespace conch::protocol
