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

/// Runs the live page: sends orders to the workers, puts their reports into the scene, and publishes the scene at most
/// ten times per second.
class director : public http_counter::page {
 public:
  /// Starts the workers. Call it in a thread that outlives them: they die with it. Throws `std::system_error`.
  director(boost::asio::io_context& ctx, conch::client& locks, http_counter::value_store& values,
           http_counter::counter& number, http_counter::options const& chosen);

  /// The token that the buttons need; empty without workers.
  std::string const& token() const noexcept { return token_; }

  /// Stops the workers and waits for their end.
  boost::asio::awaitable<void> stop();

  std::string document(std::string_view nonce) const override;
  http_counter::feed& events() noexcept override { return feed_; }
  boost::asio::awaitable<outcome> act(http_counter::route asked) override;
  void counted(std::int64_t fence) override;

 private:
  void on_report(std::size_t worker, std::string_view line);
  void start(boost::asio::awaitable<void> what);
  boost::asio::awaitable<void> publish();
  boost::asio::awaitable<void> inspect();
  boost::asio::awaitable<void> touch_servers();
  std::vector<lock_server> servers(bool answered) const;
  boost::asio::awaitable<void> stop_workers();

  boost::asio::awaitable<outcome> run_button(http_counter::route asked);
  boost::asio::awaitable<outcome> count(bool locked);
  boost::asio::awaitable<void> begin_count(bool locked);
  boost::asio::awaitable<outcome> sale();
  boost::asio::awaitable<void> begin_sale();
  outcome round(bool goes);
  outcome stop_holder();
  void stop_worker(std::size_t worker);
  void continue_worker();
  void restart(boost::asio::steady_timer& timer, std::chrono::milliseconds time, std::function<void()> then);
  boost::asio::awaitable<void> end_count(bool locked);
  boost::asio::awaitable<void> end_sale();
  void tell_all(boost::json::object const& order);

  strand strand_;  // protects everything below except the feed and the constants
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
  bool stop_next_holder_ = false;  ///< freeze the next worker that gets the lock
  bool ending_count_[2] = {};
  bool ending_sale_ = false;
};

}  // namespace live_page
