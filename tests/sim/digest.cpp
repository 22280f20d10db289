#include "sim/digest.hpp"

#include "base/turns.hpp"
#include "sim/every_world.hpp"

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

std::uint64_t digest_of(kind_of_world const& w, std::uint64_t seed) {
  digest d;
  // What an earlier schedule of another world has set for this thread.
  in_one_turn = 1'000;
  use_small_steps(false);
  outcome o;
  {
    taking const these{d};
    o = w.run(seed, true);
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
