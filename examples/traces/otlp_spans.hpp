// An observer that writes OpenTelemetry spans as OTLP/JSON, one ExportTraceServiceRequest per line. The OpenTelemetry
// Collector reads such a file with its receiver "otlpjsonfile".
#pragma once

#include <conch/observer.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace traces {

/// The ids of the trace and the spans of one grant, in hexadecimal digits. They are computed from the lock's name and
/// the fencing token. So a resource that checks the token knows the span of the hold under which it was called, without
/// further context.
struct grant_ids {
  std::string trace, wait, hold;
};
grant_ids ids_of(std::string_view lock, std::int64_t fence);

/// Writes two spans for each grant, in one trace: "lock.wait" from the acquire to the grant, and its child "lock.hold"
/// from the grant to the end of the hold. An acquire without a grant is a "lock.wait" in a trace of its own. The wait's
/// events tell when it was queued and when it was retried.
///
/// `conch.lock.name` and `conch.lock.fence` join the wait of one process with the hold of another: a wait that was
/// granted with fence F last waited for the hold with the greatest fence below F of the same lock.
///
/// Use one object per client: it is not thread-safe, and a client makes its calls one after the other.
class otlp_spans final : public conch::observer {
 public:
  /// `out` must outlive this object. `service` is the resource's `service.name`; `instance` is its
  /// `service.instance.id`, which tells processes apart.
  otlp_spans(std::ostream& out, std::string service, std::string instance);

  void on_waiting(conch::lock_event const& e) override;
  void on_queued(conch::lock_event const& e) override;
  void on_retried(conch::lock_event const& e, conch::retry_reason why) override;
  void on_granted(conch::lock_event const& e, conch::grant_path how, conch::duration waited) override;
  void on_not_granted(conch::lock_event const& e, conch::error_code why, conch::duration waited) override;
  void on_released(conch::lock_event const& e, conch::duration held) override;
  void on_lost(conch::lock_event const& e, conch::error_code why, conch::duration held) override;
  void on_detached(conch::lock_event const& e, conch::duration held) override;

 private:
  struct moment {
    std::string what;
    conch::time_point at;
  };
  struct span;

  std::vector<moment> end_of_wait(std::uint64_t acquire);
  void hold_ended(conch::lock_event const& e, std::string_view how, std::string error, conch::duration held);
  void write(conch::lock_event const& e, span const& s);
  std::string unix_time(conch::time_point t) const;

  std::ostream& out_;
  std::string const service_, instance_;
  std::chrono::nanoseconds const unix_offset_;          // Unix time minus conch's clock
  std::map<std::uint64_t, std::vector<moment>> waits_;  // the events of each acquire under way
  std::uint64_t ungranted_ = 0;
};

}  // namespace traces
