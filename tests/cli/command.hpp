#pragma once

#include <gtest/gtest.h>

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "demo/program.hpp"
#include "support/redis_server.hpp"

namespace conch::test {

/// A server, a folder for files, and the command `conch`.
class Command : public testing::Test {
 protected:
  Command();
  ~Command() override;

  /// A program that runs `conch WORDS`, with the server in CONCH_URL and no other variable of conch.
  program conch(std::vector<std::string> const& words) const;
  /// `conch run WORDS -- /bin/sh -c SCRIPT`. $FILE is file("written").
  program run(std::vector<std::string> words, std::string const& script) const;
  /// `/bin/sh -c SCRIPT`, where $CONCH is the command.
  program shell(std::string const& script) const;
  /// Runs it to its end. Result: the exit code; `output_` has what it wrote.
  int result_of(std::vector<std::string> const& words);

  /// `conch doctor` says so of a hand-over; on a machine with other work it may warn that this took long. Result: it
  /// did.
  bool expect_hand_over() const;

  std::string file(std::string const& name) const { return (folder_ / name).string(); }
  static std::string text_of(std::string const& path);
  std::vector<std::string> lines_of(std::string const& name) const;

  /// Asks again and again. Throws what `what` says if that does not become true within `bound`.
  static void wait_until(std::function<bool()> const& is_true, std::string const& what,
                         std::chrono::milliseconds bound = std::chrono::seconds(60));
  /// There is no such process, or it is a zombie of another parent.
  static bool is_gone(pid_t pid);
  void wait_until_in_line(std::string const& name, int count = 1);
  bool is_held(std::string const& name) { return probe_.integer({"EXISTS", "conch:{" + name + "}"}) != 0; }

  /// What the guarded file shows: the writers of $FILE wrote their fences, and none of them wrote after a later one
  /// had.
  void expect_fences_in_order(std::size_t writers) const;

  std::filesystem::path folder_;
  redis_server server_;
  redis_probe probe_{server_};
  std::string output_;
};

/// Writes its fence to $FILE again and again. Says its process id first.
inline constexpr char const* writer = "echo pid $$; while :; do echo $CONCH_FENCE >> $FILE; sleep 0.01; done";

/// The number behind `beginning` in a line.
long number_behind(std::string const& line, std::string const& beginning);

}  // namespace conch::test
