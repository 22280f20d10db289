#include "stats_json.hpp"

#include <cstdint>

namespace http_counter {

namespace {

// Integers, because Boost.JSON writes a double as 2.56E2.
std::int64_t microseconds(conch::duration d) { return d.count() / 1000; }

boost::json::object to_json(conch::histogram const& h) {
  std::int64_t const mean = h.count == 0 ? 0 : microseconds(h.sum) / static_cast<std::int64_t>(h.count);
  return {{"count", h.count},
          {"mean_us", mean},
          {"p50_us", microseconds(h.quantile(0.5))},
          {"p99_us", microseconds(h.quantile(0.99))},
          {"p999_us", microseconds(h.quantile(0.999))}};
}

}  // namespace

boost::json::object to_json(conch::statistics const& s) {
  return {{"acquires", s.acquires},
          {"grants_replied", s.grants_replied},
          {"grants_pushed", s.grants_pushed},
          {"grants_local", s.grants_local},
          {"tries_busy", s.tries_busy},
          {"timeouts", s.timeouts},
          {"cancellations", s.cancellations},
          {"failures", s.failures},
          {"releases", s.releases},
          {"losses", s.losses},
          {"warnings", s.warnings},
          {"renewals", s.renewals},
          {"renewal_scripts", s.renewal_scripts},
          {"renewals_refused", s.renewals_refused},
          {"scripts", s.scripts},
          {"safety_checks", s.safety_checks},
          {"kicks", s.kicks},
          {"pushes", s.pushes},
          {"pushes_late", s.pushes_late},
          {"pushes_doubted", s.pushes_doubted},
          {"pushes_stray", s.pushes_stray},
          {"connects", s.connects},
          {"disconnects", s.disconnects},
          {"master_switches", s.master_switches},
          {"topology_refreshes", s.topology_refreshes},
          {"tls_handshakes", s.tls_handshakes},
          {"tls_handshakes_failed", s.tls_handshakes_failed},
          {"tls_peer_expires", s.tls_peer_expires.time_since_epoch().count()},
          {"reauthentications", s.reauthentications},
          {"reauthentications_failed", s.reauthentications_failed},
          {"cleanups_pending", s.cleanups_pending},
          {"waiting", s.waiting},
          {"held", s.held},
          {"endangered", s.endangered},
          {"wait", to_json(s.wait)},
          {"hold", to_json(s.hold)}};
}

}  // namespace http_counter
