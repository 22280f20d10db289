// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/run_events.hpp"

#include "base/readable.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/output.hpp"
#include "cli/show.hpp"

#include <boost/json/array.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace json = boost::json;

namespace conch::cli {

run_events::run_events(boost::asio::io_context& context, arguments const& given)
    : given_{given},
      fd_{given.events_fd.value_or(given.json ? STDERR_FILENO : -1)},
      flush_timer_{context},
      began_{clock::now()} {
  // A descriptor with close-on-exec cannot have come from outside: it is one of conch's own.
  int const flags = given.events_fd ? ::fcntl(fd_, F_GETFD) : 0;
  if (flags == -1 || (flags & FD_CLOEXEC) != 0) {
    throw failure{exit_code::usage, "--events-fd " + std::to_string(fd_) + ": no such descriptor is open"};
  }
  if (fd_ >= 0) sink_ = fd_ == STDERR_FILENO ? &line_sink::of_standard_error() : &own_.emplace(fd_);
}

void run_events::write(char const* event, json::object more) {
  if (sink_ == nullptr) return;
  auto const now = std::chrono::system_clock::now().time_since_epoch();
  json::object o{{"event", event}, {"unix_ms", std::chrono::duration_cast<std::chrono::milliseconds>(now).count()}};
  for (auto& [key, value] : more) o[key] = std::move(value);
  if (!sink_->write(one_line(o))) sink_ = nullptr;
  flush_later();
}

/// A reader that is slow gets the rest when it has made room.
void run_events::flush_later() {
  if (sink_ == nullptr || !sink_->is_waiting()) return;
  flush_timer_.expires_after(std::chrono::milliseconds{20});
  flush_timer_.async_wait([this](boost::system::error_code why) {
    if (why) return;
    if (!sink_->flush()) sink_ = nullptr;
    flush_later();
  });
}

void run_events::waiting() {
  json::array names;
  for (std::string const& name : given_.names) names.emplace_back(printable(name));
  write("waiting", {{"names", std::move(names)}});
}

void run_events::granted(run_locks const& held) {
  json::array locks;
  for (std::string const& name : given_.names) {
    locks.push_back(json::object{{"name", printable(name)}, {"fence", std::to_string(held.fence(name))}});
  }
  json::object more{
      {"locks", std::move(locks)},
      {"waited_ms", std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - began_).count()}};
  if (held.segment() != 0) more["segment"] = held.segment();
  write("granted", std::move(more));
}

void run_events::child_started(pid_t pid) { write("child_started", {{"pid", pid}}); }

void run_events::child_ended(int status) {
  if (WIFEXITED(status)) write("child_exit", {{"code", WEXITSTATUS(status)}});
  else write("child_exit", {{"signal", WTERMSIG(status)}});
}

void run_events::endangered(duration left) {
  write("endangered", {{"left_ms", std::chrono::duration_cast<std::chrono::milliseconds>(left).count()}});
}

void run_events::safe_again() { write("safe_again", {}); }

void run_events::released(bool confirmed) { write("released", {{"confirmed", confirmed}}); }

void run_events::exits(int code) { write("exit", {{"exit_code", code}}); }

void run_events::trouble(char const* event, std::string const& words, int code) {
  bool const one_for_both = given_.json && fd_ == STDERR_FILENO;
  // A reader of standard error that has stopped must not keep conch from ending CMD, or from renewing.
  if (!one_for_both) print_error_if_there_is_room(as_error(given_, words, code));
  quiet_trouble(event, words, code);
}

void run_events::quiet_trouble(char const* event, std::string const& words, int code) {
  write(event, {{"error", conch::readable(words, std::string::npos)}, {"exit_code", code}});
}

}  // namespace conch::cli
