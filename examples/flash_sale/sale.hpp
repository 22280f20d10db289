#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <conch/conch.hpp>
#include <cstdint>
#include <string>

#include "value_store.hpp"

namespace flash_sale {

namespace asio = boost::asio;

struct settings {
  std::string url = "redis://127.0.0.1:6379";
  std::string name = "flash-sale";
  int items = 1000;
  std::chrono::milliseconds order{20};  ///< what one order takes, under the lock
  std::uint32_t segments = 20;          ///< 1: one lock for the whole stock
  int buyers = 50;                      ///< at the same time, in each process
};

/// What the buyers of one process have done.
struct tally {
  int orders = 0;
  int sold = 0;
  int moved_on = 0;  ///< times that a segment had too little
  bool sold_out = false;
  int mistakes = 0;  ///< a negative stock, a hold that was lost: must be 0
};

/// The stock is kept in Redis, a number for each segment, with plain reads and writes: without the lock items would be sold
/// twice, or lost.
std::string stock_key(settings const& s, std::uint32_t segment);
std::string sold_key(settings const& s, std::uint32_t segment);

/// Spreads the items over the segments.
asio::awaitable<void> stock_up(settings const& s, http_counter::value_store& values);

struct stock_report {
  int left = 0;
  int sold = 0;
  bool negative = false;
};
asio::awaitable<stock_report> count(settings const& s, http_counter::value_store& values);
asio::awaitable<void> clear(settings const& s, http_counter::value_store& values);

/// Orders until everything is sold. Most orders are for one item, every tenth for three.
asio::awaitable<void> buy(settings const& s, conch::client& client, http_counter::value_store& values, int buyer, tally& t);

}  // namespace flash_sale
