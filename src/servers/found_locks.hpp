// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/probe.hpp"

#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace conch::servers {

/// What probe::locks() has found so far.
class found_locks {
 public:
  /// Throws errc::server_refused if there are too many: the server decides how long the list is, and must not fill our
  /// memory.
  static void check_count(std::size_t count) {
    constexpr std::size_t most = 1'000'000;
    if (count <= most) return;
    throw boost::system::system_error{
        make_error_code(errc::server_refused, "more than a million locks: give a pattern that matches fewer")};
  }

  /// Throws as check_count().
  void add(std::string name, std::optional<lock_status> status = std::nullopt) {
    all_.push_back({std::move(name), std::move(status)});
    check_count(all_.size());
  }

  /// In the order of the names, each once.
  std::vector<seen_lock> take() {
    std::stable_sort(all_.begin(), all_.end(), [](seen_lock const& a, seen_lock const& b) { return a.name < b.name; });
    auto const twice =
        std::unique(all_.begin(), all_.end(), [](seen_lock const& a, seen_lock const& b) { return a.name == b.name; });
    all_.erase(twice, all_.end());
    return std::move(all_);
  }

 private:
  std::vector<seen_lock> all_;
};

}  // namespace conch::servers
