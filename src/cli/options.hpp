// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/exit_code.hpp"
#include "cli/option_table.hpp"
#include "cli/settings.hpp"

#include <conch/clock.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace conch::cli {

/// What a lock of `run` is.
enum class lock_kind { mutex, shared, exclusive, semaphore, striped };

/// The command line, checked.
struct arguments {
  command_id command = command_id::run;
  connection_options connect;
  bool json = false;
  bool verbose = false;
  std::vector<std::string> names;  // NAME ...; of list and watch: the patterns

  // run
  std::vector<std::string> child;  // CMD ARG ...
  lock_kind kind = lock_kind::mutex;
  std::uint32_t size = 0;  // of a semaphore or a striped mutex
  std::optional<duration> wait = std::nullopt;
  std::optional<duration> lease = std::nullopt;
  std::optional<duration> max_hold = std::nullopt;
  duration at_least = duration::zero();
  std::string note;
  std::optional<duration> grace = std::nullopt;
  int warn_signal = 0;  // to CMD, when the lock is endangered; 0: none
  bool fixed_lease = false;
  bool kill_child = true;
  bool keep_connection = false;
  int conflict_exit_code = exit_code::not_granted;
  std::optional<int> events_fd = std::nullopt;

  // list
  bool names_only = false;

  // unlock
  std::optional<std::int64_t> fence = std::nullopt;
  bool yes = false;

  // watch, bench
  duration every = std::chrono::seconds{1};
  duration time = std::chrono::seconds{1};
};

/// What is to be done: a command, or a text to print.
struct request {
  std::optional<arguments> command = std::nullopt;
  std::string text{};
};

/// Throws failure (exit_code::usage); the text says what is wrong and where help is.
request parse_command_line(std::vector<std::string> const& words);

}  // namespace conch::cli
