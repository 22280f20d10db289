#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace conch::test {

/// True if f returns true in a child of this process, within 30 s.
inline bool in_child(std::function<bool()> const& f) {
  pid_t const child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::_exit(f() ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace conch::test
