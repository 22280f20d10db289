// What a server sends, from the bytes to the engine: greeting, answers and pushes reach a real cohort that waits,
// holds, renews and gives back meanwhile. Nothing may crash, overflow or be told twice, and everything must end.
//
// The connection is the real state machine; the streams below it are made here. The lowest bit of the first byte
// chooses whether the greeting is in the stream, the others in what pieces the stream comes, and goes out. The next
// four bytes are what the program does between two messages; the rest is the stream.

#include "engine/cohort.hpp"
#include "protocol/server.hpp"
#include "resp/decoder.hpp"
#include "servers/redis/connection_fsm.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace conch;
using namespace std::chrono_literals;

constexpr std::string_view client = "0123456789abcdef0123456789abcdef";

void require(bool holds, char const* what) {
  if (holds) return;
  std::fprintf(stderr, "redis_messages_fuzz: %s\n", what);
  std::abort();
}

/// The ids of the corpus: 1, 2, 3 ...
struct no_nonces final : entropy {
  std::uint64_t next() override { return 0; }
};

constexpr std::string_view greeting =
    "%3\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$2\r\nid\r\n:7\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
    "$24\r\nid=7 addr=127.0.0.1:1 x=\r\n*2\r\n$10\r\n1770000000\r\n$1\r\n0\r\n$0\r\n\r\n$0\r\n\r\n";

redis::address server_address() {
  redis::address a;
  a.host = "h";
  return a;
}

/// What src/servers/redis/connection does with one connection, without sockets.
class session final : engine::acquisition_events, protocol::wire, protocol::wire_events, log_sink {
 public:
  session()
      : cohort_{settings_, timers_, *this, stats_},
        remote_{settings_, 1, nonces_, timers_, *this, cohort_, *this, stats_},
        fsm_{settings_, client_, server_address(), 1} {
    cohort_.use(remote_);
    fsm_.report_to(*this);
  }

  void run(std::uint8_t choice, std::array<std::uint8_t, 4> const& acts, std::string_view stream) {
    piece_ = choice / 2U;
    acts_ = acts;
    act(acts[3]);
    want_connection();
    input([&] { fsm_.life().due(now_); });
    require(next_.resolve, "a connection that nobody looks for");
    input([&] { fsm_.life().resolved({.addresses = {"address"}}, now_); });
    require(next_.connect, "a connection that nobody makes");
    input([&] { fsm_.life().connected(now_); });
    if (choice % 2 != 0) take_in(greeting);
    take_in(stream);
    if (open_) input([&] { fsm_.failed("the stream is over", now_); });
    require(!open_ && next_.sleep, "a connection that has ended, and is not to be made again");
    finish();
  }

 private:
  struct caller : engine::acquisition {
    bool given = false, told = false, held = false, released = false;
  };

  /// One input, and what is to be done because of it.
  template <class F>
  void input(F const& what) {
    what();
    next_ = {};
    for (net::steps todo = fsm_.life().take(); todo.any(); todo = fsm_.life().take()) {
      (void)fsm_.life().take_log();
      require(!todo.close || !(todo.read || todo.write || todo.flush || todo.call_due_later),
              "something is done with what is closed");
      if (todo.close) {
        open_ = false;
        next_ = {};
      }
      if (todo.connect) open_ = true;
      next_.sleep = next_.sleep || todo.sleep;
      next_.resolve = next_.resolve || todo.resolve;
      next_.connect = next_.connect || todo.connect;
      next_.read = next_.read || todo.read;
      if (todo.flush) fsm_.flush();
      if (todo.write) write();
      if (todo.call_due_later) fsm_.life().due(now_);
    }
  }

  void write() {
    std::string_view const bytes = fsm_.bytes();
    require(!bytes.empty(), "a write of nothing");
    std::size_t const size = piece_ == 0 ? bytes.size() : std::min(bytes.size(), piece_);
    auto const room = written_.prepare(size);
    std::copy_n(bytes.begin(), size, room.begin());
    written_.commit(size);
    for (auto got = written_.next(); got != resp::decoder::progress::need_more; got = written_.next()) {
      require(got == resp::decoder::progress::message, "expected a complete command in the bytes written");
    }
    fsm_.written(size);
  }

  void take_in(std::string_view stream) {
    while (open_ && !stream.empty()) {
      require(next_.read, "a connection that does not read");
      auto const room = fsm_.room();
      std::size_t const size = std::min({stream.size(), room.size(), piece_ == 0 ? stream.size() : piece_});
      std::copy_n(stream.begin(), size, room.begin());
      stream.remove_prefix(size);
      input([&] { fsm_.received(size, now_); });
      if (!next_.read && open_) input([&] { fsm_.life().due(now_); });  // it is to be dropped
    }
  }

  void connected_as(protocol::session const& s, time_point now) override {
    remote_.receiver().connected_as(s, now);
    connected_ = true;
  }
  void connect_failed(protocol::fault what, std::string_view words, time_point now) override {
    require(!connected_, "a connection that was there could not be made");
    remote_.receiver().connect_failed(what, words, now);
  }
  void disconnected(std::string_view why, time_point now) override {
    require(connected_, "a connection has ended that was not there");
    connected_ = false;
    remote_.receiver().disconnected(why, now);
  }
  void answered(protocol::answer const& a, time_point now) override {
    remote_.receiver().answered(a, now);
    message_done();
  }
  void pushed(protocol::push const& p, time_point now) override {
    remote_.receiver().pushed(p, now);
    message_done();
  }
  void message_done() {
    require(connected_, "a message arrived without a connection");
    act(acts_[messages_++ % acts_.size()]);
  }

  /// One thing that a program, or the time, may do.
  void act(std::uint8_t what) {
    if ((what & 0x80U) != 0) now_ += std::chrono::milliseconds{what & 0x7fU} * 20;
    switch (what % 8) {
      case 0:
      case 1:
      case 2: acquire(what); break;
      case 3:
        for (auto const& c : callers_) {
          if (!c->told) return cohort_.cancel(*c, static_cast<engine::cancel_type>(what / 8 % 3), now_);
        }
        break;
      case 4:
      case 5:
        for (auto const& c : callers_) {
          if (c->held && !c->released && !c->given) {
            c->given = true;
            if (what % 8 == 4) return cohort_.release(*c, now_);
            c->released = true;
            return cohort_.abandon(*c, now_);
          }
        }
        break;
      default: break;
    }
    tick();
  }

  void acquire(std::uint8_t what) {
    if (callers_.size() >= 12) return;
    auto& c = *callers_.emplace_back(std::make_unique<caller>());
    c.lease = std::chrono::duration_cast<std::chrono::milliseconds>(settings_.lease);
    c.once = what % 8 == 2;
    c.fixed = (what & 0x10U) != 0;
    if ((what & 0x20U) != 0) c.until = now_ + 100ms;
    cohort_.acquire(c, (what & 0x08U) != 0 ? "a" : "}%b", now_);
  }

  void tick() {
    for (int i = 0; i < 1000 && timers_.next() <= now_; ++i) cohort_.tick(now_);
    require(timers_.next() > now_, "the timers never come to rest");
  }

  /// The server never comes back: everything ends by the clock alone.
  void finish() {
    cohort_.close(now_);
    cohort_.give_back_everything(now_);
    for (auto const& c : callers_) {
      if (c->held && !c->given) {
        c->given = true;
        cohort_.release(*c, now_);
      }
    }
    for (int i = 0; i < 5000 && timers_.next() != timer_queue::never; ++i) {
      now_ = std::max(now_, timers_.next());
      cohort_.tick(now_);
    }
    require(timers_.next() == timer_queue::never, "a timer runs forever");
    for (auto const& c : callers_) {
      require(c->told, "an acquire that nobody answered");
      require(!c->held || c->released, "a release that nobody answered");
    }
    require(cohort_.idle() && remote_.settled(), "a clean-up never ends");
    require(stats_.waiting == 0 && stats_.held == 0, "a gauge does not return to 0");
  }

  void on_acquired(engine::acquisition& a, engine::acquired how, error_code) override {
    auto& c = static_cast<caller&>(a);
    require(!c.told, "an acquire was answered twice");
    c.told = true;
    c.held = how == engine::acquired::granted;
    if (!c.held) return;
    require(c.fence > 0, "a fence that is not positive");
    require(c.deadline() > now_ && c.deadline() <= now_ + settings_.lease, "a deadline beyond the lease");
  }
  void on_lost(engine::acquisition& a, error_code) override {
    require(static_cast<caller&>(a).held && !static_cast<caller&>(a).released, "a loss of what was not held");
  }
  void on_released(engine::acquisition& a, bool, error_code) override {
    auto& c = static_cast<caller&>(a);
    require(c.given && !c.released, "a release was answered twice");
    c.released = true;
  }
  void note(bool, std::string_view) override {}
  void send(protocol::command const& c) override { (void)fsm_.send(c); }
  void want_connection() override { (void)fsm_.life().want(); }
  void drop_connection(std::string_view why) override { (void)fsm_.life().drop(why); }

  config const settings_ = [] {
    config c;
    c.lease = 10s;
    return c;
  }();
  time_point now_{1'000s};
  std::size_t piece_ = 0;  // 0: everything at once
  std::array<std::uint8_t, 4> acts_{};
  std::size_t messages_ = 0;
  net::steps next_;
  bool open_ = false, connected_ = false;
  resp::decoder written_;
  statistics stats_;
  no_nonces nonces_;
  timer_queue timers_;
  std::vector<std::unique_ptr<caller>> callers_;
  engine::cohort cohort_;
  protocol::server remote_;
  std::string const client_{client};
  redis::connection_fsm fsm_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size < 5) return 0;
  session s;
  s.run(data[0], {data[1], data[2], data[3], data[4]}, {reinterpret_cast<char const*>(data) + 5, size - 5});
  return 0;
}
