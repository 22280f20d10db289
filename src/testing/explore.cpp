// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include <conch/testing.hpp>

#include <ostream>

namespace conch::testing {

namespace {

/// Runs one world. True: something is wrong, and `found` says what.
bool is_wrong(std::uint64_t seed, std::function<asio::awaitable<void>(world&)> const& body,
              world_settings const& settings, report& found) {
  world w{seed, settings};
  try {
    w.run([&] { return body(w); });
    return false;
  } catch (violation const& v) {
    found.kind = v.kind();
    found.what = v.what();
  } catch (std::exception const& e) {
    found.kind = finding::failed;
    found.what = "failed with seed " + std::to_string(seed) + ": a body has thrown: " + e.what();
  }
  found.seed = seed;
  found.trace = w.trace();
  return true;
}

}  // namespace

report explore(std::uint64_t schedules, std::function<asio::awaitable<void>(world&)> const& body,
               exploration const& how) {
  report r;
  while (r.schedules < schedules) {
    std::uint64_t const seed = how.first_seed + r.schedules++;
    if (!is_wrong(seed, body, {.drawn = how.drawn, .limit = how.limit, .traces = false}, r)) continue;
    report again;
    bool const repeats = is_wrong(seed, body, {.drawn = how.drawn, .limit = how.limit}, again) && again.what == r.what;
    r.trace = again.trace;
    if (!repeats)
      r.what += " (the same seed gave something else the second time: the body depends on what is not in its world)";
    break;
  }
  return r;
}

std::ostream& operator<<(std::ostream& to, report const& r) {
  to << r.schedules << (r.schedules == 1 ? " schedule: " : " schedules: ");
  if (r) return to << "nothing is wrong";
  return to << r.what << "\n" << r.trace;
}

}  // namespace conch::testing
