#include "support/redis_server.hpp"
#include "support/free_port.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace conch::test {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr auto end_timeout = 60s;  // a busy disk holds up a process that ends
constexpr auto poll_interval = 2ms;

fs::path make_directory() {
  std::string pattern = (fs::temp_directory_path() / "conch-redis-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "mkdtemp " + pattern);
  }
  return pattern;
}

// Runs between fork and exec, in a process that may have had other threads: only calls that are
// allowed in a signal handler.
[[noreturn]] void become_server(pid_t parent, char* const* arguments, int log, int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(1);  // the parent died before the line above
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  int const nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  // A connection of the test that the server inherited would stay open when the test closes it.
  // On exec, not at once: `report` is still needed.
  constexpr unsigned close_on_exec = 4;  // CLOSE_RANGE_CLOEXEC
  if (::syscall(SYS_close_range, 3U, ~0U, close_on_exec) != 0) {
    for (int fd = 3; fd < 1024; ++fd) {
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
  }
  ::execvp(arguments[0], arguments);
  int const error = errno;
  if (::write(report, &error, sizeof error) < 0) {
    ::_exit(2);
  }
  ::_exit(1);
}

}  // namespace

void wait_for_answer(redis_server& at, std::vector<std::string> const& question,
                     std::vector<std::string> const& words) {
  redis_probe probe{at, 10s};
  auto const end = steady::now() + 60s;
  for (;;) {
    std::string const said = probe.command(question);
    bool const all = std::all_of(words.begin(), words.end(),
                                 [&](std::string const& w) { return said.find(w) != std::string::npos; });
    if (all) return;
    if (steady::now() > end) throw std::runtime_error{"never seen: " + words.front() + "; but: " + said};
    std::this_thread::sleep_for(10ms);
  }
}

redis_server::redis_server(redis_server_options options) : options_(std::move(options)) {
  if (options_.executable.empty()) {
    char const* const chosen = std::getenv("CONCH_REDIS_SERVER");
    options_.executable = chosen != nullptr && *chosen != '\0' ? chosen : "redis-server";
  }
  directory_ = make_directory();
  try {
    start();
  } catch (...) {
    clean_up();
    throw;
  }
}

redis_server::~redis_server() { clean_up(); }

void redis_server::clean_up() noexcept {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

std::string redis_server::url() const {
  if (port_ == 0) return "unix://" + socket_path();
  return (options_.tls ? "rediss://127.0.0.1:" : "redis://127.0.0.1:") + std::to_string(port_);
}

std::string redis_server::socket_path() const { return (directory_ / "redis.sock").string(); }

std::string redis_server::log() const {
  std::ifstream in(directory_ / "log", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void redis_server::kill(int signal) {
  if (pid_ == 0) {
    return;
  }
  ::kill(pid_, signal);
  if (!wait_for_end(end_timeout)) {
    fail("did not end after signal " + std::to_string(signal));
  }
}

void redis_server::stop() {
  if (pid_ == 0) fail("cannot be stopped: it does not run");
  ::kill(pid_, SIGSTOP);
  int status = 0;
  while (::waitpid(pid_, &status, WUNTRACED) < 0 && errno == EINTR) {
  }
  if (!WIFSTOPPED(status)) {
    pid_ = 0;
    fail("ended instead of stopping");
  }
}

void redis_server::cont() {
  // 0 would be the whole process group, and with it the stopped servers of other tests.
  if (pid_ > 0) ::kill(pid_, SIGCONT);
}

void redis_server::restart(bool keep_data) {
  if (pid_ != 0) {
    cont();  // a stopped one could not end in an orderly way
    if (keep_data) {
      end_orderly();
    } else {
      kill(SIGKILL);
    }
  }
  if (!keep_data) {
    fs::remove_all(directory_ / "data");
  }
  start();
}

void redis_server::end_orderly() {
  if (options_.appendonly) {
    kill(SIGTERM);
    return;
  }
  std::string answer;
  try {
    answer = redis_probe(*this, end_timeout).command({"SHUTDOWN", "SAVE"});
  } catch (std::runtime_error const&) {
    // As it should be: the connection ends without an answer.
  }
  if (!answer.empty()) {
    fail("refused SHUTDOWN SAVE: " + answer);
  }
  if (!wait_for_end(end_timeout)) {
    fail("did not end after SHUTDOWN SAVE");
  }
}

void redis_server::start() {
  bool const choose_port = (options_.tcp || options_.tls || !options_.sentinel.empty()) && port_ == 0;
  constexpr int attempts = 5;
  for (int attempt = 1;; ++attempt) {
    if (choose_port) {
      port_ = find_free_port();
    }
    launch();
    if (wait_until_ready()) {
      return;
    }
    bool const port_taken = log().find("Address already in use") != std::string::npos;
    if (!choose_port || !port_taken || attempt == attempts) {
      fail("did not start");
    }
    fs::remove(directory_ / "log");
  }
}

void redis_server::launch() {
  fs::create_directories(directory_ / "data");
  fs::remove(socket_path());  // left behind by one that was killed
  std::vector<std::string> line = options_.sentinel.empty() ? command_line() : command_line_of_sentinel();
  std::vector<char*> arguments;
  for (auto& argument : line) {
    arguments.push_back(argument.data());
  }
  arguments.push_back(nullptr);

  int const log = ::open((directory_ / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  int report[2] = {-1, -1};
  if (log < 0 || ::pipe2(report, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "redis_server");
  }
  pid_t const parent = ::getpid();
  pid_t const child = ::fork();
  if (child == 0) {
    become_server(parent, arguments.data(), log, report[1]);
  }
  int error = child < 0 ? errno : 0;
  ::close(log);
  ::close(report[1]);
  if (child > 0) {
    pid_ = child;
    // End of file when exec succeeded, else its error.
    while (::read(report[0], &error, sizeof error) < 0 && errno == EINTR) {
    }
  }
  ::close(report[0]);
  if (error != 0) {
    throw std::system_error(error, std::generic_category(), "cannot run " + options_.executable);
  }
}

bool redis_server::wait_until_ready() {
  auto const deadline = steady::now() + options_.start_timeout;
  std::string last = "nothing";
  while (steady::now() < deadline) {
    try {
      last = redis_probe(*this, 1s).command({"PING"});
      // A server with a password answers too.
      if (last == "PONG" || last.starts_with("(error) NO")) {
        return true;
      }
    } catch (std::runtime_error const& error) {
      last = error.what();
    }
    if (wait_for_end(poll_interval)) {
      return false;
    }
  }
  fail("did not get ready in time; the last answer to PING was: " + last);
}

// True when the process has ended (and is then reaped).
bool redis_server::wait_for_end(std::chrono::milliseconds limit) {
  auto const deadline = steady::now() + limit;
  while (true) {
    pid_t const ended = ::waitpid(pid_, nullptr, WNOHANG);
    if (ended == pid_ || (ended < 0 && errno == ECHILD)) {
      pid_ = 0;
      return true;
    }
    if (steady::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(poll_interval);
  }
}

std::vector<std::string> redis_server::command_line() const {
  std::vector<std::string> line = {
      options_.executable,
      "--port",
      std::to_string(options_.tls ? 0 : port_),
      "--bind",
      "127.0.0.1",
      "--unixsocket",
      socket_path(),
      "--unixsocketperm",
      "700",
      "--dir",
      (directory_ / "data").string(),
      "--save",
      "",
      "--appendonly",
      options_.appendonly ? "yes" : "no",
      "--appendfsync",
      "always",
      "--daemonize",
      "no",
  };
  if (options_.tls) line.insert(line.end(), {"--tls-port", std::to_string(port_)});
  line.insert(line.end(), options_.arguments.begin(), options_.arguments.end());
  return line;
}

/// A Sentinel writes what it learns into its file. With another port it begins anew.
std::vector<std::string> redis_server::command_line_of_sentinel() const {
  fs::path const file = directory_ / ("sentinel-" + std::to_string(port_) + ".conf");
  if (!fs::exists(file)) {
    std::ofstream out(file);
    out << (options_.tls ? "port 0\ntls-port " : "port ") << port_ << "\nbind 127.0.0.1\ndir "
        << (directory_ / "data").string() << "\nunixsocket " << socket_path() << "\nunixsocketperm 700\n";
    for (std::string const& one : options_.sentinel) out << one << '\n';
  }
  std::vector<std::string> line = {options_.executable, file.string(), "--sentinel"};
  line.insert(line.end(), options_.arguments.begin(), options_.arguments.end());
  return line;
}

void redis_server::fail(std::string const& what) const {
  constexpr std::size_t enough = 4000;
  std::string text = log();
  if (text.size() > enough) {
    text.erase(0, text.size() - enough);
  }
  throw std::runtime_error("redis_server " + what + "; its log:\n" + text);
}

}  // namespace conch::test
