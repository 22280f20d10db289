// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace conch {

/// Bytes that we send and never show: a password, a token. While an object with them exists, `without_secrets` takes
/// them out of every text; and afterwards, too, while they are among the last 1024 that have gone, if they are long and
/// no plain word. So a secret of this type cannot be forgotten.
class secret {
 public:
  secret() noexcept = default;  // empty
  // Not explicit: to keep bytes as a secret does no harm.
  CONCH_API secret(std::string bytes);
  secret(char const* bytes) : secret{std::string{bytes}} {}

  /// For the wire only.
  CONCH_API std::string const& bytes() const noexcept;
  bool empty() const noexcept { return bytes().empty(); }

  friend bool operator==(secret const& a, std::string_view b) noexcept { return a.bytes() == b; }

 private:
  std::shared_ptr<std::string const> known_;
};

enum class written_by {
  others,  // a server, a resolver, a library: it may repeat anything that was sent to it
  us,      // a line of ours, which may contain such a text: secrets that look like one of our own words stay
};

/// The text with `***` for each secret in it, in upper and lower case, in part (six characters in a row, or fewer where
/// a server has cut it), and in other spellings: escaped in any way (`%73`, `\163`, `\x73`, `\u0073`, `&#115;`; also
/// twice), or as a whole in hexadecimal, in Base64 or as a list of numbers. Takes time in proportion to the text: the
/// number of ways to read it is fixed.
CONCH_API std::string without_secrets(std::string_view text, written_by by = written_by::others);

}  // namespace conch
