// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/mutant.hpp"
#include "protocol/inquiry.hpp"
#include "protocol/server.hpp"

#include <algorithm>
#include <vector>

// Questions and orders about a lock, and what comes of somebody else's.
namespace conch::engine {

inquiry::inquiry() noexcept
    : due{this, [](void* self, time_point now) {
        auto& i = *static_cast<inquiry*>(self);
        i.at->inquiry_due(i, now);
      }} {}

inquiry::~inquiry() {
  if (linked()) at->withdraw(*this);
}

void server::inquire(inquiry& i, inquirer& whose, time_point now) {
  i.at = this;
  i.serial = ++last_inquiry_;
  i.until = now + settings_.offline_timeout;
  inquirer_ = &whose;
  inquiries_.push_back(i);
  by_serial_.emplace(i.serial, &i);
  if (denied_) {
    end_inquiry(i, {}, denied_);
    out_.drop_connection("denied so far; the next connection shows whether it still is");
    return;
  }
  if (!CONCH_MUTANT(inquiry_without_end)) timers_.arm(i.due, i.until);
  if (connected_) {
    send_inquiry(i, false, now);
  } else {
    out_.want_connection();
  }
}

void server::withdraw(inquiry& i) noexcept {
  if (connected_ && i.written && i.what != inquiry::kind::inspect) orphans_.emplace(i.serial, i);
  i.unlink();
  by_serial_.erase(i.serial);
  i.due.cancel();
}

void server::send_inquiry(inquiry& i, bool with_source, time_point now) {
  i.written = true;
  ++stats_.scripts;
  milliseconds const claim = whole_ms(settings_.claim), kept = retention(settings_.lease);
  switch (i.what) {
    case inquiry::kind::inspect: out_.send(inspect_command{i.name, with_source}); break;
    case inquiry::kind::force: out_.send(force_command{i.name, claim, kept, i.fence, with_source, i.last, i.from_us}); break;
    case inquiry::kind::set_limit: out_.send(limit_command{i.name, claim, kept, i.size, with_source}); break;
    case inquiry::kind::weaken:
      out_.send(release_command{.name = i.name, .id = i.id, .lease = whole_ms(settings_.lease), .claim = claim,
                                .retention = kept, .with_source = with_source, .part = &i.part, .rest = i.size});
      break;
  }
  in_flight asked{request::inquiry, i.id, 0, nullptr, nullptr, now};
  asked.serial = i.serial;
  switch (i.what) {
    case inquiry::kind::inspect: asked.of = script::inspect; break;
    case inquiry::kind::force: asked.of = script::force; break;
    case inquiry::kind::set_limit: asked.of = script::limit; break;
    case inquiry::kind::weaken: asked.of = script::permit_release; break;
  }
  push_request(asked);
}

/// With the connection: nobody can say what became of it.
void server::end_unrepeatable_inquiries(std::string_view why) {
  orphans_.clear();
  inquiries_.for_each([&](inquiry& i) {
    if (CONCH_MUTANT(force_repeated)) return;
    // One that goes on says which owners it means.
    if (i.written && i.what == inquiry::kind::force && i.fence == 0 && i.last == 0) end_inquiry(i, {}, make_error_code(errc::unreachable, why));
  });
}

/// On a new connection: none of them has been answered.
void server::repeat_inquiries(time_point now) {
  inquiries_.for_each([&](inquiry& i) {
    i.from_us = 0;  // of an order that goes on: it may be another server, with other owners in that place
    send_inquiry(i, false, now);
  });
}

/// Out of patience, or it is time to ask again.
void server::inquiry_due(inquiry& i, time_point now) {
  if (now >= i.until) {
    end_inquiry(i, {}, make_error_code(errc::unreachable, trouble_));
    return;
  }
  timers_.arm(i.due, i.until);
  if (connected_) send_inquiry(i, false, now);
}

void server::inquiry_answer(in_flight const& r, answer const& a, time_point now) {
  auto const found = by_serial_.find(r.serial);
  inquiry* asked = found == by_serial_.end() ? nullptr : found->second;
  if (CONCH_MUTANT(any_inquiry_answered)) inquiries_.for_each([&](inquiry& i) { asked = &i; });
  if (a.what == fault::reconnect) out_.drop_connection(a.words);
  if (a.what == fault::reconnect) return;  // asked again on the next connection
  if (asked == nullptr) {
    auto const orphan = orphans_.extract(r.serial);
    if (orphan && a.what == fault::none) order_done(orphan.mapped(), a.numbers, now);
    return;
  }
  asked->written = false;
  switch (a.what) {
    case fault::none: {
      order_done(*asked, a.numbers, now);
      if (asked->what == inquiry::kind::force && goes_on(*asked, a.numbers)) {
        asked->until = now + settings_.offline_timeout;
        timers_.arm(asked->due, asked->until);
        send_inquiry(*asked, false, now);
        return;
      }
      if (asked->taken != 0) {
        std::vector<std::int64_t> all{a.numbers.begin(), a.numbers.end()};
        all[0] += asked->taken;
        end_inquiry(*asked, all, {});
        return;
      }
      bool const gone = asked->what == inquiry::kind::weaken && (a.numbers.empty() || a.numbers[0] == 0);
      end_inquiry(*asked, a.numbers, gone ? make_error_code(errc::lost) : error_code{});
      if (gone) taken_away(wanted_part(r.id), r.id, now);
      return;
    }
    case fault::no_script: send_inquiry(*asked, source_is_due(r), now); return;
    case fault::try_later:
      timers_.arm(asked->due, std::min(asked->until, again_at(now)));
      return;
    default: end_inquiry(*asked, {}, to_error(a.what, a.words)); return;
  }
}

/// Of many owners one script takes it from so many; the answer says where the next goes on.
bool server::goes_on(inquiry& i, std::span<std::int64_t const> numbers) {
  if (numbers.size() < 7 || (numbers[2] & unfinished_flag) == 0) return false;
  i.taken += numbers[0];
  i.last = numbers[5];
  i.from_us = numbers[6];
  return true;
}

/// Who was granted what the order has made free may be dead: that is looked after as after a release.
void server::order_done(order const& o, std::span<std::int64_t const> numbers, time_point now) {
  permit part = o.part;
  std::int64_t flags = 0;
  if (o.what == order::kind::weaken) {
    if (numbers.size() > 2 && numbers[2] != 0) flags = numbers[1];
  } else if (o.what == order::kind::set_limit) {
    if (numbers.size() > 2) flags = numbers[2];
    part = {.kind = permit_kind::semaphore, .limit = o.size, .weight = 1};
  } else if (o.what == order::kind::force && numbers.size() > 4) {
    constexpr std::int64_t more_to_pass_on = 4;
    if (is_lock_kind(numbers[3])) flags = (numbers[2] & passed_on_flag) | ((numbers[2] & more_to_pass_on) != 0 ? unfinished_flag : 0);
    part = {.kind = static_cast<permit_kind>(numbers[3]), .limit = static_cast<std::uint32_t>(numbers[4]), .weight = 1};
  }
  if (flags == 0 || CONCH_MUTANT(orders_not_looked_after)) return;
  seat& s = part ? up_.make_part(o.name, part) : up_.find_or_make(o.name);
  ++s.references;
  if ((flags & passed_on_flag) != 0) passed_on(s, now);
  if ((flags & unfinished_flag) != 0) {
    go_on(s, next_id(s), now);
  } else {
    look_after(s, next_id(s), now);
  }
  drop(s);
}

void server::end_inquiries(error_code why, time_point now) {
  ending_inquiries_ = why;
  go_on(now);
}

void server::end_inquiry(inquiry& i, std::span<std::int64_t const> numbers, error_code why) {
  withdraw(i);
  inquirer_->on_inquiry_answered(i, numbers, why);
}

/// An operator has taken it away.
void server::revoked(std::string_view name, grant_id id, time_point now) {
  last_heard_ = now;
  seat* const part = wanted_part(id);
  seat* const s = part != nullptr ? part : up_.find(name);
  if (s != nullptr && s->name == name) taken_away(s, id, now);
}

/// The holder is told, and then the server, which may have failed to pass on what it took.
void server::taken_away(seat* s, grant_id id, time_point now) {
  if (s == nullptr || s->id != id || s->at != seat::state::owned || CONCH_MUTANT(revocation_ignored)) return;
  ++stats_.revocations;
  ++s->references;
  s->at = seat::state::idle;
  s->unlink();
  s->renewing = false;
  up_.lost(*s, now);
  owe(*s, id, nullptr, now);
  drop(*s);
}

}  // namespace conch::engine
