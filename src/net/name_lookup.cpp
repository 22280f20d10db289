// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "net/name_lookup.hpp"

#include "net/lookup_threads.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <utility>

namespace conch::net {

namespace {

/// Its ends are closed in a program that this one becomes.
bool open_pipe(std::array<int, 2>& ends) {
#if defined(__APPLE__)
  if (::pipe(ends.data()) != 0) return false;
  for (int const end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  return true;
#else
  return ::pipe2(ends.data(), O_CLOEXEC) == 0;
#endif
}

}  // namespace

/// The thread that has the answer closes the end to write: that wakes the connection, wherever that is by then.
class name_lookup::request final : public lookup_threads::waiter {
 public:
  explicit request(int end) : end_{end} {}
  ~request() override { close(); }

  void answered(error_code ec, addresses const& found) noexcept override {
    std::lock_guard const guard{mutex_};
    try {
      found_ = found;
      ec_ = ec;
    } catch (std::bad_alloc const&) {
      ec_ = asio::error::no_memory;
    }
    close();
  }

  // On the executor.
  void cancel() noexcept { cancelled_ = true; }
  bool is_cancelled() const noexcept { return cancelled_; }

  std::pair<error_code, addresses> answer() {
    std::lock_guard const guard{mutex_};
    return {ec_, std::move(found_)};
  }

 private:
  void close() noexcept {
    if (end_ >= 0) ::close(std::exchange(end_, -1));
  }

  bool cancelled_ = false;
  std::mutex mutex_;  // guards what follows
  int end_;
  error_code ec_ = asio::error::operation_aborted;  // no thread has an answer
  addresses found_;
};

name_lookup::name_lookup(asio::any_io_executor const& on) : answered_{on} {}

name_lookup::~name_lookup() { cancel(); }

void name_lookup::complete_later(error_code ec, addresses found, handler done) {
  asio::post(answered_.get_executor(), [ec, found = std::move(found), done = std::move(done)] { done(ec, found); });
}

void name_lookup::async_find(std::string const& host, std::uint16_t port, handler done) {
  cancel();
  error_code not_numeric;
  auto const numeric = asio::ip::make_address(host, not_numeric);
  if (!not_numeric) return complete_later({}, {{numeric, port}}, std::move(done));
  std::array<int, 2> ends{};
  if (!open_pipe(ends)) return complete_later({errno, boost::system::system_category()}, {}, std::move(done));
  request_ = std::make_shared<request>(ends[1]);
  error_code ec;
  answered_.assign(ends[0], ec);
  if (ec) {
    ::close(ends[0]);
    return complete_later(ec, {}, std::move(done));
  }
  answered_.async_wait(asio::posix::descriptor_base::wait_read,
                       [this_one = request_, done = std::move(done)](error_code failed) {
                         if (this_one->is_cancelled()) return;  // and perhaps there is no name_lookup any more
                         if (failed) return done(failed, {});
                         auto const [why, found] = this_one->answer();
                         done(why, found);
                       });
  lookup_threads::of_this_process().ask(host, port, request_);
}

void name_lookup::cancel() {
  if (request_) request_->cancel();
  request_.reset();
  error_code ignored;
  answered_.close(ignored);
}

}  // namespace conch::net
