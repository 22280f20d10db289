// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/watch_view.hpp"

#include "cli/duration.hpp"
#include "cli/show.hpp"

#include <algorithm>
#include <cstdio>

namespace conch::cli {

namespace {

std::set<std::int64_t> fences_of(lock_status const& s) {
  std::set<std::int64_t> all;
  for (lock_holder const& h : s.holders) all.insert(h.fence);
  return all;
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

std::string with_one_digit(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", number);
  return text;
}

std::string held_of(lock_status const& s) {
  if (s.kind == lock_status::kind_of_lock::shared_mutex) return !s.locked() ? "free" : s.writer() ? "writer" : std::to_string(s.held) + " readers";
  if (s.limit > 1) return std::to_string(s.taken) + " of " + std::to_string(s.limit);
  return s.locked() ? "held" : "free";
}

}  // namespace

std::string padded(std::string const& text, std::size_t width) {
  std::string out;
  std::size_t characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (begins_character(text[i])) {
      if (characters == width) break;
      ++characters;
    }
    out += text[i];
  }
  return out + std::string(width - characters, ' ');
}

std::vector<watch_view::change> watch_view::look(statuses seen, time_point now) {
  std::vector<change> changes;
  std::map<std::string, one> before = std::exchange(locks_, {});
  std::size_t grants = 0;
  double const seconds = std::chrono::duration<double>(now - last_).count();
  bool const first = last_ == time_point{};
  rates_.clear();
  for (auto& [name, status] : seen) {
    auto const known = before.find(name);
    std::set<std::int64_t> fences = fences_of(status);
    std::size_t fresh = 0;
    for (std::int64_t const fence : fences) fresh += known == before.end() || !known->second.fences.contains(fence) ? 1 : 0;
    if (!first && seconds > 0) rates_[name] = static_cast<double>(fresh) / seconds;
    grants += fresh;
    bool const same = known != before.end() && known->second.fences == fences && known->second.status.waiting == status.waiting;
    if (!same) changes.push_back({name, status});
    if (known != before.end()) before.erase(known);
    locks_[name] = {std::move(status), std::move(fences)};
  }
  for (auto const& [name, gone] : before) changes.push_back({name, {}});
  rate_ = first || seconds <= 0 ? 0 : static_cast<double>(grants) / seconds;
  last_ = now;
  return changes;
}

std::vector<std::string> watch_view::screen(std::size_t rows, std::size_t columns, std::chrono::system_clock::time_point at) const {
  std::vector<std::pair<std::string, one const*>> all;
  std::size_t widest = 4;
  std::uint64_t waiting = 0;
  for (auto const& [name, lock] : locks_) {
    all.emplace_back(shown(name), &lock);
    widest = std::max(widest, all.back().first.size());
    waiting += lock.status.waiting;
  }
  std::stable_sort(all.begin(), all.end(), [](auto const& a, auto const& b) { return a.second->status.waiting > b.second->status.waiting; });
  widest = std::min(widest, std::max<std::size_t>(columns / 3, 12));

  std::vector<std::string> lines;
  lines.push_back(std::to_string(locks_.size()) + " locks, " + std::to_string(waiting) + " waiting, at least " + with_one_digit(rate_) +
                  " grants/s; q ends this");
  lines.push_back(padded("NAME", widest) + "  " + padded("STATE", 14) + padded("WAITING", 9) + padded("GRANTS/S", 10) + padded("HELD FOR", 12) +
                  padded("LEASE LEFT", 12) + "HOLDER");
  std::size_t const room = rows > lines.size() + 1 ? rows - lines.size() - 1 : 1;
  for (std::size_t i = 0; i < std::min(room, all.size()); ++i) {
    lock_status const& s = all[i].second->status;
    lock_holder const* const h = s.holders.empty() ? nullptr : &s.holders.front();
    auto const rate = std::find_if(rates_.begin(), rates_.end(), [&](auto const& r) { return shown(r.first) == all[i].first; });
    std::string line = padded(all[i].first, widest) + "  " + padded(held_of(s), 14) + padded(std::to_string(s.waiting), 9) +
                       padded(rate == rates_.end() ? "" : with_one_digit(rate->second), 10);
    if (h != nullptr) line += padded(readable(at - h->since), 12) + padded(readable(h->lease_left), 12) + h->client;
    if (s.held > 1) line += " and " + std::to_string(s.held - 1) + " more";
    lines.push_back(std::move(line));
  }
  if (all.size() > room) lines.push_back("and " + std::to_string(all.size() - room) + " more");
  for (std::string& line : lines) {
    line = padded(line, columns);
    line.erase(line.find_last_not_of(' ') + 1);
  }
  return lines;
}

}  // namespace conch::cli
