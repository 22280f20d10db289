#include "sim/tasks.hpp"

#include "sim/digest.hpp"
#include "sim/judges/history_run.hpp"
#include "sim/judges/lock_history.hpp"
#include "support/history/edn.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace conch::sim {

namespace {

unsigned long long to_print(std::uint64_t n) { return n; }

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Schedules over several servers, and of an ensemble, are not made smaller: what happened just before is what matters.
void print_end_of(std::vector<std::string> const& trace) {
  constexpr std::size_t most = 200;
  std::size_t const from = trace.size() > most ? trace.size() - most : 0;
  if (from != 0) std::printf("... (%zu lines before; all with --full)\n", from);
  for (std::size_t i = from; i < trace.size(); ++i) std::printf("%s\n", trace[i].c_str());
}

int report(task const& t, std::uint64_t seed, outcome const& found, bool full) {
  activate(t.broken);
  std::printf("\nviolation: %s\nseed:      %llu\n\n", found.words.c_str(), to_print(seed));
  if (t.world->make) {
    std::printf("A smaller schedule with the same end:\n\n");
    std::fputs(explain(seed, found, t.world->make).c_str(), stdout);
  } else if (!full) {
    print_end_of(t.run(seed, true).trace);
  }
  std::string options;
  if (t.broken != nullptr) options += " --mutant " + std::string{t.broken->name};
  if (!t.world->options.empty()) options += ' ' + t.world->options;
  std::printf("\nreplay:    scripts/sim --replay %llu%s\n", to_print(seed), options.c_str());
  return 1;
}

}  // namespace

outcome task::run(std::uint64_t of, bool traced) const {
  if (history_only) return run_for_history(world->make(of), true).alone();
  return world->run(of, traced);
}

int search(task const& t) {
  auto const begin = std::chrono::steady_clock::now();
  auto const run = [&](std::uint64_t of) { return t.run(of); };
  auto const found = run_schedules(t.seed, 0, t.schedules, t.threads, t.broken, run, [&](std::uint64_t done) {
    double const taken = seconds_since(begin);
    std::printf("%llu schedules, %.0f s, %.0f/s\n", to_print(done), taken, static_cast<double>(done) / taken);
    std::fflush(stdout);
  });
  if (found) return report(t, found->seed, found->what, false);
  double const taken = seconds_since(begin);
  if (undecided_histories() != 0)
    std::printf("%llu histories were too large to judge\n", to_print(undecided_histories()));
  std::printf("%llu schedules from seed %llu without a violation in %.1f s: %.0f per second on %u threads\n",
              to_print(t.schedules), to_print(t.seed), taken, static_cast<double>(t.schedules) / taken, t.threads);
  return 0;
}

int replay(task const& t, std::uint64_t seed, bool full) {
  activate(t.broken);
  outcome const once = t.run(seed, full);
  if (full) {
    for (std::string const& line : once.trace) std::printf("%s\n", line.c_str());
  }
  if (!once.failed()) {
    std::printf("no violation; %llu %s\n", to_print(once.scripts), t.world->make ? "commands at the server" : "grants");
    return 0;
  }
  return report(t, seed, once, full);
}

int write_histories(task const& t, std::uint64_t seed, std::string const& folder) {
  activate(t.broken);
  history::operations const saw = run_for_history(t.world->make(seed)).saw;
  std::map<std::string, history::operations> by_lock;
  for (history::operation const& one : saw) by_lock[one.lock].push_back(one);
  std::filesystem::create_directories(folder);
  int number = 0;  // some names are no names of files
  for (auto const& [lock, all] : by_lock) {
    std::filesystem::path const file = std::filesystem::path{folder} / ("lock-" + std::to_string(number++) + ".edn");
    std::ofstream{file} << history::to_edn(all);
    std::printf("%s: %zu operations on '%s'\n", file.c_str(), all.size(), lock.c_str());
  }
  return by_lock.empty() ? 1 : 0;
}

int find_mutants(task const& t) {
  int survivors = 0;
  std::size_t tried = 0;
  for (mutant const& m : t.world->mutants) {
    if (!t.world->concerns(m)) continue;
    ++tried;
    auto const begin = std::chrono::steady_clock::now();
    auto const found = find_broken(
        t.world->name, m, t.seed, t.schedules, [&](std::uint64_t of) { return t.run(of); }, t.threads);
    if (found && found->seen_before) {
      std::printf("%-34s P%-2d where it was seen before  seed %llu  %s\n", std::string{m.name}.c_str(),
                  found->what.promise, to_print(found->seed), found->what.words.c_str());
    } else if (found) {
      std::printf("%-34s P%-2d after %6llu schedules  seed %llu  %s\n", std::string{m.name}.c_str(),
                  found->what.promise, to_print(found->index + 1), to_print(found->seed), found->what.words.c_str());
    } else {
      ++survivors;
      std::printf("%-34s SURVIVED %llu schedules (%.1f s): %s\n", std::string{m.name}.c_str(), to_print(t.schedules),
                  seconds_since(begin), std::string{m.words}.c_str());
    }
    std::fflush(stdout);
  }
  std::printf("%zu mutants, %d not found\n", tried, survivors);
  return survivors == 0 ? 0 : 1;
}

int write_seen(task const& like, std::string const& path) {
  std::vector<std::string> lines;
  int missing = 0;
  for (kind_of_world const& w : every_world()) {
    auto const run = [&](std::uint64_t of) { return w.run(of, false); };
    for (mutant const& m : w.mutants) {
      if (!w.concerns(m)) continue;
      auto found = find_where_seen(w.name, m, run);
      if (!found) found = run_schedules(like.seed, 0, like.schedules, like.threads, &m, run);
      if (!found) {
        ++missing;
        std::printf("%s: %s does not show\n", w.name.c_str(), std::string{m.name}.c_str());
      } else {
        lines.push_back("{\"" + w.name + "\", \"" + std::string{m.name} + "\", " + std::to_string(found->seed) + "U},");
        if (!found->seen_before) std::printf("%s\n", lines.back().c_str());
      }
      std::fflush(stdout);
    }
  }
  std::sort(lines.begin(), lines.end());
  std::ofstream file{path};
  file << "// The schedule in which each mutant was seen. Written by: scripts/sim --seen "
          "tests/sim/mutants/seen_in.inc\n";
  for (std::string const& line : lines) file << line << '\n';
  std::printf("%zu lines, %d not found\n", lines.size(), missing);
  return file.flush() && missing == 0 ? 0 : 1;
}

/// An objection of the other judges ends a schedule, and the history is that until then.
int compare_judges(task const& t) {
  std::mutex guard;
  lock_history::tally sum;
  std::uint64_t undecided = 0, both = 0;
  std::map<int, std::uint64_t> others_only;                  // by promise
  std::vector<std::pair<std::uint64_t, std::string>> alone;  // by seed: what only the history shows
  auto const run = [&](std::uint64_t of) {
    history_run const r = run_for_history(t.world->make(of));
    std::lock_guard const lock{guard};
    sum.add(r.counted);
    if (r.judged.is == history::verdict::answer::too_large) ++undecided;
    if (r.judged.broken() && r.others.failed()) ++both;
    else if (r.judged.broken()) alone.emplace_back(of, r.judged.words);
    else if (r.others.failed()) ++others_only[r.others.promise];
    return outcome{};
  };
  run_schedules(t.seed, 0, t.schedules, t.threads, t.broken, run);
  std::printf("%s: %llu schedules, %llu operations; of %llu grants %llu excused, %llu more left out; %llu undecided\n",
              t.world->name.c_str(), to_print(t.schedules), to_print(sum.operations), to_print(sum.grants),
              to_print(sum.excused), to_print(sum.left_out), to_print(undecided));
  std::printf("objections of both: %llu; of the history alone: %zu; of the others alone:", to_print(both),
              alone.size());
  for (auto const& [promise, count] : others_only) std::printf(" %llu of P%d", to_print(count), promise);
  std::printf("%s\n", others_only.empty() ? " none" : "");
  std::sort(alone.begin(), alone.end());
  for (auto const& [seed, words] : alone) std::printf("seed %llu  %s\n", to_print(seed), words.c_str());
  return alone.empty() && undecided == 0 ? 0 : 1;
}

int print_digest(task const& t, std::uint64_t count) {
  digest all;
  for (kind_of_world const& w : every_world()) {
    std::uint64_t const one = digest_of(w, t.seed, count, t.threads);
    std::fprintf(stderr, "%-22s %016llx\n", w.name.c_str(), to_print(one));
    all.add(one);
  }
  std::printf("%016llx\n", to_print(all.value()));
  return 0;
}

}  // namespace conch::sim
