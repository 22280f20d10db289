#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json/object.hpp>
#include <conch/mutex.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "counter.hpp"
#include "crew.hpp"
#include "options.hpp"
#include "page.hpp"
#include "scene.hpp"
#include "value_store.hpp"

namespace live_page {

/// The live page: gives the workers their orders, puts what they report into the scene, and publishes that, at most ten times a second.
class director : public http_counter::page {
 public:
  /// Starts the workers: from a thread that lives as long as they shall. Throws `std::system_error`.
  director(boost::asio::io_context& ctx, conch::client& locks, http_counter::value_store& values, http_counter::counter& number,
           http_counter::options const& chosen);

  /// What the buttons want to see; empty without workers.
  std::string const& token() const noexcept { return token_; }

  /// Ends when the workers have ended.
  boost::asio::awaitable<void> stop();

  std::string document(std::string_view nonce) const override;
  http_counter::feed& events() noexcept override { return feed_; }
  boost::asio::awaitable<outcome> act(http_counter::route asked) override;
  void counted(std::int64_t fence) override;

 private:
  void heard(std::size_t worker, std::string_view line);
  void start(boost::asio::awaitable<void> what);
  boost::asio::awaitable<void> publish();
  boost::asio::awaitable<void> inspect();
  boost::asio::awaitable<void> touch_servers();
  std::vector<lock_server> servers(bool answered) const;
  boost::asio::awaitable<void> dismiss();

  boost::asio::awaitable<outcome> obey(http_counter::route asked);
  boost::asio::awaitable<outcome> count(bool locked);
  boost::asio::awaitable<void> begin_count(bool locked);
  boost::asio::awaitable<outcome> sale();
  boost::asio::awaitable<void> begin_sale();
  outcome round(bool goes);
  outcome stop_holder();
  void stop_worker(std::size_t worker);
  void go_on();
  void after(boost::asio::steady_timer& timer, std::chrono::milliseconds time, std::function<void()> then);
  boost::asio::awaitable<void> end_count(bool locked);
  boost::asio::awaitable<void> end_sale();
  void tell_all(boost::json::object const& order);

  strand strand_;  // all below but the feed and the constants belongs to it
  conch::client& locks_;
  conch::mutex lock_;
  http_counter::value_store& values_;
  http_counter::counter& counter_;
  std::string const name_;
  std::string const own_id_;
  std::string const token_;
  std::string const no_sale_;  ///< why the sale cannot run; empty: it can
  http_counter::feed feed_;
  scene scene_;
  std::optional<crew> crew_;
  boost::asio::steady_timer next_;
  boost::asio::steady_timer next_look_;
  boost::asio::steady_timer round_end_;
  boost::asio::steady_timer stop_end_;
  bool changed_ = true;
  bool stopping_ = false;
  bool wants_holder_ = false;  ///< the next that is granted the lock is to be stopped
  bool ending_count_[2] = {};
  bool ending_sale_ = false;
};

}  // namespace live_page
