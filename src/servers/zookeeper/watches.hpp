// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

// No I/O, no clock.
namespace conch::zookeeper {

struct queue_place;

/// Which places wait for the end of which node. A server notifies about a path once, however many ask.
class watches {
 public:
  /// True: the server is to be asked, since no place has done so on this connection.
  bool join(std::string const& path, queue_place& p) {
    auto const [found, is_new] = waiting_.try_emplace(path);
    found->second.push_back(&p);
    return is_new;
  }

  void leave(std::string const& path, queue_place const& p) {
    auto const it = waiting_.find(path);
    if (it == waiting_.end()) return;
    std::erase(it->second, &p);
    if (it->second.empty()) waiting_.erase(it);
  }

  /// `to` waits in the place of `from`.
  void pass_on(std::string const& path, queue_place& from, queue_place& to) {
    auto const it = waiting_.find(path);
    if (it != waiting_.end()) std::replace(it->second.begin(), it->second.end(), &from, &to);
  }

  /// In the order in which they joined.
  std::vector<queue_place*> at(std::string const& path) const {
    auto const found = waiting_.find(path);
    return found == waiting_.end() ? std::vector<queue_place*>{} : found->second;
  }

  /// It is gone: no place waits for it any more.
  std::vector<queue_place*> take(std::string const& path) {
    auto const taken = waiting_.extract(path);
    return taken.empty() ? std::vector<queue_place*>{} : std::move(taken.mapped());
  }

  void clear() noexcept { waiting_.clear(); }

 private:
  std::unordered_map<std::string, std::vector<queue_place*>> waiting_;
};

}  // namespace conch::zookeeper
