// conch-demo-load: see --help.

#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "driver.hpp"
#include "options.hpp"

namespace {

using demo_load::clock;

double milliseconds(clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

double quantile(demo_load::result const& r, double share) {
  if (r.latencies.empty()) {
    return 0;
  }
  auto const last = r.latencies.size() - 1;
  return milliseconds(r.latencies[static_cast<std::size_t>(static_cast<double>(last) * share)]);
}

void report(demo_load::options const& chosen, demo_load::result const& r) {
  double const seconds = milliseconds(r.elapsed) / 1000;
  double const rate = r.confirmed / seconds;
  double const p50 = quantile(r, 0.5);
  double const p99 = quantile(r, 0.99);
  std::printf(
      "%s: %d of %d increments in %.2f s, %.0f/s, p50 %.1f ms, p99 %.1f ms, %d failures, "
      "%d retries\n",
      chosen.locked ? "with the lock" : "without the lock", r.confirmed, chosen.requests, seconds, rate, p50, p99,
      r.failures, r.retries);
  std::string const counter = r.counter.has_value() ? std::to_string(*r.counter) : "null";
  // Not with Boost.JSON, which writes a double as 4.97E3.
  std::printf(
      "{\"requests\":%d,\"confirmed\":%d,\"failures\":%d,\"retries\":%d,\"locked\":%s,"
      "\"counter\":%s,\"seconds\":%.3f,\"per_second\":%.0f,"
      "\"p50_ms\":%.2f,\"p99_ms\":%.2f}\n",
      chosen.requests, r.confirmed, r.failures, r.retries, chosen.locked ? "true" : "false", counter.c_str(), seconds,
      rate, p50, p99);
  std::fflush(stdout);
  if (!r.first_failure.empty()) {
    std::cerr << "conch-demo-load: the first failure: " << r.first_failure << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    auto const chosen = demo_load::parse_options(argc, argv);
    if (!chosen.has_value()) {
      return 0;
    }
    demo_load::driver driver(*chosen);
    auto const result = driver.run();
    report(*chosen, result);
    return result.confirmed == chosen->requests ? 0 : 1;
  } catch (demo_load::usage_error const& error) {
    std::cerr << "conch-demo-load: " << error.what() << "\nTry --help.\n";
    return 2;
  } catch (std::exception const& error) {
    std::cerr << "conch-demo-load: " << error.what() << '\n';
    return 1;
  }
}
