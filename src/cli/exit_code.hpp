// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/error.hpp>

#include <stdexcept>
#include <string>

// How the command ends when something went wrong. The numbers are part of its interface: scripts rely on them.
namespace conch::cli {

/// Those from 64 to 78 have the meaning of sysexits.h.
struct exit_code {
  static constexpr int done = 0;
  static constexpr int nothing_done = 1;      // unlock: there was no such holder, or the answer was no
  static constexpr int usage = 64;            // options or arguments
  static constexpr int unreachable = 69;      // no server, or none that answers
  static constexpr int internal = 70;         // a defect of conch, or the system refused something
  static constexpr int not_written = 74;      // standard output cannot be written, as on a full disk
  static constexpr int not_granted = 75;      // run: the lock was not free (--conflict-exit-code)
  static constexpr int refused = 76;          // the server refused, or a key is no lock
  static constexpr int access_denied = 77;    // user, password, rights
  static constexpr int wrong_config = 78;     // configuration file, password file, URL, TLS
  static constexpr int lost = 79;             // run: the lock was lost before CMD had ended
  static constexpr int not_replicated = 80;   // too few replicas have the lock (--sync-replicas); it was given back
  static constexpr int not_executable = 126;  // run: as a shell says it of CMD
  static constexpr int not_found = 127;
  static constexpr int of_signal = 128;  // plus the number of the signal that ended CMD, or the wait for the lock
};

/// Ends the command: the words are for people.
struct failure : std::runtime_error {
  failure(int exit_code, std::string const& words) : runtime_error{words}, code{exit_code} {}
  int code;
};

/// The exit code for an error of the library.
int exit_code_of(error_code why) noexcept;

}  // namespace conch::cli
