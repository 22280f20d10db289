#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace live_page {

using strand = boost::asio::strand<boost::asio::io_context::executor_type>;

/// The workers: this program, started again as `--worker`, each a process of its own. They get orders and give reports, a line of JSON each,
/// over pipes. All functions are to be called on the strand. The destructor kills those that are left; so does the kernel if this process ends.
class crew {
 public:
  /// Called on the strand with each line; with an empty one when the worker has ended.
  using hears = std::function<void(std::size_t worker, std::string_view line)>;

  /// Starts them: from a thread that lives as long as they shall. `first`: what each is told first.
  /// Throws `std::system_error`.
  crew(strand where, std::size_t count, std::string const& first);
  ~crew();
  crew(crew const&) = delete;
  crew& operator=(crew const&) = delete;

  void listen(hears who);

  /// Workers have numbers from 1.
  std::size_t size() const noexcept { return workers_.size(); }
  pid_t process(std::size_t worker) const { return workers_[worker - 1]->process; }
  bool is_here(std::size_t worker) const { return workers_[worker - 1]->here; }
  std::size_t here() const noexcept;

  void tell(std::size_t worker, std::string const& line);
  void signal(std::size_t worker, int number);  ///< to nobody, if that one has ended or is 0

  /// They finish what they do and give back what they hold. Ends when all have ended, or after `grace`.
  boost::asio::awaitable<void> dismiss(std::chrono::milliseconds grace);

 private:
  struct member {
    explicit member(strand const& where) : to(where), from(where) {}

    pid_t process = 0;
    bool here = false;
    boost::asio::posix::basic_stream_descriptor<strand> to;
    boost::asio::posix::basic_stream_descriptor<strand> from;
  };

  void start(std::string const& first);
  boost::asio::awaitable<void> read(std::size_t worker);

  strand strand_;
  std::vector<std::unique_ptr<member>> workers_;
  boost::asio::steady_timer last_gone_;
  hears hears_;
};

}  // namespace live_page
