// Commands in an order that random ones seldom come to, each for a deliberate fault in sql/*.sql (mutants_test.cpp).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/differential/compared.hpp"

namespace conch::sim {

struct told_command {
  std::int64_t ms;  // since the begin of the case; may be less than that of the command before
  std::string client;
  protocol::command command;
};

struct told_case {
  std::string_view name;
  bool sweeps;  // as sql_server
  std::vector<told_command> commands;
};

/// What is told, instead of what is drawn.
class told_side {
 public:
  explicit told_side(told_case const& c) : case_{c} {}

  std::vector<std::string> clients() const { return {"a01", "b", "c7f"}; }
  std::int64_t now() const { return begin + now_.ms * 1'000; }
  void step() { now_ = case_.commands[next_++]; }
  std::string const& client() const { return now_.client; }
  bool rarely() const { return false; }
  protocol::command command(std::string const&) const { return now_.command; }
  int steps() const { return static_cast<int>(case_.commands.size()); }

 private:
  static constexpr std::int64_t begin = 1'700'000'000'000'000;

  told_case const& case_;
  std::size_t next_ = 0;
  told_command now_{};
};

inline std::vector<told_case> const& told_cases() {
  using std::chrono::milliseconds;
  static engine::permit const one_of_one{engine::permit_kind::semaphore, 1, 1, 0, "-"},
      one_of_two{engine::permit_kind::semaphore, 2, 1, 0, "-"}, both{engine::permit_kind::semaphore, 2, 2, 0, "-"};
  constexpr milliseconds claim{50}, retention{2'000}, hardly{1};
  auto const acquire = [&](std::uint64_t id, bool wait, int lease, engine::permit const* share, milliseconds keeps) {
    protocol::acquire_command c{"stock", engine::grant_id{id}, wait, milliseconds{lease}, claim, keeps};
    c.permit = share;
    return c;
  };
  auto const release = [&](std::uint64_t id, engine::permit const* share, std::uint32_t rest) {
    protocol::release_command c{"stock", engine::grant_id{id}, false, milliseconds{100}, claim, retention};
    c.permit = share;
    c.rest = rest;
    return c;
  };
  static protocol::acquire_command earlier = acquire(8, true, 1'000, nullptr, retention);
  earlier.ticket = 1;
  static protocol::renewal const longer{"stock", engine::grant_id{7}, milliseconds{1'000}};
  static std::vector<told_case> const all{
      {"a try in the last ms of a lease",
       false,
       {{0, "a01", acquire(7, false, 100, nullptr, hardly)}, {100, "b", acquire(8, false, 100, nullptr, hardly)}}},
      {"a try at the end of a share",
       false,
       {{0, "a01", acquire(7, false, 100, &one_of_one, retention)},
        {100, "b", acquire(8, false, 100, &one_of_one, retention)}}},
      {"a mutex over expired shares, and the clock goes back",
       false,
       {{0, "a01", acquire(7, false, 100, &one_of_one, retention)},
        {200, "b", acquire(8, false, 100, nullptr, retention)},
        {50, "a01", acquire(9, false, 100, nullptr, retention)},
        {50, "b", release(8, nullptr, 0)}}},
      {"a share waits in the line of a mutex",
       false,
       {{0, "a01", acquire(7, false, 100, &one_of_one, retention)},
        {10, "c7f", acquire(7, true, 1'000, &one_of_one, retention)},
        {200, "b", earlier},
        {300, "b", release(8, nullptr, 0)}}},
      {"a line ends before the lease that was renewed",
       false,
       {{0, "a01", acquire(7, false, 100, nullptr, retention)},
        {10, "b", acquire(8, true, 100, nullptr, retention)},
        {50, "a01", protocol::renew_command{{&longer, 1}, false, false, {}}},
        {500, "a01", release(7, nullptr, 0)}}},
      {"a share keeps more than it has",
       false,
       {{0, "a01", acquire(7, false, 1'000, &one_of_two, retention)}, {10, "a01", release(7, &one_of_two, 2)}}},
      {"a part of a share is passed on when its fence is forgotten and the clock goes back",
       true,
       {{0, "a01", acquire(7, false, 10'000, &both, hardly)},
        {10, "b", acquire(8, true, 10'000, &one_of_two, hardly)},
        {-1'000, "a01", release(7, &both, 1)}}},
      {"a mutex is passed on by force when its fence is forgotten and the clock goes back",
       true,
       {{0, "a01", acquire(7, false, 10'000, nullptr, hardly)},
        {10, "b", acquire(8, true, 10'000, nullptr, hardly)},
        {-1'000, "c7f", protocol::force_command{"stock", claim, retention, std::nullopt}}}},
  };
  return all;
}

}  // namespace conch::sim
