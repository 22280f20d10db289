// The protocol with the masters of a Cluster, between a shell, a map and wires that only write down what they are told.
#pragma once

#include "engine_fixture.hpp"
#include "protocol/sharded.hpp"
#include "protocol/shards.hpp"

#include <algorithm>
#include <cctype>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace conch::engine {

/// Masters are called a, b, c ... by their numbers. The slot of a lock is the number behind its name: "L7" is in slot
/// 7.
class sharded_test : public testing::Test,
                     public acquisition_events,
                     public admin_events,
                     public shards,
                     public log_sink {
 public:
  struct way final : wire {
    void send(command const& c) override {
      sent_command one = write_down(c);
      if (std::holds_alternative<asking_command>(c)) one.text = "asking";
      one.at = of->now;
      all.push_back(one);
      unanswered.push_back(one.text);
    }
    void want_connection() override { ++wants; }
    void drop_connection(std::string_view why) override { drops.emplace_back(why); }

    sharded_test* of = nullptr;
    wire_events* events = nullptr;
    std::vector<sent_command> all;
    std::deque<std::string> unanswered;
    texts drops;
    int wants = 0;
    std::uint64_t connections = 0;
  };

  sharded_test() { owners.fill(unknown_master); }

  /// Three masters, of which each has ten slots, and nothing is connected.
  void start() {
    cohort = std::make_unique<engine::cohort>(settings, timers, *this, stats);
    backend = std::make_unique<sharded>(settings, 1, nonces, timers, *this, *cohort, *this, stats);
    cohort->use(*backend);
  }
  /// The same where the map is known, and all are connected.
  void start_connected() {
    start();
    for (unsigned slot = 0; slot < owners.size(); ++slot) owners[slot] = slot / 10;
    backend->moved(now);
    for (std::size_t n = 0; n < 3; ++n) {
      ask("first", "L" + std::to_string(n * 10 + 9), {.once = true});
      connect(n);
      ways[n].unanswered.pop_back();
      ways[n].events->answered({fault::none, {}, numbers{2, 30'000, server_us()}}, now);  // busy
    }
    received();
    (void)sent();
  }
  void connect(std::size_t n, std::string const& run = "1") {
    way& w = ways[n];
    ++w.connections;
    w.events->connected_as({w.connections, "here", server_us(), now, run + name_of(n)}, now);
    while (!w.unanswered.empty() && (w.unanswered.front().starts_with("kill") || w.unanswered.front() == "subscribe"))
      answer(n, {});
    EXPECT_EQ(w.unanswered.front(), "prove");
    answer(n, {1});
  }
  void disconnect(std::size_t n) {
    ways[n].unanswered.clear();
    ways[n].events->disconnected("the connection is lost", now);
  }
  /// From now on the slot is that master's.
  void move(unsigned slot, std::size_t to) {
    owners[slot] = to;
    backend->moved(now);
  }

  std::int64_t server_us() const {
    return 1'700'000'000'000'000 + std::chrono::duration_cast<std::chrono::microseconds>(now - begin).count();
  }
  void advance(duration d) {
    time_point const until = now + d;
    while (timers.next() <= until) {
      now = std::max(now, timers.next());
      cohort->tick(now);
    }
    now = until;
  }

  caller& ask(std::string label, std::string_view lock, wanted const& w = {}) {
    auto& a = *callers.emplace_back(std::make_unique<caller>());
    a.label = std::move(label);
    a.once = w.once;
    a.fixed = w.fixed;
    a.lease = w.lease.count() != 0 ? w.lease : std::chrono::duration_cast<milliseconds>(settings.lease);
    a.permit = w.permit;
    if (w.wait != duration::max()) a.until = now + w.wait;
    cohort->acquire(a, lock, now);
    return a;
  }
  void release(caller& a) { cohort->release(a, now); }
  void cancel(caller& a, cancel_type type) { cohort->cancel(a, type, now); }
  protocol::server_place const& place_of(std::string_view lock) {
    return static_cast<protocol::server_place const&>(*cohort->find(lock));
  }

  void answer(std::size_t n, numbers const& what) {
    ASSERT_FALSE(ways[n].unanswered.empty()) << "nothing to answer at " << name_of(n);
    ways[n].unanswered.pop_front();
    ways[n].events->answered({fault::none, {}, what}, now);
  }
  void answer(std::size_t n, fault what, std::string_view words) {
    ASSERT_FALSE(ways[n].unanswered.empty()) << "nothing to answer at " << name_of(n);
    ways[n].unanswered.pop_front();
    ways[n].events->answered({what, words, {}}, now);
  }
  void grant(std::size_t n, std::int64_t fence) { answer(n, {1, fence, server_us()}); }
  void queue(std::size_t n, std::int64_t ticket = 77) { answer(n, {0, 30'000, server_us(), ticket}); }
  void renewed(std::size_t n, std::vector<int> const& results) {
    numbers all{server_us()};
    all.insert(all.end(), results.begin(), results.end());
    answer(n, all);
  }

  /// What was sent since, as "a: acquire L1 1".
  texts sent() {
    texts all;
    for (std::size_t n = 0; n < ways.size(); ++n) {
      for (sent_command const& c : ways[n].all) all.push_back(name_of(n) + ": " + c.text + (c.patient ? " !" : ""));
      last = ways[n].all.empty() ? last : ways[n].all.back();
      ways[n].all.clear();
    }
    return all;
  }
  texts received() { return std::exchange(events, {}); }
  static std::string name_of(std::size_t n) { return std::string(1, static_cast<char>('a' + n)); }

  void expect_clean() {
    EXPECT_EQ(stats.waiting, 0u);
    EXPECT_EQ(stats.held, 0u);
    EXPECT_TRUE(cohort->idle());
    EXPECT_TRUE(backend->settled());
  }

  // shards
  void report_to(shard_events&) noexcept override {}
  unsigned slot_of(std::string_view name) const override {
    auto const digits =
        std::find_if(name.begin(), name.end(), [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
    return static_cast<unsigned>(std::stoul(std::string{digits, name.end()}));
  }
  std::size_t owner(unsigned slot) const override { return owners[slot]; }
  wire& way_to(std::size_t number) override {
    way& w = number == unknown_master ? unrouted : ways[number];
    w.of = this;
    return w;
  }
  void report_to(std::size_t number, wire_events& e) override {
    (number == unknown_master ? unrouted : ways[number]).events = &e;
  }
  bool is_master(std::size_t number) const override {
    return std::find(owners.begin(), owners.end(), number) != owners.end();
  }
  /// "ASK b" and "TRYAGAIN".
  detour detour_of(std::string_view words, std::size_t) override {
    if (words == "TRYAGAIN") return {detour::kind::each_alone, unknown_master};
    if (words.starts_with("ASK ")) return {detour::kind::there, static_cast<std::size_t>(words[4] - 'a')};
    return {};
  }
  void wait_for_owner(bool wanted, time_point) override { owner_is_wanted = wanted; }

  // acquisition_events
  void on_acquired(acquisition& a, acquired how, error_code why) override {
    std::string const& who = static_cast<caller&>(a).label;
    if (how == acquired::granted) events.push_back(who + " granted " + std::to_string(a.fence / 4096));
    else events.push_back(who + (how == acquired::busy ? " busy" : " failed " + to_text(why)));
  }
  void on_lost(acquisition& a, error_code why) override {
    events.push_back(static_cast<caller&>(a).label + " lost " + to_text(why));
  }
  void on_released(acquisition& a, bool was_held, error_code why) override {
    events.push_back(static_cast<caller&>(a).label + (was_held ? " released " : " not released ") + to_text(why));
  }
  void on_admin_answered(admin_request& i, admin_result const& result, error_code why) override {
    events.push_back("admin " + i.name + " " + (why ? to_text(why) : std::to_string(result.count)));
  }
  void note(bool, std::string_view) override {}

  static constexpr time_point begin{std::chrono::hours{1}};

  /// Pings would come between what most tables expect.
  static config seldom_pinging() {
    config c;
    c.keep_alive = std::chrono::seconds{45};
    return c;
  }

  config settings = seldom_pinging();
  statistics stats;
  time_point now = begin;
  timer_queue timers;
  table_of_nonces nonces;
  std::array<std::size_t, 30> owners;
  std::array<way, 4> ways;
  way unrouted;
  bool owner_is_wanted = false;
  sent_command last;
  std::deque<std::unique_ptr<caller>> callers;
  texts events;
  std::unique_ptr<sharded> backend;  // outlives the cohort, whose places it has made
  std::unique_ptr<engine::cohort> cohort;
};

}  // namespace conch::engine
