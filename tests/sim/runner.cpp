#include "sim/runner.hpp"

#include "base/turns.hpp"
#include "sim/judges/observer.hpp"
#include "sim/worlds/random.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>
#include <thread>

namespace conch::sim {

outcome run_plan(plan const& p, bool traced) {
  outcome result;
  in_one_turn = p.steps_in_one_turn;
  auto const w = std::make_unique<world>(p, traced);
  try {
    w->run();
  } catch (violation const& v) {
    result.promise = v.promise;
    result.words = v.what();
    w->say(result.words);
  }
  result.trace = w->lines();
  result.scripts = w->executed();
  return result;
}

outcome run_seed(std::uint64_t seed) { return run_plan(make_plan(seed)); }

std::uint64_t seed_at(std::uint64_t first, std::uint64_t index) {
  // Far apart, so that neighbouring runs share no schedule.
  return random_source{first + index * 0x9e3779b97f4a7c15U}.next();
}

plan minimize(plan p, int promise, int attempts) {
  auto const still = [&](plan const& smaller) {
    if (attempts <= 0) return false;
    --attempts;
    return run_plan(smaller).promise == promise;
  };
  for (bool smaller = true; smaller && attempts > 0;) {
    smaller = false;
    auto const attempt = [&](auto change) {
      plan candidate = p;
      change(candidate);
      if (!still(candidate)) return false;
      p = std::move(candidate);
      smaller = true;
      return true;
    };
    for (std::size_t i = p.faults.size(); i-- > 0;) {
      attempt([&](plan& q) { q.faults.erase(q.faults.begin() + static_cast<std::ptrdiff_t>(i)); });
    }
    while (p.clients.size() > 1 && attempt([](plan& q) { q.clients.pop_back(); })) {
    }
    for (std::size_t c = 0; c < p.clients.size(); ++c) {
      // A client without actors stays: the others keep their numbers.
      for (std::size_t a = p.clients[c].actors.size(); a-- > 0;) {
        attempt(
            [&](plan& q) { q.clients[c].actors.erase(q.clients[c].actors.begin() + static_cast<std::ptrdiff_t>(a)); });
      }
      for (std::size_t a = 0; a < p.clients[c].actors.size(); ++a) {
        for (std::size_t o = p.clients[c].actors[a].work.size(); o-- > 0;) {
          attempt([&](plan& q) {
            auto& work = q.clients[c].actors[a].work;
            work.erase(work.begin() + static_cast<std::ptrdiff_t>(o));
          });
        }
        for (std::size_t o = 0; o < p.clients[c].actors[a].work.size(); ++o) {
          for (std::size_t l = p.clients[c].actors[a].work[o].levels.size(); l-- > 1;) {
            attempt([&](plan& q) {
              auto& levels = q.clients[c].actors[a].work[o].levels;
              levels.erase(levels.begin() + static_cast<std::ptrdiff_t>(l));
            });
          }
        }
      }
    }
    if (p.spikes != 0) attempt([](plan& q) { q.spikes = 0; });
    if (p.splits != 0) attempt([](plan& q) { q.splits = 0; });
    if (p.jitter != 0) attempt([](plan& q) { q.jitter = 0; });
    if (!p.may_kill) attempt([](plan& q) { q.may_kill = true; });
    if (p.watched) attempt([](plan& q) { q.watched = false; });
    if (p.small_steps) attempt([](plan& q) { q.small_steps = false; });
  }
  return p;
}

std::string explain(std::uint64_t seed, outcome const& found, plan_maker const& make) {
  plan const small = minimize(make(seed), found.promise);
  outcome const again = run_plan(small, true);
  std::string text;
  for (std::string const& line : again.trace) text += line + "\n";
  return text;
}

std::optional<finding> run_many(std::uint64_t seed, std::uint64_t first, std::uint64_t count, unsigned threads,
                                mutant const* broken, std::function<void(std::uint64_t)> const& progress,
                                plan_maker const& make) {
  return run_schedules(
      seed, first, count, threads, broken, [&](std::uint64_t one) { return run_plan(make(one)); }, progress);
}

std::optional<finding> run_schedules(std::uint64_t seed, std::uint64_t first, std::uint64_t count, unsigned threads,
                                     mutant const* broken, std::function<outcome(std::uint64_t)> const& run,
                                     std::function<void(std::uint64_t)> const& progress) {
  std::atomic<std::uint64_t> next{0}, done{0};
  std::atomic<bool> stop{false};
  std::mutex guard;
  std::optional<finding> found;
  auto const work = [&] {
    activate(broken);
    while (!stop.load(std::memory_order_relaxed)) {
      std::uint64_t const index = next.fetch_add(1);
      if (index >= count) break;
      std::uint64_t const one = seed_at(seed, first + index);
      outcome result = run(one);
      done.fetch_add(1, std::memory_order_relaxed);
      if (!result.failed()) continue;
      stop = true;
      std::lock_guard const lock{guard};
      if (!found || index < found->index) found = finding{index, one, std::move(result), false};
    }
    activate(nullptr);
  };
  std::vector<std::thread> pool;
  for (unsigned i = 0; i < std::max(threads, 1U); ++i) pool.emplace_back(work);
  if (progress) {
    auto last = std::chrono::steady_clock::now();
    while (!stop && done < count) {
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
      if (auto const now = std::chrono::steady_clock::now(); now - last >= std::chrono::seconds{1}) {
        last = now;
        progress(done);
      }
    }
  }
  for (std::thread& t : pool) t.join();
  return found;
}

namespace {

struct seen_in {
  std::string_view world, mutant;
  std::uint64_t seed;
};

constexpr seen_in table[] = {
#include "sim/mutants/seen_in.inc"
};

}  // namespace

std::optional<finding> find_where_seen(std::string_view world, mutant const& m,
                                       std::function<outcome(std::uint64_t)> const& run) {
  auto const line = std::find_if(std::begin(table), std::end(table),
                                 [&](seen_in const& l) { return l.world == world && l.mutant == m.name; });
  if (line == std::end(table)) return std::nullopt;
  activate(&m);
  outcome result = run(line->seed);
  activate(nullptr);
  if (!result.failed()) return std::nullopt;
  return finding{0, line->seed, std::move(result), true};
}

std::optional<finding> find_broken(std::string_view world, mutant const& m, std::uint64_t seed, std::uint64_t most,
                                   std::function<outcome(std::uint64_t)> const& run, unsigned threads) {
  if (auto const found = find_where_seen(world, m, run)) return found;
  return run_schedules(seed, 0, most, threads, &m, run);
}

std::optional<finding> find_broken(std::string_view world, mutant const& m, std::uint64_t seed, std::uint64_t most,
                                   plan_maker const& make) {
  return find_broken(world, m, seed, most, [&](std::uint64_t one) { return run_plan(make(one)); });
}

}  // namespace conch::sim
