#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <string>

namespace conch::test {

/// What comes from a pipe until its other ends are closed. Closes it.
inline std::string all_from(int pipe) {
  std::string all;
  char room[512];
  for (ssize_t n = 0; (n = ::read(pipe, room, sizeof room)) > 0;) all.append(room, static_cast<std::size_t>(n));
  ::close(pipe);
  return all;
}

/// Runs f in a child of this process. Empty: it found nothing wrong; else what it found, or that it did not end within
/// 30 s.
inline std::string in_child(std::function<void(std::string& wrong)> const& f) {
  int from[2];
  if (::pipe2(from, O_CLOEXEC) != 0) return "pipe2";
  pid_t const child = ::fork();
  if (child == 0) {
    ::alarm(30);
    std::string wrong;
    try {
      f(wrong);
    } catch (std::exception const& e) {
      wrong += std::string{"it has thrown: "} + e.what();
    }
    if (!wrong.empty() && ::write(from[1], wrong.data(), wrong.size()) < 0) ::_exit(1);
    ::_exit(0);
  }
  ::close(from[1]);
  std::string said = all_from(from[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) said += "it was ended by signal " + std::to_string(WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0) said += "it could not say what it found";
  return said;
}

/// True if f returns true in a child of this process.
inline bool is_so_in_child(std::function<bool()> const& f) {
  return in_child([&f](std::string& wrong) {
           if (!f()) wrong = "no";
         })
      .empty();
}

}  // namespace conch::test
