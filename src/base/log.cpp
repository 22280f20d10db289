// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/log_line.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

namespace conch {

namespace {

std::string_view name_of(log_level level) {
  switch (level) {
    case log_level::debug: return "debug";
    case log_level::info: return "info";
    case log_level::warning: return "warning";
    case log_level::error: return "error";
  }
  return "?";
}

/// "2026-11-24T20:05:44.123Z"
std::string shown_time() {
  auto const now = std::chrono::system_clock::now();
  std::time_t const seconds = std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(now));
  auto const ms = std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 40> text{};
  auto const size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 8> rest{};
  std::snprintf(rest.data(), rest.size(), ".%03dZ", static_cast<int>(ms));
  return std::string{text.data(), size} + rest.data();
}

}  // namespace

std::string formatted_log_line(log_level level, std::string_view words) {
  std::string line = shown_time();
  line.append(" conch ").append(name_of(level)).append(": ").append(words).append("\n");
  return line;
}

log_hook log_to_stderr(log_level from) {
  return [from](log_level level, std::string_view words) {
    if (level < from) return;
    std::string const line = formatted_log_line(level, words);
    std::fwrite(line.data(), 1, line.size(), stderr);  // one call: lines of threads do not mix
  };
}

}  // namespace conch
