#include "sim/exhaustive/walk.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace conch::sim {

walk::walk(reductions r, visited& v, std::size_t most_steps, path below, path go_on_at)
    : reductions_{r},
      visited_{v},
      most_steps_{most_steps},
      fixed_{below.size()},
      path_{go_on_at.empty() ? std::move(below) : std::move(go_on_at)} {}

void walk::begin() {
  depth_ = 0;
  counts_.clear();
  asleep_.clear();
}

std::size_t walk::decide(std::function<std::uint64_t()> const& state, std::span<choice const> all) {
  awake_.clear();
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::find(asleep_.begin(), asleep_.end(), all[i]) != asleep_.end()) continue;
    awake_.push_back(all[i]);
    numbers.push_back(i);
  }
  if (awake_.empty()) throw needless{};
  if (depth_ == path_.size()) {
    if (reductions_.equal_states && visited_.covers(state(), asleep_, most_steps_ - depth_)) throw needless{};
    path_.push_back(0);
  }
  std::size_t const taken = path_[depth_++];
  if (taken >= awake_.size()) throw std::out_of_range{"a path that this world does not have"};
  counts_.push_back(static_cast<std::uint32_t>(awake_.size()));
  if (reductions_.sleep_sets) {
    // What was tried before stays asleep until something happens that it does not commute with.
    asleep_.insert(asleep_.end(), awake_.begin(), awake_.begin() + static_cast<std::ptrdiff_t>(taken));
    std::erase_if(asleep_, [&](choice const& c) { return !commute(c, awake_[taken]); });
  }
  return numbers[taken];
}

bool walk::advance() {
  path_.resize(counts_.size());
  while (path_.size() > fixed_) {
    if (path_.back() + 1 < counts_.back()) {
      ++path_.back();
      return true;
    }
    path_.pop_back();
    counts_.pop_back();
  }
  return false;
}

double walk::share_done() const {
  double share = 0, of = 1;
  for (std::size_t i = fixed_; i < std::min(path_.size(), counts_.size()); ++i) {
    of /= counts_[i];
    share += of * path_[i];
  }
  return share;
}

std::vector<path> walk::split() const {
  std::vector<path> all;
  std::size_t i = fixed_;
  while (i < counts_.size() && counts_[i] == 1) ++i;
  if (i >= counts_.size()) return all;
  for (std::uint32_t n = 0; n < counts_[i]; ++n) {
    all.emplace_back(path_.begin(), path_.begin() + static_cast<std::ptrdiff_t>(i));
    all.back().push_back(n);
  }
  return all;
}

std::string to_text(path const& p) {
  std::size_t size = p.size();
  while (size > 0 && p[size - 1] == 0) --size;
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += (i == 0 ? "" : ".") + std::to_string(p[i]);
  return text;
}

path path_of(std::string_view text) {
  path p;
  while (!text.empty()) {
    std::uint32_t n = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc{}) throw std::invalid_argument{"a path is numbers with dots between them"};
    p.push_back(n);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.starts_with('.')) text.remove_prefix(1);
  }
  return p;
}

}  // namespace conch::sim
