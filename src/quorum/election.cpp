// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/election.hpp"

#include "base/votes.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <vector>

namespace conch::quorum {

election::election(rules const& r) : rules_{r} {
  assert(r.servers >= 1 && r.servers <= most_servers);
  assert(r.needed >= majority_of(r.servers) && r.needed <= r.servers);
}

void election::yes(std::size_t server, time_point deadline, std::int64_t fence, time_point now) {
  responses_[server] = {response::yes, deadline, fence};
  decide(now);
}

void election::no(std::size_t server, time_point now) {
  responses_[server] = {response::no, {}, 0};
  decide(now);
}

void election::failed(std::size_t server, time_point now) {
  responses_[server] = {response::failed, {}, 0};
  decide(now);
}

void election::silent(std::size_t server, time_point now) {
  if (responses_[server].what != response::pending) return;  // the server has answered
  responses_[server].what = response::silent;
  decide(now);
}

void election::decide(time_point now) {
  if (verdict_ != verdict::open) return;
  std::size_t good = 0;
  for (std::size_t i = 0; i < rules_.servers; ++i) {
    if (responses_[i].what == response::yes && responses_[i].deadline - now >= rules_.min_validity) ++good;
  }
  if (good >= rules_.needed) {
    verdict_ = verdict::won;
  } else if (good + count(response::pending) < rules_.needed) {
    verdict_ = verdict::out_of_reach;
  }
}

time_point election::deadline() const {
  std::array<time_point, most_servers> deadlines;
  std::size_t n = 0;
  for (std::size_t i = 0; i < rules_.servers; ++i) {
    if (responses_[i].what == response::yes) deadlines[n++] = responses_[i].deadline;
  }
  return kth_greatest({deadlines.data(), n}, rules_.needed);
}

std::int64_t election::fence() const {
  std::int64_t greatest = 0;
  for (std::size_t i = 0; i < rules_.servers; ++i) greatest = std::max(greatest, responses_[i].fence);
  return greatest;
}

std::size_t election::count(response r) const {
  return static_cast<std::size_t>(std::count_if(responses_.begin(),
                                                responses_.begin() + static_cast<std::ptrdiff_t>(rules_.servers),
                                                [r](vote_response const& h) { return h.what == r; }));
}

time_point kth_greatest(std::span<time_point const> deadlines, std::size_t k) {
  if (k == 0 || deadlines.size() < k) return time_point::min();
  std::vector<time_point> sorted(deadlines.begin(), deadlines.end());
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(k - 1), sorted.end(), std::greater<>{});
  return sorted[k - 1];
}

std::int64_t agreed_ticket(std::span<std::int64_t const> server_clocks) {
  assert(!server_clocks.empty());
  std::vector<std::int64_t> sorted(server_clocks.begin(), server_clocks.end());
  auto const lower_median = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::nth_element(sorted.begin(), lower_median, sorted.end());
  return *lower_median;
}

}  // namespace conch::quorum
