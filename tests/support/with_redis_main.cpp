// Runs a command with a Redis server of its own.
//
//   conch_with_redis [--tls|--sentinel|--replicas] COMMAND [ARGUMENT...]
//
// With --sentinel the URL is that of a Sentinel, which names the server.
// With --tls it is reached over TLS and needs a password: $CONCH_CA is the authority's certificate,
// $CONCH_PASSWORD_FILE has the password. With --replicas two replicas follow it: $CONCH_REPLICAS is 2.
// `{url}` in an argument becomes the server's URL, which is in $CONCH_URL as well. The exit code is
// that of the command, or 128 + the signal that ended it.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/certificates.hpp"
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

/// Options of a server that is reached over TLS.
conch::test::redis_server_options over_tls(conch::test::certificates& files) {
  files.authority("ca");
  files.signed_by("ca", "server", "IP:127.0.0.1");
  std::ofstream{files.path("password")} << "a password\n";
  ::setenv("CONCH_CA", files.certificate("ca").c_str(), 1);
  ::setenv("CONCH_PASSWORD_FILE", files.path("password").c_str(), 1);
  conch::test::redis_server_options options;
  options.tls = true;
  options.arguments = {"--tls-cert-file",    files.certificate("server"),
                       "--tls-key-file",     files.key("server"),
                       "--tls-auth-clients", "no",
                       "--requirepass",      "a password"};
  return options;
}

/// Two replicas that follow, and have acknowledged.
void follow(conch::test::redis_server const& master, std::optional<conch::test::redis_server>& one,
            std::optional<conch::test::redis_server>& other) {
  conch::test::redis_server_options options{.tcp = true};
  options.arguments = {"--replicaof", "127.0.0.1 " + std::to_string(master.port())};
  one.emplace(options);
  other.emplace(options);
  conch::test::redis_probe probe{master, std::chrono::seconds{30}};
  auto const end = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  do {
    probe.command({"PUBLISH", "mark", ""});
    if (probe.command({"WAIT", "2", "1000"}) == "2") return;
  } while (std::chrono::steady_clock::now() < end);
  throw std::runtime_error{"the replicas do not follow"};
}

}  // namespace

int main(int argc, char** argv) {
  bool const tls = argc > 1 && std::string_view{argv[1]} == "--tls";
  bool const through_sentinel = argc > 1 && std::string_view{argv[1]} == "--sentinel";
  bool const with_replicas = argc > 1 && std::string_view{argv[1]} == "--replicas";
  int const first = tls || through_sentinel || with_replicas ? 2 : 1;
  if (argc <= first) {
    std::fprintf(stderr, "usage: conch_with_redis [--tls|--sentinel|--replicas] COMMAND [ARGUMENT...]\n");
    return 2;
  }
  try {
    conch::test::certificates files;
    conch::test::redis_server const server(tls ? over_tls(files) : conch::test::redis_server_options{.tcp = true});
    std::optional<conch::test::redis_server> sentinel, replica, another;
    if (with_replicas) {
      follow(server, replica, another);
      ::setenv("CONCH_REPLICAS", "2", 1);
    }
    std::string url = server.url();
    if (through_sentinel) {
      conch::test::redis_server_options options;
      options.sentinel = {"sentinel monitor m 127.0.0.1 " + std::to_string(server.port()) + " 1"};
      sentinel.emplace(options);
      url = "redis-sentinel://127.0.0.1:" + std::to_string(sentinel->port()) + "?sentinelMasterId=m";
    }
    ::setenv("CONCH_URL", url.c_str(), 1);
    std::vector<std::string> command(argv + first, argv + argc);
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
