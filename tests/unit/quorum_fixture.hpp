#pragma once

// A lock over several servers between a cohort and wires that only write down what they are told.

#include "base/votes.hpp"
#include "engine/cohort.hpp"
#include "quorum/quorum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace conch::quorum::test {

using namespace std::chrono_literals;
using engine::milliseconds;

struct no_nonces final : entropy {
  std::uint64_t next() override { return 0; }
};

struct wire_to_one final : protocol::wire {
  struct sent {
    std::string what;  // "try", "acquire", "release", "confirm", "other"
    engine::grant_id id = {};
    std::int64_t ticket = 0, floor = 0;
    std::int64_t ahead = 0;  // of a release: what the next fence should be above, too
    milliseconds lease = {};
    milliseconds ends_in = {};  // of a release
  };
  std::deque<sent> unanswered;
  std::vector<sent> all;

  void send(protocol::command const& c) override {
    sent s{"other"};
    if (auto const* a = std::get_if<protocol::acquire_command>(&c))
      s = {a->wait ? "acquire" : "try", a->id, a->ticket, a->proposal, 0, a->lease};
    if (auto const* r = std::get_if<protocol::release_command>(&c))
      s = {r->keep ? "leave" : "release", r->id, 0, r->floor, r->next_fence_floor, r->lease, r->ends_in};
    if (auto const* k = std::get_if<protocol::confirm_command>(&c))
      s = {"confirm", k->items.front().id, 0, k->items.front().floor, 0, k->items.front().lease};
    unanswered.push_back(s);
    all.push_back(s);
  }
  void want_connection() override {}
  void drop_connection(std::string_view) override {}

  std::size_t count(std::string_view what) const {
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [&](sent const& s) { return s.what == what; }));
  }
};

class world final : public engine::acquisition_events, public log_sink {
 public:
  /// `connected`: the first of the servers.
  explicit world(std::size_t n, config c = {}, std::size_t connected = most_servers) : settings{std::move(c)} {
    settings.claim = settings.quorum.vote_claim;
    settings.renew_every = settings.lease / 3;
    settings.keep_alive = duration::zero();
    cohort = std::make_unique<engine::cohort>(settings, timers, *this, stats);
    backend = std::make_unique<quorum>(settings, "0123456789abcdef0123456789abcdef", 1, nonces, timers, *cohort, *this,
                                       stats);
    for (std::size_t i = 0; i < n; ++i) {
      auto& w = *wires.emplace_back(std::make_unique<wire_to_one>());
      servers.push_back(&backend->add(w, "server " + std::to_string(i)));
    }
    cohort->use(*backend);
    for (std::size_t i = 0; i < std::min(n, connected); ++i) connect(i);
  }

  std::int64_t server_us(std::size_t i = 0) const {
    return 1'700'000'000'000'000 + std::chrono::duration_cast<std::chrono::microseconds>(now - begin).count() +
           static_cast<std::int64_t>(i);
  }
  /// `asked`: what is asked at once is left to the test.
  void connect(std::size_t i, std::chrono::seconds uptime = 100h, bool asked = false) {
    servers[i]->receiver().connected_as({1, "here", server_us(i), now, {}, uptime}, now);
    while (!wires[i]->unanswered.empty() && !(asked && wires[i]->unanswered.front().what != "other"))
      answer(i, {1, 0, server_us(i)});
    if (!asked) wires[i]->all.clear();
  }
  void answer(std::size_t i, std::vector<std::int64_t> numbers) {
    ASSERT_FALSE(wires[i]->unanswered.empty()) << "server " << i << " was asked nothing";
    wires[i]->unanswered.pop_front();
    servers[i]->receiver().answered({protocol::fault::none, {}, numbers}, now);
  }
  void refuse(std::size_t i) {
    wires[i]->unanswered.pop_front();
    servers[i]->receiver().answered({protocol::fault::refused, "OOM", {}}, now);
  }
  void come_later(std::size_t i) {
    wires[i]->unanswered.pop_front();
    servers[i]->receiver().answered({protocol::fault::try_later, "BUSY", {}}, now);
  }
  void yes(std::size_t i, std::int64_t fence = 100) { answer(i, {1, fence, server_us(i)}); }
  void busy(std::size_t i) { answer(i, {2, 400, server_us(i), 0, 5, 7, 1}); }
  void in_line(std::size_t i, std::int64_t client, std::int64_t ticket, bool confirmed) {
    answer(i, {0, 400, server_us(i), wires[i]->unanswered.front().ticket, client, ticket, confirmed});
  }
  void advance(duration d) {
    time_point const until = now + d;
    while (timers.next() <= until) {
      now = std::max(now, timers.next());
      cohort->tick(now);
      ++ticks;
    }
    now = until;
  }
  /// Whatever was asked there is asked again.
  void ask_by_a_new_connection(std::size_t i) {
    servers[i]->receiver().disconnected("cut", now);
    wires[i]->unanswered.clear();
    servers[i]->receiver().connected_as({2, "here", server_us(i), now, {}, 100h}, now);
    while (wires[i]->unanswered.front().what == "other") answer(i, {1, 0, server_us(i)});
  }
  engine::acquisition& ask(bool once = false, std::string const& name = "L") {
    auto& a = *callers.emplace_back(std::make_unique<engine::acquisition>());
    a.once = once;
    a.lease = std::chrono::duration_cast<milliseconds>(settings.lease);
    a.at_least = at_least;
    cohort->acquire(a, name, now);
    return a;
  }

  void on_acquired(engine::acquisition&, engine::acquired how, error_code e) override {
    why = e;
    events.push_back(how == engine::acquired::granted ? "granted" : how == engine::acquired::busy ? "busy" : "failed");
  }
  void on_lost(engine::acquisition&, error_code) override { events.push_back("lost"); }
  void on_released(engine::acquisition&, bool was_held, error_code e) override {
    why = e;
    events.push_back(was_held ? "released" : "not released");
  }
  void on_observed(engine::acquisition&, engine::observation const& o) override { observed.push_back(o.what); }
  void note(bool, std::string_view words) override { notes.emplace_back(words); }
  std::size_t notes_with(std::string_view words) const {
    return static_cast<std::size_t>(std::count_if(
        notes.begin(), notes.end(), [&](std::string const& one) { return one.find(words) != std::string::npos; }));
  }

  static constexpr time_point begin{std::chrono::hours{1}};
  config settings;
  milliseconds at_least{};  // of what is asked for
  time_point now = begin;
  int ticks = 0;
  statistics stats;
  timer_queue timers;
  no_nonces nonces;
  std::vector<std::unique_ptr<engine::acquisition>> callers;
  std::vector<std::unique_ptr<wire_to_one>> wires;
  std::vector<protocol::server*> servers;
  std::unique_ptr<quorum> backend;
  std::unique_ptr<engine::cohort> cohort;
  std::vector<std::string> events, notes;
  error_code why;                                   // of the last acquire or release that was answered
  std::vector<engine::observation::kind> observed;  // with settings.observer
};

}  // namespace conch::quorum::test
