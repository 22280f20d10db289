#include "feed.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace http_counter {

namespace asio = boost::asio;

asio::awaitable<feed::message> feed::listener::wait(std::uint64_t seen, std::chrono::milliseconds limit) {
  // `publish` wakes the listener through this strand, so no text that is published from here on is missed.
  message now = feed_.latest();
  if (now.number <= seen) {
    timer_.expires_after(limit);
    co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
    now = feed_.latest();
  }
  co_return now;
}

void feed::publish(std::string text) {
  std::scoped_lock const guard(mutex_);
  latest_ = {latest_.number + 1, std::make_shared<std::string const>(std::move(text))};
  for (auto const& each : listeners_) {
    if (auto const one = each.lock()) {
      asio::post(one->timer_.get_executor(), [one] { one->wake(); });
    }
  }
}

std::shared_ptr<feed::listener> feed::listen(listener::strand where) {
  auto added = std::make_shared<listener>(*this, std::move(where));
  std::scoped_lock const guard(mutex_);
  listeners_.push_back(added);
  return added;
}

std::size_t feed::listeners() const {
  std::scoped_lock const guard(mutex_);
  std::erase_if(listeners_, [](auto const& each) { return each.expired(); });
  return listeners_.size();
}

feed::message feed::latest() const {
  std::scoped_lock const guard(mutex_);
  return latest_;
}

}  // namespace http_counter
