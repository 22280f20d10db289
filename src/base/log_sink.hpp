// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <string_view>

namespace conch {

/// Takes lines for the log hook. A line is built only when something noteworthy happens.
class log_sink {
 public:
  virtual void note(bool is_error, std::string_view words) = 0;
  /// What is as it should be, and worth knowing.
  virtual void inform(std::string_view /*words*/) {}

 protected:
  ~log_sink() = default;
};

}  // namespace conch
