// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/error.hpp>

#include <stdexcept>
#include <string>

// How the command ends when something went wrong. The numbers are part of its interface: scripts rely on them.
namespace conch::cli {

/// Those from 64 to 78 have the meaning of sysexits.h. What each means to the user: exit_codes() (option_table.hpp).
struct exit_code {
  static constexpr int done = 0;
  static constexpr int nothing_done = 1;
  static constexpr int not_fit = 2;
  static constexpr int usage = 64;
  static constexpr int unreachable = 69;
  static constexpr int internal = 70;
  static constexpr int not_written = 74;
  static constexpr int not_granted = 75;
  static constexpr int refused = 76;
  static constexpr int access_denied = 77;
  static constexpr int wrong_config = 78;
  static constexpr int lost = 79;
  static constexpr int not_replicated = 80;
  static constexpr int not_executable = 126;
  static constexpr int not_found = 127;
  static constexpr int of_signal = 128;  // plus the number of the signal
};

/// Ends the command: the words are for people.
struct failure : std::runtime_error {
  failure(int exit_code, std::string const& words) : runtime_error{words}, code{exit_code} {}
  int code;
};

/// The exit code for an error of the library.
int exit_code_of(error_code why) noexcept;

}  // namespace conch::cli
