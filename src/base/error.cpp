// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include <conch/error.hpp>

#include "base/process.hpp"
#include "base/readable.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

namespace conch {

namespace {

std::string_view plain_message(errc e) {
  switch (e) {
    case errc::timed_out: return "the lock could not be had in time";
    case errc::lost: return "the lock was lost";
    case errc::not_held: return "nothing is held";
    case errc::closed: return "the client is closed";
    case errc::unreachable: return "the lock server cannot be reached";
    case errc::access_denied: return "the lock server denies access";
    case errc::wrong_type: return "a key of the lock holds something else";
    case errc::server_refused: return "the lock server refused";
    case errc::protocol: return "the peer does not speak the protocol of Redis 6.2 or newer";
    case errc::invalid_name: return "a lock's name must have 1 to 512 bytes";
    case errc::invalid_config: return "invalid configuration";
    case errc::invalid_url: return "invalid URL";
    case errc::not_supported: return "not supported by this backend";
    case errc::would_deadlock: return "it would wait for ever";
    case errc::tls_failed: return "no TLS connection to the lock server";
    case errc::not_replicated: return "too few replicas have the lock";
  }
  return "unknown error";
}

bool belongs_to(errc e, condition c) {
  switch (c) {
    case condition::not_mine: return e == errc::lost || e == errc::not_held;
    case condition::unreachable: return e == errc::unreachable || e == errc::closed;
    case condition::invalid_request:
      return e == errc::invalid_name || e == errc::invalid_config || e == errc::invalid_url || e == errc::not_supported || e == errc::would_deadlock;
  }
  return false;
}

class conditions_category final : public boost::system::error_category {
 public:
  char const* name() const noexcept override { return "conch.condition"; }
  std::string message(int value) const override {
    switch (static_cast<condition>(value)) {
      case condition::not_mine: return "the lock is not mine";
      case condition::unreachable: return "the server is unreachable";
      case condition::invalid_request: return "the request makes no sense";
    }
    return "unknown condition";
  }
};

conditions_category const& conditions() noexcept {
  static conditions_category const instance;
  return instance;
}

std::string words_of(std::uint32_t serial);

/// All errors_category objects are equal to each other, by this number.
constexpr boost::ulong_long_type id_of_category = 0x9c0a'5ee1'7fb2'43d7;

/// An error_code is a number and a category. The number says which errc. The category stands for the server's words: there is one category
/// for each of the last different words, and one without words.
class errors_category final : public boost::system::error_category {
 public:
  explicit errors_category(std::uint32_t serial) noexcept : error_category{id_of_category}, serial_{serial} {}

  char const* name() const noexcept override { return "conch"; }

  std::string message(int value) const override {
    std::string text{plain_message(static_cast<errc>(value))};
    std::string const words = serial_ != 0 ? words_of(serial_) : std::string{};
    return words.empty() ? text : text + ": " + words;
  }

  bool equivalent(int value, boost::system::error_condition const& c) const noexcept override {
    if (c.category() == *this) return value == c.value();
    if (c.category() == conditions()) return belongs_to(static_cast<errc>(value), static_cast<condition>(c.value()));
    return false;
  }

 private:
  std::uint32_t const serial_;
};

/// Keeps the last 256 different words. An error_code that has outlived its words shows none, and not those of another. A category is small,
/// so there are very many: when one is used again, no code that has it is left.
class word_table {
 public:
  word_table() { held_across_forks(mutex_); }

  errors_category const& keep(std::string_view words) {
    std::lock_guard const guard{mutex_};
    for (kept const& k : kept_) {
      if (k.serial != 0 && k.words == words) return categories_[k.serial - 1];
    }
    last_ = last_ % most_categories + 1;
    if (last_ > categories_.size()) categories_.emplace_back(last_);
    kept& place = kept_[last_ % kept_.size()];
    place.words = words;
    place.serial = last_;
    return categories_[last_ - 1];
  }

  std::string find(std::uint32_t serial) {
    std::lock_guard const guard{mutex_};
    kept const& place = kept_[serial % kept_.size()];
    return place.serial == serial ? place.words : std::string{};
  }

 private:
  static constexpr std::uint32_t most_categories = 1u << 14;  // about 1 MB of them

  struct kept {
    std::string words;
    std::uint32_t serial = 0;
  };

  std::mutex mutex_;
  std::array<kept, 256> kept_;
  std::deque<errors_category> categories_;  // never freed: an error_code points to one
  std::uint32_t last_ = 0;
};

word_table& table() {
  static word_table* const instance = new word_table;  // error codes may be printed by destructors of statics
  return *instance;
}

std::string words_of(std::uint32_t serial) { return table().find(serial); }

}  // namespace

boost::system::error_category const& error_category() noexcept {
  static errors_category const instance{0};
  return instance;
}

error_code make_error_code(errc e) noexcept { return {static_cast<int>(e), error_category()}; }

error_code make_error_code(errc e, std::string_view words) {
  if (words.empty()) return make_error_code(e);
  return {static_cast<int>(e), table().keep(readable(words, readable_line))};
}

boost::system::error_condition make_error_condition(errc e) noexcept { return {static_cast<int>(e), error_category()}; }

boost::system::error_condition make_error_condition(condition c) noexcept { return {static_cast<int>(c), conditions()}; }

}  // namespace conch
