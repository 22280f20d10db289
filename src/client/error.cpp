// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include <conch/error.hpp>

#include <array>
#include <mutex>
#include <string>

namespace conch {

namespace {

/// The value of an error_code: the errc in the low byte, above it which of the server's words go with it (0: none).
constexpr int words_shift = 8;
constexpr int errc_mask = (1 << words_shift) - 1;

class word_table {
 public:
  int keep(std::string_view words) {
    std::lock_guard const guard{mutex_};
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      if (serial_[i] != 0 && kept_[i] == words) return serial_[i];
    }
    last_ = last_ % (1 << 20) + 1;
    std::size_t const place = static_cast<std::size_t>(last_) % kept_.size();
    kept_[place] = words;
    serial_[place] = last_;
    return last_;
  }

  std::string find(int serial) {
    std::lock_guard const guard{mutex_};
    std::size_t const place = static_cast<std::size_t>(serial) % kept_.size();
    return serial != 0 && serial_[place] == serial ? kept_[place] : std::string{};
  }

 private:
  std::mutex mutex_;
  std::array<std::string, 256> kept_;
  std::array<int, 256> serial_{};
  int last_ = 0;
};

word_table& table() {
  static word_table* const instance = new word_table;  // error codes may be printed by destructors of statics
  return *instance;
}

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
    case errc::would_deadlock: return "a reader cannot become a writer, or two would wait for each other: release, then acquire";
  }
  return "unknown error";
}

bool belongs_to(errc e, condition c) {
  switch (c) {
    case condition::not_mine: return e == errc::lost || e == errc::not_held;
    case condition::unreachable: return e == errc::unreachable || e == errc::closed;
    case condition::invalid_request:
      return e == errc::invalid_name || e == errc::invalid_config || e == errc::invalid_url || e == errc::not_supported ||
             e == errc::would_deadlock;
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

class errors_category final : public boost::system::error_category {
 public:
  char const* name() const noexcept override { return "conch"; }

  std::string message(int value) const override {
    std::string text{plain_message(static_cast<errc>(value & errc_mask))};
    std::string const words = table().find(value >> words_shift);
    return words.empty() ? text : text + ": " + words;
  }

  bool equivalent(int value, boost::system::error_condition const& c) const noexcept override {
    if (c.category() == *this) return (value & errc_mask) == c.value();
    if (c.category() == conditions()) {
      return belongs_to(static_cast<errc>(value & errc_mask), static_cast<condition>(c.value()));
    }
    return false;
  }
};

}  // namespace

boost::system::error_category const& error_category() noexcept {
  static errors_category const instance;
  return instance;
}

error_code make_error_code(errc e) noexcept { return {static_cast<int>(e), error_category()}; }

error_code make_error_code(errc e, std::string_view words) {
  if (words.empty()) return make_error_code(e);
  return {static_cast<int>(e) | table().keep(words.substr(0, 500)) << words_shift, error_category()};
}

boost::system::error_condition make_error_condition(errc e) noexcept { return {static_cast<int>(e), error_category()}; }

boost::system::error_condition make_error_condition(condition c) noexcept { return {static_cast<int>(c), conditions()}; }

}  // namespace conch
