// conch-sim: schedules without end, mutants, replay. See usage().
#include "sim/digest.hpp"
#include "sim/exhaustive/command.hpp"
#include "sim/judges/history_run.hpp"
#include "sim/judges/lock_history.hpp"
#include "sim/runner.hpp"
#include "sim/worlds/quorum_world.hpp"
#include "sim/worlds/zookeeper_world.hpp"
#include "support/history/edn.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace conch::sim;
using conch::engine::permit_kind;

constexpr char usage[] = R"(conch-sim [OPTION...]

Runs the real engine and the real scripts in simulated worlds, each from one seed, and asserts the
promises P1 to P11 at every step. Stops at the first violation, with its seed and a trace.

  --schedules N   how many (default 20000); with --mutants: at most, for each that is searched for (default 100000)
  --seed S        of the run (default 1)
  --threads T     default: the number of processors
  --kind KIND     of the locks: mutex (default), semaphore, shared, striped, reentrant, multi; with --zookeeper: mutex, all, or intervals
  --replicas      a master with replicas that lag and take over; --mutants are those that this must find
  --synced        the same, and a hold is delivered when all replicas have it
  --cluster       a Cluster whose slots move and whose replicas take over; --mutants are those that this must find
  --delays        a delay after each loss; --mutants are those that this must find
  --chains        tasks that wait for each other, and deadlocks; --mutants are those that this must find
  --quorum        a lock over several servers, in a world of its own; --mutants are those of this world
  --zookeeper     an ensemble of ZooKeeper, in a world of its own; --mutants are those of this world
  --replay SEED   one schedule, by the seed that a violation was reported with
  --mutant NAME   with this deliberate fault in the engine or in a script
  --mutants       each deliberate fault in turn, first where it was seen before; fails if one is not found
  --digest N      prints one number: the hash of the traces of N schedules of each world and kind of lock, and of all bytes sent. A
                  change that only moves code leaves it as it was. Numbers for each world go to the standard error
  --exhaustive S  every order of events in the small world S, instead of random ones; a wrong name prints all. With --threads and --mutant
  --checkpoint F  with it: notes in the file F how far it is, and goes on from there if F exists
  --seconds N     with it: no longer than that
  --faults N      with it: up to N faults instead of as many as its name says
  --path P        with it: one order, by the path that a violation was reported with
  --unreduced     with it: also orders that come to a state that was seen, and both orders of what commutes
  --list          the names of the mutants
  --full          with --replay: the whole trace, not a minimized one
  --seen FILE     each deliberate fault of each world: writes the table of the schedules that show them (tests/sim/mutants/seen_in.inc)
                  anew. A line stays if its schedule shows its fault still; for another --schedules are searched (default 100000)
  --judge history only the judge of what users were told counts; most of the others are muted
  --judge compare where that judge and the others disagree, in all the schedules; and how much it excuses or cannot decide
  --edn DIR       with --replay: writes what the users of each lock were told into DIR, for Jepsen's checkers (docs/proof.md)
  --help          this

The exit code is 0 if nothing was found (with --mutants: if each was found), else 1.
)";

struct options {
  std::uint64_t schedules = 0, seed = 1, replay = 0, digested = 0;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  bool mutants = false, list = false, full = false, replays = false, quorum = false, replicas = false, synced = false,
       cluster = false, zookeeper = false, delays = false, chains = false;
  mutant const* broken = nullptr;
  bool history_only = false, compares = false;
  std::string seen;  // the table to write; empty: none
  std::string edn;   // where to write histories; empty: nowhere
  permit_kind kind = permit_kind::none;
  bool multi = false;  // several mutexes at once
  zookeeper_locks in_zookeeper = zookeeper_locks::mutexes;
  exhaustive_options exhaustive = {};

  outcome run(std::uint64_t of, bool traced = false) const {
    if (zookeeper) {
      zookeeper_outcome const o = run_zookeeper(of, traced, in_zookeeper);
      return {o.promise, o.words, o.trace, o.grants};
    }
    if (!quorum && history_only) return run_for_history(make(of), true).alone();
    if (!quorum) return run_plan(make(of), traced);
    quorum_outcome const o = run_quorum(of, traced);
    return {o.promise, o.words, o.trace, o.grants};
  }
  plan make(std::uint64_t of) const {
    if (cluster) return make_cluster_plan(of);
    if (delays) return make_delays_plan(of);
    if (chains) return make_chains_plan(of);
    if (synced) return kind == permit_kind::none ? make_synced_plan(of) : make_synced_permits_plan(of, kind);
    if (replicas) return make_replicas_plan(of);
    return multi ? make_multi_plan(of) : kind == permit_kind::none ? make_plan(of) : make_permits_plan(of, kind);
  }
  plan_maker maker() const {
    return [this](std::uint64_t of) { return make(of); };
  }
  /// As the table of where mutants were seen names it.
  std::string world() const {
    if (quorum) return "quorum";
    if (zookeeper) return std::string{name_of(in_zookeeper)};
    if (cluster) return "cluster";
    if (delays) return "delays";
    if (chains) return "chains";
    if (synced) return kind == permit_kind::none ? "synced" : "synced permits " + std::string{static_cast<char>(kind)};
    if (replicas) return "replicas";
    if (multi) return "multi";
    return kind == permit_kind::none ? "one server" : "permits " + std::string{static_cast<char>(kind)};
  }
  bool concerns(mutant const& m) const {
    return quorum || zookeeper || kind == permit_kind::none ||
           m.rule.substr(0, m.rule.find(' ')).find(static_cast<char>(kind)) != std::string_view::npos;
  }
  std::span<mutant const> mutants_of_kind() const {
    if (quorum) return quorum_mutants();
    if (zookeeper) return mutants_of(in_zookeeper);
    if (cluster) return cluster_mutants();
    if (delays) return delays_mutants();
    if (chains) return chains_mutants();
    if (synced) return kind == permit_kind::none ? synced_mutants() : synced_permits_mutants();
    if (replicas) return replicas_mutants();
    if (multi) return multi_mutants();
    return kind == permit_kind::none ? all_mutants() : permits_mutants();
  }
};

std::uint64_t number(char const* text) {
  std::uint64_t n = 0;
  auto const [end, error] = std::from_chars(text, text + std::strlen(text), n);
  if (error != std::errc{} || *end != '\0') {
    std::fprintf(stderr, "conch-sim: %s is not a number\n", text);
    std::exit(2);
  }
  return n;
}

options parse(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; ++i) {
    std::string const what = argv[i];
    auto const argument = [&] {
      if (++i < argc) return argv[i];
      std::fprintf(stderr, "conch-sim: %s needs an argument\n", what.c_str());
      std::exit(2);
    };
    if (what == "--schedules") {
      o.schedules = number(argument());
    } else if (what == "--seed") {
      o.seed = number(argument());
    } else if (what == "--threads") {
      o.threads = static_cast<unsigned>(number(argument()));
    } else if (what == "--replay") {
      o.replay = number(argument());
      o.replays = true;
    } else if (what == "--digest") {
      o.digested = number(argument());
      if (o.digested == 0) {
        std::fputs("conch-sim: --digest needs at least one schedule\n", stderr);
        std::exit(2);
      }
    } else if (what == "--kind") {
      std::string const name = argument();
      o.kind = name == "semaphore"   ? permit_kind::semaphore
               : name == "shared"    ? permit_kind::shared
               : name == "striped"   ? permit_kind::segments
               : name == "reentrant" ? permit_kind::reentrant
                                     : permit_kind::none;
      o.multi = name == "multi";
      if (name == "all") o.in_zookeeper = zookeeper_locks::of_all_kinds;
      if (name == "intervals") o.in_zookeeper = zookeeper_locks::with_intervals;
      if (o.kind == permit_kind::none && name != "mutex" && !o.multi && o.in_zookeeper == zookeeper_locks::mutexes) {
        std::fprintf(stderr, "conch-sim: no kind of lock is named %s\n", name.c_str());
        std::exit(2);
      }
    } else if (what == "--mutants") {
      o.mutants = true;
    } else if (what == "--mutant") {
      char const* const name = argument();
      o.broken = find_mutant(name);
      if (o.broken == nullptr) {
        std::fprintf(stderr, "conch-sim: no mutant is named %s\n", name);
        std::exit(2);
      }
    } else if (what == "--exhaustive") {
      o.exhaustive.scope = argument();
    } else if (what == "--checkpoint") {
      o.exhaustive.checkpoint = argument();
    } else if (what == "--seconds") {
      o.exhaustive.most_seconds = static_cast<double>(number(argument()));
    } else if (what == "--path") {
      o.exhaustive.path = argument();
      o.exhaustive.replays = true;
    } else if (what == "--faults") {
      o.exhaustive.faults = static_cast<int>(number(argument()));
    } else if (what == "--unreduced") {
      o.exhaustive.unreduced = true;
    } else if (what == "--seen") {
      o.seen = argument();
    } else if (what == "--list") {
      o.list = true;
    } else if (what == "--quorum") {
      o.quorum = true;
    } else if (what == "--zookeeper") {
      o.zookeeper = true;
    } else if (what == "--synced") {
      o.synced = true;
    } else if (what == "--cluster") {
      o.cluster = true;
    } else if (what == "--delays") {
      o.delays = true;
    } else if (what == "--chains") {
      o.chains = true;
    } else if (what == "--replicas") {
      o.replicas = true;
    } else if (what == "--judge") {
      std::string const which = argument();
      o.history_only = which == "history";
      o.compares = which == "compare";
      if (!o.history_only && !o.compares) {
        std::fprintf(stderr, "conch-sim: no judge is named %s\n", which.c_str());
        std::exit(2);
      }
    } else if (what == "--edn") {
      o.edn = argument();
    } else if (what == "--full") {
      o.full = true;
    } else if (what == "--help" || what == "-h") {
      std::fputs(usage, stdout);
      std::exit(0);
    } else {
      std::fprintf(stderr, "conch-sim: unknown option %s\n%s", what.c_str(), usage);
      std::exit(2);
    }
  }
  if (o.schedules == 0) o.schedules = o.mutants || !o.seen.empty() ? 100'000 : 20'000;
  if ((o.history_only || o.compares) && (o.quorum || o.zookeeper)) {
    std::fputs("conch-sim: --judge is for the worlds of one server, of replicas and of a Cluster\n", stderr);
    std::exit(2);
  }
  return o;
}

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

int report(std::uint64_t seed, outcome const& found, options const& o) {
  activate(o.broken);
  std::printf("\nviolation: %s\nseed:      %llu\n\n", found.words.c_str(), static_cast<unsigned long long>(seed));
  if (o.quorum || o.zookeeper) {
    if (!o.full) print_end_of(o.run(seed, true).trace);
  } else {
    std::printf("A smaller schedule with the same end:\n\n");
    std::fputs(explain(seed, found, o.maker()).c_str(), stdout);
  }
  std::string const mutant_option = o.broken == nullptr ? std::string{} : " --mutant " + std::string{o.broken->name};
  static char const* const kinds[] = {"",
                                      " --kind semaphore",
                                      " --kind shared",
                                      " --kind striped",
                                      " --kind reentrant",
                                      " --kind multi",
                                      " --kind all",
                                      " --kind intervals"};
  char const* const kind = kinds[o.in_zookeeper == zookeeper_locks::with_intervals ? 7
                                 : o.in_zookeeper == zookeeper_locks::of_all_kinds ? 6
                                 : o.multi                                         ? 5
                                 : o.kind == permit_kind::semaphore                ? 1
                                 : o.kind == permit_kind::shared                   ? 2
                                 : o.kind == permit_kind::segments                 ? 3
                                 : o.kind == permit_kind::reentrant                ? 4
                                                                                   : 0];
  std::printf("\nreplay:    scripts/sim --replay %llu%s%s%s\n", static_cast<unsigned long long>(seed),
              mutant_option.c_str(), kind,
              o.quorum      ? " --quorum"
              : o.zookeeper ? " --zookeeper"
              : o.cluster   ? " --cluster"
              : o.synced    ? " --synced"
              : o.replicas  ? " --replicas"
              : o.delays    ? " --delays"
              : o.chains    ? " --chains"
                            : "");
  return 1;
}

int write_histories(options const& o) {
  if (o.quorum || o.zookeeper) {
    std::fputs("conch-sim: --edn is for the worlds of one server, of replicas and of a Cluster\n", stderr);
    return 2;
  }
  conch::history::operations const saw = run_for_history(o.make(o.replay)).saw;
  std::map<std::string, conch::history::operations> by_lock;
  for (conch::history::operation const& one : saw) by_lock[one.lock].push_back(one);
  std::filesystem::create_directories(o.edn);
  int number = 0;  // some names are no names of files
  for (auto const& [lock, all] : by_lock) {
    std::filesystem::path const file = std::filesystem::path{o.edn} / ("lock-" + std::to_string(number++) + ".edn");
    std::ofstream{file} << conch::history::to_edn(all);
    std::printf("%s: %zu operations on '%s'\n", file.c_str(), all.size(), lock.c_str());
  }
  return by_lock.empty() ? 1 : 0;
}

int replay(options const& o) {
  activate(o.broken);
  if (!o.edn.empty()) return write_histories(o);
  outcome const once = o.run(o.replay, o.full);
  if (o.full) {
    for (std::string const& line : once.trace) std::printf("%s\n", line.c_str());
  }
  if (!once.failed()) {
    std::printf("no violation; %llu %s\n", static_cast<unsigned long long>(once.scripts),
                o.quorum || o.zookeeper ? "grants" : "commands at the server");
    return 0;
  }
  return report(o.replay, once, o);
}

int run_mutants(options const& o) {
  int survivors = 0;
  std::size_t tried = 0;
  for (mutant const& m : o.mutants_of_kind()) {
    if (!o.concerns(m)) continue;
    ++tried;
    auto const begin = std::chrono::steady_clock::now();
    auto const found = find_broken(
        o.world(), m, o.seed, o.schedules, [&](std::uint64_t of) { return o.run(of); }, o.threads);
    if (found && found->seen_before) {
      std::printf("%-34s P%-2d where it was seen before  seed %llu  %s\n", std::string{m.name}.c_str(),
                  found->what.promise, static_cast<unsigned long long>(found->seed), found->what.words.c_str());
    } else if (found) {
      std::printf("%-34s P%-2d after %6llu schedules  seed %llu  %s\n", std::string{m.name}.c_str(),
                  found->what.promise, static_cast<unsigned long long>(found->index + 1),
                  static_cast<unsigned long long>(found->seed), found->what.words.c_str());
    } else {
      ++survivors;
      std::printf("%-34s SURVIVED %llu schedules (%.1f s): %s\n", std::string{m.name}.c_str(),
                  static_cast<unsigned long long>(o.schedules), seconds_since(begin), std::string{m.words}.c_str());
    }
    std::fflush(stdout);
  }
  std::printf("%zu mutants, %d not found\n", tried, survivors);
  return survivors == 0 ? 0 : 1;
}

/// Each world in which deliberate faults are looked for.
std::vector<options> worlds_of_mutants(options const& like) {
  std::vector<options> all;
  auto const add = [&](auto const& set) {
    options o = like;
    set(o);
    all.push_back(o);
  };
  add([](options&) {});
  add([](options& o) { o.multi = true; });
  add([](options& o) { o.replicas = true; });
  add([](options& o) { o.synced = true; });
  add([](options& o) { o.cluster = true; });
  add([](options& o) { o.delays = true; });
  add([](options& o) { o.chains = true; });
  add([](options& o) { o.quorum = true; });
  add([](options& o) { o.zookeeper = true; });
  for (auto const locks : {zookeeper_locks::of_all_kinds, zookeeper_locks::with_intervals}) {
    add([&](options& o) {
      o.zookeeper = true;
      o.in_zookeeper = locks;
    });
  }
  for (permit_kind const kind :
       {permit_kind::semaphore, permit_kind::shared, permit_kind::segments, permit_kind::reentrant}) {
    for (bool const synced : {false, true}) {
      add([&](options& o) {
        o.kind = kind;
        o.synced = synced;
      });
    }
  }
  return all;
}

int write_seen(options const& like) {
  std::vector<std::string> lines;
  int missing = 0;
  for (options const& o : worlds_of_mutants(like)) {
    auto const run = [&](std::uint64_t of) { return o.run(of); };
    for (mutant const& m : o.mutants_of_kind()) {
      if (!o.concerns(m)) continue;
      auto found = find_where_seen(o.world(), m, run);
      if (!found) found = run_schedules(o.seed, 0, o.schedules, o.threads, &m, run);
      if (!found) {
        ++missing;
        std::printf("%s: %s does not show\n", o.world().c_str(), std::string{m.name}.c_str());
      } else {
        lines.push_back("{\"" + o.world() + "\", \"" + std::string{m.name} + "\", " + std::to_string(found->seed) +
                        "U},");
        if (!found->seen_before) std::printf("%s\n", lines.back().c_str());
      }
      std::fflush(stdout);
    }
  }
  std::sort(lines.begin(), lines.end());
  std::ofstream file{like.seen};
  file << "// The schedule in which each mutant was seen. Written by: scripts/sim --seen "
          "tests/sim/mutants/seen_in.inc\n";
  for (std::string const& line : lines) file << line << '\n';
  std::printf("%zu lines, %d not found\n", lines.size(), missing);
  return file.flush() && missing == 0 ? 0 : 1;
}

/// An objection of the other judges ends a schedule, and the history is that until then.
int compare_judges(options const& o) {
  std::mutex guard;
  lock_history::tally sum;
  std::uint64_t undecided = 0, both = 0;
  std::map<int, std::uint64_t> others_only;                  // by promise
  std::vector<std::pair<std::uint64_t, std::string>> alone;  // by seed: what only the history shows
  auto const run = [&](std::uint64_t of) {
    history_run const r = run_for_history(o.make(of));
    std::lock_guard const lock{guard};
    sum.add(r.counted);
    if (r.judged.is == conch::history::verdict::answer::too_large) ++undecided;
    if (r.judged.broken() && r.others.failed()) ++both;
    else if (r.judged.broken()) alone.emplace_back(of, r.judged.words);
    else if (r.others.failed()) ++others_only[r.others.promise];
    return outcome{};
  };
  run_schedules(o.seed, 0, o.schedules, o.threads, o.broken, run);
  auto const in_words = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf("%s: %llu schedules, %llu operations; of %llu grants %llu excused, %llu more left out; %llu undecided\n",
              o.world().c_str(), in_words(o.schedules), in_words(sum.operations), in_words(sum.grants),
              in_words(sum.excused), in_words(sum.left_out), in_words(undecided));
  std::printf("objections of both: %llu; of the history alone: %zu; of the others alone:", in_words(both),
              alone.size());
  for (auto const& [promise, count] : others_only) std::printf(" %llu of P%d", in_words(count), promise);
  std::printf("%s\n", others_only.empty() ? " none" : "");
  std::sort(alone.begin(), alone.end());
  for (auto const& [seed, words] : alone) std::printf("seed %llu  %s\n", in_words(seed), words.c_str());
  return alone.empty() && undecided == 0 ? 0 : 1;
}

int print_digest(options const& o) {
  digest all;
  for (kind_of_world const& w : every_world()) {
    std::uint64_t const one = digest_of(w, o.seed, o.digested, o.threads);
    std::fprintf(stderr, "%-22s %016llx\n", w.name.c_str(), static_cast<unsigned long long>(one));
    all.add(one);
  }
  std::printf("%016llx\n", static_cast<unsigned long long>(all.value()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  options const o = parse(argc, argv);
  if (o.list) {
    for (mutant const& m : o.mutants_of_kind())
      std::printf("%-34s %-8s %s\n", std::string{m.name}.c_str(), std::string{m.rule}.c_str(),
                  std::string{m.words}.c_str());
    return 0;
  }
  if (o.digested != 0) return print_digest(o);
  if (!o.seen.empty()) return write_seen(o);
  if (o.compares) return compare_judges(o);
  if (!o.exhaustive.scope.empty()) {
    exhaustive_options e = o.exhaustive;
    e.threads = o.threads;
    e.broken = o.broken;
    return o.mutants ? run_exhaustive_mutants(e, o.mutants_of_kind()) : run_exhaustive(e);
  }
  if (o.replays) return replay(o);
  if (o.mutants && o.zookeeper && o.in_zookeeper == zookeeper_locks::mutexes) {
    options kinds = o, intervals = o;
    kinds.in_zookeeper = zookeeper_locks::of_all_kinds;
    intervals.in_zookeeper = zookeeper_locks::with_intervals;
    return std::max({run_mutants(o), run_mutants(kinds), run_mutants(intervals)});
  }
  if (o.mutants) return run_mutants(o);

  auto const begin = std::chrono::steady_clock::now();
  auto const run = [&](std::uint64_t of) { return o.run(of); };
  auto const found = run_schedules(o.seed, 0, o.schedules, o.threads, o.broken, run, [&](std::uint64_t done) {
    double const taken = seconds_since(begin);
    std::printf("%llu schedules, %.0f s, %.0f/s\n", static_cast<unsigned long long>(done), taken,
                static_cast<double>(done) / taken);
    std::fflush(stdout);
  });
  if (found) return report(found->seed, found->what, o);
  double const taken = seconds_since(begin);
  if (undecided_histories() != 0)
    std::printf("%llu histories were too large to judge\n", static_cast<unsigned long long>(undecided_histories()));
  std::printf("%llu schedules from seed %llu without a violation in %.1f s: %.0f per second on %u threads\n",
              static_cast<unsigned long long>(o.schedules), static_cast<unsigned long long>(o.seed), taken,
              static_cast<double>(o.schedules) / taken, o.threads);
  return 0;
}
