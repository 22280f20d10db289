// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/duration.hpp"
#include "cli/option_table.hpp"

#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

namespace conch::cli {

/// Throws failure (exit_code::usage). `command`: whose help is to be read; empty: that of conch.
[[noreturn]] void refuse_usage(std::string const& why, std::string_view command = {});

/// An option that was given. Each function reads its argument and refuses what it must not be.
class option_value {
 public:
  option_value(option_entry const& option, std::string text, std::string_view command);

  std::string const& text() const;  // not empty
  duration time() const;            // from `least` to `most`
  std::string const& raw() const noexcept { return text_; }

  /// From `least` to `most`, which the table gives, or the limit of the type.
  template <class Number>
  Number number() const {
    Number const least = bound(option_.least, std::numeric_limits<Number>::min()),
                 most = bound(option_.most, std::numeric_limits<Number>::max());
    return number_within("", text_, least, most);
  }

  /// `part` of the argument. `of`: what to call it, after the name of the option.
  template <class Number>
  Number number_within(std::string_view of, std::string_view part, Number least, Number most) const {
    Number number{};
    auto const [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    bool const is_number = error == std::errc{} && end == part.data() + part.size();
    if (!is_number || number < least || number > most)
      refuse_number(of, part, std::to_string(least), std::to_string(most));
    return number;
  }

  [[noreturn]] void refuse(std::string const& why) const;

 private:
  template <class Number>
  static Number bound(std::string_view text, Number limit) {
    std::from_chars(text.data(), text.data() + text.size(), limit);
    return limit;
  }
  [[noreturn]] void refuse_number(std::string_view of, std::string_view part, std::string const& least,
                                  std::string const& most) const;

  option_entry const& option_;
  std::string text_;
  std::string_view command_;
};

}  // namespace conch::cli
