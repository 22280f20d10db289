// What a server sends, from the bytes to the engine: greeting, answers and pushes reach a real cohort that waits, holds,
// renews and gives back meanwhile. Nothing may crash, overflow or be told twice, and everything must end.
//
// The first byte chooses how the greeting is passed, the next four what the program does between two messages; the rest is
// the stream.

#include "cohort/cohort.hpp"
#include "protocol/server.hpp"
#include "redis/codec.hpp"
#include "redis/greeting.hpp"
#include "resp/decoder.hpp"

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
struct no_nonces final : engine::entropy {
  std::uint64_t next() override { return 0; }
};

/// What the link does with one connection, without the connection.
class session final : engine::acquisition_events, engine::wire, engine::log_sink {
 public:
  session() : cohort_{settings_, timers_, *this, stats_}, remote_{settings_, 1, nonces_, timers_, *this, cohort_, *this, stats_} {
    cohort_.use(remote_);
  }

  void run(std::uint8_t choice, std::array<std::uint8_t, 4> const& acts, std::string_view stream) {
    resp::decoder decoder{{.max_depth = 8, .max_elements = 4096, .max_text = 64 << 10, .max_message = 1 << 20}};
    auto const room = decoder.prepare(stream.size());
    std::copy(stream.begin(), stream.end(), room.begin());
    decoder.commit(stream.size());

    act(acts[3]);
    engine::session who{7, "127.0.0.1:1", 1'770'000'000'000'000, now_};
    if (choice % 2 == 0 && !greet(decoder, who)) return finish();
    remote_.connected_as(who, now_);
    std::vector<std::int64_t> numbers;
    std::string name;
    engine::pushed_grant grant;
    for (std::size_t i = 0; !dropped_ && decoder.next() == resp::decoder::progress::message; ++i) {
      if (!decoder.is_push()) {
        remote_.answered(redis::to_answer(decoder.message(), numbers), now_);
      } else {
        switch (redis::read_push(decoder.message(), client, name, grant)) {
          case redis::push_kind::grant: remote_.granted(grant, now_); break;
          case redis::push_kind::revoked: remote_.revoked(grant.name, grant.id, now_); break;
          case redis::push_kind::missed: remote_.missed(grant.name, grant.id, now_); break;
          case redis::push_kind::subscribed: remote_.answered({}, now_); break;
          default: break;
        }
      }
      act(acts[i % acts.size()]);
    }
    remote_.disconnected("the stream is over", now_);
    finish();
  }

 private:
  struct caller : engine::acquisition {
    bool given = false, told = false, held = false, released = false;
  };

  bool greet(resp::decoder& decoder, engine::session& who) {
    redis::greeting g;
    redis::address where;
    where.host = "h";
    g.begin(where, "conch");
    while (decoder.next() == resp::decoder::progress::message) {
      if (decoder.is_push()) continue;
      switch (g.next(decoder.message())) {
        case redis::greeting::progress::more: break;
        case redis::greeting::progress::failed: remote_.connect_failed(g.fault(), g.why(), now_); return false;
        case redis::greeting::progress::done:
          who.client_id = g.client_id();
          who.address = g.client_address();
          who.server_us = g.server_us();
          who.run = g.run();
          return true;
      }
    }
    return false;
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
    for (int i = 0; i < 5000 && timers_.next() != engine::timer_queue::never; ++i) {
      now_ = std::max(now_, timers_.next());
      cohort_.tick(now_);
    }
    require(timers_.next() == engine::timer_queue::never, "a timer runs for ever");
    for (auto const& c : callers_) {
      require(c->told, "an acquire that nobody answered");
      require(!c->held || c->released, "a release that nobody answered");
    }
    require(cohort_.idle() && remote_.settled(), "something is owed for ever");
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
  void send(engine::command const& c) override {
    bytes_.clear();
    redis::encode(c, client, bytes_);
    require(!bytes_.empty(), "a command without bytes");
  }
  void want_connection() override {}
  void drop_connection(std::string_view) override { dropped_ = true; }

  config const settings_ = [] {
    config c;
    c.lease = 10s;
    return c;
  }();
  time_point now_{1'000s};
  bool dropped_ = false;
  std::string bytes_;
  statistics stats_;
  no_nonces nonces_;
  engine::timer_queue timers_;
  std::vector<std::unique_ptr<caller>> callers_;
  engine::cohort cohort_;
  engine::server remote_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size < 5) return 0;
  session s;
  s.run(data[0], {data[1], data[2], data[3], data[4]}, {reinterpret_cast<char const*>(data) + 5, size - 5});
  return 0;
}
