// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/line_status.hpp"

#include "servers/probe.hpp"
#include "servers/zookeeper/order.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace conch::zookeeper {

namespace {

struct place_in_line {
  node_name of;
  std::string const* node;
};

lock_status::kind_of_lock kind_of(terms const& t) {
  switch (t.kind) {
    case engine::permit_kind::shared: return lock_status::kind_of_lock::shared_mutex;
    case engine::permit_kind::semaphore: return lock_status::kind_of_lock::semaphore;
    case engine::permit_kind::reentrant: return lock_status::kind_of_lock::reentrant_mutex;
    case engine::permit_kind::segments: return lock_status::kind_of_lock::striped_mutex;
    case engine::permit_kind::none: break;
  }
  return lock_status::kind_of_lock::mutex;
}

std::vector<place_in_line> in_order(std::vector<std::string> const& nodes) {
  std::vector<place_in_line> all;
  for (std::string const& one : nodes) {
    auto const read = read_node_name(one);
    if (read && is_place(read->sequence)) all.push_back({*read, &one});
  }
  std::sort(all.begin(), all.end(),
            [](place_in_line const& a, place_in_line const& b) { return is_before(a.of.sequence, b.of.sequence); });
  return all;
}

constexpr std::size_t most = 100;

/// The interval lasts, and its holder has let go, or is gone.
void add_kept(line_status& to, std::vector<place_in_line> const& line, std::string const& node) {
  auto const keep = read_keep_name(node);
  auto const is_of_it = [&](place_in_line const& p) {
    return p.of.client == keep->client && p.of.number == keep->number;
  };
  if (!keep || std::any_of(line.begin(), line.end(), is_of_it)) return;
  ++to.status.held;
  to.status.taken = to.status.limit = 1;
  lock_holder one;
  one.client = keep->client;
  one.lease_left = servers::unknown_lease;
  one.confirmed = true;
  to.status.holders.push_back(std::move(one));
  to.holders.push_back(node);
}

void add_holder(line_status& to, place_in_line const& p) {
  terms const& asks = p.of.terms;
  lock_status& s = to.status;
  ++s.held;
  s.taken += std::min(asks.weight, std::numeric_limits<std::uint32_t>::max() - s.taken);
  s.limit = s.held == 1 ? asks.limit : std::min(s.limit, asks.limit);
  if (s.holders.size() == most) return;
  lock_holder one;
  one.client = p.of.client;
  one.lease_left = servers::unknown_lease;
  one.confirmed = true;
  one.permits = asks.weight;
  s.holders.push_back(std::move(one));
  to.holders.push_back(*p.node);
}

void add_waiter(line_status& to, place_in_line const& p) {
  if (to.waiters.size() == most) return;
  lock_waiter one;
  one.client = p.of.client;
  one.permits = p.of.terms.weight;
  to.status.waiters.push_back(std::move(one));
  to.waiters.push_back(*p.node);
}

}  // namespace

/// Nodes are granted in their order, so the first that is not granted ends the holders.
line_status read_line(std::vector<std::string> const& nodes) {
  constexpr std::uint32_t most_held = 1000;  // each is compared with all before it
  std::vector<place_in_line> const line = in_order(nodes);
  line_status all;
  for (std::string const& one : nodes) add_kept(all, line, one);
  auto const kept = all.status.held;
  if (line.empty() && kept == 0) return all;
  all.status.kind = kind_of(line.empty() || kept != 0 ? terms{} : line.front().of.terms);
  for (place_in_line const& one : line) {
    bool const holds =
        all.waiters.empty() && all.status.held < most_held && judge(nodes, *one.node).is == verdict::kind::granted;
    if (holds) add_holder(all, one);
    else add_waiter(all, one);
    if (all.waiters.size() == most) break;
  }
  all.status.waiting = line.size() - (all.status.held - kept);
  return all;
}

}  // namespace conch::zookeeper
