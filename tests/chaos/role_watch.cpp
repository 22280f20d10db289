#include "chaos/role_watch.hpp"

#include <time.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace conch::test {

using namespace std::chrono_literals;

nanoseconds_of_boot boot_now() {
  timespec t{};
  ::clock_gettime(CLOCK_BOOTTIME, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

role_watch::role_watch(std::vector<redis_server*> of) : of_{std::move(of)}, seen_(of_.size()) {
  for (std::size_t i = 0; i < of_.size(); ++i) threads_.emplace_back([this, i] { keep_looking(i); });
}

role_watch::~role_watch() {
  ended_ = true;
  for (std::thread& t : threads_) t.join();
}

void role_watch::keep_looking(std::size_t server) {
  std::optional<redis_probe> probe;
  while (!ended_) {
    look(server, probe);
    std::this_thread::sleep_for(5ms);
  }
}

void role_watch::look(std::size_t server, std::optional<redis_probe>& probe) {
  std::uint64_t life = 0;
  {
    std::lock_guard const guard{mutex_};
    life = seen_[server].life;
  }
  std::string role;
  nanoseconds_of_boot const asked = boot_now();
  try {
    if (!probe) probe.emplace(*of_[server], 500ms);
    role = probe->command({"ROLE"});
  } catch (std::runtime_error const&) {
    probe.reset();  // it is down, or paused
  }
  if (role.empty()) return;
  std::lock_guard const guard{mutex_};
  seen& s = seen_[server];
  if (s.life != life || asked < s.at) return;
  bool const replica = role.starts_with("[slave");
  if (s.was_replica && !replica) promotions_.push_back({of_[server]->port(), s.at, boot_now()});
  s.was_replica = replica;
  s.returned = s.returned && !replica;
  s.at = asked;
}

void role_watch::forget(std::size_t server) {
  std::optional<redis_probe> probe;
  look(server, probe);
  std::lock_guard const guard{mutex_};
  seen_[server] = {.life = seen_[server].life + 1, .returned = true};
}

void role_watch::named(std::size_t server, nanoseconds_of_boot from, nanoseconds_of_boot to) {
  std::lock_guard const guard{mutex_};
  if (std::exchange(seen_[server].returned, false)) promotions_.push_back({of_[server]->port(), from, to});
}

std::vector<promotion> role_watch::promotions() {
  std::lock_guard const guard{mutex_};
  auto all = promotions_;
  std::sort(all.begin(), all.end(), [](promotion const& a, promotion const& b) { return a.to < b.to; });
  return all;
}

}  // namespace conch::test
