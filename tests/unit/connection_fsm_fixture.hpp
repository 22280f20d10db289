#pragma once

// The state machine of a connection, and in words what it tells and wants done.

#include "base/overloaded.hpp"
#include "servers/redis/connection_fsm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace conch::redis {
using namespace std::chrono_literals;
using flush_due = connection_fsm::flush_due;
using texts = std::vector<std::string>;

inline std::string bulk(std::string const& text) { return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n"; }

inline std::string push(texts const& words) {
  std::string out = ">" + std::to_string(words.size()) + "\r\n";
  for (std::string const& word : words) out += bulk(word);
  return out;
}

inline std::string message(std::string const& text) { return push({"message", "conch:me", text}); }

/// The answer to a greeting in its pieces.
inline texts greeting_parts(std::string const& policy = "noeviction") {
  return {"%4\r\n" + bulk("version") + bulk("7.0.15") + bulk("id") + ":7\r\n" + bulk("role") + bulk("master") +
              bulk("mode") + bulk("standalone"),
          bulk("id=7 addr=1.2.3.4:5 laddr=x"), "*2\r\n" + bulk("1800000000") + bulk("17"),
          bulk("# Memory\r\nmaxmemory_policy:" + policy + "\r\n"),
          bulk("# Server\r\nrun_id:abc\r\nuptime_in_seconds:12\r\n")};
}

inline std::string joined(texts const& parts) {
  std::string all;
  for (std::string const& one : parts) all += one;
  return all;
}

inline std::string const greeting_answer = joined(greeting_parts());
inline std::string const nothing;

/// Most servers are reached like this.
struct machine : protocol::wire_events {
  explicit machine(address where = tcp(), connection_fsm::stream_kind stream = {}, config c = {},
                   connection_fsm::roles r = {})
      : settings{std::move(c)},
        fsm{settings, id, std::move(where), 1, stream, r} {
    fsm.report_to(*this);
  }

  static address tcp() {
    address a;
    a.host = "h";
    a.password = "secret";
    return a;
  }

  void connected_as(protocol::session const& s, time_point) override {
    told.push_back("connected as " + std::to_string(s.client_id) + " " + s.address + " of " + s.run + ", asked at " +
                   shown(s.asked));
    if (on_event) on_event();
  }
  void connect_failed(protocol::fault what, std::string_view words, time_point) override {
    told.push_back("failed " + std::to_string(static_cast<int>(what)) + ": " + std::string{words});
  }
  void disconnected(std::string_view why, time_point) override { told.push_back("disconnected: " + std::string{why}); }
  void answered(protocol::answer const& a, time_point) override {
    std::string text = "answer";
    if (a.what != protocol::fault::none) text += " fault " + std::to_string(static_cast<int>(a.what));
    for (std::int64_t const n : a.numbers()) text += " " + std::to_string(n);
    told.push_back(text);
    if (on_event) on_event();
  }
  void pushed(protocol::push const& p, time_point) override {
    auto const note = [this](std::string const& what, auto const& one, std::string const& more = {}) {
      told.push_back(what + " " + std::string{one.name} + more + " " + engine::to_text(one.id));
    };
    std::visit(overloaded{[&](protocol::pushed_grant const& g) {
                            note("granted", g);
                            told.back() += " " + std::to_string(g.fence);
                          },
                          [&](protocol::end_of_hold const& e) {
                            note("freed", e);
                            if (e.more) told.back() += " and more";
                          },
                          [&](protocol::request_to_let_go const& r) { note("requested", r); },
                          [&](protocol::revocation const& r) { note("revoked", r); },
                          [&](protocol::end_of_lease const& e) {
                            note("end of", e, " in " + std::to_string(e.left.count()) + " for");
                          },
                          [&](protocol::missed_turn const& m) { note("missed", m); }},
               p);
  }

  static std::string shown(time_point t) {
    return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(t - time_point{1000s}).count());
  }

  /// What was to be done, in words; sleeps with their length in ms.
  std::string todo() {
    last = fsm.life().take();
    std::string text;
    auto const add = [&](bool yes, std::string const& word) {
      if (yes) text += (text.empty() ? "" : " ") + word;
    };
    add(last.log, "log");
    if (last.log) {
      for (auto const& line : fsm.life().take_log()) log.push_back(line.words);
    }
    add(last.close, "close");
    if (last.sleep) {
      slept = last.until - now;
      add(true,
          last.until == time_point::max()
              ? "wake"
              : "sleep(" + std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(slept).count()) + ")");
    }
    add(last.ask, "ask");
    add(last.resolve, "resolve");
    add(last.connect, last.connect ? "connect(" + std::to_string(fsm.life().address_number()) + ")" : "");
    add(last.handshake, "handshake");
    add(last.flush, "flush");
    add(last.write, "write");
    add(last.read, "read");
    add(last.call_due_later, "call_due_later");
    return text;
  }

  std::string want() {
    EXPECT_TRUE(fsm.life().want());
    return due();
  }
  std::string due() { return fsm.life().due(now), todo(); }
  std::string resolved(texts found) { return fsm.life().resolved({std::move(found)}, now), todo(); }
  /// One: as of a host that is an address in numbers. Several: "a0", "a1" ...
  std::string resolved(std::size_t n) {
    if (n == 1) return resolved(texts{host_and_port(fsm.where().host, fsm.where().port)});
    texts all;
    for (std::size_t i = 0; i < n; ++i) all.push_back("a" + std::to_string(i));
    return resolved(all);
  }
  std::string connected() { return fsm.life().connected(now), todo(); }
  std::string refused(std::string_view why) { return fsm.failed(why, now), todo(); }
  std::string handshaken() { return fsm.life().handshaken(now), todo(); }
  std::string found(credentials c) { return fsm.credentials_found(std::move(c), now), todo(); }
  std::string not_found(std::string_view why) { return fsm.no_credentials(why, now), todo(); }
  std::string failed(std::string_view why) { return fsm.failed(why, now), todo(); }
  std::string flush() { return fsm.flush(), todo(); }
  std::string written(std::size_t n) { return fsm.written(n), todo(); }
  std::string written() { return written(fsm.bytes().size()); }
  std::string received(std::string_view bytes) {
    while (!bytes.empty()) {
      auto const room = fsm.room();
      std::size_t const n = std::min(bytes.size(), room.size());
      std::copy_n(bytes.begin(), n, room.begin());
      fsm.received(n, now);
      bytes.remove_prefix(n);
      if (!bytes.empty()) {
        EXPECT_EQ(todo(), "read");
      }
    }
    return todo();
  }
  flush_due ping() { return fsm.send(protocol::ping_command{}); }
  texts received() { return std::exchange(told, {}); }

  /// Up to the greeting that is answered.
  void until_greeting() {
    (void)(fsm.life().want() ? due() : due());
    if (!fsm.where().is_unix_socket()) resolved(1);
    connected();
    written();
  }
  void until_up() {
    until_greeting();
    received(greeting_answer);
    flush();
    received();
    log.clear();
  }

  std::string id = "me";
  config settings;
  time_point now{1000s};
  net::steps last;
  duration slept{};
  texts told, log;
  std::function<void()> on_event;
  connection_fsm fsm;
};

inline std::string const ping_bytes = "*1\r\n$4\r\nPING\r\n";

}  // namespace conch::redis
