#include "support/zookeeper_client.hpp"

#include "support/patience.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace conch::test {

using namespace zookeeper;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

namespace {

[[noreturn]] void failed(std::string const& what, std::string const& path, status why) {
  throw std::runtime_error{what + ' ' + path + ": error " + std::to_string(static_cast<std::int32_t>(why))};
}

}  // namespace

zookeeper_client::zookeeper_client(std::uint16_t port) : fd_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int const on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return;
  int const error = errno;
  ::close(fd_);
  throw std::system_error{error, std::generic_category(), "zookeeper_client"};
}

zookeeper_client::zookeeper_client(std::uint16_t port, std::chrono::milliseconds timeout) : zookeeper_client{port} {
  greet({0, static_cast<std::int32_t>(timeout.count()), 0, {}});
}

zookeeper_client::~zookeeper_client() { ::close(fd_); }

void zookeeper_client::write_all(std::string const& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    ssize_t const n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) throw zookeeper_connection_ended{"zookeeper_client: cannot write"};
    if (n > 0) sent += static_cast<std::size_t>(n);
  }
}

bool zookeeper_client::receive(steady::time_point until) {
  if (closed_) return false;
  auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - steady::now());
  pollfd readable{fd_, POLLIN, 0};
  if (::poll(&readable, 1, static_cast<int>(std::max(left, 0ms).count())) <= 0) return false;
  auto const room = in_.room();
  ssize_t const n = ::recv(fd_, room.data(), room.size(), 0);
  if (n < 0 && errno == EINTR) return true;
  if (n <= 0) {
    closed_ = true;
    return true;
  }
  in_.received(static_cast<std::size_t>(n));
  auto step = in_.next();
  for (; step == frame_reader::progress::frame; step = in_.next()) take(in_.frame());
  if (step == frame_reader::progress::malformed) throw std::runtime_error{"zookeeper_client: a malformed frame"};
  return true;
}

void zookeeper_client::take(std::string_view frame) {
  auto const check = [](std::string_view wrong) {
    if (!wrong.empty()) throw std::runtime_error{"zookeeper_client: " + std::string{wrong}};
  };
  if (!greeted_) {
    check(zookeeper::read(frame, session_));
    greeted_ = true;
    return;
  }
  reply_header header;
  check(zookeeper::read(frame, header));
  last_seen_ = std::max(last_seen_, header.zxid);
  if (header.xid == notice_xid) {
    notice n;
    check(zookeeper::read(frame, n));
    if (keeps_order_) messages_.emplace_back(n);
    else notices_.push_back(n);
    return;
  }
  if (header.xid == ping_xid) {
    if (keeps_order_) messages_.emplace_back(pong{header.zxid});
    else ++pings_answered_;
    return;
  }
  if (asked_.empty() || asked_.front().first != header.xid)
    throw std::runtime_error{"zookeeper_client: an answer to what was not asked"};
  reply r;
  check(zookeeper::read(frame, header, asked_.front().second, r));
  asked_.pop_front();
  if (keeps_order_) messages_.emplace_back(r);
  else answers_.push_back(r);
}

template <class Done>
bool zookeeper_client::wait(std::chrono::milliseconds within, Done done) {
  for (auto const until = steady::now() + within; !done();) {
    if (closed_ || (!receive(until) && steady::now() >= until)) return done();
  }
  return true;
}

connect_response const& zookeeper_client::greet(connect_request const& c) {
  std::string bytes;
  append(bytes, c);
  write_all(bytes);
  if (!wait(patience, [this] { return greeted_; })) throw zookeeper_connection_ended{"zookeeper_client: no greeting"};
  return session_;
}

connect_response const& zookeeper_client::resume(resumption const& r) {
  xid_ = r.last_xid;
  return greet(r.greeting);
}

std::string zookeeper_client::prepared(request const& r) {
  std::string bytes;
  append(bytes, ++xid_, r);
  if (op_of(r) == op::add_auth) asked_.emplace_back(auth_xid, op::add_auth);
  else if (op_of(r) != op::ping) asked_.emplace_back(xid_, op_of(r));
  return bytes;
}

void zookeeper_client::send(request const& r) { write_all(prepared(r)); }

void zookeeper_client::send_all(std::vector<request> const& all) {
  std::string bytes;
  for (request const& r : all) bytes += prepared(r);
  write_all(bytes);
}

reply zookeeper_client::read_answer() {
  if (!wait(patience, [this] { return !answers_.empty(); }))
    throw zookeeper_connection_ended{closed_ ? "zookeeper_client: the server closed the connection instead of answering"
                                             : "zookeeper_client: no answer"};
  reply const r = answers_.front();
  answers_.pop_front();
  return r;
}

reply zookeeper_client::ask(request const& r) {
  send(r);
  return read_answer();
}

bool zookeeper_client::ping(std::chrono::milliseconds within) {
  send(zookeeper::ping{});
  bool const answered = wait(within, [this] { return pings_answered_ > 0; });
  if (answered) --pings_answered_;
  return answered;
}

std::optional<notice> zookeeper_client::next_notice(std::chrono::milliseconds within) {
  if (!wait(within, [this] { return !notices_.empty(); })) return std::nullopt;
  notice const n = notices_.front();
  notices_.pop_front();
  return n;
}

std::optional<zookeeper_client::message> zookeeper_client::next_message(std::chrono::milliseconds within) {
  if (!wait(within, [this] { return !messages_.empty(); })) return std::nullopt;
  message m = std::move(messages_.front());
  messages_.pop_front();
  return m;
}

bool zookeeper_client::ends(std::chrono::milliseconds within) {
  return wait(within, [this] { return closed_; });
}

created zookeeper_client::create(std::string const& path, node_kind kind, std::string const& bytes) {
  reply const r = ask(zookeeper::create{path, bytes, kind, access::anyone});
  if (r.what != status::ok) failed("create", path, r.what);
  return std::get<created>(r.content);
}

void zookeeper_client::remove(std::string const& path) {
  reply const r = ask(zookeeper::remove{path});
  if (r.what != status::ok) failed("remove", path, r.what);
}

void zookeeper_client::write(std::string const& path, std::string const& bytes) {
  reply const r = ask(set_data{path, bytes});
  if (r.what != status::ok) failed("write", path, r.what);
}

std::optional<data> zookeeper_client::read(std::string const& path, bool watch) {
  reply const r = ask(get_data{path, watch});
  if (r.what == status::no_node) return std::nullopt;
  if (r.what != status::ok) failed("read", path, r.what);
  return std::get<data>(r.content);
}

std::vector<std::string> zookeeper_client::list(std::string const& path) {
  reply const r = ask(get_children{path});
  if (r.what == status::no_node) return {};
  if (r.what != status::ok) failed("list", path, r.what);
  std::vector<std::string> names = std::get<children>(r.content).names;
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> zookeeper_client::tree(std::string const& below) {
  std::vector<std::string> all;
  for (std::string const& name : list(below.empty() ? "/" : below)) {
    if (below.empty() && name == "zookeeper") continue;
    all.push_back(below + '/' + name);
    auto const more = tree(all.back());
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace conch::test
