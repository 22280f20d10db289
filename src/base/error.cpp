// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include <conch/error.hpp>

#include "base/failure.hpp"
#include "base/fork_safe_mutex.hpp"
#include "base/readable.hpp"

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace conch {

namespace {

std::string_view plain_message(errc e) {
  switch (e) {
    case errc::timed_out: return "timed out waiting for the lock";
    case errc::lost: return "the lock was lost";
    case errc::not_held: return "not held: released before, moved from, or empty";
    case errc::closed: return "the client is closed";
    case errc::unreachable: return "the lock server cannot be reached";
    case errc::access_denied: return "the lock server denies access";
    case errc::wrong_type: return "a key of the lock holds something else";
    case errc::server_refused: return "the lock server refused";
    case errc::protocol: return "the server does not speak the expected protocol";
    case errc::invalid_name: return "a lock's name must have 1 to 512 bytes";
    case errc::invalid_config: return "invalid configuration";
    case errc::invalid_url: return "invalid URL";
    case errc::not_supported: return "not supported by this server";
    case errc::would_deadlock: return "would deadlock";
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
      return e == errc::invalid_name || e == errc::invalid_config || e == errc::invalid_url ||
             e == errc::not_supported || e == errc::would_deadlock;
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
      case condition::invalid_request: return "invalid request";
    }
    return "unknown condition";
  }
};

conditions_category const& conditions() noexcept {
  static conditions_category const instance;
  return instance;
}

/// The text, and whether it is the whole message.
struct error_text {
  std::string words;
  bool is_whole = false;
};

error_text words_of(std::uint32_t serial);

/// All errors_category objects are equal to each other, by this number.
constexpr boost::ulong_long_type id_of_category = 0x9c0a'5ee1'7fb2'43d7;

/// An error_code is a number and a category. The number is the errc. The category carries the server's text: there is
/// one category for each of the last different words, and one without words.
class errors_category final : public boost::system::error_category {
 public:
  explicit errors_category(std::uint32_t serial) noexcept : error_category{id_of_category}, serial_{serial} {}

  char const* name() const noexcept override { return "conch"; }

  std::string message(int value) const override {
    std::string text{plain_message(static_cast<errc>(value))};
    error_text const all = serial_ != 0 ? words_of(serial_) : error_text{};
    if (all.words.empty()) return text;
    return all.is_whole ? all.words : text + ": " + all.words;
  }

  std::uint32_t serial() const noexcept { return serial_; }

  bool equivalent(int value, boost::system::error_condition const& c) const noexcept override {
    if (c.category() == *this) return value == c.value();
    if (c.category() == conditions()) return belongs_to(static_cast<errc>(value), static_cast<condition>(c.value()));
    return false;
  }

 private:
  std::uint32_t const serial_;
};

/// Keeps the last 4096 different texts: as many errors as one turn of an event loop may well make, each about another
/// lock. An error_code that has outlived its text shows none, and not that of another. A category is small, so there
/// are very many: when one is used again, no code that has it is left.
class word_table {
 public:
  errors_category const& keep(std::string_view words, bool is_whole) {
    std::string key{is_whole ? "=" : ":"};
    key += words;
    std::lock_guard const guard{mutex_};
    if (auto const known = serials_.find(key); known != serials_.end()) return categories_[known->second - 1];
    last_ = last_ % most_categories + 1;
    if (last_ > categories_.size()) categories_.emplace_back(last_);
    kept& place = kept_[last_ % kept_.size()];
    if (place.serial != 0) serials_.erase(place.key);
    serials_.emplace(key, last_);
    place = {std::move(key), last_};
    return categories_[last_ - 1];
  }

  error_text find(std::uint32_t serial) {
    std::lock_guard const guard{mutex_};
    kept const& place = kept_[serial % kept_.size()];
    if (place.serial != serial) return {};
    return {place.key.substr(1), place.key[0] == '='};
  }

 private:
  static constexpr std::uint32_t most_categories = 1u << 16;  // about 2 MB of them

  struct kept {
    std::string key;  // the text behind '=', the whole message, or ':'
    std::uint32_t serial = 0;
  };

  fork_safe_mutex mutex_;
  std::vector<kept> kept_{4096};
  std::unordered_map<std::string, std::uint32_t> serials_;
  std::deque<errors_category> categories_;  // never freed: an error_code points to one
  std::uint32_t last_ = 0;
};

word_table& table() {
  static word_table* const instance = new word_table;  // error codes may be printed by destructors of statics
  return *instance;
}

error_text words_of(std::uint32_t serial) { return table().find(serial); }

}  // namespace

boost::system::error_category const& error_category() noexcept {
  static errors_category const instance{0};
  return instance;
}

error_code make_error_code(errc e) noexcept { return {static_cast<int>(e), error_category()}; }

error_code make_error_code(errc e, std::string_view words) {
  if (words.empty()) return make_error_code(e);
  return {static_cast<int>(e), table().keep(readable_line(words), false)};
}

error_code make_whole_error_code(errc e, std::string_view sentence) {
  return {static_cast<int>(e), table().keep(readable_line(sentence), true)};
}

namespace {

error_text text_of(error_code why) {
  if (why.category() != error_category()) return {};
  auto const serial = static_cast<errors_category const&>(why.category()).serial();
  return serial == 0 ? error_text{} : words_of(serial);
}

}  // namespace

std::string cause_of(error_code why) { return text_of(why).words; }

bool is_explained(error_code why) { return text_of(why).is_whole; }

boost::system::error_condition make_error_condition(errc e) noexcept { return {static_cast<int>(e), error_category()}; }

boost::system::error_condition make_error_condition(condition c) noexcept {
  return {static_cast<int>(c), conditions()};
}

}  // namespace conch
