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

/// The workers: processes that run this program again with `--worker`. They read orders and write reports, one line of
/// JSON each, over pipes. Call all functions on the strand. The destructor kills workers that are left; the kernel
/// kills them if this process dies.
class crew {
 public:
  /// Called on the strand with each line of a worker, and with an empty line when it has ended.
  using line_handler = std::function<void(std::size_t worker, std::string_view line)>;

  /// Starts the workers and sends `first` to each. Call it in a thread that outlives them: they die with it. Throws
  /// `std::system_error`.
  crew(strand where, std::size_t count, std::string const& first);
  ~crew();
  crew(crew const&) = delete;
  crew& operator=(crew const&) = delete;

  void listen(line_handler on_line);

  /// Workers are numbered from 1.
  std::size_t size() const noexcept { return workers_.size(); }
  pid_t process(std::size_t worker) const { return workers_[worker - 1]->process; }
  bool is_here(std::size_t worker) const { return workers_[worker - 1]->here; }
  std::size_t here() const noexcept;

  void tell(std::size_t worker, std::string const& line);
  void signal(std::size_t worker, int number);  ///< does nothing if the worker has ended or is 0

  /// Lets the workers finish and release their holds, and waits for their end. Kills those that are left after `grace`.
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
  boost::asio::steady_timer all_ended_;
  line_handler on_line_;
};

}  // namespace live_page
