// How gtest prints the replies of protocol/replies.hpp where two of them differ.
#pragma once

#include "protocol/replies.hpp"

#include <gtest/gtest.h>

#include <ostream>

namespace conch::engine {

inline void PrintTo(lock_report::owner const& o, std::ostream* out) {
  *out << "client " << testing::PrintToString(o.client) << " fence " << o.fence << " left " << o.left_ms << " permits "
       << o.permits << " segment " << o.segment << (o.confirmed ? " confirmed" : " claimed")
       << (o.asked_us != 0 ? ", asked" : "");
}

inline void PrintTo(lock_report::waiter const& w, std::ostream* out) {
  *out << "client " << testing::PrintToString(w.client) << " since " << w.since_us << " permits " << w.permits;
}

inline void PrintTo(lock_report const& r, std::ostream* out) {
  *out << "report of kind " << static_cast<int>(r.kind) << " waiting " << r.waiting << " held " << r.held << " taken "
       << r.taken << " limit " << r.limit << " owners " << testing::PrintToString(r.owners) << " waiters "
       << testing::PrintToString(r.waiters);
}

}  // namespace conch::engine

namespace conch::protocol {

inline void PrintTo(acquire_reply const& r, std::ostream* out) {
  using kind = acquire_reply::kind;
  switch (r.what) {
    case kind::granted: *out << "granted"; break;
    case kind::queued: *out << "queued"; break;
    case kind::busy: *out << "busy"; break;
    case kind::too_late: *out << "too late"; break;
    case kind::unfinished: *out << "unfinished"; break;
    case kind::malformed: *out << "malformed acquire"; break;
  }
  *out << " fence " << r.fence << " segment " << r.chosen << " left " << r.left_ms << " ticket " << r.ticket << " at "
       << r.server_us;
  if (r.seen)
    *out << " owner " << r.seen->client << " of ticket " << r.seen->ticket
         << (r.seen->confirmed ? " confirmed" : " claimed");
  if (r.passed_on) *out << " passed on";
  if (r.more_to_do) *out << " more to do";
}

inline void PrintTo(watch_reply const& r, std::ostream* out) {
  if (r.is_free) *out << "free";
  else *out << "not free for " << r.left_ms;
}

inline void PrintTo(identity_reply const& r, std::ostream* out) { *out << "introduced as " << r.text; }

inline void PrintTo(tries_reply const& r, std::ostream* out) {
  *out << (r.too_late ? "too late" : "tried") << " at " << r.server_us << " fences "
       << testing::PrintToString(r.fences);
}

inline void PrintTo(release_reply const& r, std::ostream* out) {
  using kind = release_reply::kind;
  switch (r.what) {
    case kind::released: *out << "released"; break;
    case kind::still_owned: *out << "still owned"; break;
    case kind::not_done: *out << "not done"; break;
    case kind::malformed: *out << "malformed release"; break;
  }
  *out << (r.was_mine ? " mine" : " not mine") << " fence " << r.fence << " segment " << r.chosen << " at "
       << r.server_us;
  if (r.passed_on) *out << " passed on";
  if (r.more_in_line) *out << " more in line";
  if (r.more_to_do) *out << " more to do";
  *out << " again " << testing::PrintToString(r.again);
}

inline void PrintTo(renew_reply::one const& r, std::ostream* out) {
  *out << (r.what == renew_reply::kind::renewed    ? "renewed"
           : r.what == renew_reply::kind::not_mine ? "not mine"
                                                   : "failed")
       << (r.overtaken ? " overtaken" : "") << " last fence " << r.last_fence;
}

inline void PrintTo(renew_reply const& r, std::ostream* out) {
  *out << "at " << r.server_us << ' ' << testing::PrintToString(r.locks);
}

inline void PrintTo(order_reply const& r, std::ostream* out) {
  *out << "order " << r.count << " of kind " << static_cast<int>(r.permit.kind) << " limit " << r.permit.limit
       << " weight " << r.permit.weight;
  if (r.passed_on) *out << " passed on";
  if (r.more_to_do) *out << " more to do";
  if (r.goes_on) *out << " goes on below " << r.goes_on->last << " from " << r.goes_on->from_us;
}

inline void PrintTo(session_reply const& r, std::ostream* out) { *out << "count " << r.count; }

}  // namespace conch::protocol
