// The real server that the model is compared with. Not support/redis_server.hpp: that one links the
// library, which the simulation must not, because it compiles the same code in its own way.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sim/differential/raw_redis_client.hpp"

namespace conch::sim {

// By the version that INFO names. Valkey 9 names 7.2.4 there.
inline bool is_since_7_2(std::string const& info) {
  auto const at = info.find("\r\nredis_version:") + 16;
  int const major = std::stoi(info.substr(at)), minor = std::stoi(info.substr(info.find('.', at) + 1));
  return major > 7 || (major == 7 && minor >= 2);
}

// Throws if it does not hold in time.
template <class Condition>
void wait_until(std::string const& what, Condition const& holds,
                std::chrono::seconds limit = std::chrono::seconds{60}) {
  for (auto const end = std::chrono::steady_clock::now() + limit; !holds();) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error{"never seen: " + what};
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

// One process with a private folder and a unix socket, no data, no configuration. Killed by its
// process id; by the kernel if the test dies. Throws if it cannot be started.
class real_redis_server {
 public:
  explicit real_redis_server(std::vector<std::string> settings = {})
      : folder_{make_folder()},
        settings_{std::move(settings)} {
    program_ = program();
    pid_ = ::fork();
    if (pid_ == 0) {
      become_server();
    }
    try {
      wait_until_ready();
    } catch (...) {
      clean_up();
      throw;
    }
  }

  real_redis_server(real_redis_server const&) = delete;
  real_redis_server& operator=(real_redis_server const&) = delete;
  ~real_redis_server() { clean_up(); }

  static std::string program() {
    char const* const chosen = std::getenv("CONCH_REDIS_SERVER");
    return chosen != nullptr ? chosen : "redis-server";
  }

  // As the program says it: "Redis server v=7.0.15 sha=...".
  static std::string version() {
    std::string text(256, '\0');
    auto* const said = ::popen((program() + " --version").c_str(), "r");
    if (said == nullptr) throw std::runtime_error{program() + " does not start; is it installed?"};
    text.resize(std::fread(text.data(), 1, text.size(), said));
    ::pclose(said);
    return text.substr(0, text.find(" sha="));
  }

  std::string socket_path() const { return folder_ / "redis.sock"; }

  // Pauses or resumes it.
  void stand_still(bool still) const { ::kill(pid_, still ? SIGSTOP : SIGCONT); }

 private:
  static std::filesystem::path make_folder() {
    std::string name = std::filesystem::temp_directory_path() / "conch-model-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error{"no temporary folder for redis-server"};
    }
    return name;
  }

  [[noreturn]] void become_server() const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int const log = ::open((folder_ / "log").c_str(), O_CREAT | O_WRONLY, 0600);
    ::dup2(log, 1);
    ::dup2(log, 2);
    std::vector<std::string> words{
        program_, "--port",       "0",  "--unixsocket", socket_path(),    "--save",
        "",       "--appendonly", "no", "--dir",        folder_.string(), "--enable-debug-command",
        "yes"};
    words.insert(words.end(), settings_.begin(), settings_.end());
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execvp(argv.front(), argv.data());
    ::_exit(127);
  }

  bool accepts_connections() const {
    try {
      raw_redis_client attempt{socket_path()};
      return true;
    } catch (std::runtime_error const&) {
      return false;
    }
  }

  void wait_until_ready() {
    using namespace std::chrono_literals;
    for (auto const end = std::chrono::steady_clock::now() + 20s; std::chrono::steady_clock::now() < end;) {
      if (accepts_connections()) {
        return;
      }
      if (pid_ < 0 || ::waitpid(pid_, nullptr, WNOHANG) == pid_) {
        pid_ = -1;
        throw std::runtime_error{program_ + " does not start; is it installed?"};
      }
      std::this_thread::sleep_for(2ms);
    }
    throw std::runtime_error{program_ + " accepts no connection after 20 s"};
  }

  void clean_up() noexcept {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::filesystem::path folder_;
  std::vector<std::string> settings_;  // "--port", "7000" ...
  std::string program_;
  pid_t pid_ = -1;
};

}  // namespace conch::sim
