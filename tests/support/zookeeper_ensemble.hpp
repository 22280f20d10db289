#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "support/tcp_proxy.hpp"

namespace conch::test {

struct zookeeper_options {
  /// 1: by itself. More: they elect a leader.
  std::size_t servers = 1;
  /// A server keeps sessions of at least two ticks. Half a tick is the time between two pings of a leader, and between
  /// two looks for expired sessions.
  std::chrono::milliseconds tick{200};
  std::chrono::milliseconds shortest_session{400}, longest_session{60'000};
  /// In ticks: how long a leader and its followers wait for each other.
  int sync_limit = 50;
  /// A proxy on each connection between servers, but for those of an election: between() names it.
  bool proxies = false;
  /// More lines of configuration.
  std::vector<std::string> settings = {};
  /// More options of the virtual machine.
  std::vector<std::string> java = {};
};

/// One ZooKeeper server of its own, or several: private folder, free ports of 127.0.0.1. They are ended by their
/// process ids, at the latest by the destructor; and the kernel kills them when the thread ends that started them. What
/// goes wrong throws std::runtime_error, with the end of a log.
///
/// It needs a Java runtime and Debian's package `zookeeper`; CONCH_ZOOKEEPER_CLASSPATH names other jars.
class zookeeper_ensemble {
 public:
  explicit zookeeper_ensemble(zookeeper_options options = {});
  ~zookeeper_ensemble();
  zookeeper_ensemble(zookeeper_ensemble const&) = delete;
  zookeeper_ensemble& operator=(zookeeper_ensemble const&) = delete;

  /// zookeeper://127.0.0.1:PORT,127.0.0.1:PORT. Stays the same over a restart.
  std::string url() const;
  std::string url_of(std::size_t which) const;
  std::size_t size() const noexcept { return servers_.size(); }
  std::uint16_t port(std::size_t which) const { return servers_.at(which).port; }
  /// 0 while it does not run.
  pid_t pid(std::size_t which) const { return servers_.at(which).pid; }
  std::string log(std::size_t which) const;
  /// The end of it, without what each request of a client leaves there.
  std::string last_words(std::size_t which) const;
  std::filesystem::path const& directory() const noexcept { return directory_; }

  /// Sends the signal, and waits until the process has ended.
  void kill(std::size_t which, int signal = SIGKILL);
  /// Until it serves clients, if enough of the others are there.
  void start(std::size_t which);
  /// All that do not run.
  void start_all();
  /// How a server has ended that was started and not killed, in words; it can be started again. Empty: it has not.
  std::string ended_by_itself(std::size_t which);
  /// For one that does not run: it begins as a new server.
  void lose_data(std::size_t which);
  /// SIGSTOP and SIGCONT.
  void stop(std::size_t which);
  void cont(std::size_t which);

  /// Only those that run are asked; waits until there is one. A server by itself leads.
  std::size_t leader() const;
  std::vector<std::size_t> followers() const;
  /// From a follower to the leader, when that one leads. Freeze it with set(), cut it with refuse() and reset().
  tcp_proxy& between(std::size_t follower, std::size_t leader) const;
  /// The answer to a word of four letters; empty: there is none.
  std::string ask(std::size_t which, std::string const& word) const;
  /// "leader", "follower", "standalone"; empty: it does not serve.
  std::string role(std::size_t which) const;
  /// Until all that run serve.
  void wait_until_serving();

 private:
  struct server {
    std::uint16_t port = 0, quorum_port = 0, election_port = 0;
    pid_t pid = 0;
    bool stopped = false;
    std::vector<std::unique_ptr<tcp_proxy>> to;  // the other servers, as this one reaches them
  };
  bool serves(std::size_t which) const;

  void configure(std::size_t which);
  void name(std::size_t which);
  void launch(std::size_t which);
  std::filesystem::path folder(std::size_t which) const;
  void clean_up() noexcept;
  [[noreturn]] void fail(std::size_t which, std::string const& what) const;

  zookeeper_options options_;
  std::filesystem::path directory_;
  std::vector<server> servers_;
};

}  // namespace conch::test
