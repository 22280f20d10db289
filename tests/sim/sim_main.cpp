// conch-sim: schedules without end, mutants, replay. See usage().
#include "sim/exhaustive/command.hpp"
#include "sim/tasks.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

namespace {

using namespace conch::sim;

constexpr char usage[] = R"(conch-sim [OPTION...]

Runs the real engine and the real scripts in simulated worlds, each from one seed, and asserts the
promises P1 to P15 at every step. Stops at the first violation, with its seed and a trace.

  --schedules N   how many (default 20000); with --mutants: at most, for each that is searched for (default 100000)
  --seed S        of the run (default 1)
  --threads T     default: the number of processors
  --kind KIND     of the locks: mutex (default), semaphore, shared, striped, reentrant, multi; with --zookeeper: mutex, all or intervals
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
  task what;
  std::string place, kind = "mutex";  // of the world
  std::uint64_t replay = 0, digested = 0;
  bool mutants = false, list = false, full = false, replays = false, compares = false;
  std::string seen;  // the table to write; empty: none
  std::string edn;   // where to write histories; empty: nowhere
  exhaustive_options exhaustive = {};
};

[[noreturn]] void refuse(char const* why, char const* what) {
  std::fprintf(stderr, "conch-sim: ");
  std::fprintf(stderr, why, what);
  std::fputc('\n', stderr);
  std::exit(2);
}

std::uint64_t number(char const* text) {
  std::uint64_t n = 0;
  auto const [end, error] = std::from_chars(text, text + std::strlen(text), n);
  if (error != std::errc{} || *end != '\0') refuse("%s is not a number", text);
  return n;
}

void read_judge(options& o, char const* which) {
  o.what.history_only = std::strcmp(which, "history") == 0;
  o.compares = std::strcmp(which, "compare") == 0;
  if (!o.what.history_only && !o.compares) refuse("no judge is named %s", which);
}

void read_mutant(options& o, char const* name) {
  o.what.broken = find_mutant(name);
  if (o.what.broken == nullptr) refuse("no mutant is named %s", name);
}

struct option_with_argument {
  std::string_view name;
  void (*read)(options& o, char const* argument);
};

constexpr option_with_argument with_argument[] = {
    {"--schedules", [](options& o, char const* a) { o.what.schedules = number(a); }},
    {"--seed", [](options& o, char const* a) { o.what.seed = number(a); }},
    {"--threads", [](options& o, char const* a) { o.what.threads = static_cast<unsigned>(number(a)); }},
    {"--kind", [](options& o, char const* a) { o.kind = a; }},
    {"--replay",
     [](options& o, char const* a) {
       o.replay = number(a);
       o.replays = true;
     }},
    {"--mutant", read_mutant},
    {"--digest",
     [](options& o, char const* a) {
       o.digested = number(a);
       if (o.digested == 0) refuse("--digest needs at least one schedule, not %s", a);
     }},
    {"--exhaustive", [](options& o, char const* a) { o.exhaustive.scope = a; }},
    {"--checkpoint", [](options& o, char const* a) { o.exhaustive.checkpoint = a; }},
    {"--seconds", [](options& o, char const* a) { o.exhaustive.most_seconds = static_cast<double>(number(a)); }},
    {"--path",
     [](options& o, char const* a) {
       o.exhaustive.path = a;
       o.exhaustive.replays = true;
     }},
    {"--faults", [](options& o, char const* a) { o.exhaustive.faults = static_cast<int>(number(a)); }},
    {"--seen", [](options& o, char const* a) { o.seen = a; }},
    {"--judge", read_judge},
    {"--edn", [](options& o, char const* a) { o.edn = a; }},
};

struct option_alone {
  std::string_view name;
  bool options::*is_set;
};

constexpr option_alone alone[] = {
    {"--mutants", &options::mutants}, {"--list", &options::list}, {"--full", &options::full}};

constexpr std::string_view places[] = {"--replicas", "--synced", "--cluster",  "--delays",
                                       "--chains",   "--quorum", "--zookeeper"};

kind_of_world const* world_of(options const& o) {
  std::string wanted = o.place;
  if (o.kind != "mutex") wanted += (wanted.empty() ? "--kind " : " --kind ") + o.kind;
  kind_of_world const* const found = find_world(wanted);
  if (found == nullptr) refuse("there is no world %s", wanted.c_str());
  return found;
}

/// Takes one option, and its argument. False: there is no such option.
bool read_option(options& o, int& i, int argc, char** argv) {
  std::string_view const what = argv[i];
  if (auto const* const one = std::ranges::find(with_argument, what, &option_with_argument::name);
      one != std::end(with_argument)) {
    if (++i == argc) refuse("%s needs an argument", argv[i - 1]);
    one->read(o, argv[i]);
  } else if (auto const* const flag = std::ranges::find(alone, what, &option_alone::name); flag != std::end(alone)) {
    o.*(flag->is_set) = true;
  } else if (std::ranges::find(places, what) != std::end(places)) {
    o.place = what;
  } else if (what == "--unreduced") {
    o.exhaustive.unreduced = true;
  } else {
    return false;
  }
  return true;
}

options parse(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0) {
      std::fputs(usage, stdout);
      std::exit(0);
    }
    if (read_option(o, i, argc, argv)) continue;
    std::fputs(usage, stderr);
    refuse("unknown option %s", argv[i]);
  }
  o.what.world = world_of(o);
  if (o.what.schedules == 0) o.what.schedules = o.mutants || !o.seen.empty() ? 100'000 : 20'000;
  if ((o.what.history_only || o.compares || !o.edn.empty()) && !o.what.world->make)
    refuse("--judge and --edn are for the worlds of one server, of replicas and of a Cluster, and not for %s",
           o.what.world->options.c_str());
  return o;
}

int list(kind_of_world const& w) {
  for (mutant const& m : w.mutants)
    std::printf("%-34s %-8s %s\n", std::string{m.name}.c_str(), std::string{m.rule}.c_str(),
                std::string{m.words}.c_str());
  return 0;
}

int explore(options const& o) {
  exhaustive_options e = o.exhaustive;
  e.threads = o.what.threads;
  e.broken = o.what.broken;
  return o.mutants ? run_exhaustive_mutants(e, o.what.world->mutants) : run_exhaustive(e);
}

/// Those of ZooKeeper are in several worlds.
int find_all_mutants(task const& t) {
  if (t.world->options != "--zookeeper") return find_mutants(t);
  int code = 0;
  for (kind_of_world const& w : every_world()) {
    if (!w.options.starts_with("--zookeeper")) continue;
    task one = t;
    one.world = &w;
    code = std::max(code, find_mutants(one));
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  options const o = parse(argc, argv);
  if (o.list) return list(*o.what.world);
  if (o.digested != 0) return print_digest(o.what, o.digested);
  if (!o.seen.empty()) return write_seen(o.what, o.seen);
  if (o.compares) return compare_judges(o.what);
  if (!o.exhaustive.scope.empty()) return explore(o);
  if (!o.edn.empty() && o.replays) return write_histories(o.what, o.replay, o.edn);
  if (o.replays) return replay(o.what, o.replay, o.full);
  if (o.mutants) return find_all_mutants(o.what);
  return search(o.what);
}
