// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace conch::cli {

struct toml_entry {
  std::string key;
  std::string value;
  std::size_t line = 0;
};

/// The part of TOML that a list of settings needs: lines of `key = "basic string"`, `key = 'literal string'`, `key =
/// true`, `key = 7`; comments with `#`; keys of letters, digits, `-` and `_`. In a basic string `\"`, `\\`, `\n`, `\r`
/// and `\t`. No tables, no lists, no strings over several lines. Each such file is a TOML file and means the same
/// there. Throws failure (exit_code::wrong_config) for anything else and for a key that is given twice, with the line,
/// and without the text, which may be a password.
std::vector<toml_entry> parse_toml(std::string_view text, std::string const& name_of_file);

}  // namespace conch::cli
