#pragma once

// A server that does what a test tells it: a thread for each connection, which plays its part by blocking calls.

#include "integration/fixture.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace conch::test {

class fake_server {
 public:
  class connection;
  /// Plays connection `number` (from 0). What it throws (the peer went away) ends the connection.
  using part = std::function<void(connection&, int number)>;

  class gone : public std::runtime_error {
   public:
    gone() : std::runtime_error{"the peer has gone"} {}
  };

  class connection {
   public:
    explicit connection(int fd) : fd_{fd} {}

    /// The words of the next command. What the client tells about itself is confirmed here.
    std::vector<std::string> command() {
      for (;;) {
        std::vector<std::string> words = any_command();
        bool const of_itself = words.size() > 1 && (words[0] == "SET" || words[0] == "DEL") && words[1].ends_with(":i");
        if (!of_itself) return words;
        write(words[0] == "SET" ? "+OK\r\n" : ":1\r\n");
      }
    }

    void write(std::string_view bytes) {
      while (!bytes.empty()) {
        auto const n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n <= 0) throw gone{};
        bytes.remove_prefix(static_cast<std::size_t>(n));
      }
    }

    /// Until the peer closes, or sends something that nobody reads.
    void wait_for_end() {
      for (;;) receive();
    }

    /// A correct greeting: HELLO, CLIENT INFO, TIME, INFO memory, INFO server.
    void greet(std::string const& version = "7.0.15", std::string const& policy = "noeviction") {
      command();
      write("%3\r\n$7\r\nversion\r\n$" + std::to_string(version.size()) + "\r\n" + version +
            "\r\n$2\r\nid\r\n:7\r\n$4\r\nrole\r\n$6\r\nmaster\r\n");
      command();
      write("$23\r\nid=7 addr=1.2.3.4:5 x=y\r\n");
      command();
      write(now());
      command();
      write(bulk("# Memory\r\nmaxmemory_policy:" + policy + "\r\n"));
      command();
      write(bulk("# Server\r\nrun_id:a\r\n"));
    }

    /// CLIENT KILL, SUBSCRIBE, PUBLISH. Afterwards `channel` is known.
    void subscribe() {
      for (;;) {
        auto const words = command();
        if (words[0] == "CLIENT") write(":0\r\n");
        if (words[0] == "SUBSCRIBE") {
          channel = words[1];
          write(">3\r\n$9\r\nsubscribe\r\n" + bulk(channel) + ":1\r\n");
        }
        if (words[0] == "PUBLISH") {
          push("");
          write(":1\r\n");
          return;
        }
      }
    }

    static std::string bulk(std::string_view text) {
      return "$" + std::to_string(text.size()) + "\r\n" + std::string{text} + "\r\n";
    }
    static std::string now() {
      auto const us =
          std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
              .count();
      return "*2\r\n" + bulk(std::to_string(us / 1'000'000)) + bulk(std::to_string(us % 1'000'000));
    }
    void push(std::string_view message) { write(">3\r\n$7\r\nmessage\r\n" + bulk(channel) + bulk(message)); }

    /// Becomes the real server. `forward` sees what goes to it, `back` what comes from it; false ends the connection.
    using filter = std::function<bool(std::string&)>;
    void proxy(redis_server const& real, filter const& forward = {}, filter const& back = {}) {
      int const to = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      real.socket_path().copy(address.sun_path, sizeof address.sun_path - 1);
      bool alive = ::connect(to, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
      if (!input_.empty() && alive) ::send(to, input_.data(), input_.size(), MSG_NOSIGNAL);
      while (alive) {
        pollfd both[2] = {{fd_, POLLIN, 0}, {to, POLLIN, 0}};
        ::poll(both, 2, -1);
        if (both[0].revents != 0) alive = pump(fd_, to, forward);
        if (alive && both[1].revents != 0) alive = pump(to, fd_, back);
      }
      ::close(to);
      throw gone{};
    }

    int fd() const { return fd_; }
    std::string channel;

   private:
    std::vector<std::string> any_command() {
      std::vector<std::string> words;
      std::size_t const count = std::stoul(line().substr(1));
      for (std::size_t i = 0; i < count; ++i) {
        std::size_t const size = std::stoul(line().substr(1));
        while (input_.size() < size + 2) receive();
        words.push_back(input_.substr(0, size));
        input_.erase(0, size + 2);
      }
      return words;
    }

    static bool pump(int from, int to, filter const& f) {
      char buffer[16384];
      auto const n = ::recv(from, buffer, sizeof buffer, 0);
      if (n <= 0) return false;
      std::string bytes(buffer, static_cast<std::size_t>(n));
      if (f && !f(bytes)) return false;
      return ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
    }

    std::string line() {
      std::size_t at;
      while ((at = input_.find("\r\n")) == std::string::npos) receive();
      std::string const one = input_.substr(0, at);
      input_.erase(0, at + 2);
      return one;
    }

    void receive() {
      char buffer[4096];
      auto const n = ::recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) throw gone{};
      input_.append(buffer, static_cast<std::size_t>(n));
    }

    int fd_;
    std::string input_;
  };

  explicit fake_server(part p) : part_{std::move(p)} {
    char name[] = "/tmp/conch-fake-XXXXXX";
    if (::mkdtemp(name) == nullptr) throw std::runtime_error{"mkdtemp"};
    directory_ = name;
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (directory_ + "/s").copy(address.sun_path, sizeof address.sun_path - 1);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || ::listen(listener_, 64) != 0) {
      throw std::runtime_error{"bind or listen"};
    }
    acceptor_ = std::thread{[this] { accept(); }};
  }
  fake_server(fake_server const&) = delete;
  ~fake_server() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      std::lock_guard const guard{mutex_};
      for (int const fd : open_) ::shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& t : players_) t.join();
    ::close(listener_);
    std::filesystem::remove_all(directory_);
  }

  std::string url() const { return "unix://" + directory_ + "/s"; }
  int connections() const { return connections_; }

 private:
  void accept() {
    for (;;) {
      int const fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      int const number = connections_++;
      {
        std::lock_guard const guard{mutex_};
        open_.push_back(fd);
      }
      players_.emplace_back([this, fd, number] {
        connection c{fd};
        try {
          part_(c, number);
        } catch (std::exception const&) {
        }
        std::lock_guard const guard{mutex_};
        std::erase(open_, fd);
        ::close(fd);
      });
    }
  }

  part part_;
  std::string directory_;
  int listener_ = -1;
  std::atomic<int> connections_{0};
  std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::thread> players_;
  std::thread acceptor_;
};

}  // namespace conch::test
