#include "support/postgresql_server.hpp"

#include "support/free_port.hpp"
#include "support/redis_server.hpp"

#include <libpq-fe.h>

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
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

struct account {
  uid_t user = ::geteuid();
  gid_t group = ::getegid();
};

account const& whose() {
  static account const found = [] {
    account a;
    if (a.user != 0) return a;
    for (char const* name : {"postgres", "nobody"}) {
      if (passwd const* const entry = ::getpwnam(name)) return account{entry->pw_uid, entry->pw_gid};
    }
    throw std::runtime_error{"no user for a PostgreSQL server"};
  }();
  return found;
}

/// The folder of initdb and postgres: from the environment, that of the newest version, or none for what PATH says.
std::string programs() {
  char const* const chosen = std::getenv("CONCH_POSTGRESQL_PROGRAMS");
  if (chosen != nullptr && *chosen != '\0') return std::string{chosen} + '/';
  std::string newest;
  int version = 0;
  std::error_code ignored;
  for (auto const& one : fs::directory_iterator{"/usr/lib/postgresql", ignored}) {
    int const its = std::atoi(one.path().filename().c_str());
    if (its <= version || !fs::exists(one.path() / "bin" / "postgres")) continue;
    version = its;
    newest = (one.path() / "bin").string() + '/';
  }
  return newest;
}

}  // namespace

postgresql_server::postgresql_server(postgresql_options options) : options_{std::move(options)}, programs_{programs()} {
  std::string pattern = (fs::temp_directory_path() / "conch-pg-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw std::system_error{errno, std::generic_category(), "mkdtemp " + pattern};
  directory_ = pattern;
  if (::geteuid() == 0 && ::chown(pattern.c_str(), whose().user, whose().group) != 0) {
    throw std::system_error{errno, std::generic_category(), "chown " + pattern};
  }
  try {
    if (options_.tcp) port_ = find_free_port();
    std::string const data = (directory_ / "data").string();
    std::vector<std::string> line{programs_ + "initdb", "-D",       data, "-A", "trust", "-U", "conch", "-E", "UTF8",
                                  "--locale=C",         "--no-sync"};
    if (options_.standby_of != nullptr) {
      auto const& of = *options_.standby_of;
      line = {programs_ + "pg_basebackup",
              "-D",
              data,
              "-h",
              of.directory().string(),
              "-p",
              std::to_string(of.port()),
              "-U",
              "conch",
              "-R",
              "-X",
              "stream",
              "-c",
              "fast",
              "--no-sync"};
    }
    if (wait(run(line, "init.log")) != 0) fail("could not be made");
    if (options_.standby_of == nullptr) {
      std::ofstream more{directory_ / "data" / "pg_hba.conf", std::ios::app};
      more << "local replication all trust\n";
    }
    if (!options_.certificate.empty()) {
      for (auto const& [file, name] :
           {std::pair{options_.certificate, "server.crt"}, std::pair{options_.key, "server.key"}}) {
        fs::path const mine = directory_ / "data" / name;
        fs::copy_file(file, mine);
        fs::permissions(mine, fs::perms::owner_read);
        if (::geteuid() == 0 && ::chown(mine.c_str(), whose().user, whose().group) != 0) {
          throw std::system_error{errno, std::generic_category(), "chown " + mine.string()};
        }
      }
      options_.settings.push_back("ssl=on");
    }
    start();
  } catch (...) {
    clean_up();
    throw;
  }
}

postgresql_server::~postgresql_server() { clean_up(); }

void postgresql_server::clean_up() noexcept {
  if (pid_ > 0) {
    cont();
    ::kill(pid_, SIGQUIT);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

std::string postgresql_server::url(std::string const& user) const {
  return "postgresql://" + user + "@/postgres?host=" + directory_.string() + "&port=" + std::to_string(port_);
}

std::string postgresql_server::url_over_tcp(std::string const& user) const {
  return "postgresql://" + user + "@127.0.0.1:" + std::to_string(port_) + "/postgres";
}

std::string postgresql_server::log(std::size_t from) const {
  std::string all;
  for (char const* name : {"init.log", "log"}) {
    fs::path const file = directory_ / name;
    std::size_t const size = fs::exists(file) ? fs::file_size(file) : 0;
    std::size_t const left_out = std::min(from, size);
    from -= left_out;
    std::string text(size - left_out, '\0');
    std::ifstream in{file, std::ios::binary};
    in.seekg(static_cast<std::streamoff>(left_out));
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    all += text;
  }
  return all;
}

void postgresql_server::end(int signal) {
  if (pid_ == 0) return;
  ::kill(pid_, signal);
  wait(std::exchange(pid_, 0));
}

void postgresql_server::start() {
  std::vector<std::string> line{programs_ + "postgres",
                                "-D",
                                (directory_ / "data").string(),
                                "-k",
                                directory_.string(),
                                "-p",
                                std::to_string(port_),
                                "-c",
                                std::string{"listen_addresses="} + (options_.tcp ? "127.0.0.1" : ""),
                                "-c",
                                "unix_socket_permissions=0777"};
  for (std::string const& one : options_.settings) line.insert(line.end(), {"-c", one});
  // After a crash its other processes may still be there.
  auto const until = steady::now() + 60s;
  for (pid_ = run(line, "log");;) {
    try {
      postgresql_probe{*this}.ask("select 1");
      return;
    } catch (std::runtime_error const& e) {
      if (steady::now() > until) fail(std::string{"did not get ready in time: "} + e.what());
    }
    if (int status = 0; ::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = run(line, "log");
      std::this_thread::sleep_for(100ms);
    }
    std::this_thread::sleep_for(10ms);
  }
}

std::vector<pid_t> postgresql_server::processes() const {
  std::vector<pid_t> all{pid_};
  std::ifstream in{"/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) + "/children"};
  all.insert(all.end(), std::istream_iterator<pid_t>{in}, {});
  return all;
}

void postgresql_server::stop() {
  if (pid_ == 0) fail("cannot be stopped: it does not run");
  // The first one first: it starts no others then.
  ::kill(pid_, SIGSTOP);
  while (::waitpid(pid_, nullptr, WUNTRACED) < 0 && errno == EINTR) {
  }
  for (pid_t const one : processes()) ::kill(one, SIGSTOP);
}

void postgresql_server::cont() {
  if (pid_ == 0) return;
  for (pid_t const one : processes()) ::kill(one, SIGCONT);
}

pid_t postgresql_server::run(std::vector<std::string> const& line, std::string const& log) const {
  std::vector<char*> arguments;
  for (std::string const& one : line) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  std::string const to = (directory_ / log).string();
  account const owner = whose();
  pid_t const parent = ::getpid();
  pid_t const child = ::fork();
  if (child < 0) throw std::system_error{errno, std::generic_category(), "fork"};
  if (child > 0) return child;
  // Only calls that are allowed in a signal handler.
  int const out = ::open(to.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  int const nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  for (int fd = 3; fd < 1024; ++fd) ::close(fd);
  if (::geteuid() == 0 && (::setgid(owner.group) != 0 || ::setuid(owner.user) != 0)) ::_exit(1);
  ::prctl(PR_SET_PDEATHSIG, SIGQUIT);  // behind setuid, which clears it
  if (::getppid() != parent) ::_exit(1);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::chdir("/") != 0) ::_exit(1);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

int postgresql_server::wait(pid_t child) const {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

void postgresql_server::fail(std::string const& what) const {
  constexpr std::size_t enough = 4000;
  std::string text = log();
  if (text.size() > enough) text.erase(0, text.size() - enough);
  throw std::runtime_error{"postgresql_server " + what + "; its log:\n" + text};
}

namespace {

/// Debian has it in a folder that is not in every PATH.
constexpr char const* pool_program = "/usr/sbin/pgbouncer";

}  // namespace

bool postgresql_pool::can_be_had() { return fs::exists(pool_program); }

postgresql_pool::postgresql_pool(postgresql_server& before, std::string const& mode)
    : directory_{before.directory() / ("pool-" + mode)} {
  fs::create_directory(directory_);
  fs::permissions(directory_, fs::perms::all);
  std::string const settings = (directory_ / "pgbouncer.ini").string();
  std::ofstream{settings} << "[databases]\npostgres = host=" << before.directory().string() << " port=" << before.port()
                          << " user=conch\n"
                          << "[pgbouncer]\nauth_type = any\npool_mode = " << mode
                          << "\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = " << directory_.string() << '\n';
  pid_ = before.run({pool_program, settings}, mode + ".log");
  for (auto const until = steady::now() + 60s;;) {
    try {
      postgresql_probe{url()}.ask("select 1");
      return;
    } catch (std::runtime_error const& e) {
      if (steady::now() < until) {
        std::this_thread::sleep_for(10ms);
        continue;
      }
      ::kill(pid_, SIGKILL);
      before.wait(pid_);
      throw std::runtime_error{std::string{"pgbouncer did not get ready in time: "} + e.what()};
    }
  }
}

postgresql_pool::~postgresql_pool() {
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string postgresql_pool::url() const {
  return "postgresql://conch@/postgres?host=" + directory_.string() + "&port=6432";
}

postgresql_probe::postgresql_probe(std::string const& url) {
  PGconn* const c = PQconnectdb(url.c_str());
  connection_ = std::shared_ptr<void>{c, [](void* p) { PQfinish(static_cast<PGconn*>(p)); }};
  if (PQstatus(c) != CONNECTION_OK) throw std::runtime_error{PQerrorMessage(c)};
  PQsetNoticeProcessor(
      c, [](void*, char const*) {}, nullptr);
}

std::string postgresql_probe::ask(std::string const& statements) {
  auto* const c = static_cast<PGconn*>(connection_.get());
  std::unique_ptr<PGresult, decltype(&PQclear)> const r{PQexec(c, statements.c_str()), &PQclear};
  auto const status = PQresultStatus(r.get());
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) throw std::runtime_error{PQerrorMessage(c)};
  return PQntuples(r.get()) > 0 && PQnfields(r.get()) > 0 ? PQgetvalue(r.get(), 0, 0) : std::string{};
}

std::int64_t postgresql_probe::notified() {
  auto* const c = static_cast<PGconn*>(connection_.get());
  // They come in the order of the transactions' ends: after one of its own there is no earlier one.
  ask("listen conch_probe");
  ask("notify conch_probe");
  for (std::int64_t count = 0;;) {
    if (std::unique_ptr<PGnotify, decltype(&PQfreemem)> const n{PQnotifies(c), &PQfreemem}) {
      if (n->relname == std::string_view{"conch_probe"}) return count;
      ++count;
      continue;
    }
    pollfd one{PQsocket(c), POLLIN, 0};
    if (::poll(&one, 1, 60'000) != 1 || PQconsumeInput(c) == 0) throw std::runtime_error{"not notified by itself"};
  }
}

std::string bytes_literal(std::string const& value) {
  static char const digits[] = "0123456789abcdef";
  std::string text = "'\\x";
  for (char const c : value) {
    auto const byte = static_cast<unsigned char>(c);
    text += digits[byte / 16];
    text += digits[byte % 16];
  }
  return text + "'::bytea";
}

}  // namespace conch::test
