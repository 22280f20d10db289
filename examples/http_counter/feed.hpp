#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace http_counter {

/// Sends the latest text to all listeners. A slow listener skips texts and gets the newest next: each text is complete
/// in itself. Thread-safe.
class feed {
 public:
  struct message {
    std::uint64_t number = 0;  ///< 0: nothing was published yet
    std::shared_ptr<std::string const> text;
  };

  class listener {
   public:
    using strand = boost::asio::strand<boost::asio::io_context::executor_type>;

    listener(feed& of, strand where) : feed_(of), timer_(where) {}

    /// Returns the latest message: at once if it is newer than `seen`; otherwise when a newer one is published, after
    /// `limit`, or after `wake`. Await it on the strand.
    boost::asio::awaitable<message> wait(std::uint64_t seen, std::chrono::milliseconds limit);

    /// Call it on the strand.
    void wake() { timer_.cancel(); }

   private:
    friend class feed;

    feed& feed_;
    boost::asio::steady_timer timer_;
  };

  void publish(std::string text);

  /// The listener receives messages for as long as it lives. It must not outlive this object.
  std::shared_ptr<listener> listen(listener::strand where);

  std::size_t listeners() const;

 private:
  message latest() const;

  mutable std::mutex mutex_;
  message latest_;
  mutable std::vector<std::weak_ptr<listener>> listeners_;
};

}  // namespace http_counter
