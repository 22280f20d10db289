#include "sim/digest.hpp"

#include "sim/runner.hpp"
#include "sim/worlds/quorum_world.hpp"
#include "sim/worlds/zookeeper_world.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace conch::sim {

namespace {

thread_local digest* taken = nullptr;

class taking {
 public:
  explicit taking(digest& d) { taken = &d; }
  ~taking() { taken = nullptr; }
  taking(taking const&) = delete;
  taking& operator=(taking const&) = delete;
};

kind_of_world of_plans(std::string name, plan_maker make) {
  return {std::move(name), [make = std::move(make)](std::uint64_t seed) { return run_plan(make(seed), true); }};
}

template <class Outcome>
outcome as_outcome(Outcome o) {
  return {o.promise, std::move(o.words), std::move(o.trace), o.grants};
}

kind_of_world of_zookeeper(std::string name, zookeeper_locks locks) {
  return {std::move(name), [locks](std::uint64_t seed) { return as_outcome(run_zookeeper(seed, true, locks)); }};
}

std::vector<kind_of_world> make_every_world() {
  using engine::permit_kind;
  std::vector<kind_of_world> all;
  all.push_back(of_plans("one server, mutex", make_plan));
  all.push_back(of_plans("one server, multi", make_multi_plan));
  for (auto const& [kind, name] : {std::pair{permit_kind::semaphore, "semaphore"},
                                   {permit_kind::shared, "shared"},
                                   {permit_kind::segments, "striped"},
                                   {permit_kind::reentrant, "reentrant"}}) {
    all.push_back(of_plans(std::string{"one server, "} + name,
                           [kind = kind](std::uint64_t seed) { return make_permits_plan(seed, kind); }));
    all.push_back(of_plans(std::string{"synced, "} + name,
                           [kind = kind](std::uint64_t seed) { return make_synced_permits_plan(seed, kind); }));
  }
  all.push_back(of_plans("synced, mutex", make_synced_plan));
  all.push_back(of_plans("replicas", make_replicas_plan));
  all.push_back(of_plans("cluster", make_cluster_plan));
  all.push_back({"quorum", [](std::uint64_t seed) { return as_outcome(run_quorum(seed, true)); }});
  all.push_back(of_zookeeper("zookeeper, mutex", zookeeper_locks::mutexes));
  all.push_back(of_zookeeper("zookeeper, all kinds", zookeeper_locks::of_all_kinds));
  return all;
}

}  // namespace

void digest::add(std::string_view bytes) {
  add(static_cast<std::uint64_t>(bytes.size()));  // "ab" and "c" are not "a" and "bc"
  for (char const c : bytes) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
}

void digest::add(std::uint64_t n) {
  for (int i = 0; i < 8; ++i, n >>= 8) value_ = (value_ ^ (n & 0xff)) * 0x100000001b3U;
}

void note_sent(std::int64_t now, std::string_view bytes) {
  if (taken == nullptr) return;
  taken->add(static_cast<std::uint64_t>(now));
  taken->add(bytes);
}

bool notes_sent() { return taken != nullptr; }

std::span<kind_of_world const> every_world() {
  static std::vector<kind_of_world> const all = make_every_world();
  return all;
}

std::uint64_t digest_of(kind_of_world const& w, std::uint64_t seed) {
  digest d;
  // What an earlier schedule of another world has set for this thread.
  in_one_turn = 1'000;
  use_small_steps(false);
  outcome o;
  {
    taking const these{d};
    o = w.run(seed);
  }
  for (std::string const& line : o.trace) d.add(line);
  d.add(static_cast<std::uint64_t>(o.promise));
  d.add(o.words);
  d.add(o.scripts);
  return d.value();
}

std::uint64_t digest_of(kind_of_world const& w, std::uint64_t seed, std::uint64_t count, unsigned threads) {
  std::vector<std::uint64_t> each(count);
  std::atomic<std::uint64_t> next{0};
  std::vector<std::thread> pool;
  for (unsigned i = 0; i < std::max(threads, 1U); ++i) {
    pool.emplace_back([&] {
      for (std::uint64_t k = next++; k < count; k = next++) each[k] = digest_of(w, seed_at(seed, k));
    });
  }
  for (std::thread& t : pool) t.join();
  digest all;
  for (std::uint64_t const one : each) all.add(one);
  return all.value();
}

}  // namespace conch::sim
