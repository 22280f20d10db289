// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/lock_scanner.hpp"

#include <algorithm>
#include <span>

namespace conch::cli {

lock_scanner::lock_scanner(connection const& all, std::string url, std::vector<std::string> patterns)
    : all_{all},
      url_{std::move(url)},
      patterns_{std::move(patterns)} {}

std::vector<std::pair<std::string, lock_status>> lock_scanner::look() {
  if (!probe_) probe_ = servers::open_probe(all_.at(url_));
  std::vector<servers::seen_lock> seen = probe_->locks(patterns_);
  inspect(seen);
  std::vector<std::pair<std::string, lock_status>> found;
  for (servers::seen_lock& one : seen) {
    // What was released meanwhile is not a lock any more.
    if (one.status && (one.status->locked() || one.status->waiting != 0))
      found.emplace_back(std::move(one.name), std::move(*one.status));
  }
  return found;
}

/// Those of which only the names are known.
void lock_scanner::inspect(std::vector<servers::seen_lock>& some) {
  std::vector<servers::seen_lock*> unknown;
  for (servers::seen_lock& one : some) {
    if (!one.status) unknown.push_back(&one);
  }
  if (!unknown.empty() && !client_) client_.emplace(all_, url_);
  constexpr std::size_t at_once = 200;
  for (std::span<servers::seen_lock*> left{unknown}; !left.empty();) {
    auto const now = left.first(std::min(at_once, left.size()));
    left = left.subspan(now.size());
    std::vector<std::string> names;
    for (servers::seen_lock const* const one : now) names.push_back(one->name);
    std::vector<std::optional<lock_status>> statuses = client_->inspect(names);
    for (std::size_t i = 0; i < now.size(); ++i) now[i]->status = std::move(statuses[i]);
  }
}

}  // namespace conch::cli
