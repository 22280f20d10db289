#include "sale.hpp"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>

namespace flash_sale {

namespace {

using conch::segment_verdict;

constexpr int most_failures = 20;

asio::awaitable<int> read(http_counter::value_store& values, std::string key) {
  std::optional<std::string> text = co_await values.get(std::move(key));
  co_return text ? std::stoi(*text) : 0;
}

asio::awaitable<void> wait_until(std::chrono::steady_clock::time_point until) {
  asio::steady_timer timer{co_await asio::this_coro::executor, until};
  co_await timer.async_wait(asio::use_awaitable);
}

void note(tally& t, std::uint32_t segment, int left) {
  t.known.saw(segment, left);
  if (t.looked) t.looked(segment, left);
}

/// One order under the lock of a segment: reads the stock, takes the payment, writes the stock.
asio::awaitable<segment_verdict> sell(settings const& s, http_counter::value_store& values, conch::hold& lock,
                                      std::uint32_t segment, int items, tally& t) {
  if (t.known.empty()) {
    co_return segment_verdict::done;  // together, the buyers of this process have seen that all segments are empty
  }
  if (t.known.most(segment) < items) {
    ++t.moved_on;
    co_return segment_verdict::not_enough;
  }
  auto const began = std::chrono::steady_clock::now();
  std::string stock = stock_key(s, segment);
  int const left = co_await read(values, stock);
  if (left < 0) {
    ++t.mistakes;
  }
  note(t, segment, left);
  if (left < items) {
    ++t.moved_on;
    co_return segment_verdict::not_enough;
  }
  co_await wait_until(began + s.order * 9 / 10);
  if (!lock.valid()) throw boost::system::system_error(make_error_code(conch::errc::lost));
  std::string fewer = std::to_string(left - items);
  t.unsure += items;  // until the answer says that it is written
  co_await values.set(std::move(stock), std::move(fewer));
  t.unsure -= items;
  note(t, segment, left - items);
  ++t.orders;
  t.sold += items;
  co_await wait_until(began + s.order);
  co_return segment_verdict::done;
}

/// Makes with_lock acquire any segment except those in `but`.
struct another_segment {
  conch::striped_mutex& of;
  std::vector<std::uint32_t> const& but;

  template <asio::completion_token_for<void(conch::error_code, conch::hold)> Token>
  auto async_acquire(conch::acquire_options options, Token&& token) {
    return of.async_acquire_any(but, options, std::forward<Token>(token));
  }
};

/// One order, in any segment that has enough.
asio::awaitable<void> order(settings const& s, conch::client& client, http_counter::value_store& values, int items,
                            tally& t) {
  if (s.segments == 1) {
    conch::mutex lock{client, s.name};
    auto body = [&](conch::hold& h) -> asio::awaitable<segment_verdict> { return sell(s, values, h, 1, items, t); };
    co_await conch::with_lock(lock, body);
    co_return;
  }
  // Like with_any_segment, which would know only the segments that this one buyer has visited.
  conch::striped_mutex lock{client, s.name, s.segments};
  auto body = [&](conch::hold& h) -> asio::awaitable<segment_verdict> {
    return sell(s, values, h, h.segment(), items, t);
  };
  auto verdict = segment_verdict::not_enough;
  std::vector<std::uint32_t> but = t.known.too_small_for(items);
  while (verdict != segment_verdict::done && but.size() < s.segments) {
    another_segment next{lock, but};
    verdict = co_await conch::with_lock(next, body);
    but = t.known.too_small_for(items);
  }
}

}  // namespace

void shelf::saw(std::uint32_t segment, int left) {
  int& most = most_[segment - 1];
  if (left <= 0 && most > 0) {
    --filled_;
  }
  most = std::min(most, left);
}

std::vector<std::uint32_t> shelf::too_small_for(int items) const {
  std::vector<std::uint32_t> segments;
  for (std::uint32_t segment = 1; segment <= most_.size(); ++segment) {
    if (most(segment) < items) segments.push_back(segment);
  }
  return segments;
}

std::string stock_key(settings const& s, std::uint32_t segment) { return s.name + ":stock:" + std::to_string(segment); }

asio::awaitable<void> stock_up(settings const& s, http_counter::value_store& values) {
  for (std::uint32_t segment = 1; segment <= s.segments; ++segment) {
    auto const segments = static_cast<int>(s.segments);
    int const here = s.items / segments + (static_cast<int>(segment) <= s.items % segments ? 1 : 0);
    std::string key = stock_key(s, segment);
    std::string items = std::to_string(here);
    co_await values.set(std::move(key), std::move(items));
  }
}

bool adds_up(settings const& s, stock_report const& r, int bought, int unsure) {
  return adds_up(s.items - r.left, bought, unsure) && !r.negative;
}

asio::awaitable<stock_report> count(settings const& s, http_counter::value_store& values) {
  stock_report r;
  for (std::uint32_t segment = 1; segment <= s.segments; ++segment) {
    int const left = co_await read(values, stock_key(s, segment));
    r.left += left;
    r.negative = r.negative || left < 0;
  }
  co_return r;
}

asio::awaitable<void> clear(settings const& s, http_counter::value_store& values) {
  for (std::uint32_t segment = 1; segment <= s.segments; ++segment) {
    std::string stock = stock_key(s, segment);
    co_await values.remove(std::move(stock));
  }
}

asio::awaitable<void> buy(settings const& s, conch::client& client, http_counter::value_store& values, int buyer,
                          tally& t) {
  int failed = 0;  // in a row
  for (int turn = buyer; !t.known.empty() && failed < most_failures; ++turn) {
    int const items = turn % 10 == 0 ? 3 : 1;
    try {
      co_await order(s, client, values, items, t);
      failed = 0;
      continue;
    } catch (std::exception const&) {  // lost its hold, or the store did not answer: another order
      ++failed;
      ++t.failed;
    }
    co_await wait_until(std::chrono::steady_clock::now() + s.order);
  }
}

}  // namespace flash_sale
