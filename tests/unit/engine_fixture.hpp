// The cohort and one server's protocol between a shell and a wire that only write down what they are told. Tests are
// tables: an input (a request, an answer, a push, "it is now t"), then the on_wire and events it led to, as texts.
#pragma once

#include "engine/cohort.hpp"
#include "protocol/server.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <deque>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch {

inline void PrintTo(time_point t, std::ostream* out) { *out << t.time_since_epoch().count() << " ns"; }

}  // namespace conch

namespace conch::engine {

using namespace protocol;

using namespace std::chrono_literals;
using texts = std::vector<std::string>;
using numbers = std::vector<std::int64_t>;

/// A command as it left the engine, with everything it pointed to.
struct sent_command {
  bool patient = false;
  std::string text;  // "acquire NAME ID", "try", "leave" (keep), "release NAME ID [again ID]", "renew NAME ID ..." ...
  grant_id id, new_id;
  milliseconds lease{}, claim{}, retention{};
  std::int64_t ticket = 0, not_after_us = 0;
  std::vector<milliseconds> leases;  // of a renewal
  numbers fences;                    // likewise
  time_point at{};
};

/// " permit WEIGHT of LIMIT", or nothing for a mutex.
inline std::string described(permit const* wanted) {
  return wanted == nullptr ? "" : " permit " + std::to_string(wanted->weight) + " of " + std::to_string(wanted->limit);
}

inline sent_command write_down(command const& c) {
  sent_command out;
  auto const script = [&](bool with_source, std::string text) { out.text = (with_source ? "source " : "") + text; };
  auto const numbered = [](std::string_view name, grant_id id) { return std::string{name} + ' ' + to_text(id); };
  if (auto const* a = std::get_if<acquire_command>(&c)) {
    std::string const what = !a->origin.empty() ? "adopt " + std::string{a->origin} + " as "
                             : a->wait          ? "acquire "
                                                : "try ";
    script(a->with_source, what + numbered(a->name, a->id) + described(a->permit));
    out.id = a->id;
    out.lease = a->lease;
    out.claim = a->claim;
    out.retention = a->retention;
    out.ticket = a->ticket;
    out.not_after_us = a->not_after_us;
    out.patient = a->patient;
  } else if (auto const* t = std::get_if<acquire_all_command>(&c)) {
    std::string text = "try all";
    for (attempt const& item : t->items) {
      text += ' ' + numbered(item.name, item.id);
      out.leases.push_back(item.lease);
    }
    script(t->with_source, text);
    out.retention = t->retention;
    out.not_after_us = t->not_after_us;
  } else if (auto const* r = std::get_if<release_command>(&c)) {
    script(r->with_source, (r->keep ? "leave " : "release ") + numbered(r->name, r->id) +
                               (r->new_id != 0 ? " again " + to_text(r->new_id) : "") + described(r->permit) +
                               (r->rest != 0 ? " rest " + std::to_string(r->rest) : "") +
                               (r->ends_in.count() != 0 ? " in " + std::to_string(r->ends_in.count()) : ""));
    out.id = r->id;
    out.new_id = r->new_id;
    out.patient = r->patient;
    out.lease = r->lease;
    out.claim = r->claim;
    out.retention = r->retention;
  } else if (auto const* n = std::get_if<renew_command>(&c)) {
    std::string text = n->permits ? "renew permits" : "renew";
    out.retention = n->retention;
    for (renewal const& item : n->items) {
      text += ' ' + numbered(item.name, item.id);
      out.leases.push_back(item.lease);
      out.fences.push_back(item.fence.value_or(-1));
    }
    script(n->with_source, text);
  } else if (auto const* q = std::get_if<inspect_command>(&c)) {
    script(q->with_source, "inspect " + std::string{q->name});
  } else if (auto const* f = std::get_if<force_command>(&c)) {
    script(f->with_source, "force " + std::string{f->name} + (f->fence ? " from " + std::to_string(*f->fence) : ""));
    out.claim = f->claim;
    out.retention = f->retention;
  } else if (auto const* request = std::get_if<request_command>(&c)) {
    script(request->with_source, "request " + std::string{request->name} +
                                     (request->fence ? " from " + std::to_string(*request->fence) : ""));
  } else if (auto const* requested = std::get_if<requested_command>(&c)) {
    out.text = "requested " + std::string{requested->name} + ' ' + std::to_string(requested->fence);
  } else if (auto const* watch = std::get_if<watch_command>(&c)) {
    script(watch->with_source, "watch " + numbered(watch->name, watch->id));
    out.lease = watch->lease;
  } else if (auto const* unwatch = std::get_if<unwatch_command>(&c)) {
    out.text = "unwatch " + numbered(unwatch->name, unwatch->id);
  } else if (auto const* told = std::get_if<introduce_command>(&c)) {
    out.text = "introduce " + std::string{told->name} + " '" + std::string{told->text} + '\'';
    out.lease = told->kept;
  } else if (auto const* who = std::get_if<identify_command>(&c)) {
    out.text = "identify " + std::string{who->name};
  } else if (auto const* l = std::get_if<limit_command>(&c)) {
    script(l->with_source, "limit " + std::string{l->name} + ' ' + std::to_string(l->limit));
    out.claim = l->claim;
    out.retention = l->retention;
  } else if (auto const* k = std::get_if<kill_command>(&c)) {
    out.id = k->client_id;
    out.text = "kill " + std::string{k->address};
  } else if (std::holds_alternative<subscribe_command>(c)) {
    out.text = "subscribe";
  } else if (std::holds_alternative<prove_publish_command>(c)) {
    out.text = "prove";
  } else if (std::holds_alternative<mark_command>(c)) {
    out.text = "mark";
  } else if (auto const* wait = std::get_if<wait_command>(&c)) {
    out.text = "wait " + std::to_string(wait->replicas) + ' ' + std::to_string(wait->timeout.count());
  } else {
    out.text = "ping";
  }
  return out;
}

inline std::string to_text(error_code why) {
  if (!why) return "ok";
  if (why.value() == ECANCELED && why.category() == boost::system::system_category()) return "cancelled";
  struct {
    errc e;
    char const* name;
  } const names[] = {{errc::timed_out, "timed_out"},        {errc::lost, "lost"},
                     {errc::not_held, "not_held"},          {errc::closed, "closed"},
                     {errc::unreachable, "unreachable"},    {errc::access_denied, "access_denied"},
                     {errc::wrong_type, "wrong_type"},      {errc::server_refused, "server_refused"},
                     {errc::protocol, "protocol"},          {errc::invalid_config, "invalid_config"},
                     {errc::not_supported, "not_supported"}};
  for (auto const& [e, name] : names) {
    if (why == e) return name;
  }
  return why.message();
}

/// What one acquire asks for.
struct wanted {
  bool once = false;
  bool fixed = false;
  milliseconds lease{0};  // 0: that of the settings
  milliseconds at_least{0};
  duration wait = duration::max();
  duration max_hold = duration::max();
  engine::permit permit = {};
  std::string origin = {};  // takes it over from there
  int first_index = 0;
};

struct caller : acquisition {
  std::string label;
};

/// Ids are 1, 2, 3 ... in these tables, and have a nonce where a test wants one.
struct table_of_nonces final : entropy {
  std::uint64_t next() override { return nonce; }
  std::uint64_t nonce = 0;
};

class engine_test : public testing::Test, public acquisition_events, public wire, public log_sink {
 public:
  /// With the settings as they are now, and with nothing left of what was before.
  void start() {
    cohort.reset();
    remote.reset();
    callers.clear();
    unanswered.clear();
    events.clear();
    on_wire.clear();
    drops.clear();
    notes.clear();
    stats = {};
    connections = 0;
    wants = 0;
    cohort = std::make_unique<engine::cohort>(settings, timers, *this, stats);
    remote = std::make_unique<server>(settings, 1, nonces, timers, *this, *cohort, *this, stats);
    cohort->use(*remote);
  }

  /// start(), and a connection whose proofs are all given. Nothing is left to take or to answer.
  void start_connected(bool may_kill = true) {
    start();
    connect();
    settle_connection(may_kill);
    take_sent();
  }

  /// `run` names the server's; another than before: it was restarted.
  void connect(std::string run = "1") {
    ++connections;
    remote->receiver().connected_as(
        {connections, "here:" + std::to_string(connections), server_us(), now, std::move(run)}, now);
  }

  /// Answers KILL (0 connections ended), SUBSCRIBE and the proof, which come first.
  void settle_connection(bool may_kill = true) {
    while (!unanswered.empty() && unanswered.front().starts_with("kill")) {
      may_kill ? answer({0}) : answer(fault::access_denied, "NOPERM kill");
    }
    EXPECT_EQ(unanswered.front(), "subscribe");
    answer({});
    EXPECT_EQ(unanswered.front(), "prove");
    answer({1});
  }

  void disconnect() {
    unanswered.clear();
    remote->receiver().disconnected("the connection is lost", now);
  }

  // ---- time; the server's clock shows the same as ours, `server_ahead` later ----

  std::int64_t server_us() const { return server_us(now); }
  std::int64_t server_us(time_point t) const {
    return 1'700'000'000'000'000 +
           std::chrono::duration_cast<std::chrono::microseconds>(t - begin + server_ahead).count();
  }

  /// Lets time pass, running every timer at its moment.
  void advance(duration d) {
    time_point const until = now + d;
    while (timers.next() <= until) {
      now = std::max(now, timers.next());
      cohort->tick(now);
    }
    now = until;
  }

  /// Lets the machine sleep: the timers run only at the end.
  void sleep(duration d) {
    now += d;
    cohort->tick(now);
  }

  // ---- callers ----

  caller& new_caller(std::string label, wanted const& w) {
    auto& a = *callers.emplace_back(std::make_unique<caller>());
    a.label = std::move(label);
    a.once = w.once;
    a.fixed = w.fixed;
    a.lease = w.lease.count() != 0 ? w.lease : std::chrono::duration_cast<milliseconds>(settings.lease);
    a.max_hold = w.max_hold;
    a.at_least = w.at_least;
    a.permit = w.permit;
    if (!w.origin.empty()) a.adopts = std::make_unique<adoption const>(adoption{w.origin, w.first_index});
    if (w.wait != duration::max()) a.until = now + w.wait;
    return a;
  }

  caller& ask(std::string label, std::string_view lock = "L", wanted w = {}) {
    caller& a = new_caller(std::move(label), w);
    cohort->acquire(a, lock, now);
    return a;
  }

  /// Tries of them all, the callers being called like the locks.
  std::vector<caller*> try_all(texts const& locks, wanted w = {}) {
    std::vector<caller*> all;
    std::vector<named_acquisition> named;
    w.once = true;
    for (std::string const& lock : locks) {
      all.push_back(&new_caller(lock, w));
      named.push_back({all.back(), lock});
    }
    cohort->try_all(named, now);
    return all;
  }

  protocol::server_place const& place_of(std::string_view lock) {
    return static_cast<protocol::server_place const&>(*cohort->find(lock));
  }
  void release(caller& a) { cohort->release(a, now); }
  void detach(caller& a) { cohort->detach(a, now); }
  void extend(caller& a, milliseconds lease) { cohort->extend(a, lease, now); }
  void cancel(caller& a, cancel_type type) { cohort->cancel(a, type, now); }

  /// Lets the client see that the server answers at once, until this many requests may be in flight.
  void make_room(int count) {
    int const tries = 2 * count;
    for (int i = 0; i < tries; ++i) ask("room", "room " + std::to_string(i), {.once = true});
    for (int i = 0; i < tries; ++i) tell_busy();
    received();
    take_sent();
  }

  // ---- the server's side ----

  void answer(numbers const& n) {
    ASSERT_FALSE(unanswered.empty()) << "nothing to answer";
    unanswered.pop_front();
    remote->receiver().answered({fault::none, {}, n}, now);
  }
  void answer(fault what, std::string_view words) {
    ASSERT_FALSE(unanswered.empty()) << "nothing to answer";
    unanswered.pop_front();
    remote->receiver().answered({what, words, {}}, now);
  }
  /// An error that is about the keys of that command.
  void answer_of_its_keys(fault what, std::string_view words) {
    ASSERT_FALSE(unanswered.empty()) << "nothing to answer";
    unanswered.pop_front();
    remote->receiver().answered({what, words, {}, true}, now);
  }
  void grant(std::int64_t fence) { answer({1, fence, server_us()}); }
  void queue(std::int64_t left_ms, std::int64_t ticket = 77) { answer({0, left_ms, server_us(), ticket}); }
  /// The answer to several tries: the fences of those that were taken.
  void taken(std::vector<std::int64_t> const& fences) {
    numbers n{server_us()};
    n.insert(n.end(), fences.begin(), fences.end());
    answer(n);
  }
  void tell_busy() { answer({2, 30'000, server_us()}); }
  void released(bool was_owner = true, bool passed_on = false, bool more = false) {
    answer({was_owner, passed_on, more, server_us()});
  }
  void removed() { released(false); }
  void stay(std::int64_t fence) { answer({2, fence, 0, server_us()}); }
  void released_and_granted(std::int64_t fence, bool more = false) { answer({1, 0, more, server_us(), 1, fence}); }
  void released_and_queued(std::int64_t left_ms, std::int64_t ticket = 78) {
    answer({1, 1, 1, server_us(), 0, left_ms, ticket});
  }
  void renewed(std::vector<int> results) {
    numbers n{server_us()};
    n.insert(n.end(), results.begin(), results.end());
    answer(n);
  }
  void push(grant_id id, std::int64_t fence, milliseconds claim = 3s, std::string_view lock = "L") {
    push_granted_at(server_us(), id, fence, claim, lock);
  }
  void push_granted_at(std::int64_t granted_us, grant_id id, std::int64_t fence, milliseconds claim = 3s,
                       std::string_view lock = "L") {
    remote->receiver().pushed(protocol::pushed_grant{lock, id, fence, granted_us, claim}, now);
  }

  // ---- ready-made states ----

  /// A holder with grant id 1 (if it is the first to ask) and server fence 100.
  caller& holding(std::string label, std::string_view lock = "L", wanted w = {}) {
    caller& a = ask(std::move(label), lock, w);
    take_sent();
    grant(100);
    received();
    return a;
  }

  /// In the server's line with grant id 1, the lock being somebody's for another 30 s.
  caller& queued(std::string label, std::string_view lock = "L", wanted w = {}) {
    caller& a = ask(std::move(label), lock, w);
    take_sent();
    queue(30'000);
    received();
    return a;
  }

  // ---- what came of it ----

  texts received() { return std::exchange(events, {}); }
  texts dropped() { return std::exchange(drops, {}); }
  std::vector<sent_command> take_sent() { return std::exchange(on_wire, {}); }
  texts sent() {
    texts all;
    for (auto const& c : take_sent()) all.push_back(c.text);
    return all;
  }

  /// Nothing is held, waited for, owed or due, and no entry is left behind.
  void expect_clean() {
    EXPECT_EQ(stats.waiting, 0u);
    EXPECT_EQ(stats.held, 0u);
    EXPECT_TRUE(cohort->idle());
    EXPECT_TRUE(remote->settled());
    EXPECT_EQ(cohort->find("L"), nullptr);
    EXPECT_TRUE(unanswered.empty());
  }

  // acquisition_events
  void on_acquired(acquisition& a, acquired how, error_code why) override {
    std::string const& who = static_cast<caller&>(a).label;
    if (how == acquired::granted) {
      events.push_back(who + " granted " + std::to_string(a.fence));
    } else {
      events.push_back(who + (how == acquired::busy ? " busy" : " failed " + to_text(why)));
      last_failure = why;
    }
  }
  void on_lost(acquisition& a, error_code why) override {
    events.push_back(static_cast<caller&>(a).label + " lost " + to_text(why));
  }
  void on_released(acquisition& a, bool was_held, error_code why) override {
    events.push_back(static_cast<caller&>(a).label + (was_held ? " released " : " not released ") + to_text(why));
    if (why) last_failure = why;
  }
  void on_extended(acquisition& a, bool is_held, error_code why) override {
    events.push_back(static_cast<caller&>(a).label + (is_held ? " extended " : " not extended ") + to_text(why));
  }
  void on_detached(acquisition& a, error_code why) override {
    std::string const id = why || a.lock == nullptr ? "" : " as " + to_text(remote->grant_of(*a.lock->place));
    events.push_back(static_cast<caller&>(a).label + " detached" + (why ? " " + to_text(why) : id));
  }

  // wire
  void send(command const& c) override {
    on_wire.push_back(write_down(c));
    on_wire.back().at = now;
    unanswered.push_back(on_wire.back().text);
  }
  void want_connection() override { ++wants; }
  void drop_connection(std::string_view why) override { drops.emplace_back(why); }
  std::string unfinished_attempt() const override { return attempt; }

  // log_sink
  void note(bool is_error, std::string_view words) override {
    notes.push_back((is_error ? "error: " : "") + std::string{words});
  }
  void inform(std::string_view words) override { notes.emplace_back(words); }

  static constexpr time_point begin{std::chrono::hours{1}};

  /// Pings would come between what most tables expect.
  static config seldom_pinging() {
    config c;
    c.keep_alive = std::chrono::seconds{45};
    return c;
  }

  config settings = seldom_pinging();
  statistics stats;
  std::string attempt;  // what the wire says of it
  time_point now = begin;
  duration server_ahead{};
  timer_queue timers;
  table_of_nonces nonces;
  std::deque<std::unique_ptr<caller>> callers;  // outlive the engine's lists
  std::unique_ptr<server> remote;               // outlives the cohort, whose places it has made
  std::unique_ptr<engine::cohort> cohort;

  std::uint64_t connections = 0;
  int wants = 0;
  texts events, drops, notes;
  error_code last_failure;
  std::vector<sent_command> on_wire;
  std::deque<std::string> unanswered;
};

/// The token of the `index`th hand-off of the grant with this server fence.
constexpr std::int64_t token(std::int64_t fence, std::int64_t index = 0) { return fence * 4096 + index; }

inline std::string granted(std::string_view who, std::int64_t fence, std::int64_t index = 0) {
  return std::string{who} + " granted " + std::to_string(token(fence, index));
}

}  // namespace conch::engine
