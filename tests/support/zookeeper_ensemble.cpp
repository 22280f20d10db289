#include "support/zookeeper_ensemble.hpp"

#include "support/free_port.hpp"
#include "support/redis_server.hpp"
#include "support/zookeeper_client.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace conch::test {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr auto limit = 120s;  // two virtual machines for Java start within seconds, but not on a busy machine

std::string classpath() {
  char const* const chosen = std::getenv("CONCH_ZOOKEEPER_CLASSPATH");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar";  // the first names the others that it needs
}

std::vector<std::string> command_line(std::string const& settings, std::vector<std::string> const& more) {
  std::vector<std::string> all{
      "java",
      // Quick to start, and small: nothing here needs the second compiler, or more threads for
      // the garbage.
      "-Xmx200m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true",
      // A server that is alone asks for an election more and more rarely, up to once a minute.
      "-Dzookeeper.fastleader.maxNotificationInterval=1000", "-Dorg.slf4j.simpleLogger.showDateTime=true",
      "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"};
  all.insert(all.end(), more.begin(), more.end());
  for (std::string const& last :
       {std::string{"-cp"}, classpath(), std::string{"org.apache.zookeeper.server.quorum.QuorumPeerMain"}, settings})
    all.push_back(last);
  return all;
}

struct closed_at_end {
  explicit closed_at_end(int f) : fd{f} {}
  ~closed_at_end() { ::close(fd); }
  closed_at_end(closed_at_end const&) = delete;
  closed_at_end& operator=(closed_at_end const&) = delete;
  int const fd;
};

}  // namespace

zookeeper_ensemble::zookeeper_ensemble(zookeeper_options options) : options_{std::move(options)} {
  std::string pattern = (fs::temp_directory_path() / "conch-zookeeper-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw std::system_error{errno, std::generic_category(), "mkdtemp " + pattern};
  directory_ = pattern;
  try {
    servers_.resize(options_.servers);
    for (server& s : servers_) {
      s.port = find_free_port();
      s.quorum_port = find_free_port();
      s.election_port = find_free_port();
    }
    for (server& s : servers_) {
      if (!options_.proxies) break;
      for (server const& other : servers_)
        s.to.push_back(&other == &s ? nullptr : std::make_unique<tcp_proxy>(other.quorum_port));
    }
    for (std::size_t i = 0; i < size(); ++i) configure(i);
    for (std::size_t i = 0; i < size(); ++i) launch(i);
    wait_until_serving();
  } catch (...) {
    clean_up();
    throw;
  }
}

zookeeper_ensemble::~zookeeper_ensemble() { clean_up(); }

void zookeeper_ensemble::clean_up() noexcept {
  for (server& s : servers_) {
    if (s.pid > 0) ::kill(s.pid, SIGKILL);
  }
  for (server& s : servers_) {
    if (s.pid <= 0) continue;
    while (::waitpid(s.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

fs::path zookeeper_ensemble::folder(std::size_t which) const { return directory_ / std::to_string(which + 1); }

void zookeeper_ensemble::configure(std::size_t which) {
  fs::create_directory(folder(which));
  server const& mine = servers_[which];
  std::ofstream out{folder(which) / "zoo.cfg"};
  out << "dataDir=" << folder(which).string() << "/data\n"
      << "clientPortAddress=127.0.0.1\nclientPort=" << mine.port
      << "\nadmin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n"
      // What is made here need not survive. Containers need the extended types.
      << "forceSync=no\nextendedTypesEnabled=true\npreAllocSize=1024\nquorumListenOnAllIPs=false\n"
      << "tickTime=" << options_.tick.count() << "\nminSessionTimeout=" << options_.shortest_session.count()
      << "\nmaxSessionTimeout=" << options_.longest_session.count() << "\nsyncLimit="
      << options_.sync_limit
      // A server waits for this long in vain where the votes of others came too late on a busy machine: it leads, and
      // the others follow another one. Sessions must outlive that.
      << "\ninitLimit=" << 10'000 / options_.tick.count() << '\n';
  for (std::string const& line : options_.settings) out << line << '\n';
  if (size() == 1) return;
  for (std::size_t i = 0; i < size(); ++i) {
    bool const by_proxy = i != which && options_.proxies;
    out << "server." << i + 1 << "=127.0.0.1:" << (by_proxy ? mine.to[i]->port() : servers_[i].quorum_port) << ':'
        << servers_[i].election_port << '\n';
  }
  name(which);
}

/// Its number in the ensemble, where it looks for it.
void zookeeper_ensemble::name(std::size_t which) {
  fs::create_directory(folder(which) / "data");
  std::ofstream{folder(which) / "data" / "myid"} << which + 1 << '\n';
}

void zookeeper_ensemble::lose_data(std::size_t which) {
  if (servers_.at(which).pid != 0) fail(which, "runs, and has its data");
  fs::remove_all(folder(which) / "data");
  if (size() > 1) name(which);
}

void zookeeper_ensemble::launch(std::size_t which) {
  std::vector<std::string> const line = command_line((folder(which) / "zoo.cfg").string(), options_.java);
  std::vector<char*> arguments;
  for (std::string const& one : line) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  std::string const log_file = (folder(which) / "log").string();
  std::string const own_folder = folder(which).string();
  pid_t const parent = ::getpid();
  pid_t const child = ::fork();
  if (child < 0) throw std::system_error{errno, std::generic_category(), "fork"};
  if (child > 0) {
    servers_[which].pid = child;
    return;
  }
  // Only calls that are allowed in a signal handler.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  int const out = ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  int const nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  for (int fd = 3; fd < 1024; ++fd) ::close(fd);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::chdir(own_folder.c_str()) != 0) ::_exit(1);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

std::string zookeeper_ensemble::ended_by_itself(std::size_t which) {
  server& s = servers_.at(which);
  int status = 0;
  if (s.pid == 0 || ::waitpid(s.pid, &status, WNOHANG) != s.pid) return {};
  s.pid = 0;
  s.stopped = false;
  return WIFEXITED(status) ? "ended by itself with exit code " + std::to_string(WEXITSTATUS(status))
                           : "was ended by signal " + std::to_string(WTERMSIG(status));
}

/// One of several tells its role before it keeps the connections of its clients.
bool zookeeper_ensemble::serves(std::size_t which) const {
  if (role(which).empty()) return false;
  if (size() == 1) return true;
  try {
    zookeeper_client one{port(which), 30s};
    return one.ask(zookeeper::sync{"/"}).what == zookeeper::status::ok &&
           one.ask(zookeeper::close_session{}).what == zookeeper::status::ok;
  } catch (std::runtime_error const&) {
    return false;
  }
}

void zookeeper_ensemble::wait_until_serving() {
  auto const until = steady::now() + limit;
  for (std::size_t i = 0; i < size(); ++i) {
    while (servers_[i].pid != 0 && !servers_[i].stopped && !serves(i)) {
      if (std::string const how = ended_by_itself(i); !how.empty()) fail(i, how);
      if (steady::now() > until) fail(i, "does not serve");
      std::this_thread::sleep_for(10ms);
    }
  }
}

std::string zookeeper_ensemble::url() const {
  std::string all = "zookeeper://";
  for (server const& s : servers_)
    all += (&s == &servers_.front() ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(s.port);
  return all;
}

std::string zookeeper_ensemble::url_of(std::size_t which) const {
  return "zookeeper://127.0.0.1:" + std::to_string(port(which));
}

std::string zookeeper_ensemble::log(std::size_t which) const {
  std::ifstream in{folder(which) / "log", std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

void zookeeper_ensemble::kill(std::size_t which, int signal) {
  server& s = servers_.at(which);
  if (s.pid == 0) return;
  ::kill(s.pid, signal);
  if (s.stopped && signal != SIGKILL) ::kill(s.pid, SIGCONT);
  while (::waitpid(s.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  s.pid = 0;
  s.stopped = false;
}

void zookeeper_ensemble::start(std::size_t which) {
  if (servers_.at(which).pid != 0) fail(which, "runs already");
  launch(which);
  std::size_t running = 0;
  for (server const& s : servers_) running += s.pid != 0 && !s.stopped ? 1U : 0U;
  if (running > size() / 2) wait_until_serving();
}

void zookeeper_ensemble::start_all() {
  for (std::size_t i = 0; i < size(); ++i) {
    if (servers_[i].pid == 0) launch(i);
  }
  wait_until_serving();
}

void zookeeper_ensemble::stop(std::size_t which) {
  server& s = servers_.at(which);
  if (s.pid == 0) fail(which, "cannot be stopped: it does not run");
  ::kill(s.pid, SIGSTOP);
  while (::waitpid(s.pid, nullptr, WUNTRACED) < 0 && errno == EINTR) {
  }
  s.stopped = true;
}

void zookeeper_ensemble::cont(std::size_t which) {
  server& s = servers_.at(which);
  if (s.pid == 0) return;
  ::kill(s.pid, SIGCONT);
  s.stopped = false;
}

std::size_t zookeeper_ensemble::leader() const {
  for (auto const until = steady::now() + limit;;) {
    for (std::size_t i = 0; i < size(); ++i) {
      std::string const its = role(i);
      if (its == "leader" || its == "standalone") return i;
    }
    if (steady::now() > until) fail(0, "and the others have no leader");
    std::this_thread::sleep_for(10ms);
  }
}

std::vector<std::size_t> zookeeper_ensemble::followers() const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < size(); ++i) {
    if (role(i) == "follower") all.push_back(i);
  }
  return all;
}

tcp_proxy& zookeeper_ensemble::between(std::size_t follower, std::size_t its_leader) const {
  return *servers_.at(follower).to.at(its_leader);
}

std::string zookeeper_ensemble::ask(std::size_t which, std::string const& word) const {
  server const& s = servers_.at(which);
  if (s.pid == 0 || s.stopped) return {};
  closed_at_end const to{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(s.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(to.fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  if (::send(to.fd, word.data(), word.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(word.size())) return {};
  std::string said;
  for (auto const until = steady::now() + 10s; steady::now() < until;) {
    pollfd readable{to.fd, POLLIN, 0};
    if (::poll(&readable, 1, 100) <= 0) continue;
    char some[4096];
    ssize_t const n = ::recv(to.fd, some, sizeof some, 0);
    if (n <= 0) return said;
    said.append(some, static_cast<std::size_t>(n));
  }
  return {};
}

std::string zookeeper_ensemble::role(std::size_t which) const {
  std::string const said = ask(which, "srvr");
  std::string const before = "Mode: ";
  auto const at = said.find(before);
  if (at == std::string::npos) return {};
  auto const begin = at + before.size();
  return said.substr(begin, said.find('\n', begin) - begin);
}

std::string zookeeper_ensemble::last_words(std::size_t which) const {
  std::istringstream all{log(which)};
  std::string text;
  for (std::string line; std::getline(all, line);) {
    bool const is_of_a_request = line.find("Processing srvr command") != std::string::npos ||
                                 line.find("Committing global session") != std::string::npos;
    if (!is_of_a_request) text += line + '\n';
  }
  constexpr std::size_t enough = 6000;
  if (text.size() > enough) text.erase(0, text.size() - enough);
  return text;
}

void zookeeper_ensemble::fail(std::size_t which, std::string const& what) const {
  throw std::runtime_error{"server " + std::to_string(which) + " of a zookeeper_ensemble " + what + "; its log:\n" +
                           last_words(which)};
}

}  // namespace conch::test
