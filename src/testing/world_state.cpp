// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "testing/world_state.hpp"

#include "servers/simulated/link.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace conch::testing {

namespace {

constexpr std::int64_t handler_takes = 1'000;  // 1 µs: a loop that waits for the time to pass comes to its end
constexpr duration longest_settling = std::chrono::seconds{10};

/// The time is seeded with another number than the rest: who draws one more of one kind draws the same of the other.
constexpr std::uint64_t other_seed = 0x5eed'0f'71'3e00;

std::string in_seconds(std::int64_t ns) { return std::to_string(ns / 1'000'000'000) + " s"; }

}  // namespace

world_state::world_state(std::uint64_t seed, world_settings const& settings)
    : seed_{seed},
      limit_{settings.limit.count()},
      time_{seed ^ other_seed},
      random_{seed},
      trace_{settings.traces},
      faults_{settings.drawn, [this](std::uint64_t n) { return below(n); }} {
  simulated::enter(this);
  processes_.named("main");
}

world_state::~world_state() {
  faults_.stop();
  trace_ = trace{false};
  // The contexts go one after the other, and what they destroy may still use those that are there.
  simulated::enter(nullptr);
}

// ------------------------------------------------------------------------------------------------------------ the loop

/// One event: of the network, of a timer, or a handler of a process; else the time moves on, and not beyond `until`.
/// False: nothing can happen.
bool world_state::step(std::int64_t until) {
  agenda_.run_until(now());
  time_.fire_due();
  if (processes_.run_one(below(processes_.all().size()), now())) {
    time_.advance_to(now() + handler_takes);
    draw_fault();
    return true;
  }
  std::int64_t const next = std::min({agenda_.next(), time_.next_timer(), processes_.next(now())});
  if (next == virtual_time::never && until == virtual_time::never) return false;
  time_.advance_to(std::min(next, until));
  return true;
}

std::function<void(std::exception_ptr)> world_state::begin_body(std::string_view name) {
  ++unfinished_;
  return [this, name = std::string{name}](std::exception_ptr const& thrown) {
    --unfinished_;
    note(name, thrown ? "its body has thrown" : "its body has ended");
    if (thrown && !failure_) failure_ = thrown;
  };
}

void world_state::run() {
  while (unfinished_ > 0 && !is_decided()) {
    if (now() > limit_) found(finding::deadlock, "a body has not ended after " + in_seconds(limit_) + locks());
    if (!step(virtual_time::never))
      found(finding::deadlock, "a body has not ended, and nothing can run any more" + locks());
  }
  if (!late_write_.empty()) found(finding::late_write, late_write_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  for (auto const& check : std::exchange(checks_, {})) check();
  settle();
  if (std::string const left = leaks(); !left.empty()) found(finding::leak, "all bodies have ended" + left);
  if (!late_write_.empty()) found(finding::late_write, late_write_);
}

/// Clients give back what they still have.
void world_state::settle() {
  faults_.stop();
  processes_.resume_all();
  std::int64_t const until = now() + longest_settling.count();
  while (now() < until && !leaks().empty()) step(until);
}

std::string world_state::at_servers(bool (*counts)(simulated::server const&, simulated::server::grant const&)) {
  std::string all;
  for (auto const& [name, one] : servers_) {
    for (simulated::server::grant const& g : one->grants()) {
      if (!counts(*one, g)) continue;
      all += "; at " + name + ", \"" + g.lock + "\" is " +
             (g.client.empty() ? "free" : "held by " + one->name_of(g.client));
      if (g.waiting > 0) all += ", and " + std::to_string(g.waiting) + " wait in line";
    }
  }
  return all;
}

std::string world_state::locks() {
  return at_servers([](auto const&, auto const&) { return true; });
}

std::string world_state::leaks() {
  return at_servers([](auto const& at, auto const& g) { return at.exists(g.client); });
}

void world_state::found(finding kind, std::string const& words) {
  note("world", std::string{to_string(kind)} + ": " + words);
  throw violation{kind, std::string{to_string(kind)} + " with seed " + std::to_string(seed_) + ": " + words};
}

// -------------------------------------------------------------------------------------------------------------- faults

void world_state::stand_still(duration length) {
  process* const mine = processes_.running();
  if (mine == nullptr)
    throw std::logic_error{"world::pause(duration) is for code of a process; name the process to pause"};
  note(mine->name, "is paused for " + std::to_string(length.count() / 1'000'000) + " ms");
  std::int64_t const until = now() + length.count();
  processes_.step_aside([&] {
    while (now() < until && !is_decided()) step(until);
  });
  if (!is_decided()) note(mine->name, "goes on");
}

void world_state::stand_still(process& p, duration length) {
  note(p.name, "is paused for " + std::to_string(length.count() / 1'000'000) + " ms");
  p.stands_still_until = std::max(p.stands_still_until, now() + length.count());
}

void world_state::cut(std::string_view client) {
  for (auto const& [name, one] : servers_) one->cut(client);
}

bool world_state::lose(std::int64_t token) {
  bool any = false;
  for (auto const& [name, one] : servers_) {
    std::string const lock = one->force(token);
    if (lock.empty()) continue;
    note("operator", "has taken \"" + lock + "\" from its owner at " + name);
    any = true;
  }
  return any;
}

/// A wrong name would be a fault that never happens.
void world_state::restart(std::string_view server, bool keeps_data) {
  auto const found = servers_.find(server);
  if (found != servers_.end()) return found->second->restart(keeps_data);
  std::string names;
  for (auto const& [name, one] : servers_) names += (names.empty() ? "" : ", ") + name;
  throw std::logic_error{"no client has a server \"" + std::string{server} + "\"; the servers are: " + names};
}

void world_state::draw_fault() {
  auto const drawn = faults_.after_handler();
  if (!drawn) return;
  using kind = fault_source::kind;
  switch (*drawn) {
    case kind::pause: return draw_pause();
    case kind::cut: return draw_cut();
    case kind::restart: return draw_restart(true);
    case kind::data_loss: return draw_restart(false);
    case kind::loss: return draw_loss();
  }
}

void world_state::draw_pause() { stand_still(*processes_.all()[below(processes_.all().size())], faults_.length()); }

void world_state::draw_cut() {
  std::vector<simulated::link*> open;
  for (auto const& [name, one] : servers_) {
    std::copy_if(one->links().begin(), one->links().end(), std::back_inserter(open),
                 [](auto const* l) { return l->is_open(); });
  }
  if (!open.empty()) open[below(open.size())]->broken("connection reset");
}

void world_state::draw_restart(bool keeps_data) {
  if (servers_.empty()) return;
  auto const which = std::next(servers_.begin(), static_cast<std::ptrdiff_t>(below(servers_.size())));
  if (which->second->is_up()) which->second->restart(keeps_data);
}

void world_state::draw_loss() {
  std::vector<simulated::server::grant> held;
  for (auto const& [name, one] : servers_) {
    for (auto const& g : one->grants()) {
      if (!g.client.empty()) held.push_back(g);
    }
  }
  if (held.empty()) return;
  lose(held[below(held.size())].token);
}

// ----------------------------------------------------------------------------------------------------------- resources

resource& world_state::guarded_by(std::string_view lock, fencing f) {
  auto const found = resources_.find(lock);
  if (found != resources_.end()) return *found->second;
  return *resources_.emplace(lock, std::make_unique<resource>(*this, std::string{lock}, f)).first->second;
}

void world_state::before_access() {
  if (processes_.running() != nullptr && faults_.before_access()) stand_still(faults_.length());
}

void world_state::accessed(std::string_view lock, std::string_view verb, std::int64_t fence, std::string_view outcome) {
  if (!notes()) return;
  std::string words{verb};
  words.append(" what \"")
      .append(lock)
      .append("\" guards, with fence ")
      .append(std::to_string(fence))
      .append(": ")
      .append(outcome);
  note(words);
}

void world_state::judge_write(std::string_view lock, std::int64_t fence, std::int64_t greatest_seen) {
  if (!late_write_.empty()) return;
  auto const last = granted_.find(lock);
  std::int64_t const overtaken_by = std::max(greatest_seen, last == granted_.end() ? 0 : last->second);
  std::string why;
  if (overtaken_by > fence) {
    why = "another holder had been granted the lock, with fence " + std::to_string(overtaken_by);
  } else if (last != granted_.end() && !is_held(fence)) {
    why = "that hold had ended";
  }
  if (!why.empty())
    late_write_ = "what \"" + std::string{lock} + "\" guards was written with fence " + std::to_string(fence) +
                  " although " + why;
}

bool world_state::is_held(std::int64_t fence) {
  return std::any_of(servers_.begin(), servers_.end(), [fence](auto const& one) { return one.second->holds(fence); });
}

/// A lock has other owners, and perhaps at other servers.
void world_state::granted(std::string_view lock, std::int64_t token) {
  auto const found = granted_.find(lock);
  if (found == granted_.end()) {
    granted_.emplace(lock, token);
  } else {
    found->second = std::max(found->second, token);
  }
}

// -------------------------------------------------------------------------------------------------------- surroundings

void world_state::note(std::string_view words) {
  process const* const mine = processes_.running();
  trace_.add(now(), mine != nullptr ? mine->name : "test", words);
}

void world_state::later(duration delay, std::function<void()> f) {
  agenda_.add(now() + std::max(delay, duration::zero()).count(), std::move(f));
}

std::int64_t world_state::clock_us() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::uint64_t world_state::below(std::uint64_t n) { return random_.next() % n; }

std::string world_state::process_of(asio::execution_context& context) const {
  process const* const its = processes_.find(context);
  return its != nullptr ? its->name : "another context";
}

simulated::server& world_state::server_named(std::string_view name) {
  auto const found = servers_.find(name);
  if (found != servers_.end()) return *found->second;
  return *servers_.emplace(name, std::make_unique<simulated::server>(*this, std::string{name})).first->second;
}

}  // namespace conch::testing
