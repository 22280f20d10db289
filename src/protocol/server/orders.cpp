// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/orders.hpp"

#include "base/fault.hpp"
#include "protocol/server/place_keeper.hpp"

#include <algorithm>
#include <utility>

namespace conch::protocol {

void orders::administer(admin_request& i, admin_events& whose, time_point now) {
  BOOST_ASSERT_MSG(!i.linked(), "a request is asked twice");
  i.server = &whole_;
  i.serial = ++watchers_.last_serial;
  if (i.held_at != nullptr) i.id = static_cast<server_place const&>(*i.held_at).id;
  i.until = i.gives_up ? now + on_.env.settings.offline_timeout : timer_queue::never;
  if (i.what == admin_request::kind::wait_free) {
    i.id = ids_.next();
    if (i.wait > duration::zero() && now < timer_queue::never - i.wait) i.wait_ends = now + i.wait;
    watchers_.by_id.emplace(i.id, watchers::one{&i, this});
  }
  events_ = &whose;
  asked_.push_back(i);
  by_serial_.emplace(i.serial, &i);
  if (on_.link.denied()) {
    end(i, {}, on_.link.denied());
    on_.link.drop("denied on this connection; the next one shows whether it still is");
    return;
  }
  if (i.gives_up) on_.env.timers.arm(i.due, std::min(i.until, i.wait_ends));
  if (on_.link.connected()) {
    send(i, false, now);
  } else {
    on_.link.want();
  }
}

void orders::withdraw(admin_request& i) noexcept {
  if (i.what == admin_request::kind::wait_free) {
    watchers_.by_id.erase(i.id);
    if (on_.link.connected() && (i.is_known || i.written)) {
      unwatched_.emplace_back(i.name, i.id);
      on_.soon.at(on_.sent.last_heard());
    }
  } else if (on_.link.connected() && i.written && !is_question(i)) {
    orphans_.emplace(i.serial, i);
  }
  i.unlink();
  by_serial_.erase(i.serial);
  i.due.cancel();
}

void orders::send(admin_request& i, bool with_source, time_point now) {
  i.written = true;
  ++on_.env.stats.scripts;
  milliseconds const claim = whole_ms(on_.env.settings.claim), lease = whole_ms(on_.env.settings.lease);
  milliseconds const kept = retention_of(on_.env.settings, on_.env.settings.lease);
  in_flight asked{request_kind::admin_request, i.id, 0, nullptr, nullptr, now};
  asked.serial = i.serial;
  auto const as = [&](script_kind of, command const& c) {
    asked.of = of;
    on_.sent.send(c, asked);
  };
  switch (i.what) {
    case admin_request::kind::inspect: return as(script_kind::inspect, inspect_command{i.name, with_source});
    case admin_request::kind::identify: return as(script_kind::none, identify_command{i.name});
    case admin_request::kind::force:
      return as(script_kind::force, force_command{i.name, claim, kept, i.fence, with_source, i.last, i.from_us});
    case admin_request::kind::request: return as(script_kind::request, request_command{i.name, i.fence, with_source});
    case admin_request::kind::wait_free: return as(script_kind::watch, watch_command{i.name, i.id, lease, with_source});
    case admin_request::kind::set_limit:
      return as(script_kind::limit, limit_command{i.name, claim, kept, i.size, with_source, i.by, i.if_unset});
    case admin_request::kind::downgrade:
      return as(script_kind::permit_release, release_command{.name = i.name,
                                                             .id = i.id,
                                                             .lease = lease,
                                                             .claim = claim,
                                                             .retention = kept,
                                                             .with_source = with_source,
                                                             .permit = &i.permit,
                                                             .rest = i.size});
  }
}

void orders::connection_ended(std::string_view why, time_point now) {
  orphans_.clear();
  unwatched_.clear();
  asked_.for_each([&](admin_request& i) {
    if (std::exchange(i.is_known, false) && i.gives_up) {
      i.until = now + on_.env.settings.offline_timeout;
      on_.env.timers.arm(i.due, std::min(i.until, i.wait_ends));
    }
    if (i.written && !may_be_repeated(i)) end(i, {}, make_error_code(errc::unreachable, why));
  });
}

bool orders::is_question(admin_request const& i) {
  return i.what == admin_request::kind::inspect || i.what == admin_request::kind::identify;
}

bool orders::may_be_repeated(admin_request const& i) {
  // An order that continues names the owners that it means.
  bool const takes_from_all = i.what == admin_request::kind::force && !i.fence && !i.last;
  bool const adds = i.what == admin_request::kind::set_limit && i.by != 0;
  return !takes_from_all && !adds;
}

void orders::repeat(time_point now) {
  asked_.for_each([&](admin_request& i) {
    i.from_us = 0;  // for a force that continues: this may be another server, with other owners at that time
    send(i, false, now);
  });
}

void orders::due(admin_request& i, time_point now) {
  if (now >= i.wait_ends && (on_.link.connected() || now < i.until)) {
    std::string const silent = on_.sent.silence(now);
    if (!on_.link.connected()) end(i, {}, on_.link.no_answer());
    else end(i, {}, silent.empty() ? make_error_code(errc::timed_out) : make_error_code(errc::unreachable, silent));
    return;
  }
  if (now >= i.until) {
    end(i, {}, on_.link.no_answer());
    return;
  }
  on_.env.timers.arm(i.due, std::min(i.until, i.wait_ends));
  if (!on_.slots.has(i.name) && !i.written) {  // it was put off: its slot has moved meanwhile
    neighbour& there = on_.slots.at(i.name);
    there.receive(i, events_, now);
    by_serial_.erase(i.serial);
    there.take_over(now);
    return;
  }
  if (on_.link.connected()) send(i, false, now);
}

void orders::answered(in_flight const& r, answer const& a, time_point now) {
  auto const found = by_serial_.find(r.serial);
  admin_request* asked = found == by_serial_.end() ? nullptr : found->second;
  if (a.what == fault::reconnect) on_.link.drop(a.words);
  if (a.what == fault::reconnect) return;  // asked again on the next connection
  if (asked == nullptr) {
    auto const orphan = orphans_.extract(r.serial);
    if (!orphan) return;
    if (auto const reply = read(orphan.mapped(), a)) verify_successor(orphan.mapped(), *reply, now);
    return;
  }
  asked->written = false;
  switch (a.what) {
    case fault::none:
      if (is_question(*asked)) {
        question_answered(*asked, a);
      } else if (asked->what == admin_request::kind::wait_free) {
        watch_answered(*asked, a, now);
      } else {
        order_answered(*asked, a, now);
      }
      return;
    case fault::no_script: send(*asked, on_.sent.source_is_due(r), now); return;
    case fault::try_later:
      on_.link.note_once(a.words);
      on_.env.timers.arm(asked->due, std::min(asked->until, on_.pause.again_at(a, now)));
      return;
    default: end(*asked, {}, to_error(a.what, a.words)); return;
  }
}

void orders::question_answered(admin_request& i, answer const& a) {
  bool const inspects = i.what == admin_request::kind::inspect;
  auto status = inspects ? read_inspect(a) : std::nullopt;
  auto identity = inspects ? std::nullopt : read_identity(a);
  if (!status && !identity) {
    end(i, {}, to_error(fault::malformed, inspects ? "invalid answer of the inspect script" : "invalid answer to GET"));
    return;
  }
  end(i, {.status = std::move(status), .identity = identity ? std::move(identity->text) : std::string{}}, {});
}

/// The `count` of a downgrade is 1, or 0 if the permit was not this client's any more.
std::optional<order_reply> orders::read(order const& o, answer const& a) {
  if (o.what == order::kind::force || o.what == order::kind::request) return read_force(a);
  if (o.what == order::kind::set_limit) return read_limit(a, o.size);
  release_reply const reply = read_release(a, false, true);
  if (reply.what != release_reply::kind::released) return std::nullopt;
  bool const more = reply.more_in_line;
  return order_reply{.count = reply.was_mine,
                     .passed_on = more && reply.passed_on,
                     .more_to_do = more && reply.more_to_do,
                     .permit = o.permit};
}

/// One script takes the lock from a limited number of owners. The answer says where the next one continues.
void orders::order_answered(admin_request& i, answer const& a, time_point now) {
  auto const reply = read(i, a);
  if (!reply) {
    end(i, {}, to_error(fault::malformed, "invalid answer to an order"));
    return;
  }
  verify_successor(i, *reply, now);
  i.taken += reply->count;
  if (reply->goes_on) {
    i.last = reply->goes_on->last;
    i.from_us = reply->goes_on->from_us;
    i.until = now + on_.env.settings.offline_timeout;
    on_.env.timers.arm(i.due, i.until);
    send(i, false, now);
    return;
  }
  grant_id const id = i.id;
  bool const gone = i.what == admin_request::kind::downgrade && reply->count == 0;
  end(i, {.count = i.taken, .limit = reply->permit.limit}, gone ? make_error_code(errc::lost) : error_code{});
  if (gone) {
    if (server_place* const s = ids_.place_of(id)) s->of->taken_away(*s, id, now);
  }
}

/// The client that was granted what the order has made free may be dead. It is checked as after a release.
void orders::verify_successor(order const& o, order_reply const& reply, time_point now) {
  bool const nothing = !reply.passed_on && !reply.more_to_do;
  if (nothing) return;
  server_place& p =
      made_here(reply.permit ? on_.env.up.make_permit_place(o.name, reply.permit) : on_.env.up.find_or_make(o.name));
  neighbour& there = on_.slots.at(o.name);
  if (p.state == place_state::idle) p.of = &there.keeper();
  ++p.references;
  if (reply.passed_on) there.pending_cleanups().passed_on(p, whole_ms(on_.env.settings.lease), now);
  if (reply.more_to_do) there.pending_cleanups().release_again(p, ids_.next(p), now);
  else there.pending_cleanups().verify_successor(p, ids_.next(p), now);
  on_.all.drop(p);
}

void orders::end(admin_request& i, admin_result const& result, error_code why) {
  BOOST_ASSERT_MSG(i.linked(), "a request ends twice");
  withdraw(i);
  events_->on_admin_answered(i, result, why);
}

/// The server notifies when the lock is given back, but not when a lease expires, so the watcher asks again after its
/// end.
void orders::watch_answered(admin_request& i, answer const& a, time_point now) {
  auto const reply = read_watch(a);
  if (!reply || reply->is_free) {
    i.is_known = false;
    end(i, {}, reply ? error_code{} : to_error(fault::malformed, "invalid answer of the watch script"));
    return;
  }
  i.is_known = true;
  i.until = timer_queue::never;
  if (i.wait == duration::zero()) {
    end(i, {}, make_error_code(errc::timed_out));
    return;
  }
  on_.env.timers.arm(i.due, i.wait_ends);
  watch_for(i, milliseconds{std::min<std::int64_t>(reply->left_ms, engine::longest_lease_ms)}, now);
}

/// Asks again when the leases have ended that it was told of, and in good time in any case (as check_after).
void orders::watch_for(admin_request& i, milliseconds reported, time_point now) {
  duration const left = sleep_for(on_.env.settings, reported);
  time_point const check = now + left + on_.pause.jitter(std::min<duration>(left / 3, on_.env.settings.claim));
  if (check < i.due.at()) on_.env.timers.arm(i.due, check);
}

void orders::freed(std::string_view name, grant_id id, bool more, time_point now) {
  if (more && on_.link.connected()) {
    in_flight goes_on{request_kind::watch, 0, 0, nullptr, nullptr, now};
    goes_on.of = script_kind::watch;
    on_.sent.send(watch_command{name, 0, whole_ms(on_.env.settings.lease)}, goes_on);
  }
  auto const found = watchers_.by_id.find(id);
  if (found == watchers_.by_id.end() || found->second.what->name != name) return;
  auto const [what, keeper] = found->second;
  what->is_known = false;
  keeper->end(*what, {}, {});
}

bool orders::lease_ends_in(std::string_view name, grant_id id, milliseconds left, time_point now) {
  auto const found = watchers_.by_id.find(id);
  if (found == watchers_.by_id.end()) return false;
  auto const [what, keeper] = found->second;
  if (what->name == name && what->is_known) keeper->watch_for(*what, left, now);
  return true;
}

void orders::unwatch(std::size_t& left, time_point now) {
  for (; left != 0 && !unwatched_.empty(); --left) {
    auto const [name, id] = std::move(unwatched_.back());
    unwatched_.pop_back();
    on_.sent.send(unwatch_command{name, id}, {request_kind::watch, id, 0, nullptr, nullptr, now});
  }
}

void orders::end_some(std::size_t& left) {
  for (; ending_ && left != 0 && !asked_.empty(); --left) end(asked_.front(), {}, ending_);
  if (asked_.empty()) ending_ = {};
}

void orders::part(time_point now) {
  asked_.for_each([&](admin_request& i) {
    if (on_.slots.has(i.name) || (i.written && !may_be_repeated(i))) return;
    by_serial_.erase(i.serial);
    on_.slots.at(i.name).receive(i, events_, now);
  });
  auto const gone =
      std::partition(unwatched_.begin(), unwatched_.end(), [&](auto const& one) { return on_.slots.has(one.first); });
  for (auto it = gone; it != unwatched_.end(); ++it) on_.slots.at(it->first).receive_unwatched(it->first, it->second);
  unwatched_.erase(gone, unwatched_.end());
}

void orders::receive(admin_request& i, admin_events* whose, time_point now) {
  i.unlink();
  i.server = &whole_;
  if (auto const watcher = watchers_.by_id.find(i.id); watcher != watchers_.by_id.end()) watcher->second.keeper = this;
  i.from_us = 0;  // of the other server's clock and owners
  i.written = false;
  if (std::exchange(i.is_known, false) && i.gives_up) {
    i.until = now + on_.env.settings.offline_timeout;
    on_.env.timers.arm(i.due, std::min(i.until, i.wait_ends));
  }
  events_ = whose;
  asked_.push_back(i);
  by_serial_.emplace(i.serial, &i);
}

bool orders::receive_unwatched(std::string name, grant_id id) {
  if (!on_.link.connected()) return false;
  unwatched_.emplace_back(std::move(name), id);
  return true;
}

void orders::take_over(time_point now) {
  asked_.for_each([&](admin_request& i) {
    if (i.written || i.is_known) return;
    on_.env.timers.arm(i.due, std::min(i.until, i.wait_ends));
    send(i, false, now);
  });
}

void orders::watch_again(std::set<unsigned> const& slots, time_point now) {
  asked_.for_each([&](admin_request& i) {
    bool const hears_nothing =
        i.what == admin_request::kind::wait_free && i.is_known && slots.contains(on_.slots.slot_of(i.name));
    if (hears_nothing) send(i, false, now);
  });
}

}  // namespace conch::protocol
