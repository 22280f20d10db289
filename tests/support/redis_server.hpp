#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "support/redis_probe.hpp"

namespace conch::test {

class redis_server;

struct redis_server_options {
  /// Listen on a free port of 127.0.0.1 too; `url()` then names it.
  bool tcp = false;

  /// The same port, with TLS only. `arguments` name the certificate: `{"--tls-cert-file", ...}`.
  bool tls = false;

  /// Write every command to disk before it is answered. Without it `restart(keep_data)` keeps
  /// the data only if the server was not killed before.
  bool appendonly = false;

  /// More arguments, behind our own: `{"--maxmemory", "2mb"}`.
  std::vector<std::string> arguments = {};

  /// It is a Sentinel, with these lines of configuration, and listens on a free port: `{"sentinel monitor m 127.0.0.1
  /// 7000 1"}`.
  std::vector<std::string> sentinel = {};

  /// Path or name of the server. Default: `$CONCH_REDIS_SERVER`, else `redis-server`.
  std::string executable = {};

  /// How long a start may take, until the server answers PING. A busy disk holds one up that writes its data.
  std::chrono::milliseconds start_timeout = std::chrono::seconds(60);
};

/// Until the server's answer has all these words. After a minute throws `std::runtime_error`.
void wait_for_answer(redis_server& at, std::vector<std::string> const& question, std::vector<std::string> const& words);

/// A redis-server of its own for one test: private temporary folder, no file of configuration, no
/// data, nothing written to disk unless asked for. It is killed by its process id, at the latest by
/// the destructor, which removes the folder; and the kernel kills it if the test dies.
///
/// The kernel's "dies with the parent" means the *thread* which started it: construct and restart a
/// server in a thread that lives as long as the server shall. Otherwise for one thread at a time.
///
/// Failures (no such program, a server that does not answer) throw `std::runtime_error` with the
/// end of the server's log.
class redis_server {
 public:
  explicit redis_server(redis_server_options options = {});
  ~redis_server();
  redis_server(redis_server const&) = delete;
  redis_server& operator=(redis_server const&) = delete;

  /// `unix://PATH`, `redis://127.0.0.1:PORT` with `tcp`, or `rediss://127.0.0.1:PORT` with `tls`. Stays the same over a
  /// restart.
  std::string url() const;

  /// There in both modes.
  std::string socket_path() const;

  /// 0 without `tcp` and `tls`.
  std::uint16_t port() const noexcept { return port_; }

  /// 0 while it does not run.
  pid_t pid() const noexcept { return pid_; }

  /// Everything that the server wrote, over all its starts.
  std::string log() const;

  std::filesystem::path const& directory() const noexcept { return directory_; }

  /// Sends the signal and waits until the process has ended (SIGKILL, SIGTERM, ...).
  void kill(int signal = SIGKILL);

  /// SIGSTOP: the server answers nobody, its connections stay open. Returns when it has stopped.
  void stop();

  /// SIGCONT.
  void cont();

  /// Ends the server, if it still runs, and starts it again, same socket, same port. With
  /// `keep_data` it ends in an orderly way and saves, else by SIGKILL and with its data removed.
  void restart(bool keep_data);

 private:
  void start();
  void launch();
  bool wait_until_ready();
  bool wait_for_end(std::chrono::milliseconds limit);
  void end_orderly();
  void clean_up() noexcept;
  std::vector<std::string> command_line() const;
  std::vector<std::string> command_line_of_sentinel() const;
  [[noreturn]] void fail(std::string const& what) const;

  redis_server_options options_;
  std::filesystem::path directory_;
  std::uint16_t port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace conch::test
