// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cohort/admin_request.hpp"
#include "protocol/server.hpp"

#include <algorithm>
#include <vector>

// Questions and orders about a lock, and what an order of another client does to this one.
namespace conch::protocol {

void server::administer(admin_request& i, admin_events& whose, time_point now) {
  i.at = this;
  i.serial = ++client_.last_serial;
  if (i.held_at != nullptr) i.id = static_cast<place const&>(*i.held_at).id;
  i.until = i.gives_up ? now + on_.env.settings.offline_timeout : timer_queue::never;
  if (i.what == admin_request::kind::wait_free) {
    i.id = ids_.next();
    if (i.wait > duration::zero() && now < timer_queue::never - i.wait) i.wait_ends = now + i.wait;
    client_.watchers.emplace(i.id, &i);
  }
  admin_events_ = &whose;
  admin_requests_.push_back(i);
  by_serial_.emplace(i.serial, &i);
  if (on_.link.denied()) {
    end_admin(i, {}, on_.link.denied());
    on_.link.drop("denied on this connection; the next one shows whether it still is");
    return;
  }
  if (i.gives_up) on_.env.timers.arm(i.due, std::min(i.until, i.wait_ends));
  if (on_.link.connected()) {
    send_admin(i, false, now);
  } else {
    on_.link.want();
  }
}

void server::withdraw(admin_request& i) noexcept {
  if (i.what == admin_request::kind::wait_free) {
    client_.watchers.erase(i.id);
    if (on_.link.connected() && (i.is_known || i.written)) {
      unwatched_.emplace_back(i.name, i.id);
      on_.env.timers.arm(rest_, last_heard_);
    }
  } else if (on_.link.connected() && i.written && i.what != admin_request::kind::inspect) {
    orphans_.emplace(i.serial, i);
  }
  i.unlink();
  by_serial_.erase(i.serial);
  i.due.cancel();
}

void server::send_admin(admin_request& i, bool with_source, time_point now) {
  i.written = true;
  ++on_.env.stats.scripts;
  milliseconds const claim = whole_ms(on_.env.settings.claim), kept = retention_of(on_.env.settings, on_.env.settings.lease);
  switch (i.what) {
    case admin_request::kind::inspect: out_.send(inspect_command{i.name, with_source}); break;
    case admin_request::kind::force: out_.send(force_command{i.name, claim, kept, i.fence, with_source, i.last, i.from_us}); break;
    case admin_request::kind::request: out_.send(request_command{i.name, i.fence, with_source}); break;
    case admin_request::kind::wait_free: out_.send(watch_command{i.name, i.id, whole_ms(on_.env.settings.lease), with_source}); break;
    case admin_request::kind::set_limit: out_.send(limit_command{i.name, claim, kept, i.size, with_source, i.by, i.if_unset}); break;
    case admin_request::kind::downgrade:
      out_.send(release_command{.name = i.name,
                                .id = i.id,
                                .lease = whole_ms(on_.env.settings.lease),
                                .claim = claim,
                                .retention = kept,
                                .with_source = with_source,
                                .permit = &i.permit,
                                .rest = i.size});
      break;
  }
  in_flight asked{request::admin_request, i.id, 0, nullptr, nullptr, now};
  asked.serial = i.serial;
  switch (i.what) {
    case admin_request::kind::inspect: asked.of = script::inspect; break;
    case admin_request::kind::force: asked.of = script::force; break;
    case admin_request::kind::request: asked.of = script::request; break;
    case admin_request::kind::wait_free: asked.of = script::watch; break;
    case admin_request::kind::set_limit: asked.of = script::limit; break;
    case admin_request::kind::downgrade: asked.of = script::permit_release; break;
  }
  push_request(asked);
}

/// The connection has ended. Ends the orders that must not be repeated: it is not known whether they were carried out.
void server::end_unrepeatable_admin(std::string_view why, time_point now) {
  orphans_.clear();
  unwatched_.clear();
  admin_requests_.for_each([&](admin_request& i) {
    if (std::exchange(i.is_known, false) && i.gives_up) {
      i.until = now + on_.env.settings.offline_timeout;
      on_.env.timers.arm(i.due, std::min(i.until, i.wait_ends));
    }
    if (i.written && !may_be_repeated(i)) end_admin(i, {}, make_error_code(errc::unreachable, why));
  });
}

bool server::may_be_repeated(admin_request const& i) {
  // An order that goes on names the owners that it means.
  bool const takes_from_all = i.what == admin_request::kind::force && !i.fence && !i.last;
  bool const adds = i.what == admin_request::kind::set_limit && i.by != 0;
  return !takes_from_all && !adds;
}

/// Sends all requests again on a new connection: none of them has been answered.
void server::repeat_admin(time_point now) {
  admin_requests_.for_each([&](admin_request& i) {
    i.from_us = 0;  // for a force that goes on: this may be another server, with other owners at that time
    send_admin(i, false, now);
  });
}

/// The request has timed out, or it is time to send it again.
void server::admin_due(admin_request& i, time_point now) {
  if (now >= i.wait_ends && (on_.link.connected() || now < i.until)) {
    std::string const silent = silence(now);
    if (!on_.link.connected()) end_admin(i, {}, on_.link.no_answer());
    else end_admin(i, {}, silent.empty() ? make_error_code(errc::timed_out) : make_error_code(errc::unreachable, silent));
    return;
  }
  if (now >= i.until) {
    end_admin(i, {}, on_.link.no_answer());
    return;
  }
  on_.env.timers.arm(i.due, std::min(i.until, i.wait_ends));
  server& there = keeper_of(i.name);
  if (&there != this && !i.written) {  // it was put off: its slot has moved meanwhile
    there.receive(i, admin_events_, now);
    by_serial_.erase(i.serial);
    there.take_over(now);
    return;
  }
  if (on_.link.connected()) send_admin(i, false, now);
}

void server::admin_answer(in_flight const& r, answer const& a, time_point now) {
  auto const found = by_serial_.find(r.serial);
  admin_request* asked = found == by_serial_.end() ? nullptr : found->second;
  if (a.what == fault::reconnect) on_.link.drop(a.words);
  if (a.what == fault::reconnect) return;  // asked again on the next connection
  if (asked == nullptr) {
    auto const orphan = orphans_.extract(r.serial);
    if (!orphan) return;
    if (auto const reply = read_order(orphan.mapped(), a)) order_done(orphan.mapped(), *reply, now);
    return;
  }
  asked->written = false;
  switch (a.what) {
    case fault::none:
      if (asked->what == admin_request::kind::inspect) {
        auto status = read_inspect(a);
        error_code const why = status ? error_code{} : to_error(fault::malformed, "invalid answer of the inspect script");
        end_admin(*asked, {0, std::move(status)}, why);
      } else if (asked->what == admin_request::kind::wait_free) {
        watch_answer(*asked, a, now);
      } else {
        order_answer(*asked, a, now);
      }
      return;
    case fault::no_script: send_admin(*asked, source_is_due(r), now); return;
    case fault::try_later:
      on_.link.note_once(a.words);
      on_.env.timers.arm(asked->due, std::min(asked->until, again_at(a, now)));
      return;
    default: end_admin(*asked, {}, to_error(a.what, a.words)); return;
  }
}

/// The `count` of a downgrade is 1, or 0 if the permit was not this client's any more.
std::optional<order_reply> server::read_order(order const& o, answer const& a) {
  if (o.what == order::kind::force || o.what == order::kind::request) return read_force(a);
  if (o.what == order::kind::set_limit) return read_limit(a, o.size);
  release_reply const reply = read_release(a, false, true);
  if (reply.what != release_reply::kind::released) return std::nullopt;
  bool const more = reply.more_in_line;
  return order_reply{.count = reply.was_mine, .passed_on = more && reply.passed_on, .more_to_do = more && reply.more_to_do, .permit = o.permit};
}

/// One script takes the lock from a limited number of owners. The answer says where the next one goes on.
void server::order_answer(admin_request& i, answer const& a, time_point now) {
  auto const reply = read_order(i, a);
  if (!reply) {
    end_admin(i, {}, to_error(fault::malformed, "invalid answer to an order"));
    return;
  }
  order_done(i, *reply, now);
  i.taken += reply->count;
  if (reply->goes_on) {
    i.last = reply->goes_on->last;
    i.from_us = reply->goes_on->from_us;
    i.until = now + on_.env.settings.offline_timeout;
    on_.env.timers.arm(i.due, i.until);
    send_admin(i, false, now);
    return;
  }
  grant_id const id = i.id;
  bool const gone = i.what == admin_request::kind::downgrade && reply->count == 0;
  end_admin(i, {i.taken, {}, reply->permit.limit}, gone ? make_error_code(errc::lost) : error_code{});
  if (gone) {
    if (place* const s = ids_.place_of(id)) s->of->taken_away(s, id, now);
  }
}

/// The client that was granted what the order has made free may be dead. It is looked after as after a release.
void server::order_done(order const& o, order_reply const& reply, time_point now) {
  bool const nothing = !reply.passed_on && !reply.more_to_do;
  if (nothing) return;
  place& s = made_here(reply.permit ? on_.env.up.make_permit_place(o.name, reply.permit) : on_.env.up.find_or_make(o.name));
  server& there = keeper_of(o.name);
  if (s.at == place::state::idle) s.of = &there;
  ++s.references;
  if (reply.passed_on) there.passed_on(s, whole_ms(on_.env.settings.lease), now);
  if (reply.more_to_do) {
    there.go_on(s, ids_.next(s), now);
  } else {
    there.look_after(s, ids_.next(s), now);
  }
  drop(s);
}

void server::prepare_close(time_point now) {
  drop_kicks(now);
  end_all_admin(make_error_code(errc::closed), now);
}

void server::end_all_admin(error_code why, time_point now) {
  ending_admin_ = why;
  go_on(now);
}

void server::end_admin(admin_request& i, admin_result const& result, error_code why) {
  withdraw(i);
  admin_events_->on_admin_answered(i, result, why);
}

// -------------------------------------------------------------------------------------------- to wait until a lock is free

/// The server tells when the lock is given back. A lease that expires tells nobody, so the watcher asks again after the end of it.
void server::watch_answer(admin_request& i, answer const& a, time_point now) {
  auto const reply = read_watch(a);
  if (!reply || reply->is_free) {
    i.is_known = false;
    end_admin(i, {}, reply ? error_code{} : to_error(fault::malformed, "invalid answer of the watch script"));
    return;
  }
  i.is_known = true;
  i.until = timer_queue::never;
  if (i.wait == duration::zero()) {
    end_admin(i, {}, make_error_code(errc::timed_out));
    return;
  }
  on_.env.timers.arm(i.due, i.wait_ends);
  watch_for(i, milliseconds{std::min<std::int64_t>(reply->left_ms, engine::longest_lease_ms)}, now);
}

/// Asks again when the leases have ended that it was told of, and in good time in any case (as check_after).
void server::watch_for(admin_request& i, milliseconds told, time_point now) {
  duration const left = sleep_for(told);
  time_point const check = now + left + on_.pause.jitter(std::min<duration>(left / 3, on_.env.settings.claim));
  if (check < i.due.at()) on_.env.timers.arm(i.due, check);
}

void server::freed(std::string_view name, grant_id id, bool more, time_point now) {
  last_heard_ = now;
  if (more && on_.link.connected()) {
    out_.send(watch_command{name, 0, whole_ms(on_.env.settings.lease)});
    in_flight goes_on{request::watch, 0, 0, nullptr, nullptr, now};
    goes_on.of = script::watch;
    push_request(goes_on);
  }
  auto const found = client_.watchers.find(id);
  if (found == client_.watchers.end() || found->second->name != name) return;
  found->second->is_known = false;
  static_cast<server*>(found->second->at)->end_admin(*found->second, {}, {});
}

/// Tells the server of watchers that have been withdrawn.
void server::unwatch(std::size_t& left, time_point now) {
  for (; left != 0 && !unwatched_.empty(); --left) {
    auto const [name, id] = std::move(unwatched_.back());
    unwatched_.pop_back();
    out_.send(unwatch_command{name, id});
    push_request({request::watch, id, 0, nullptr, nullptr, now});
  }
}

// ---------------------------------------------------------------------------------------------------- what an operator takes

/// An operator has taken the lock away.
void server::revoked(std::string_view name, grant_id id, time_point now) {
  last_heard_ = now;
  if (place* const s = owned_under(name, id)) s->of->taken_away(s, id, now);
}

/// The place that has the lock of that name under that id, or none.
place* server::owned_under(std::string_view name, grant_id id) {
  place* const permit = ids_.place_of(id);
  place* const s = permit != nullptr ? permit : made_here(on_.env.up.find(name));
  return s != nullptr && s->name == name && s->id == id && s->at == place::state::owned ? s : nullptr;
}

/// Reports the loss to the holder. Then a release goes to the server, which may have failed to pass on the lock.
void server::taken_away(place* s, grant_id id, time_point now) {
  if (s == nullptr || s->id != id || s->at != place::state::owned) return;
  ++on_.env.stats.revocations;
  end_lost(*s, true, now);
}

// ------------------------------------------------------------------------------------------ to be asked to let go

/// Pushes tell of a request. The server is asked once here, and on every new connection, because a request may have come before that.
void server::watch_requests(engine::place& whose, time_point now) {
  place& s = made_here(whose);
  if (std::exchange(s.watches_requests, true)) return;
  if (s.requested) {
    on_.env.up.requested(s, now);
  } else if (on_.link.connected()) {
    ask_for_requests(s, now);
  }
}

void server::ask_for_requests(place& s, time_point now) {
  out_.send(requested_command{s.name, s.fence});
  push_request({request::requested, s.id, 0, &s, nullptr, now});
}

void server::requested_answer(in_flight const& r, answer const& a, time_point now) {
  place& s = *r.at;
  bool const still = s.id == r.id && s.at == place::state::owned && !r.moved;
  if (a.what == fault::reconnect) {
    on_.link.drop(a.words);
  } else if (a.what == fault::none && still && read_session(a).count != 0) {
    asked_to_let_go(s, now);
  } else if (a.what != fault::none) {
    on_.link.note_once(a.words);  // the pushes still tell
  }
  drop(s);
}

void server::requested(std::string_view name, grant_id id, time_point now) {
  last_heard_ = now;
  if (place* const s = owned_under(name, id)) asked_to_let_go(*s, now);
}

void server::asked_to_let_go(place& s, time_point now) {
  if (std::exchange(s.requested, true)) return;
  on_.env.up.requested(s, now);
}

}  // namespace conch::protocol
