// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include <conch/stats.hpp>

#include "base/readable.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

namespace conch {

namespace {

using std::chrono::microseconds;

class exposition {
 public:
  explicit exposition(std::string_view labels) : labels_{labels} {}

  void counter(std::string_view name, std::string_view help, std::uint64_t value) {
    plain(name, help, "counter", value);
  }
  void results(std::string_view name, std::string_view help, std::uint64_t ok, std::uint64_t failed) {
    head(name, help, "counter");
    sample(name, {}, "result=\"ok\"", std::to_string(ok));
    sample(name, {}, "result=\"failed\"", std::to_string(failed));
  }
  void gauge(std::string_view name, std::string_view help, std::uint64_t value) { plain(name, help, "gauge", value); }

  /// A line for each server, which `value` gives as text.
  template <typename F>
  void servers(std::string_view name, std::string_view help, std::string_view type,
               std::vector<server_statistics> const& all, F value) {
    head(name, help, type);
    for (auto const& s : all) sample(name, {}, "server=\"" + escaped(s.url) + "\"", value(s));
  }

  /// A line for each lock, which `value` gives as text.
  template <typename F>
  void locks(std::string_view name, std::string_view help, std::vector<lock_statistics> const& all, F value) {
    head(name, help, "counter");
    for (auto const& one : all) sample(name, {}, "lock=\"" + escaped(printable(one.name)) + "\"", value(one));
  }

  void latency(std::string_view name, std::string_view help, histogram const& h) {
    head(name, help, "histogram");
    std::uint64_t sum = 0;
    char bound[40];
    for (std::size_t i = 0; i + 1 < histogram::bucket_count; ++i) {
      sum += h.buckets[i];
      std::snprintf(bound, sizeof bound, "le=\"%.10g\"", std::ldexp(1e-6, static_cast<int>(i)));
      sample(name, "_bucket", bound, std::to_string(sum));
    }
    sample(name, "_bucket", "le=\"+Inf\"", std::to_string(h.count));
    sample(name, "_sum", {}, seconds(h.sum));
    sample(name, "_count", {}, std::to_string(h.count));
  }

  std::string take() { return std::move(text_); }

  static std::string seconds(duration d) {
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", std::chrono::duration<double>(d).count());
    return text;
  }

 private:
  static std::string escaped(std::string_view value) {
    std::string out;
    for (char const c : value) {
      if (c == '\\' || c == '"') out += '\\';
      out += c == '\n' ? std::string_view{"\\n"} : std::string_view{&c, 1};
    }
    return out;
  }

  void plain(std::string_view name, std::string_view help, std::string_view type, std::uint64_t value) {
    head(name, help, type);
    sample(name, {}, {}, std::to_string(value));
  }

  void head(std::string_view name, std::string_view help, std::string_view type) {
    text_.append("# HELP conch_").append(name).append(" ").append(help).append("\n# TYPE conch_").append(name);
    text_.append(" ").append(type).append("\n");
  }

  void sample(std::string_view name, std::string_view suffix, std::string_view label, std::string_view value) {
    text_.append("conch_").append(name).append(suffix);
    if (!labels_.empty() || !label.empty()) {
      text_.append("{").append(labels_).append(!labels_.empty() && !label.empty() ? "," : "").append(label).append("}");
    }
    text_.append(" ").append(value).append("\n");
  }

  std::string_view labels_;
  std::string text_;
};

}  // namespace

void histogram::add(duration d) noexcept {
  auto const us = static_cast<std::uint64_t>(std::max<duration::rep>(d.count(), 0) + 999) / 1000;
  std::size_t const bucket = us <= 1 ? 0 : static_cast<std::size_t>(std::bit_width(us - 1));
  ++buckets[std::min(bucket, bucket_count - 1)];
  ++count;
  sum += d;
}

duration histogram::quantile(double share) const noexcept {
  auto const wanted = static_cast<std::uint64_t>(std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(count)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < bucket_count; ++i) {
    seen += buckets[i];
    if (count != 0 && seen >= std::max<std::uint64_t>(wanted, 1)) return microseconds{std::uint64_t{1} << i};
  }
  return duration::zero();
}

std::string to_prometheus(statistics const& s, std::string_view labels) {
  exposition e{labels};
  e.counter("acquires_total", "Acquire and try calls.", s.acquires);
  e.counter("grants_replied_total", "Grants in the answer to the request.", s.grants_replied);
  e.counter("grants_pushed_total", "Grants handed over by the server.", s.grants_pushed);
  e.counter("grants_local_total", "Grants handed on inside the process.", s.grants_local);
  e.counter("tries_busy_total", "Try calls that found the lock taken.", s.tries_busy);
  e.counter("timeouts_total", "Acquires that timed out.", s.timeouts);
  e.counter("cancellations_total", "Acquires that were cancelled.", s.cancellations);
  e.counter("failures_total", "Acquires that failed.", s.failures);
  e.counter("releases_total", "Releases of valid holds.", s.releases);
  e.counter("losses_total", "Holds that were lost.", s.losses);
  e.counter("revocations_total", "Of these: taken away by force.", s.revocations);
  e.counter("warnings_total", "Holds whose renewal was late.", s.warnings);
  e.counter("renewals_total", "Locks renewed.", s.renewals);
  e.counter("renewal_scripts_total", "Scripts that renewed them.", s.renewal_scripts);
  e.counter("renewals_refused_total", "Renewals of holds that the server no longer knew.", s.renewals_refused);
  e.counter("scripts_total", "Scripts sent.", s.scripts);
  e.counter("safety_checks_total", "Re-asks of waiting clients.", s.safety_checks);
  e.counter("kicks_total", "Repeated releases for a next waiter that may be dead.", s.kicks);
  e.counter("pushes_total", "Grants received by push.", s.pushes);
  e.counter("pushes_late_total", "Pushes that could not be shown to be in time.", s.pushes_late);
  e.counter("pushes_doubted_total", "Pushes for a lock that is not ours, or with an impossible fence.",
            s.pushes_doubted);
  e.counter("pushes_stray_total", "Pushes that no waiter needed any more.", s.pushes_stray);
  e.counter("connects_total", "Connections made.", s.connects);
  e.counter("disconnects_total", "Connections lost.", s.disconnects);
  e.counter("votes_given_back_total", "Votes that were too few for the lock, passed on.", s.votes_given_back);
  e.counter("fence_rounds_total", "Grants whose fence took a second round trip.", s.fence_rounds);
  e.results("tls_handshakes_total", "Attempts to connect over TLS.", s.tls_handshakes, s.tls_handshakes_failed);
  e.results("reauthentications_total", "Credentials renewed on live connections.", s.reauthentications,
            s.reauthentications_failed);
  e.counter("master_switches_total", "Masters that Sentinels named after another one.", s.master_switches);
  e.counter("topology_refreshes_total",
            "Times that Sentinels were asked again for the master, or nodes of a Cluster for their map.",
            s.topology_refreshes);
  e.counter("sync_short_total", "Grants and renewals that too few replicas acknowledged in time.", s.sync_short);
  e.gauge("cleanups_pending", "Releases and leaves not yet answered.", s.cleanups_pending);
  e.gauge("waiting", "Acquires under way.", s.waiting);
  e.gauge("held", "Holds.", s.held);
  e.gauge("endangered", "Holds whose renewal is late now.", s.endangered);
  // Where there is no certificate, there is no line: an alert on an early end would fire.
  if (s.tls_peer_expires != std::chrono::sys_seconds{}) {
    e.gauge("tls_peer_certificate_expires_seconds", "Unix time at which the first of the servers' certificates ends.",
            static_cast<std::uint64_t>(s.tls_peer_expires.time_since_epoch().count()));
  }
  if (!s.servers.empty()) {
    using server = server_statistics const&;
    e.servers("server_connected", "Of several servers: 1 where there is a connection.", "gauge", s.servers,
              [](server of) { return std::string{of.connected ? "1" : "0"}; });
    e.servers("server_votes_total", "Votes that this server gave.", "counter", s.servers,
              [](server of) { return std::to_string(of.votes); });
    e.servers("server_cleanups_pending", "Releases and leaves that this server has not answered.", "gauge", s.servers,
              [](server of) { return std::to_string(of.cleanups_pending); });
    e.servers("server_round_trip_seconds", "From a command to this server's answer, smoothed.", "gauge", s.servers,
              [](server of) { return exposition::seconds(of.round_trip); });
  }
  if (!s.locks.empty()) {
    using lock = lock_statistics const&;
    e.locks("lock_grants_total", "Grants of this lock.", s.locks, [](lock of) { return std::to_string(of.grants); });
    e.locks("lock_refusals_total", "Acquires of this lock that ended without a grant.", s.locks,
            [](lock of) { return std::to_string(of.refusals); });
    e.locks("lock_losses_total", "Holds of this lock that were lost.", s.locks,
            [](lock of) { return std::to_string(of.losses); });
    e.locks("lock_wait_seconds_total", "Time that acquires of this lock have waited.", s.locks,
            [](lock of) { return exposition::seconds(of.wait); });
    e.locks("lock_hold_seconds_total", "Time that this lock was held.", s.locks,
            [](lock of) { return exposition::seconds(of.hold); });
  }
  e.latency("failover_seconds", "From the end of a connection to the first answer of another master.", s.failover);
  e.latency("sync_wait_seconds", "From writing a batch of grants and renewals to the answer of its WAIT.", s.sync_wait);
  e.latency("wait_seconds", "From the call to the grant.", s.wait);
  e.latency("hold_seconds", "From the grant to the release or loss.", s.hold);
  return e.take();
}

}  // namespace conch
