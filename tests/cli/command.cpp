#include "cli/command.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace conch::test {

using namespace std::chrono_literals;

Command::Command() {
  std::string pattern = (std::filesystem::temp_directory_path() / "conch-cli-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"mkdtemp"};
  folder_ = pattern;
}

Command::~Command() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

program Command::conch(std::vector<std::string> const& words) const {
  // HOME: the tests must not read their user's configuration file.
  std::vector<std::string> all{"/usr/bin/env",
                               "-u",
                               "CONCH_PASSWORD",
                               "-u",
                               "CONCH_USER",
                               "-u",
                               "XDG_CONFIG_HOME",
                               "HOME=" + folder_.string(),
                               "FILE=" + file("written"),
                               "CONCH=" CONCH_COMMAND,
                               "CONCH_URL=" + server_.url(),
                               CONCH_COMMAND};
  all.insert(all.end(), words.begin(), words.end());
  return program{all};
}

program Command::run(std::vector<std::string> words, std::string const& script) const {
  words.insert(words.begin(), "run");
  words.insert(words.end(), {"--", "/bin/sh", "-c", script});
  return conch(words);
}

program Command::shell(std::string const& script) const {
  return program{{"/usr/bin/env", "HOME=" + folder_.string(), "FILE=" + file("written"), "CONCH=" CONCH_COMMAND,
                  "CONCH_URL=" + server_.url(), "/bin/sh", "-c", script}};
}

int Command::result_of(std::vector<std::string> const& words) {
  program p = conch(words);
  int const code = p.wait_for_end(60s);
  output_ = p.output();
  return code;
}

std::string Command::text_of(std::string const& path) {
  std::ifstream in{path};
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> Command::lines_of(std::string const& name) const {
  std::ifstream in{file(name)};
  std::vector<std::string> all;
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

void Command::wait_until(std::function<bool()> const& is_true, std::string const& what,
                         std::chrono::milliseconds bound) {
  auto const end = std::chrono::steady_clock::now() + bound;
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error{what};
    std::this_thread::sleep_for(5ms);
  }
}

bool Command::expect_hand_over() const {
  bool const is_slow = output_.find("warning  hand-over: median ") != std::string::npos &&
                       output_.find(": the server is busy") != std::string::npos;
  EXPECT_TRUE(is_slow || output_.find("ok       hand-over: median ") != std::string::npos) << output_;
  return is_slow;
}

bool Command::is_gone(pid_t pid) {
  std::string const state = text_of("/proc/" + std::to_string(pid) + "/stat");
  auto const name_end = state.rfind(')');
  return name_end == std::string::npos || state.substr(name_end + 2, 1) == "Z";
}

void Command::wait_until_in_line(std::string const& name, int count) {
  wait_until(
      [&] {
        return probe_.integer({"ZCARD", "conch:{" + name + "}:q"}) >= count;
      },
      "nobody is in line of " + name);
}

void Command::expect_fences_in_order(std::size_t writers) const {
  std::vector<long long> fences;
  for (std::string const& line : lines_of("written")) fences.push_back(std::stoll(line));
  EXPECT_TRUE(std::is_sorted(fences.begin(), fences.end())) << "a child wrote after a later one had";
  EXPECT_EQ(std::set<long long>(fences.begin(), fences.end()).size(), writers);
}

long number_behind(std::string const& line, std::string const& beginning) {
  auto const found = line.find(beginning);
  if (found == std::string::npos) throw std::runtime_error{"no '" + beginning + "' in: " + line};
  return std::stol(line.substr(found + beginning.size()));
}

}  // namespace conch::test
