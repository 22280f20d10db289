#include "sim/exhaustive/command.hpp"

#include "sim/exhaustive/explorer.hpp"

#include <cstdio>

namespace conch::sim {

namespace {

using ull = unsigned long long;

void print(tally const& t) {
  std::printf("%llu runs, %llu orders to the end (%llu of them to the bound), %llu states, %.1f s of processors",
              static_cast<ull>(t.runs), static_cast<ull>(t.orders), static_cast<ull>(t.cut_off),
              static_cast<ull>(t.states), t.seconds);
}

/// The estimate takes all alternatives for as large as each other. Those that are tried late are smaller: more of their
/// states are known by then.
void print_progress(tally const& t) {
  print(t);
  if (t.share > 0)
    std::printf(", about %.2f %%, at most %.0f s left", t.share * 100, t.seconds * (1 - t.share) / t.share);
  std::printf("\n");
  std::fflush(stdout);
}

int print_path(scope const& s, path const& p, exhaustive_options const& o) {
  outcome const again = run_path(s, p, o.broken, true);
  for (std::string const& line : again.trace) std::printf("%s\n", line.c_str());
  if (!again.failed()) std::printf("no violation %s\n", again.words.c_str());
  return again.failed() ? 1 : 0;
}

int print_scopes(std::string const& asked) {
  std::fprintf(stderr, "conch-sim: no scope is named %s; there are:\n", asked.c_str());
  for (scope const& s : all_scopes()) std::fprintf(stderr, "  %-16s %s\n", s.name.c_str(), s.words.c_str());
  return 2;
}

}  // namespace

int run_exhaustive(exhaustive_options const& o) {
  scope const* const named = find_scope(o.scope);
  if (named == nullptr) return print_scopes(o.scope);
  scope s = *named;
  if (o.faults != 0) s.limits.faults = o.faults;
  if (o.replays) return print_path(s, path_of(o.path), o);
  exploring how;
  how.threads = o.threads;
  how.broken = o.broken;
  how.checkpoint = o.checkpoint;
  how.most_seconds = o.most_seconds;
  how.progress = print_progress;
  if (o.unreduced) how.reduced = {false, false};
  explored const result = explore(s, how);
  print(result.counts);
  std::printf(", at most %llu steps\n", static_cast<ull>(result.counts.deepest));
  if (!result.found) {
    std::printf(result.finished ? "%s: every order, and no promise is broken\n"
                                : "%s: not finished, and no promise is broken so far\n",
                s.name.c_str());
    return 0;
  }
  std::printf("\nviolation: %s\n\n", result.found->what.words.c_str());
  print_path(s, result.found->where, o);
  std::string with = o.broken == nullptr ? std::string{} : " --mutant " + std::string{o.broken->name};
  if (o.faults != 0) with += " --faults " + std::to_string(o.faults);
  std::printf("\nreplay:    scripts/sim --exhaustive %s --path '%s'%s\n", s.name.c_str(),
              to_text(result.found->where).c_str(), with.c_str());
  return 1;
}

int run_exhaustive_mutants(exhaustive_options const& o, std::span<mutant const> all) {
  scope const* const s = find_scope(o.scope);
  if (s == nullptr) return print_scopes(o.scope);
  std::size_t found = 0;
  for (mutant const& m : all) {
    exploring how;
    how.threads = o.threads;
    how.broken = &m;
    how.most_seconds = o.most_seconds;
    explored const result = explore(*s, how);
    found += result.found ? 1 : 0;
    std::printf("%-36s %-9s %9llu runs %7.1f s  %s\n", std::string{m.name}.c_str(),
                result.found      ? "found"
                : result.finished ? "not in it"
                                  : "open",
                static_cast<ull>(result.counts.runs), result.counts.seconds,
                result.found ? result.found->what.words.c_str() : "");
    std::fflush(stdout);
  }
  std::printf("%s: %zu of %zu found\n", s->name.c_str(), found, all.size());
  return 0;
}

}  // namespace conch::sim
