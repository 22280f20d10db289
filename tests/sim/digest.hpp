// One number for all that happens in many schedules: a change that only moves code does not change it.
#pragma once

#include <cstdint>
#include <string_view>

namespace conch::sim {

struct kind_of_world;

// FNV-1a, of 64 bits.
class digest {
 public:
  void add(std::string_view bytes);
  void add(std::uint64_t n);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

// A world reports each write, of clients and of servers, with its time. For this thread; nothing while no digest is
// taken.
void note_sent(std::int64_t now, std::string_view bytes);
bool notes_sent();  // whether a digest is taken

// The digest of that schedule: its trace, its end, and all bytes sent.
std::uint64_t digest_of(kind_of_world const& w, std::uint64_t seed);

// The digest of this many schedules of a run, as run_schedules() draws them. The same on any number of threads.
std::uint64_t digest_of(kind_of_world const& w, std::uint64_t seed, std::uint64_t count, unsigned threads);

}  // namespace conch::sim
