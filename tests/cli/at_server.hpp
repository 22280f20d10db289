#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "demo/program.hpp"

namespace conch::test {

/// The command `conch` with a URL in its environment, and a folder of its own.
class at_server {
 public:
  explicit at_server(std::string url) : url_{std::move(url)} {
    std::string pattern = (std::filesystem::temp_directory_path() / "conch-cli-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"mkdtemp"};
    folder_ = pattern;
  }
  ~at_server() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  at_server(at_server const&) = delete;
  at_server& operator=(at_server const&) = delete;

  program conch(std::vector<std::string> const& words) const {
    std::vector<std::string> all{"/usr/bin/env",      "-u",         "CONCH_PASSWORD",  "-u",
                                 "CONCH_USER",        "-u",         "XDG_CONFIG_HOME", "HOME=" + folder_.string(),
                                 "CONCH_URL=" + url_, CONCH_COMMAND};
    all.insert(all.end(), words.begin(), words.end());
    return program{all};
  }
  program run(std::vector<std::string> words, std::string const& script) const {
    words.insert(words.begin(), "run");
    words.insert(words.end(), {"--", "/bin/sh", "-c", script});
    return conch(words);
  }
  /// Runs it to its end. Result: the exit code; `output` has what it wrote.
  int result_of(std::vector<std::string> const& words) {
    program p = conch(words);
    int const code = p.wait_for_end(std::chrono::seconds{120});
    output = p.output();
    return code;
  }
  bool says(std::string const& words) const { return output.find(words) != std::string::npos; }

  std::string output;

 private:
  std::string url_;
  std::filesystem::path folder_;
};

/// The fence that `echo fence $CONCH_FENCE` has written.
inline std::string fence_of(program& holder) { return holder.wait_for("fence ", std::chrono::seconds{60}).substr(6); }
inline constexpr char const* holds = "echo fence $CONCH_FENCE; sleep 600";

}  // namespace conch::test
