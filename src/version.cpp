#include <conch/version.hpp>

namespace conch {

namespace {

/// Takes a number off the front of `text`, and the dot after it.
constexpr int next_number(std::string_view& text) {
  int number = 0;
  while (!text.empty() && text.front() != '.') {
    number = number * 10 + (text.front() - '0');
    text.remove_prefix(1);
  }
  if (!text.empty()) text.remove_prefix(1);
  return number;
}

constexpr bool numbers_are_those_of(std::string_view text) {
  int const major = next_number(text);
  int const minor = next_number(text);
  int const patch = next_number(text);
  return major == version_major && minor == version_minor && patch == version_patch && text.empty();
}

static_assert(numbers_are_those_of(version_string), "version.hpp names different versions");

}  // namespace

const char* version() noexcept { return version_string.data(); }

}  // namespace conch
