#include "support/raw.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "resp/encoder.hpp"
#include "servers/redis/codec.hpp"
#include "servers/redis/scripts.hpp"
#include "support/redis_probe.hpp"

namespace conch::bench {

namespace {

/// As long as a client's of conch.
constexpr std::string_view client_id = "00000000000000000000000000000bec";

[[noreturn]] void fail(std::string const& what) { throw std::runtime_error("raw connection: " + what); }

int open_socket(std::string const& url) {
  constexpr std::string_view unix_scheme = "unix://", tcp_scheme = "redis://127.0.0.1:";
  int fd = -1;
  if (url.starts_with(unix_scheme)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string const path = url.substr(unix_scheme.size());
    if (path.size() >= sizeof address.sun_path) fail("path too long");
    path.copy(address.sun_path, path.size());
    fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
  } else if (url.starts_with(tcp_scheme)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoul(url.substr(tcp_scheme.size()))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
      int const on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return fd;
    }
  }
  fail("cannot connect to " + url + ": " + std::strerror(errno));
}

}  // namespace

raw_connection::raw_connection(std::string const& url, waits how)
    : fd_{open_socket(url)},
      buffer_(std::size_t{64} << 10) {
  if (how == waits::in_recv) return;
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  if (epoll_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd_, &event) != 0)
    fail(std::string{"epoll: "} + std::strerror(errno));
}

raw_connection::~raw_connection() {
  ::close(fd_);
  if (epoll_ >= 0) ::close(epoll_);
}

void raw_connection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    auto const sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      fail(std::string{"send: "} + std::strerror(errno));
    }
  }
}

std::size_t raw_connection::receive() {
  if (epoll_ >= 0) {
    epoll_event event{};
    while (::epoll_wait(epoll_, &event, 1, -1) < 1) {
      if (errno != EINTR) fail(std::string{"epoll: "} + std::strerror(errno));
    }
  }
  ssize_t received = 0;
  do {
    received = ::recv(fd_, buffer_.data(), buffer_.size(), 0);
  } while (received < 0 && errno == EINTR);
  if (received <= 0) fail("the server closed the connection");
  std::size_t complete = 0;
  char const* at = buffer_.data();
  char const* const end = at + received;
  while (at != end) {
    auto const* const stop = static_cast<char const*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)));
    if (stop == nullptr) {
      line_.append(at, end);
      break;
    }
    std::string_view line{at, stop};
    if (!line_.empty()) {
      line_.append(at, stop);
      line = line_;
    }
    if (line.starts_with('-')) fail("the server answered " + std::string{line});
    if (lines_missing_ == 0 && !line.starts_with('>')) line.copy(reply_, sizeof reply_);
    bool const list = lines_missing_ == 0 && (line.starts_with('*') || line.starts_with('>') || line.starts_with('%'));
    if (list) {
      lines_missing_ = 1 + std::strtoull(std::string{line.substr(1)}.c_str(), nullptr, 10) * (line[0] == '%' ? 2 : 1);
    } else if (lines_missing_ == 0) {
      lines_missing_ = 1;
    }
    if (line.starts_with('$')) ++lines_missing_;
    if (--lines_missing_ == 0) ++complete;
    line_.clear();
    at = stop + 1;
  }
  return complete;
}

void raw_connection::await(std::size_t count) {
  while (unused_ < count) unused_ += receive();
  unused_ -= count;
}

std::uint64_t run_lanes(raw_connection& to, std::vector<lane> const& lanes, steady::duration how_long) {
  std::vector<std::size_t> in_flight(lanes.size());  // a ring: replies come in the order of the requests
  std::vector<bool> owns(lanes.size(), false);
  std::string out;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    in_flight[i] = i;
    out += lanes[i].acquire;
  }
  auto const until = steady::now() + how_long;
  to.send(out);
  std::uint64_t cycles = 0;
  std::size_t first = 0, last = 0, busy = lanes.size();
  bool more = true;
  while (busy > 0) {
    std::size_t const complete = to.receive();
    more = more && steady::now() < until;
    out.clear();
    for (std::size_t i = 0; i < complete; ++i) {
      std::size_t const at = in_flight[first];
      first = first + 1 == lanes.size() ? 0 : first + 1;
      bool const had = owns[at];
      owns[at] = !had;
      if (had) ++cycles;
      if (had && !more) {
        --busy;
        continue;
      }
      out += had ? lanes[at].acquire : lanes[at].release;
      in_flight[last] = at;
      last = last + 1 == lanes.size() ? 0 : last + 1;
    }
    if (!out.empty()) to.send(out);
  }
  return cycles;
}

lane conch_lane(std::string const& name, std::uint64_t number) {
  using std::chrono::milliseconds;
  lane result;
  protocol::acquire_command acquire{
      name, number, true, milliseconds{30'000}, milliseconds{3'000}, milliseconds{600'000}, 0, 0, false};
  redis::encode(acquire, client_id, result.acquire);
  protocol::release_command release{
      name, number, false, milliseconds{30'000}, milliseconds{3'000}, milliseconds{600'000}, 0, false};
  redis::encode(release, client_id, result.release);
  return result;
}

lane scripts_lane(test::redis_probe& at, std::string const& name, std::string const& acquire,
                  std::string const& release) {
  std::string const owner = "00000000000000000000000000000bec.1";
  auto const call = [&](std::string const& script) {
    return command({"EVALSHA", at.command({"SCRIPT", "LOAD", script}), "3", name, name + ":q", name + ":f", owner,
                    "30000", "600000"});
  };
  return {call(acquire), call(release)};
}

lane least_lane(test::redis_probe& at, std::string const& name) {
  return scripts_lane(
      at, name,
      "local t = redis.call('TIME') if redis.call('EXISTS', KEYS[1], KEYS[2]) == 1 then return 0 end "
      "local fence = t[1] * 1000000 + t[2] redis.call('SET', KEYS[3], string.format('%.0f', fence), 'PX', ARGV[3]) "
      "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return fence",
      "if redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('EXISTS', KEYS[2]) == 0 then "
      "redis.call('DEL', KEYS[1]) return 1 end return 0");
}

lane least_lane(test::redis_probe& at, std::vector<std::string> const& names) {
  auto const call = [&](std::string const& script) {
    std::string bytes;
    resp::command_writer w{bytes, 3 + 4 * names.size() + 2};
    w.arg("EVALSHA").arg(at.command({"SCRIPT", "LOAD", script})).arg(3 * names.size());
    for (char const* const suffix : {"", ":q", ":f"}) {
      for (std::string const& name : names) w.arg({name, suffix});
    }
    w.arg("30000").arg("600000");
    for (std::size_t i = 0; i < names.size(); ++i) w.arg({client_id, ".", std::to_string(i)});
    return bytes;
  };
  return {call("local t, n = redis.call('TIME'), #KEYS / 3 if redis.call('EXISTS', unpack(KEYS, 1, 2 * n)) > 0 then "
               "return 0 end "
               "local fence = t[1] * 1000000 + t[2] local digits = string.format('%.0f', fence) "
               "for i = 1, n do redis.call('SET', KEYS[2 * n + i], digits, 'PX', ARGV[2]) "
               "redis.call('SET', KEYS[i], ARGV[2 + i], 'PX', ARGV[1]) end return fence"),
          call("local n = #KEYS / 3 local owners = redis.call('MGET', unpack(KEYS, 1, n)) for i = 1, n do "
               "if owners[i] ~= ARGV[2 + i] then return 0 end end if redis.call('EXISTS', unpack(KEYS, n + 1, 2 * n)) "
               "> 0 then return 0 end "
               "redis.call('DEL', unpack(KEYS, 1, n)) return 1")};
}

void load_scripts(raw_connection& to) {
  for (redis::script const& s : redis::all_scripts()) to.exchange(command({"SCRIPT", "LOAD", s.source}));
}

std::string command(std::initializer_list<std::string_view> arguments) {
  std::string bytes;
  resp::append_command(bytes, arguments);
  return bytes;
}

}  // namespace conch::bench
