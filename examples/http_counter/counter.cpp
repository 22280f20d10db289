#include "counter.hpp"

#include <boost/system/system_error.hpp>
#include <charconv>
#include <exception>
#include <limits>
#include <utility>

namespace http_counter {

namespace asio = boost::asio;
using boost::system::system_error;

namespace {

using cause = counter_error::cause;

// Turns every error into a counter_error.
[[noreturn]] void rethrow(std::exception_ptr const& failure, bool writing) {
  try {
    std::rethrow_exception(failure);
  } catch (store_error const& error) {
    throw counter_error(cause::unreachable, writing, error.what());
  } catch (system_error const& error) {
    if (error.code() == conch::errc::timed_out) {
      throw counter_error(cause::busy, false, "timed out waiting for the lock");
    }
    throw counter_error(cause::unreachable, writing, error.code().message());
  }
}

}  // namespace

counter::counter(conch::client& locks, value_store& values, std::string const& name, std::chrono::milliseconds wait)
    : values_(values),
      lock_(locks, name),
      wait_{.wait = wait},
      key_("http_counter:" + name) {}

asio::awaitable<counter::change> counter::increment(bool locked) {
  change result;
  bool writing = false;
  std::exception_ptr failure;
  auto add_one = [&](conch::hold& hold) -> asio::awaitable<void> {
    result.fence = hold.fence();
    std::int64_t const value = co_await increment_under(hold, writing);
    result.value = value;
  };
  try {
    if (locked) {
      co_await conch::with_lock(lock_, wait_, add_one);
    } else {
      std::int64_t const value = co_await read_value();
      result.value = value + 1;
      auto set = values_.set(key_, std::to_string(result.value));
      writing = true;
      co_await std::move(set);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    rethrow(failure, writing);
  }
  co_return result;
}

asio::awaitable<std::int64_t> counter::increment_under(conch::hold& hold, bool& writing) {
  std::int64_t const value = co_await read_value();
  // The read may have taken longer than the lease, so check the hold before writing. A write that is late nevertheless
  // is refused by a store that keeps the token beside the value.
  if (!hold.valid()) {
    throw system_error(make_error_code(conch::errc::lost));
  }
  auto set = values_.set_guarded(key_, std::to_string(value + 1), hold.fence());
  writing = true;
  bool const written = co_await std::move(set);
  if (!written) {
    writing = false;
    throw system_error(make_error_code(conch::errc::lost));
  }
  co_return value + 1;
}

asio::awaitable<std::int64_t> counter::read() {
  std::int64_t value = 0;
  std::exception_ptr failure;
  try {
    value = co_await read_value();
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    rethrow(failure, false);
  }
  co_return value;
}

asio::awaitable<void> counter::reset(bool locked) {
  bool writing = false;
  std::exception_ptr failure;
  auto remove = [&](conch::hold&) -> asio::awaitable<void> {
    writing = true;
    co_await values_.remove(key_);
  };
  try {
    if (locked) {
      co_await conch::with_lock(lock_, wait_, remove);
    } else {
      writing = true;
      co_await values_.remove(key_);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    rethrow(failure, writing);
  }
}

asio::awaitable<std::int64_t> counter::read_value() {
  auto const text = co_await values_.get(key_);
  std::int64_t value = 0;
  if (text.has_value()) {
    auto const end = text->data() + text->size();
    auto const [stop, error] = std::from_chars(text->data(), end, value);
    if (error != std::errc{} || stop != end || value == std::numeric_limits<std::int64_t>::max()) {
      throw counter_error(cause::damaged, false, "the stored counter is not a number");
    }
  }
  co_return value;
}

}  // namespace http_counter
