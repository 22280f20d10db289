// The backend of ZooKeeper between a cohort and a connection that only write down what they are told.
#pragma once

#include "protocol/wire.hpp"
#include "servers/zookeeper/names.hpp"
#include "servers/zookeeper/queue.hpp"
#include "support/zookeeper_life.hpp"

#include <conch/config.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::zookeeper {

using namespace std::chrono_literals;
using texts = std::vector<std::string>;

inline std::string to_text(request const& r) {
  struct {
    std::string operator()(ping const&) const { return "ping"; }
    std::string operator()(add_auth const& a) const { return "auth " + a.scheme + ' ' + a.secret; }
    std::string operator()(create const& c) const {
      constexpr std::string_view kinds[] = {"persistent", "ephemeral", "line", "container"};
      return "create " + std::string{kinds[static_cast<int>(c.kind)]} + ' ' + c.path +
             (c.who == access::creator_only ? " mine" : "");
    }
    std::string operator()(remove const& d) const { return "remove " + d.path; }
    std::string operator()(get_data const& g) const { return (g.watch ? "watch " : "get ") + g.path; }
    std::string operator()(get_children const& g) const { return "list " + g.path; }
    std::string operator()(set_data const& s) const { return "set " + s.path; }
    std::string operator()(sync const& s) const { return "sync " + s.path; }
    std::string operator()(get_acl const& g) const { return "rights of " + g.path; }
    std::string operator()(close_session const&) const { return "close"; }
  } const words;
  return std::visit(words, r);
}

class zookeeper_test : public ::testing::Test,
                       public wire,
                       public life_in_test::outside,
                       public engine::backend_events {
 protected:
  static constexpr std::int64_t root_made_ms = 1'700'000'000'000;

  zookeeper_test() {
    settings.url = "zookeeper://a";
    settings.lease = 12s;
    settings.zookeeper.session_margin = 1s;
    settings.command_timeout = 3s;
    settings.offline_timeout = 10s;
  }

  /// Another client, with connections of its own.
  void make(std::string secret = {}, std::string root = "/conch") {
    line.reset();
    places.clear();
    is_there = false;
    life.emplace(settings, 1, timers, *this);
    line =
        std::make_unique<queue>(settings, "me", std::move(root), std::move(secret), 1, timers, *this, *this, counted);
  }

  // ---- the connection
  void want(duration, time_point at) override { life->want(at); }
  void in_use(duration, time_point at) override { life->in_use(at); }
  void dial() override {
    sent.emplace_back("connect");
    is_there = true;
  }
  void hang_up(std::string_view why) override {
    if (std::exchange(is_there, false)) sent.push_back("drop: " + std::string{why});
  }
  wire_events& receiver() override { return line->receiver(); }
  void greet(connect_request const& c) override {
    sent.push_back("greet " + std::to_string(c.session) + " seen " + std::to_string(c.last_seen) + " for " +
                   std::to_string(c.timeout_ms));
  }
  void send(request const& r) override { sent.push_back(to_text(r)); }
  void drop(std::string_view why, ending how, time_point at) override { life->drop(why, how, at); }
  std::string unfinished_attempt() const override { return life->unfinished_attempt(); }
  std::string shown() const override { return "zookeeper://a:2181"; }
  std::string name() const override { return shown(); }
  void note(log_line l) override { log(std::move(l)); }
  void log(log_line l) override { logged.push_back((l.level == log_level::error ? "error: " : "") + l.words); }

  // ---- the cohort
  void granted(engine::place& p, bool pushed, time_point) override {
    told.push_back((pushed ? "pushed " : "granted ") + label(p));
  }
  void busy(engine::place& p, time_point) override { told.push_back("busy " + label(p)); }
  void queued(engine::place& p, time_point) override { told.push_back("queued " + label(p)); }
  void asked_again(engine::place& p, retry_reason, time_point) override { told.push_back("again " + label(p)); }
  void left(engine::place& p, time_point) override { told.push_back("left " + label(p)); }
  void failed(engine::place& p, error_code why, time_point) override {
    told.push_back("failed " + label(p) + ": " + why.message());
    reason = why;
  }
  void extended(engine::place& p, time_point) override { told.push_back("extended " + label(p)); }
  void renewal_failed(engine::place&, time_point) override {}
  void lost(engine::place& p, time_point) override { told.push_back("lost " + label(p)); }
  void released(engine::receipt&, bool was_mine, error_code why, time_point) override {
    told.push_back(std::string{"released"} + (was_mine ? "" : " not mine") + (why ? ": " + why.message() : ""));
  }
  void settled(engine::place& p) override { told.push_back("settled " + label(p)); }
  void connection_refused(error_code why, time_point) override { told.push_back("refused: " + why.message()); }
  engine::place* find(std::string_view) override { return nullptr; }
  engine::place& find_or_make(std::string_view name) override { return at(name); }

  engine::place& at(std::string_view name) {
    auto& one = places[std::string{name}];
    if (!one) one = line->make_place(places.find(std::string{name})->first, {});
    return *one;
  }

  /// One of several places of this client at one lock.
  engine::place& at(std::string const& label, std::string_view name, engine::permit const& share) {
    auto& one = places[label];
    if (!one) one = line->make_place(*locks.emplace(name).first, share);
    return *one;
  }

  std::string label(engine::place const& p) const {
    for (auto const& [label, one] : places) {
      if (one.get() == &p) return label;
    }
    return "?";
  }

  // ---- inputs
  texts take_sent() { return std::exchange(sent, {}); }
  texts take_told() { return std::exchange(told, {}); }
  void advance(duration d) {
    for (time_point const until = now + d; now < until;) {
      now = std::min(until, std::max(timers.next(), now));
      timers.run(now);
      if (timers.next() > until) now = until;
    }
  }
  void answer(reply const& r) { line->receiver().answered(r, now); }
  void ok() { answer({++zxid, status::ok, {}}); }
  void error(status what) { answer({++zxid, what, {}}); }
  void made(std::string path, std::int64_t transaction) {
    zxid = std::max(zxid, transaction);
    answer({zxid, status::ok, created{std::move(path), {.created = transaction}}});
  }
  void listed(std::vector<std::string> names) { answer({zxid, status::ok, children{std::move(names)}}); }
  void root() { answer({zxid, status::ok, data{{}, {.created = 1, .created_ms = root_made_ms}}}); }
  void happened(notice::event what, std::string path) { line->receiver().noticed({what, 3, std::move(path)}, now); }
  void answer_ping() { line->receiver().answered_ping(zxid, now); }
  void connected() { life->connected(now); }
  void fail(fault what, std::string_view why) {
    is_there = false;
    life->failed(what, why, now);
  }
  void lose_connection() { fail(fault::try_later, "gone"); }

  /// From a connection to a session that is open.
  void open(std::int64_t session = 7, bool is_new = true) {
    connected();
    line->receiver().greeted({12'000, session, "secret"}, now);
    root();
    if (is_new) {
      ok();  // the folder
      ok();  // the session's own node
    }
  }
  /// The connection ends, and the next server says that the session has ended.
  void lose_session() {
    lose_connection();
    advance(std::chrono::microseconds{1});
    connected();
    line->receiver().greeted({0, 0, ""}, now);
  }
  /// An open session, and nothing more.
  void be_open() {
    make();
    line->ask(at("first"), true, 12s, now);
    open();
    made("/conch/first/me.1-0000000000", 2);
    listed({"me.1-0000000000"});
    line->release(at("first"), std::nullopt, nullptr, now);
    ok();
    take_sent();
    take_told();
  }
  /// A place in line behind these.
  void stand(std::string const& name, std::vector<std::string> ahead, std::string const& mine) {
    line->ask(at(name), true, 12s, now);
    made("/conch/" + name + '/' + mine, ++zxid);
    ahead.push_back(mine);
    listed(std::move(ahead));
  }

  config settings;
  timer_queue timers;
  statistics counted;
  time_point now{1000s};
  std::int64_t zxid = 1;
  texts sent, told, logged;
  std::optional<life_in_test> life;
  bool is_there = false;  // a stream
  error_code reason;
  std::unique_ptr<queue> line;
  std::set<std::string, std::less<>> locks;
  std::map<std::string, std::unique_ptr<engine::place>> places;
};

}  // namespace conch::zookeeper
