// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/doctor_checks.hpp"

#include "base/readable.hpp"
#include "cli/duration.hpp"

#include <algorithm>
#include <chrono>

namespace conch::cli {

finding judge_hand_over(duration median, duration round_trip) {
  std::string const shown = "median " + readable(median) + " from a release to the next holder";
  constexpr duration slack = std::chrono::milliseconds{5};
  if (median - slack > 10 * round_trip)
    return {verdict::warning, "hand-over", shown,
            "much longer than a round trip of " + readable(round_trip) + ": the server is busy"};
  return {verdict::ok, "hand-over", shown, ""};
}

finding judge_label(std::string const& own, std::string const& read) {
  if (own == read) return {verdict::ok, "label", printable(own) + ", which others can read", ""};
  return {verdict::warning, "label", printable(own) + ", which others cannot read: they see ids of clients",
          "let the user read and write the keys KEY_PREFIX{*}:i (Redis), or all tables and functions of the schema "
          "(PostgreSQL)"};
}

finding judge_distinct(std::vector<server_run> const& all, std::size_t needed) {
  std::vector<server_run> distinct;
  std::string doubles;
  for (server_run const& one : all) {
    auto const same = std::find_if(distinct.begin(), distinct.end(),
                                   [&](server_run const& o) { return !one.run.empty() && o.run == one.run; });
    if (same == distinct.end()) {
      distinct.push_back(one);
    } else {
      doubles += (doubles.empty() ? "" : "; ") + one.server + " is the same server as " + same->server;
    }
  }
  constexpr char const* what = "servers";
  if (doubles.empty() && distinct.size() < needed) {
    return {verdict::bad, what,
            std::to_string(distinct.size()) + " can be used, and " + std::to_string(needed) + " votes are needed",
            "see the lines above"};
  }
  if (doubles.empty()) return {verdict::ok, what, std::to_string(distinct.size()) + " different ones", ""};
  doubles += ": each server has one vote, whatever its names and databases";
  if (distinct.size() >= needed)
    return {verdict::warning, what, doubles, "name each server once; till then fewer of them may be away"};
  return {verdict::bad, what, doubles + ", and " + std::to_string(needed) + " votes are needed",
          "name each server once, and more of them"};
}

}  // namespace conch::cli
