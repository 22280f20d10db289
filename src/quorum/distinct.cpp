// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/distinct.hpp"

#include <algorithm>
#include <utility>

namespace conch::quorum {

namespace {

/// An id that is too short, or one repeated digit, is a placeholder: other servers of that make report the same.
bool names_a_run(std::string const& run) {
  return run.size() >= 16 && run.find_first_not_of(run.front()) != std::string::npos;
}

}  // namespace

bool is_same_server(identity const& a, identity const& b) {
  if (names_a_run(a.run) && names_a_run(b.run)) return a.run == b.run;
  return !a.address.empty() && a.address == b.address;
}

void distinct_servers::met(std::size_t member, identity who) {
  members_[member] = {std::move(who), ++connections_};
  known const& here = members_[member];
  for (std::size_t other = 0; other < most_servers; ++other) {
    if (other == member) continue;
    known const& there = members_[other];
    std::uint64_t shown_by = one_[member][other];
    if (is_same_server(here.who, there.who)) {
      shown_by = here.order;
    } else if (there.order > shown_by || (there.order != 0 && here.who.address != there.who.address)) {
      shown_by = 0;
    }
    one_[member][other] = one_[other][member] = shown_by;
  }
  any_ = std::any_of(one_.begin(), one_.end(),
                     [](auto const& of) { return std::any_of(of.begin(), of.end(), [](auto by) { return by != 0; }); });
}

std::optional<std::size_t> distinct_servers::spoken_for_by(std::size_t member) const noexcept {
  std::optional<std::size_t> first;
  for (std::size_t other = 0; other < most_servers; ++other) {
    std::uint64_t const order = members_[other].order;
    if (order == 0 || order >= members_[member].order || !one_[member][other]) continue;
    if (!first || order < members_[*first].order) first = other;
  }
  return first;
}

}  // namespace conch::quorum
