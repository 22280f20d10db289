#include "otlp_spans.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <conch/print.hpp>
#include <cstdio>
#include <utility>

namespace json = boost::json;

namespace traces {

namespace {

/// FNV-1a, 64 bits.
std::uint64_t hash_of(std::string_view text, std::uint64_t from) {
  constexpr std::uint64_t prime = 0x100000001b3;
  for (char const c : text) from = (from ^ static_cast<unsigned char>(c)) * prime;
  return from;
}

std::string hex(std::uint64_t n) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(n));
  return text;
}

grant_ids ids_of(std::string const& what) {
  constexpr std::uint64_t basis = 0xcbf29ce484222325;
  // Never 0, which OTLP does not accept as an id.
  auto const of = [&](std::string_view salt) { return hex(hash_of(what, hash_of(salt, basis)) | 1); };
  return {of("trace, first half") + of("trace, second half"), of("wait"), of("hold")};
}

json::object attribute(std::string_view key, std::string_view value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}
/// OTLP/JSON writes 64-bit integers as text.
json::object attribute(std::string_view key, std::int64_t value) {
  return {{"key", key}, {"value", {{"intValue", std::to_string(value)}}}};
}
json::object attribute(std::string_view key, bool value) { return {{"key", key}, {"value", {{"boolValue", value}}}}; }

std::string_view name_of(conch::grant_path how) {
  switch (how) {
    case conch::grant_path::answered: return "answered";
    case conch::grant_path::pushed: return "pushed";
    case conch::grant_path::handed_off: return "handed_off";
  }
  return "unknown";
}

std::string_view name_of(conch::retry_reason why) {
  switch (why) {
    case conch::retry_reason::reconnected: return "reconnected";
    case conch::retry_reason::safety_check: return "safety_check";
    case conch::retry_reason::server_busy: return "server_busy";
    case conch::retry_reason::push_doubted: return "push_doubted";
    case conch::retry_reason::grant_late: return "grant_late";
    case conch::retry_reason::replicas_missing: return "replicas_missing";
    case conch::retry_reason::votes_given_back: return "votes_given_back";
  }
  return "unknown";
}

/// JSON is UTF-8, but a name may have any bytes: all but printable ASCII become %NN, and % becomes %25.
std::string readable(std::string_view name) {
  std::string out;
  for (char const c : name) {
    if (c >= ' ' && c < 127 && c != '%') {
      out += c;
    } else {
      char text[4];
      std::snprintf(text, sizeof text, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += text;
    }
  }
  return out;
}

}  // namespace

grant_ids ids_of(std::string_view lock, std::int64_t fence) {
  return ids_of(std::string{lock} + '#' + std::to_string(fence));
}

struct otlp_spans::span {
  std::string_view name;
  grant_ids ids;
  std::string id, parent;
  conch::duration took;
  std::string_view how;  // how the lock was granted or the hold ended
  std::string error = {};
  std::vector<moment> moments = {};
};

otlp_spans::otlp_spans(std::ostream& out, std::string service, std::string instance)
    : out_{out},
      service_{std::move(service)},
      instance_{std::move(instance)},
      unix_offset_{std::chrono::system_clock::now().time_since_epoch() - conch::clock::now().time_since_epoch()} {}

/// In ns, as text. Conch's clock counts from the start of the machine. The offset to Unix time is measured once, so
/// that spans keep the lengths that conch measured even if the machine's time is set.
std::string otlp_spans::unix_time(conch::time_point t) const {
  return std::to_string((t.time_since_epoch() + unix_offset_).count());
}

void otlp_spans::on_waiting(conch::lock_event const& e) { waits_[e.acquire].clear(); }

void otlp_spans::on_queued(conch::lock_event const& e) { waits_[e.acquire].push_back({"queued", e.at}); }

void otlp_spans::on_retried(conch::lock_event const& e, conch::retry_reason why) {
  waits_[e.acquire].push_back({"retried: " + std::string{name_of(why)}, e.at});
}

std::vector<otlp_spans::moment> otlp_spans::end_of_wait(std::uint64_t acquire) {
  auto known = waits_.extract(acquire);
  return known ? std::move(known.mapped()) : std::vector<moment>{};
}

void otlp_spans::on_granted(conch::lock_event const& e, conch::grant_path how, conch::duration waited) {
  grant_ids const ids = ids_of(e.name, e.fence);
  write(e, {"lock.wait", ids, ids.wait, "", waited, name_of(how), "", end_of_wait(e.acquire)});
}

void otlp_spans::on_not_granted(conch::lock_event const& e, conch::error_code why, conch::duration waited) {
  grant_ids const ids =
      ids_of(instance_ + ' ' + std::to_string(e.at.time_since_epoch().count()) + ' ' + std::to_string(++ungranted_));
  write(e, {"lock.wait", ids, ids.wait, "", waited, why ? "failed" : "busy", why ? why.message() : "",
            end_of_wait(e.acquire)});
}

void otlp_spans::on_released(conch::lock_event const& e, conch::duration held) { hold_ended(e, "released", "", held); }

void otlp_spans::on_lost(conch::lock_event const& e, conch::error_code why, conch::duration held) {
  hold_ended(e, "lost", why.message(), held);
}

void otlp_spans::on_detached(conch::lock_event const& e, conch::duration held) { hold_ended(e, "detached", "", held); }

void otlp_spans::hold_ended(conch::lock_event const& e, std::string_view how, std::string error, conch::duration held) {
  grant_ids const ids = ids_of(e.name, e.fence);
  write(e, {"lock.hold", ids, ids.hold, ids.wait, held, how, std::move(error)});
}

void otlp_spans::write(conch::lock_event const& e, span const& s) {
  json::array attributes{attribute("conch.lock.name", readable(e.name)),
                         attribute("conch.lock.kind", to_string(e.kind)), attribute("conch.lock.shared", e.shared),
                         attribute("conch.outcome", s.how)};
  if (e.fence != 0) attributes.push_back(attribute("conch.lock.fence", e.fence));
  json::array events;
  for (moment const& m : s.moments) events.push_back(json::object{{"name", m.what}, {"timeUnixNano", unix_time(m.at)}});
  constexpr int internal = 1, error = 2;  // OTLP's SPAN_KIND_INTERNAL and STATUS_CODE_ERROR
  json::object one{{"traceId", s.ids.trace},
                   {"spanId", s.id},
                   {"name", s.name},
                   {"kind", internal},
                   {"startTimeUnixNano", unix_time(e.at - s.took)},
                   {"endTimeUnixNano", unix_time(e.at)},
                   {"attributes", std::move(attributes)},
                   {"events", std::move(events)}};
  if (!s.parent.empty()) one["parentSpanId"] = s.parent;
  if (!s.error.empty()) one["status"] = json::object{{"code", error}, {"message", s.error}};
  json::object const resource{
      {"attributes", json::array{attribute("service.name", service_), attribute("service.instance.id", instance_)}}};
  json::object const scope{{"scope", json::object{{"name", "conch"}}}, {"spans", json::array{std::move(one)}}};
  json::object const request{
      {"resourceSpans", json::array{json::object{{"resource", resource}, {"scopeSpans", json::array{scope}}}}}};
  out_ << json::serialize(request) << '\n' << std::flush;
}

}  // namespace traces
