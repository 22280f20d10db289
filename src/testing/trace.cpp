// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "testing/trace.hpp"

#include <array>
#include <cstdio>

namespace conch::testing {

void trace::add(std::int64_t at, std::string_view who, std::string_view words) {
  if (!on_) return;
  std::array<char, 64> time{};
  std::snprintf(time.data(), time.size(), "%10.6f s  ", static_cast<double>(at) / 1e9);
  std::string line{time.data()};
  line.append(who).append(who.size() < 12 ? 12 - who.size() : 0, ' ').append("  ").append(words);
  lines_.push_back(std::move(line));
  if (lines_.size() <= most) return;
  lines_.pop_front();
  ++left_out_;
}

std::string trace::text() const {
  std::string all = left_out_ == 0 ? "" : "(" + std::to_string(left_out_) + " lines before)\n";
  for (std::string const& line : lines_) all.append(line).append("\n");
  return all;
}

}  // namespace conch::testing
