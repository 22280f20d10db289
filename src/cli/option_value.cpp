// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/option_value.hpp"

#include "cli/exit_code.hpp"

#include <optional>
#include <utility>

namespace conch::cli {

void refuse_usage(std::string const& why, std::string_view command) {
  throw failure{exit_code::usage,
                why + "; see conch " + std::string{command} + (command.empty() ? "" : " ") + "--help"};
}

option_value::option_value(option_entry const& option, std::string text, std::string_view command)
    : option_{option},
      text_{std::move(text)},
      command_{command} {}

// An unset variable of a script must not lead to another server than the one that is meant.
std::string const& option_value::text() const {
  if (text_.empty()) refuse("is empty");
  return text_;
}

duration option_value::time() const {
  std::optional<duration> const read = parse_duration(text_);
  if (!read)
    refuse_usage("--" + std::string{option_.name} + ": '" + text_ + "' is not a duration such as 500ms, 30s or 5m",
                 command_);
  bool const is_bounded = !option_.least.empty();
  if (is_bounded && (*read < *parse_duration(option_.least) || *read > *parse_duration(option_.most))) {
    refuse("must be " + std::string{option_.least} + " to " + std::string{option_.most} + ", not '" + text_ + "'");
  }
  return *read;
}

void option_value::refuse(std::string const& why) const {
  refuse_usage("--" + std::string{option_.name} + ' ' + why, command_);
}

void option_value::refuse_number(std::string_view of, std::string_view part, std::string const& least,
                                 std::string const& most) const {
  refuse(std::string{of} + (of.empty() ? "" : " ") + "must be a number from " + least + " to " + most + ", not '" +
         std::string{part} + "'");
}

}  // namespace conch::cli
