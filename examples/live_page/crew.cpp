#include "crew.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

namespace live_page {

namespace asio = boost::asio;

namespace {

void check(int error, char const* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

/// Starts a child with `in` and `out` as standard input and output, in its own process group, so that Ctrl-C does not
/// reach it.
pid_t spawn(int in, int out) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t pipes, none;
  ::sigemptyset(&none);
  ::sigemptyset(&pipes);
  ::sigaddset(&pipes, SIGPIPE);
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setsigdefault(&attributes, &pipes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::string program = "conch-http-counter";
  std::string option = "--worker";
  char* const words[] = {program.data(), option.data(), nullptr};
  pid_t child = 0;
  int const error = ::posix_spawn(&child, "/proc/self/exe", &files, &attributes, words, environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  check(error, "cannot start a worker");
  return child;
}

}  // namespace

crew::crew(strand where, std::size_t count, std::string const& first) : strand_(std::move(where)), all_ended_(strand_) {
  for (std::size_t i = 0; i < count; ++i) {
    start(first);
  }
}

crew::~crew() {
  for (auto const& each : workers_) {
    ::kill(each->process, SIGKILL);
    ::waitpid(each->process, nullptr, 0);
  }
}

void crew::start(std::string const& first) {
  int orders[2], reports[2];
  check(::pipe2(orders, O_CLOEXEC) == 0 ? 0 : errno, "pipe");
  auto added = std::make_unique<member>(strand_);
  added->to.assign(orders[1]);
  if (::pipe2(reports, O_CLOEXEC) != 0) {
    int const error = errno;
    ::close(orders[0]);
    check(error, "pipe");
  }
  added->from.assign(reports[0]);
  try {
    added->process = spawn(orders[0], reports[1]);
  } catch (...) {
    ::close(orders[0]);
    ::close(reports[1]);
    throw;
  }
  ::close(orders[0]);
  ::close(reports[1]);
  added->here = true;
  added->to.non_blocking(true);
  workers_.push_back(std::move(added));
  tell(workers_.size(), first);
}

void crew::listen(line_handler on_line) {
  on_line_ = std::move(on_line);
  for (std::size_t i = 1; i <= workers_.size(); ++i) {
    asio::co_spawn(strand_, read(i), asio::detached);
  }
}

std::size_t crew::here() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(workers_.begin(), workers_.end(), [](auto const& each) { return each->here; }));
}

asio::awaitable<void> crew::read(std::size_t worker) {
  member& from = *workers_[worker - 1];
  std::string input;
  bool more = true;
  while (more) {
    auto lines = asio::dynamic_buffer(input);
    auto got = co_await asio::async_read_until(from.from, lines, '\n', asio::as_tuple(asio::use_awaitable));
    more = !std::get<0>(got);
    std::size_t begin = 0;
    for (auto end = input.find('\n'); end != input.npos; end = input.find('\n', begin)) {
      on_line_(worker, std::string_view(input).substr(begin, end - begin));
      begin = end + 1;
    }
    input.erase(0, begin);
  }
  from.here = false;
  from.to.close();
  from.from.close();
  on_line_(worker, {});
  if (here() == 0) all_ended_.cancel();
}

// The pipe never fills up: a running worker reads at once, and a frozen one gets few orders.
void crew::tell(std::size_t worker, std::string const& line) {
  member& to = *workers_[worker - 1];
  boost::system::error_code ignored;
  if (to.here) to.to.write_some(asio::buffer(line + '\n'), ignored);
}

void crew::signal(std::size_t worker, int number) {
  if (worker != 0 && is_here(worker)) ::kill(process(worker), number);
}

asio::awaitable<void> crew::dismiss(std::chrono::milliseconds grace) {
  for (auto const& each : workers_) {
    if (!each->here) continue;
    ::kill(each->process, SIGCONT);
    each->to.close();
  }
  all_ended_.expires_after(grace);
  if (here() != 0) {
    co_await all_ended_.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  for (auto const& each : workers_) {
    if (each->here) ::kill(each->process, SIGKILL);
  }
}

}  // namespace live_page
