#include "sim/exhaustive/schedule.hpp"

#include <algorithm>
#include <utility>

namespace conch::sim {

namespace {

constexpr std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a ^ (b + 0x9e3779b97f4a7c15U + (a << 6) + (a >> 2));
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

constexpr std::uint64_t id_of_fault(std::uint64_t number) { return 0x8000'0000'0000'0000U | number; }

}  // namespace

void schedule::drop(std::uint64_t stream) {
  std::erase_if(waiting_, [&](step const& s) { return s.stream == stream; });
}

std::vector<std::function<void()>> schedule::take_rest() {
  std::vector<std::function<void()>> rest;
  for (step& s : waiting_) rest.push_back(std::move(s.run));
  waiting_.clear();
  return rest;
}

/// Steps first, then time, then faults: so the first run of all is one in which nothing is late and nothing fails.
void schedule::collect(moment const& m) {
  choices_.clear();
  which_.clear();
  std::erase_if(waiting_, [](step const& s) { return s.is_void && s.is_void(); });
  nanos latest = never;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    step const& s = waiting_[i];
    if ((s.touches & m.paused) != 0) continue;
    latest = std::min(latest, s.latest);
    auto const same = [&](choice const& c) { return c.id == s.stream; };
    if (std::any_of(choices_.begin(), choices_.end(), same)) continue;  // behind another of its stream
    choices_.push_back({s.stream, s.touches});
    which_.push_back(i);
  }
  if (m.next_timer != never && m.next_timer <= latest) choices_.push_back({time_passes, of_all});
  if (faults_ >= bounds_.faults) return;
  for (fault const& f : m.faults) choices_.push_back({id_of_fault(f.id), f.touches});
}

std::uint64_t schedule::state(moment const& m) const {
  std::uint64_t all = mixed(static_cast<std::uint64_t>(m.now), m.servers());
  for (std::size_t i = most_explored_servers; i < histories_.size(); ++i) all = mixed(all, histories_[i]);
  std::uint64_t under_way = 0;
  for (auto first = waiting_.begin(); first != waiting_.end(); ++first) {
    std::uint64_t place = 0;  // in its stream; between streams there is no order
    for (auto before = waiting_.begin(); before != first; ++before) place += before->stream == first->stream ? 1 : 0;
    under_way += mixed(mixed(mixed(first->stream, place), first->content), static_cast<std::uint64_t>(first->latest));
  }
  return mixed(all, under_way);
}

void schedule::happened(footprint touched, nanos now, std::uint64_t what, std::uint64_t content) {
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    if ((touched >> i & 1) == 0) continue;
    histories_[i] = mixed(mixed(mixed(histories_[i], static_cast<std::uint64_t>(now)), what), content);
  }
}

bool schedule::take_one(moment const& m) {
  collect(m);
  bool const only_faults = choices_.empty() || (choices_.front().id & id_of_fault(0)) != 0;
  if (waiting_.empty() && m.next_timer == never && only_faults) return false;
  if (taken_ == bounds_.steps) {
    cut_off_ = true;
    return false;
  }
  ++taken_;
  std::size_t const n = decider_.decide([&] { return state(m); }, choices_);
  choice const chosen = choices_[n];
  if (n < which_.size()) {
    step const s = std::move(waiting_[which_[n]]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(which_[n]));
    happened(s.touches, m.now, s.stream, s.content);
    s.run();
  } else if (chosen.id == time_passes) {
    m.let_time_pass();
  } else {
    ++faults_;
    happened(chosen.touches, m.now, chosen.id, 0);
    std::size_t const first = choices_.size() - m.faults.size();
    m.faults[n - first].run();
  }
  return true;
}

}  // namespace conch::sim
