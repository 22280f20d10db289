// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::testing {

namespace asio = boost::asio;

/// One process: an io_context that the world polls.
struct process {
  explicit process(std::string n) : name{std::move(n)} {}

  std::string const name;
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::int64_t stands_still_until = 0;
  bool is_inside = false;  // a handler of it is on the stack, and is paused or runs
};

/// The processes of a world, and which of them runs.
class processes {
 public:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  process& named(std::string_view name);
  process* find(asio::execution_context const& context) const noexcept;
  std::vector<std::unique_ptr<process>> const& all() const noexcept { return all_; }
  /// Whose handler runs. Null: none does.
  process* running() const noexcept { return running_; }

  /// Runs one handler of a process that has one and is not paused at `now`. `begin`: where to begin to look.
  /// False: there is none.
  bool run_one(std::uint64_t begin, std::int64_t now);
  /// f() runs while the process that runs is paused.
  void step_aside(std::function<void()> const& f);
  /// When the next process that is paused goes on.
  std::int64_t next(std::int64_t now) const noexcept;
  void resume_all() noexcept;

 private:
  std::vector<std::unique_ptr<process>> all_;
  process* running_ = nullptr;
};

}  // namespace conch::testing
