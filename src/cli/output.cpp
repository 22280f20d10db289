// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/output.hpp"

#include "base/readable.hpp"
#include "cli/line_sink.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <string>

namespace conch::cli {

namespace {

bool has_gone = false;

/// The error; 0: all of it is written.
int write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    ssize_t const size = ::write(fd, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) {  // another program has made the pipe non-blocking
      pollfd room{fd, POLLOUT, 0};
      ::poll(&room, 1, -1);
      continue;
    }
    if (size < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  return 0;
}

std::string lines_for_a_terminal(std::string_view text) {
  std::string all;
  for (;;) {
    auto const end = text.find('\n');
    all += conch::readable(text.substr(0, end), std::string::npos);
    if (end == std::string_view::npos) return all;
    all += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace

void draw(std::string_view text) {
  if (has_gone) return;
  int const why = write_all(STDOUT_FILENO, text);
  has_gone = why == EPIPE;
  if (why != 0 && !has_gone) throw not_written{std::string{"standard output: "} + std::strerror(why)};
}

void print(std::string_view text) { draw(lines_for_a_terminal(text)); }

void print_error(std::string_view text) noexcept {
  try {
    write_all(STDERR_FILENO, lines_for_a_terminal(text));
  } catch (std::exception const&) {  // no memory
    write_all(STDERR_FILENO, "conch: out of memory\n");
  }
}

void print_error_if_there_is_room(std::string_view text) noexcept {
  try {
    line_sink::of_standard_error().write(lines_for_a_terminal(text));
  } catch (std::exception const&) {  // no memory, and so no room
  }
}

bool reader_has_gone() noexcept { return has_gone; }

}  // namespace conch::cli
