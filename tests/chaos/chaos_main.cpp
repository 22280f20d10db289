// conch-chaos: real servers, real client processes, faults everywhere, and a recorder that none of it touches.

#include "chaos/cluster_nemesis.hpp"
#include "chaos/failover_judge.hpp"
#include "chaos/history_judge.hpp"
#include "chaos/sentinel_nemesis.hpp"
#include "chaos/server_nemesis.hpp"
#include "chaos/share_judge.hpp"
#include "chaos/zookeeper_nemesis.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

namespace {

using namespace conch::test;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr std::string_view usage = R"(conch-chaos [OPTION...]

Starts a lock server, a second server that records, and several client processes, each behind a
proxy of its own. Kills, stops, delays, splits, stalls, silences and resets them at random; every
few seconds it lets them recover and waits until every task of every client was granted a lock.

Fails if two clients were inside one lock while both had been told that they hold it, if a fence did
not rise, if a client ended by itself, if a task got nothing in a calm, or if anything is left on
the server. Where the server lost what it had acknowledged, two may have been told so; then the
recorder must have refused the one with the smaller fence.

  --seconds N    how long (default 60)
  --minutes N    the same in minutes
  --seed N       of all random choices (default: random; printed). The timing of real processes is
                 not replayed by it.
  --workers N    client processes (default 6)
  --tasks N      of each (default 3)
  --locks N      (default 3; with --cluster 6; with --zookeeper 5)
  --lease MS     (default 1200; with --sentinel 4000, for a failover takes 2 to 3 s; with --cluster 8000: 4 s;
                 with --zookeeper 4000)
  --sentinel     a master, two replicas and three Sentinels instead of one server: masters are killed
                 and stopped, cut off from their replicas, and change roles by SENTINEL FAILOVER and
                 FAILOVER; Sentinels are killed and stopped. Two may hold the lock only from a
                 promotion on that may have lost writes, and only until the client of one of them has
                 asked the new master
  --cluster      three masters of a Cluster with a replica each: masters and replicas are killed and
                 stopped, masters are cut off from their replicas, change roles by CLUSTER FAILOVER, and
                 the slots of locks move. Two may hold a lock only if its shard had a promotion that may
                 have lost writes
  --zookeeper    an ensemble of three: servers are killed and stopped, followers are cut off from their leader
                 while they go on answering, and the clients' connections suffer. Nothing excuses two holders,
                 nor more than a lock with several owners has room for
  --kind KIND    with --zookeeper: all locks are of this kind: mutex, shared_mutex, semaphore, reentrant_mutex,
                 reentrant_shared_mutex (default: all, each in turn)
  --no-data-loss the server is never restarted without its data. With --cluster nobody is killed, or
                 paused for long: then no hold may be lost, whatever moves
  --sabotage     delete locks that are held, which must be noticed: succeeds if it was
  --client PATH  the client program (default: conch-chaos-client beside this one)
  --edn DIR      write and judge what the tasks asked of each mutex and were told (docs/proof.md)
  --quiet        no line of progress
)";

struct settings : chaos_options {
  bool sentinel = false, cluster = false, zookeeper = false;
  bool quiet = false;
  std::string edn;  // where to write histories; empty: nowhere
};

settings read(int argc, char** argv) {
  settings s;
  bool lease_is_given = false, locks_are_given = false, kind_is_given = false;
  constexpr std::string_view kinds[] = {"all",       "mutex",           "shared_mutex",
                                        "semaphore", "reentrant_mutex", "reentrant_shared_mutex"};
  s.seed = std::random_device{}();
  s.client_program = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "conch-chaos-client").string();
  for (int i = 1; i < argc; ++i) {
    std::string_view const option = argv[i];
    auto const value = [&]() -> char const* {
      if (i + 1 == argc) throw std::invalid_argument(std::string{option} + " needs a value");
      return argv[++i];
    };
    auto const number = [&] {
      char const* const text = value();
      char* end = nullptr;
      long const n = std::strtol(text, &end, 10);
      if (*end != '\0' || n < 1 || n > 1'000'000)
        throw std::invalid_argument(std::string{option} + ": not a number: " + text);
      return static_cast<int>(n);
    };
    if (option == "--help" || option == "-h") {
      std::cout << usage;
      std::exit(0);
    } else if (option == "--seconds") {
      s.length = std::chrono::seconds{number()};
    } else if (option == "--minutes") {
      s.length = std::chrono::minutes{number()};
    } else if (option == "--seed") {
      s.seed = std::strtoull(value(), nullptr, 10);
    } else if (option == "--workers") {
      s.workers = number();
    } else if (option == "--tasks") {
      s.tasks = number();
    } else if (option == "--locks") {
      s.locks = number();
      locks_are_given = true;
    } else if (option == "--lease") {
      s.lease = std::chrono::milliseconds{number()};
      lease_is_given = true;
    } else if (option == "--no-data-loss") {
      s.lose_data = false;
    } else if (option == "--sabotage") {
      s.sabotage = true;
    } else if (option == "--sentinel") {
      s.sentinel = true;
    } else if (option == "--cluster") {
      s.cluster = true;
    } else if (option == "--zookeeper") {
      s.zookeeper = true;
    } else if (option == "--kind") {
      s.kinds = value();
      kind_is_given = true;
      if (std::find(std::begin(kinds), std::end(kinds), s.kinds) == std::end(kinds))
        throw std::invalid_argument("no such kind: " + s.kinds);
    } else if (option == "--client") {
      s.client_program = value();
    } else if (option == "--edn") {
      s.edn = value();
    } else if (option == "--quiet") {
      s.quiet = true;
    } else {
      throw std::invalid_argument("unknown option " + std::string{option});
    }
  }
  if (s.sentinel + s.cluster + s.zookeeper > 1)
    throw std::invalid_argument("one of --sentinel, --cluster and --zookeeper");
  if (s.sentinel || s.cluster || s.zookeeper) {
    s.slow_share = 15;  // mostly a client holds a lock for long when something happens
    if (!lease_is_given) s.lease = std::chrono::seconds{s.cluster ? 8 : 4};
  }
  if (s.cluster && !locks_are_given) s.locks = 6;
  if (s.zookeeper && !locks_are_given) s.locks = 5;
  if (s.zookeeper && !kind_is_given) s.kinds = "all";
  if (kind_is_given && !s.zookeeper) throw std::invalid_argument("--kind is for --zookeeper");
  return s;
}

/// Judges what the recorder received.
class judge {
 public:
  judge(nemesis& n, witness& w)
      : nemesis_{n},
        witness_{w},
        server_{dynamic_cast<server_nemesis*>(&n)},
        sentinels_{dynamic_cast<sentinel_nemesis*>(&n)},
        cluster_{dynamic_cast<cluster_nemesis*>(&n)} {
    if (sentinels_ != nullptr) failovers_ = std::make_unique<failover_judge>(n.options().lease, sentinels_->first());
    if (dynamic_cast<zookeeper_nemesis*>(&n) != nullptr) shares_ = std::make_unique<share_judge>();
    if (cluster_ != nullptr)
      failovers_ = std::make_unique<cluster_judge>(n.options().lease, cluster_->ports(), cluster_->moves());
  }

  void look() {
    for (std::string const& c : witness_.take_complaints()) violation(c);
    for (refusal const& r : witness_.take_refusals()) {
      resolved_.insert({r.who, r.fence});
      ++refused_;
      if (failovers_) continue;             // what was believed until when is judged as a whole: see holds()
      if (r.valid_to <= r.other) continue;  // it had been told, or its deadline had passed
      bool const excused = server_ != nullptr && std::any_of(server_->data_losses().begin(),
                                                             server_->data_losses().end(), [&](data_loss const& loss) {
                                                               return r.fence <= loss.to && r.seen >= loss.from;
                                                             });
      if (excused) {
        ++excused_;
        continue;
      }
      auto const ms = [&](nanoseconds_of_boot t) { return std::to_string((t - r.granted) / 1'000'000); };
      violation("'" + r.lock + "': " + r.who + " with fence " + std::to_string(r.fence) +
                " had been told that it holds until " + ms(r.valid_to) +
                " ms after its grant, but the holder of fence " + std::to_string(r.seen) + " had the lock at " +
                ms(r.other) + " ms; its " + r.step + " was refused" + losses());
    }
  }

  /// With failovers, and where locks have several owners: all that have ended.
  void holds() {
    if (shares_) {
      shares_->add(witness_.take_visits());
      for (std::string const& what : shares_->judge()) violation(what);
    }
    if (!failovers_) return;
    failovers_->add(witness_.take_visits());
    failovers_->add(witness_.take_arrivals());
    for (std::string const& what :
         failovers_->judge(promotions(), sentinels_ != nullptr ? sentinels_->standstills() : cluster_->standstills())) {
      violation(what);
    }
  }

  /// All that the tasks were told. What a failover excuses is judged by failover_judge alone.
  void histories(std::string const& directory) {
    history_.add(witness_.take_operations());
    if (directory.empty()) return;
    history_.write(directory);
    if (failovers_) return;
    for (std::string const& what :
         history_.judge(server_ != nullptr ? server_->data_losses() : std::vector<data_loss>{}))
      violation(what);
  }

  /// Every overlap ends in a refusal of the client that was inside, or in its death.
  void overlaps() {
    for (overlap const& o : witness_.overlaps()) {
      auto const worker = o.inside.substr(0, o.inside.rfind('.'));
      if (resolved_.contains({o.inside, o.inside_fence}) || nemesis_.was_killed(worker)) continue;
      violation(o.entered + " with fence " + std::to_string(o.entered_fence) + " came in while " + o.inside +
                " with fence " + std::to_string(o.inside_fence) + " was inside and never refused");
    }
  }

  std::string losses() const {
    std::string text;
    if (server_ == nullptr) return text;
    for (data_loss const& loss : server_->data_losses()) {
      text += (text.empty() ? "; data was lost between the fences " : ", ") + std::to_string(loss.from) + " and " +
              std::to_string(loss.to);
    }
    return text;
  }

  void violation(std::string const& what) {
    if (violations_++ < 20) std::cerr << "\nVIOLATION: " << what << std::endl;
  }

  std::uint64_t violations() const { return violations_; }
  std::uint64_t refused() const { return refused_; }
  std::string of_histories() const {
    return "operations on mutexes " + std::to_string(history_.operations()) +
           (failovers_ ? ", not judged together" : ", judged together") +
           (history_.undecided() == 0 ? "" : ", locks with too many to judge " + std::to_string(history_.undecided()));
  }
  /// What may be, and was.
  std::string excused() const {
    if (server_ != nullptr)
      return "refused while the hold said it was valid, after the server lost its data: " + std::to_string(excused_);
    if (shares_)
      return "refused " + std::to_string(refused_) + ", holds " + std::to_string(shares_->visits()) +
             ", of them granted beside others " + std::to_string(shares_->granted_beside_others());
    return "holds " + std::to_string(failovers_->visits()) + ", promotions " + std::to_string(promotions().size()) +
           ", overlaps of holds explained by one " + std::to_string(failovers_->explained()) + ", the longest " +
           std::to_string(failovers_->longest().count()) + " ms, and " +
           std::to_string(failovers_->longest_of_the_well().count()) + " ms where nothing was paused";
  }

 private:
  std::vector<promotion> promotions() const {
    return sentinels_ != nullptr ? sentinels_->promotions() : cluster_->promotions();
  }

  nemesis& nemesis_;
  witness& witness_;
  server_nemesis* const server_;
  sentinel_nemesis* const sentinels_;
  cluster_nemesis* const cluster_;
  std::unique_ptr<failover_judge> failovers_;
  std::unique_ptr<share_judge> shares_;
  history_judge history_;
  std::set<std::pair<std::string, std::int64_t>> resolved_;
  std::uint64_t violations_ = 0, refused_ = 0, excused_ = 0;
};

int run(settings const& s) {
  std::cout << "seed " << s.seed << ": " << s.workers << " clients with " << s.tasks << " tasks each, " << s.locks
            << " locks, lease " << s.lease.count() << " ms, " << s.length.count() << " s" << std::endl;
  auto const started = [&]() -> std::unique_ptr<nemesis> {
    if (s.sentinel) return std::make_unique<sentinel_nemesis>(s);
    if (s.cluster) return std::make_unique<cluster_nemesis>(s);
    if (s.zookeeper) return std::make_unique<zookeeper_nemesis>(s);
    return std::make_unique<server_nemesis>(s);
  }();
  nemesis& n = *started;
  auto const began = steady::now();                                          // servers may start slowly
  auto const patience = s.sentinel || s.cluster || s.zookeeper ? 60s : 20s;  // two failovers, of which one fails
  witness w{n.witness_url()};
  judge j{n, w};
  std::chrono::milliseconds longest_calm{0};
  int calms = 0;

  auto const show = [&] {
    if (s.quiet) return;
    auto counts = w.counts();
    std::fprintf(stderr, "\r%4ld s: %lld entered, %lld writes, %llu refused, %llu violations   ",
                 static_cast<long>((steady::now() - began) / 1s), static_cast<long long>(counts["entered"]),
                 static_cast<long long>(counts["writes"]), static_cast<unsigned long long>(j.refused()),
                 static_cast<unsigned long long>(j.violations()));
  };

  // Every task must be granted a lock once nothing bad happens any more.
  auto const recover = [&] {
    n.calm();
    ++calms;
    auto const calm_began = steady::now();
    auto const before = w.all_progress();
    std::vector<std::string> waiting = n.tasks();
    while (!waiting.empty() && steady::now() < calm_began + patience) {
      std::this_thread::sleep_for(20ms);
      n.look_after_workers();
      auto const after = w.all_progress();
      std::erase_if(waiting, [&](std::string const& task) {
        auto const now = after.find(task);
        auto const then = before.find(task);
        return now != after.end() && (then == before.end() || now->second > then->second);
      });
    }
    if (!waiting.empty()) std::cerr << "\non the server while somebody waits in vain: " << n.left() << std::endl;
    for (std::string const& task : waiting)
      j.violation(task + " was granted nothing in " + std::to_string(patience.count()) + " s of calm");
    longest_calm =
        std::max(longest_calm, std::chrono::duration_cast<std::chrono::milliseconds>(steady::now() - calm_began));
    j.look();
    j.holds();
    show();
  };

  try {
    while (steady::now() < began + s.length && (s.sabotage ? j.violations() == 0 : j.violations() < 20)) {
      auto const end = std::min(began + s.length, steady::now() + 10s);
      while (steady::now() < end) {
        n.rage_until(std::min(end, steady::now() + 1s));
        j.look();
        show();
      }
      recover();
    }
  } catch (unexpected const& what) {
    j.violation(what.what());
  }

  n.calm();
  for (std::string const& what : n.end_workers(15s)) j.violation(what);
  j.look();
  j.holds();
  j.overlaps();
  j.histories(s.edn);

  if (s.cluster && !s.lose_data && !s.sabotage) {
    if (auto const lost = w.counts()["losses told"]; lost != 0)
      j.violation(std::to_string(lost) + " holds were lost where nothing was");
  }

  // What the killed ones had ends with its lease, the queue with the leases of its waiters.
  std::string left;
  for (auto const end = steady::now() + 3 * s.lease + 2s; steady::now() < end; std::this_thread::sleep_for(20ms)) {
    left = n.left();
    if (left.empty()) break;
  }
  if (!left.empty()) j.violation("left on the server: " + left);

  std::cout << (s.quiet ? "" : "\n") << "happened:";
  for (auto const& [what, times] : n.events()) std::cout << ' ' << what << ' ' << times << ',';
  std::cout << " calms " << calms << "\nrecorded:";
  for (auto const& [what, times] : w.counts()) std::cout << ' ' << what << ' ' << times << ',';
  std::cout << ' ' << j.excused() << ", " << j.of_histories()
            << "\nlongest calm until everybody was granted something: " << longest_calm.count()
            << " ms\nviolations: " << j.violations() << " (seed " << s.seed << ")" << std::endl;
  if (s.sabotage) return j.violations() > 0 ? 0 : 1;
  return j.violations() == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(read(argc, argv));
  } catch (std::invalid_argument const& error) {
    std::cerr << "conch-chaos: " << error.what() << "\n" << usage;
    return 2;
  } catch (std::exception const& error) {
    std::cerr << "conch-chaos: " << error.what() << '\n';
    return 3;
  }
}
