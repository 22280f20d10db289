// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/log_sink.hpp"
#include "engine/acquisition.hpp"

#include <conch/error.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace conch::detail {

/// The lines about holds whose renewal is late, and about losses. A server that hangs endangers all holds of a client
/// at once: those of one input share a line. With the client locked.
class danger_log {
 public:
  /// `server`: as errors name it.
  danger_log(log_sink& to, std::string server) : to_{to}, server_{std::move(server)} {}

  void endangered(std::string_view lock, engine::danger const& d);
  void safe_again(std::string_view lock);
  void lost(error_code why);
  /// The input has ended.
  void write() {
    if (endangered_ != 0 || safe_again_ != 0 || lost_ != 0) write_lines();
  }

 private:
  void write_lines();

  log_sink& to_;
  std::string const server_;
  std::size_t endangered_ = 0, safe_again_ = 0, lost_ = 0;  // in this input
  std::string first_to_be_lost_, first_safe_;
  error_code why_lost_;      // the first
  engine::danger danger_{};  // of the first to be lost
};

}  // namespace conch::detail
