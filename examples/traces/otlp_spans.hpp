// An observer that writes spans in the manner of OpenTelemetry, as OTLP/JSON: one ExportTraceServiceRequest a line, as the OpenTelemetry
// Collector reads them from a file (receiver "otlpjsonfile").
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

/// The trace and the spans of one grant, in hexadecimal digits. They follow from the name of the lock and the fencing token: whoever has both,
/// such as the resource that checks the token, can name the span of the hold under which it was called, and nothing need be handed on.
struct grant_ids {
  std::string trace, wait, hold;
};
grant_ids ids_of(std::string_view lock, std::int64_t fence);

/// Two spans for each grant, in one trace: "lock.wait" from the acquire to the grant, and its child "lock.hold" from the grant to the end of the
/// hold. An acquire without a grant is a "lock.wait" in a trace of its own. That it stood in line, and was asked for again, are events of it.
///
/// The wait of one process is joined with the hold of another by `conch.lock.name` and `conch.lock.fence`: a wait that was granted with fence F
/// waited last for the hold with the greatest fence below F of the same lock.
///
/// For one client: its calls come one after the other.
class otlp_spans final : public conch::observer {
 public:
  /// `out` must outlive it. `service` is `service.name` of the resource; `instance`, `service.instance.id`, tells processes apart.
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
  std::chrono::nanoseconds const unix_ahead_;           // of conch's clock
  std::map<std::uint64_t, std::vector<moment>> waits_;  // what has become of the acquires under way
  std::uint64_t ungranted_ = 0;
};

}  // namespace traces
