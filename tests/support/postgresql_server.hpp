#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace conch::test {

struct postgresql_options {
  /// Lines of postgresql.conf.
  std::vector<std::string> settings = {};
  /// Listen on a free port of 127.0.0.1 too; url_of("127.0.0.1") then names it.
  bool tcp = false;
  /// Files with its certificate and the key of it: then it speaks TLS, too.
  std::string certificate = {}, key = {};
  /// A copy of this server that follows it.
  class postgresql_server* standby_of = nullptr;
};

/// A PostgreSQL server of its own: private folder, a unix socket there. It is ended by its process id, at the latest by
/// the destructor. It does not run as root, which it refuses: where the test does, it has the user `postgres`, or
/// `nobody`. What goes wrong throws std::runtime_error.
class postgresql_server {
 public:
  explicit postgresql_server(postgresql_options options = {});
  ~postgresql_server();
  postgresql_server(postgresql_server const&) = delete;
  postgresql_server& operator=(postgresql_server const&) = delete;

  /// `postgresql://USER@/postgres?host=FOLDER&port=...`; stays the same over a restart.
  std::string url(std::string const& user = "conch") const;
  std::string url_over_tcp(std::string const& user = "conch") const;
  std::filesystem::path const& directory() const noexcept { return directory_; }
  std::uint16_t port() const noexcept { return port_; }
  pid_t pid() const noexcept { return pid_; }
  std::string log(std::size_t from = 0) const;  // without its first bytes

  /// Sends the signal to the first process of the server, and waits until it has ended. SIGINT: orderly, SIGQUIT: as a
  /// crash.
  void end(int signal = SIGINT);
  void start();
  /// SIGSTOP and SIGCONT for all its processes.
  void stop();
  void cont();

 private:
  friend class postgresql_pool;
  std::vector<pid_t> processes() const;
  pid_t run(std::vector<std::string> const& line, std::string const& log) const;
  int wait(pid_t child) const;
  void clean_up() noexcept;
  [[noreturn]] void fail(std::string const& what) const;

  postgresql_options options_;
  std::filesystem::path directory_;
  std::string programs_;
  std::uint16_t port_ = 5432;
  pid_t pid_ = 0;
};

/// A PgBouncer before a server. It is ended by the destructor.
class postgresql_pool {
 public:
  /// `mode`: session, transaction or statement.
  postgresql_pool(postgresql_server& before, std::string const& mode);
  ~postgresql_pool();
  postgresql_pool(postgresql_pool const&) = delete;
  postgresql_pool& operator=(postgresql_pool const&) = delete;

  /// Is the program there?
  static bool can_be_had();
  std::string url() const;

 private:
  std::filesystem::path directory_;
  pid_t pid_ = 0;
};

/// Says something to a server, and waits for the answer.
class postgresql_probe {
 public:
  explicit postgresql_probe(std::string const& url);
  explicit postgresql_probe(postgresql_server const& at) : postgresql_probe{at.url()} {}

  /// The first value of the first row of the last statement; empty: there is none. An error throws std::runtime_error.
  std::string ask(std::string const& statements);
  std::int64_t number(std::string const& statements) { return std::stoll(ask(statements)); }
  /// How many notifications have come in since the last call: all of transactions that have ended by now. What it
  /// listens to is said with ask().
  std::int64_t notified();

 private:
  std::shared_ptr<void> connection_;
};

/// A name, or a key, as a literal of bytea.
std::string bytes_literal(std::string const& value);

}  // namespace conch::test
