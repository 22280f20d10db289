// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/simulated/server.hpp"
#include "servers/simulated/surroundings.hpp"
#include "testing/agenda.hpp"
#include "testing/fault_source.hpp"
#include "testing/processes.hpp"
#include "testing/trace.hpp"
#include "testing/virtual_time.hpp"

#include <conch/testing.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::testing {

/// A world: its time, its processes, its servers, and its loop.
class world_state final : public simulated::surroundings {
 public:
  world_state(std::uint64_t seed, world_settings const& settings);
  ~world_state();
  world_state(world_state const&) = delete;
  world_state& operator=(world_state const&) = delete;

  std::uint64_t seed() const noexcept { return seed_; }
  std::int64_t now() const noexcept { return time_.now(); }
  processes& all() noexcept { return processes_; }
  trace const& lines() const noexcept { return trace_; }
  resource& guarded_by(std::string_view lock, fencing f);

  // ---- bodies
  std::function<void(std::exception_ptr)> begin_body(std::string_view process);
  void at_end(std::function<void()> check) { checks_.push_back(std::move(check)); }
  void run();

  // ---- faults
  void stand_still(duration length);
  void stand_still(process& p, duration length);
  void cut(std::string_view client);
  bool lose(std::int64_t token);
  void restart(std::string_view server, bool keeps_data);

  // ---- of resources
  void before_access();
  void accessed(std::string_view lock, std::string_view verb, std::int64_t fence, std::string_view outcome);
  /// A write was taken.
  void judge_write(std::string_view lock, std::int64_t fence, std::int64_t greatest_seen);
  /// About the process that runs.
  void note(std::string_view words);

  // ---- simulated::surroundings
  void later(duration delay, std::function<void()> f) override;
  std::int64_t clock_us() const override;
  std::uint64_t below(std::uint64_t n) override;
  std::string process_of(asio::execution_context& context) const override;
  bool notes() const noexcept override { return trace_.is_on(); }
  void note(std::string_view who, std::string words) override { trace_.add(now(), who, words); }
  void granted(std::string_view lock, std::int64_t token) override;
  simulated::server& server_named(std::string_view name) override;

 private:
  /// Something is wrong, and what happens from now on is of no interest.
  bool is_decided() const noexcept { return failure_ != nullptr || !late_write_.empty(); }
  bool step(std::int64_t until);
  void draw_fault();
  void draw_pause();
  void draw_cut();
  void draw_restart(bool keeps_data);
  void draw_loss();
  void settle();
  std::string at_servers(bool (*counts)(simulated::server const&, simulated::server::grant const&));
  std::string locks();
  std::string leaks();
  bool is_held(std::int64_t fence);
  [[noreturn]] void found(finding kind, std::string const& words);

  std::uint64_t const seed_;
  std::int64_t const limit_;
  virtual_time time_;
  random_numbers random_;
  trace trace_;
  agenda agenda_;
  fault_source faults_;
  std::map<std::string, std::unique_ptr<simulated::server>, std::less<>> servers_;
  std::map<std::string, std::int64_t, std::less<>> granted_;  // by lock: the least token of the last grant
  std::map<std::string, std::unique_ptr<resource>, std::less<>> resources_;
  std::string late_write_;  // the first; empty: there was none
  std::vector<std::function<void()>> checks_;
  unsigned unfinished_ = 0;
  std::exception_ptr failure_;
  processes processes_;  // last: what they destroy uses all else
};

}  // namespace conch::testing
