// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/watch_view.hpp"

#include "base/readable.hpp"
#include "cli/columns.hpp"
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

std::string with_one_digit(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", number);
  return text;
}

std::string held_of(lock_status const& s) {
  if (s.kind == lock_status::kind_of_lock::shared_mutex)
    return !s.locked()  ? "free"
           : s.writer() ? "writer"
                        : std::to_string(s.held) + (s.held == 1 ? " reader" : " readers");
  if (s.limit > 1) return std::to_string(s.taken) + " of " + std::to_string(s.limit);
  return s.locked() ? "held" : "free";
}

}  // namespace

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
    for (std::int64_t const fence : fences)
      fresh += known == before.end() || !known->second.fences.contains(fence) ? 1 : 0;
    if (!first && seconds > 0) rates_[name] = static_cast<double>(fresh) / seconds;
    grants += fresh;
    bool const same =
        known != before.end() && known->second.fences == fences && known->second.status.waiting == status.waiting;
    if (!same) changes.push_back({name, status});
    if (known != before.end()) before.erase(known);
    locks_[name] = {std::move(status), std::move(fences)};
  }
  for (auto const& [name, gone] : before) changes.push_back({name, {}});
  rate_ = first || seconds <= 0 ? 0 : static_cast<double>(grants) / seconds;
  last_ = now;
  return changes;
}

namespace {

/// How wide the columns of the screen are. All but the name and the holder have a width of their own; on a narrow
/// screen words are shorter, and a holder without a label is the beginning of its id.
struct layout {
  std::size_t name, state, waiting, rate, held, left, holder;
  bool narrow;

  layout(std::size_t columns, std::size_t widest_name) : narrow{columns < 125} {
    if (narrow) {
      state = 11, waiting = 6, rate = 7, held = 9, left = 8, holder = 13;
    } else {
      state = 14, waiting = 9, rate = 10, held = 12, left = 12, holder = 43;
    }
    std::size_t const others = state + waiting + rate + held + left + holder + 2;
    // On a very narrow screen the end of the line is cut, and not the name.
    std::size_t const left_over = std::max(columns > others ? columns - others : 0, narrow ? columns / 4 : 0);
    name = std::clamp<std::size_t>(left_over, 4, std::max<std::size_t>(widest_name, 4));
  }

  std::string heading() const {
    return padded("NAME", name) + "  " + padded("STATE", state) + padded(narrow ? "WAIT" : "WAITING", waiting) +
           padded(narrow ? "GR./S" : "GRANTS/S", rate) + padded(narrow ? "HELD" : "HELD FOR", held) +
           padded(narrow ? "LEFT" : "LEASE LEFT", left) + "HOLDER";
  }

  std::string holder_of(lock_status const& s) const {
    lock_holder const& first = s.holders.front();
    bool const has_name = !first.label.empty() || !first.note.empty();
    std::string text = has_name ? name_of(first) : printable(first.client).substr(0, narrow ? 8 : std::string::npos);
    std::string const more =
        s.held > 1 ? (narrow ? " +" : " and ") + std::to_string(s.held - 1) + (narrow ? "" : " more") : "";
    if (columns_of(text + more) > holder) text = padded(text, holder - more.size());
    return text + more;
  }
};

}  // namespace

std::vector<std::string> watch_view::screen(std::size_t rows, std::size_t columns,
                                            std::chrono::system_clock::time_point when) const {
  std::vector<decltype(locks_)::value_type const*> all;
  std::size_t widest = 0;
  std::uint64_t waiting = 0;
  for (auto const& lock : locks_) {
    all.push_back(&lock);
    widest = std::max(widest, columns_of(printable(lock.first)));
    waiting += lock.second.status.waiting;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](auto const* a, auto const* b) { return a->second.status.waiting > b->second.status.waiting; });
  layout const l{columns, widest};

  std::vector<std::string> lines;
  lines.push_back(std::to_string(locks_.size()) + (locks_.size() == 1 ? " lock, " : " locks, ") +
                  std::to_string(waiting) + " waiting, at least " + with_one_digit(rate_) + " grants/s; q quits");
  lines.push_back(l.heading());
  std::size_t const room = rows > lines.size() + 1 ? rows - lines.size() - 1 : 1;
  for (std::size_t i = 0; i < std::min(room, all.size()); ++i) {
    lock_status const& s = all[i]->second.status;
    auto const rate = rates_.find(all[i]->first);
    std::string line = padded(printable(all[i]->first), l.name) + "  " + padded(held_of(s), l.state) +
                       padded(std::to_string(s.waiting), l.waiting) +
                       padded(rate == rates_.end() ? "" : with_one_digit(rate->second), l.rate);
    if (!s.holders.empty()) {
      lock_holder const& h = s.holders.front();
      line += padded(readable(when - h.since), l.held) + padded(readable(h.lease_left), l.left) + l.holder_of(s);
    }
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
