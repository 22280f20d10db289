// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/introduction.hpp"
#include "engine/admin_request.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace conch::engine {

/// A lock, and who has it.
struct wait_link {
  std::string lock;
  lock_report::owner holder{};
  std::string client{}, label{}, note{};  // of the holder
  std::string task{};                     // that holds it; empty: unknown
  std::int64_t since_us = 0;  // since when that task waits for the lock of the next link, by the server's clock

  /// Is it the same hold, of a task that still waits at the same place?
  bool is_still(wait_link const& other) const;
};

/// From a lock to its holder, on to the lock for which the holder's task waits, and so on. It asks one question after
/// another; the caller gets the answers. Each answer is of another moment. So a circle counts as a deadlock only if it
/// is seen twice, one time after the other, with the same holds and the same places in the queues: then all of them
/// were there at the moment between.
class wait_walk {
 public:
  enum class ending {
    free,      // the last lock has no holder any more, or the task before it waits no more
    works,     // the last holder waits for nothing
    unknown,   // whether the last holder waits is not known: it named no task, or everything changes all the time
    several,   // the last lock has several holders: it may become free by any of them
    deadlock,  // the last holder waits for the lock of an earlier link
  };
  struct question {
    enum class of { lock, client, task } what;
    std::string name;
  };

  explicit wait_walk(std::string lock) : next_{{question::of::lock, std::move(lock)}} {}

  /// None: the walk is over.
  std::optional<question> const& next() const noexcept { return next_; }
  /// To a question about a lock.
  void answer(lock_report const& r);
  /// To one about a client or a task.
  void answer(introduction const& i);

  std::vector<wait_link> const& links() const noexcept { return links_; }
  ending how() const noexcept { return how_; }
  /// In a deadlock: the link of the lock for which the last holder waits.
  std::size_t circle() const noexcept { return circle_; }
  /// In a deadlock: the link whose task has waited least. All that see the circle choose the same one.
  std::size_t youngest() const;
  /// Is it this wait of a task, through this client, that ends so that the others go on?
  bool is_to_end(std::string_view client, std::string_view task, std::string_view lock) const;

 private:
  void end(ending how);
  std::optional<ending> why_not(lock_report const& r);
  void close_circle(std::size_t at);

  std::optional<question> next_;
  std::vector<wait_link> links_;
  std::string waits_as_;  // the client through which the task of the last link waits
  ending how_ = ending::unknown;
  std::size_t circle_ = 0;
  std::vector<wait_link> seen_;  // the circle that was seen before
  int circles_ = 0;              // so often one was seen
};

}  // namespace conch::engine
