#pragma once

#include <conch/mutex.hpp>

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "demo/http_probe.hpp"
#include "demo/program.hpp"

namespace conch::test {

/// conch-http-counter on a free port.
class counter_server {
 public:
  explicit counter_server(std::string const& redis, std::vector<std::string> more = {})
      : program_(command_line(redis, std::move(more))) {
    std::string const line = program_.wait_for("listening on http://127.0.0.1:");
    port_ = static_cast<std::uint16_t>(std::stoi(line.substr(line.rfind(':') + 1)));
  }

  /// A server that is not ended before must end well now, above all under a sanitizer.
  ~counter_server() {
    if (program_.is_running()) {
      try {
        EXPECT_EQ(end(), 0) << program_.output();
      } catch (std::runtime_error const& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }

  std::uint16_t port() const noexcept { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  http_answer request(std::string_view method, std::string_view target) const {
    return request_once(port_, method, target);
  }

  /// SIGTERM; the exit code.
  int end() {
    program_.signal(SIGTERM);
    return program_.wait_for_end();
  }

  program& process() noexcept { return program_; }

 private:
  static std::vector<std::string> command_line(std::string const& redis, std::vector<std::string> more) {
    std::vector<std::string> words{CONCH_HTTP_COUNTER, "--listen", "127.0.0.1:0", "--redis", redis};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  program program_;
  std::uint16_t port_ = 0;
};

/// Another client that holds the counter's lock, from construction to `release`.
class other_holder {
 public:
  explicit other_holder(std::string const& redis, std::string const& name = "counter")
      : runner_([this] { ctx_.run(); }),
        client_(ctx_.get_executor(), redis),
        lock_(client_, name) {
    hold_ = lock_.async_acquire(boost::asio::use_future).get();
  }

  ~other_holder() {
    release();
    client_.async_close(std::chrono::seconds(2), boost::asio::use_future).wait();
    work_.reset();
    runner_.join();
  }

  void release() {
    if (hold_) {
      hold_.async_release(boost::asio::use_future).wait();
      hold_ = {};
    }
  }

 private:
  boost::asio::io_context ctx_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{ctx_.get_executor()};
  std::thread runner_;
  client client_;
  mutex lock_;
  hold hold_;
};

}  // namespace conch::test
