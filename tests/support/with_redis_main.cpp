// Runs a command with a Redis server of its own.
//
//   conch_with_redis COMMAND [ARGUMENT...]
//
// `{url}` in an argument becomes the server's URL, which is in $CONCH_URL as well. The exit code is
// that of the command, or 128 + the signal that ended it.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "support/redis_server.hpp"

namespace {

int run(std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (auto& argument : command) {
    arguments.push_back(argument.data());
  }
  arguments.push_back(nullptr);
  pid_t const child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execvp(arguments[0], arguments.data());
    std::perror(arguments[0]);
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      std::perror("waitpid");
      return 1;
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: conch_with_redis COMMAND [ARGUMENT...]\n");
    return 2;
  }
  try {
    conch::test::redis_server const server({.tcp = true});
    std::string const url = server.url();
    ::setenv("CONCH_URL", url.c_str(), 1);
    std::vector<std::string> command(argv + 1, argv + argc);
    constexpr std::string_view placeholder = "{url}";
    for (auto& argument : command) {
      if (auto const at = argument.find(placeholder); at != argument.npos) {
        argument.replace(at, placeholder.size(), url);
      }
    }
    return run(std::move(command));
  } catch (std::exception const& error) {
    std::fprintf(stderr, "conch_with_redis: %s\n", error.what());
    return 1;
  }
}
