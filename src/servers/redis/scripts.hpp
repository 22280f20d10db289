#pragma once

#include <span>
#include <string_view>

namespace conch::redis {

/// A server-side script. The build embeds every `lua/NAME.lua`, with its includes resolved and its
/// comments dropped; everything here lives as long as the program.
struct script {
  std::string_view name;    ///< NAME: the file's name without `.lua`
  std::string_view source;  ///< for EVAL and SCRIPT LOAD
  std::string_view sha1;    ///< of `source`, 40 lower-case hex digits: for EVALSHA
};

/// All scripts, in the order of their names.
std::span<script const> all_scripts() noexcept;

/// The script of that name. Throws `std::out_of_range` when there is none: an error of the program.
script const& find_script(std::string_view name);

}  // namespace conch::redis
