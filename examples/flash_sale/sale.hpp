#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <conch/conch.hpp>
#include <conch/striped_mutex.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "value_store.hpp"

namespace flash_sale {

namespace asio = boost::asio;

struct settings {
  std::string url = "redis://127.0.0.1:6379";
  std::string name = "flash-sale";
  int items = 1000;
  std::chrono::milliseconds order{20};  ///< how long one order takes, under the lock
  std::uint32_t segments = 20;          ///< 1: one lock for the whole stock
  int buyers = 50;                      ///< concurrent buyers in each process
};

/// What the buyers of one process know together: the least stock that they have seen in each segment. A stock only
/// shrinks, so this is an upper bound. Without it, each buyer would have to visit every segment to learn that nothing
/// is left.
class shelf {
 public:
  explicit shelf(settings const& s) : most_(s.segments, s.items), filled_(s.segments) {}

  int most(std::uint32_t segment) const { return most_[segment - 1]; }
  void saw(std::uint32_t segment, int left);
  std::vector<std::uint32_t> too_small_for(int items) const;

  /// Nothing is left in any segment.
  bool empty() const noexcept { return filled_ == 0; }

 private:
  std::vector<int> most_;
  std::uint32_t filled_;  ///< segments that may have items
};

/// The results of the buyers of one process.
struct tally {
  explicit tally(settings const& s) : known(s) {}

  int orders = 0;
  int sold = 0;
  int moved_on = 0;  ///< how often a segment had too little
  int unsure = 0;    ///< items of orders whose write was not answered: they are sold or not
  int failed = 0;    ///< orders without a result: a lost hold, or a store that did not answer in time
  int mistakes = 0;  ///< negative stocks: must be 0
  shelf known;
  std::function<void(std::uint32_t segment, int left)> looked;  ///< if set: called after each read of a segment's stock
};

/// Redis keeps the stock, one number per segment, with plain reads and writes. Without the lock, items would be sold
/// twice or lost.
std::string stock_key(settings const& s, std::uint32_t segment);

/// Spreads the items over the segments.
asio::awaitable<void> stock_up(settings const& s, http_counter::value_store& values);

struct stock_report {
  int left = 0;
  bool negative = false;
};
/// Do the buyers have what is gone from the stock? More than that would be sold twice, less would be lost.
inline bool adds_up(std::int64_t gone, std::int64_t bought, std::int64_t unsure) {
  return bought <= gone && gone <= bought + unsure;
}
bool adds_up(settings const& s, stock_report const& r, int bought, int unsure);
asio::awaitable<stock_report> count(settings const& s, http_counter::value_store& values);
asio::awaitable<void> clear(settings const& s, http_counter::value_store& values);

/// Places orders until everything is sold, or 20 in a row have failed: most for one item, every tenth for three.
asio::awaitable<void> buy(settings const& s, conch::client& client, http_counter::value_store& values, int buyer,
                          tally& t);

}  // namespace flash_sale
