// F9: what it costs client and server to keep many holds.
#include <conch/conch.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "resp/encoder.hpp"
#include "servers/redis/codec.hpp"
#include "support/processes.hpp"
#include "support/raw.hpp"
#include "support/report.hpp"
#include "support/server.hpp"
#include "support/workers.hpp"

namespace {

using namespace conch::bench;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// The least that looks whose a lock is before it makes its lease longer: one MGET for 200 of them, a comparison and a
/// PEXPIRE for each. Nothing keeps it from making one shorter, and no claim becomes a hold.
double least_renewal_us(server& redis, double how_long) {
  raw_connection to{redis.unix_url()};
  std::string const sha = redis.probe().command(
      {"SCRIPT", "LOAD",
       "local call = redis.call local values = call('MGET', unpack(KEYS)) local answer = {} for i = 1, #KEYS do "
       "if string.find(values[i] or '', ARGV[2 * i - 1], 1, true) == 1 then call('PEXPIRE', KEYS[i], ARGV[2 * i]) "
       "answer[i] = 1 "
       "else answer[i] = 0 end end return answer"});
  constexpr int scripts = 50, locks = 200;
  std::vector<lane> lanes;
  for (int i = 0; i < scripts; ++i) {
    std::vector<std::string> arguments{"EVALSHA", sha, std::to_string(locks)}, of_each;
    for (int k = 0; k < locks; ++k) {
      std::string const number = std::to_string(i * locks + k), id = "00000000000000000000000000000be9." + number + " ";
      arguments.push_back("conch:{bench:least:" + number + "}");
      to.exchange(command({"SET", arguments.back(), id + "217437182018979 h"}));
      of_each.insert(of_each.end(), {id, "30000"});
    }
    arguments.insert(arguments.end(), of_each.begin(), of_each.end());
    std::string bytes;
    conch::resp::command_writer out{bytes, arguments.size()};
    for (std::string const& one : arguments) out.arg(one);
    lanes.push_back({bytes, bytes});
  }
  double const before = redis.cpu_us();
  auto const cycles = run_lanes(to, lanes, in_seconds(how_long));
  return (redis.cpu_us() - before) / static_cast<double>(2 * cycles * locks);
}

/// One script a lock, pipelined: server CPU of one renewal, in µs.
double raw_renewal_us(server& redis, double how_long) {
  std::string const id = "00000000000000000000000000000be9";
  raw_connection to{redis.unix_url()};
  std::vector<lane> lanes;
  for (int i = 0; i < 10'000; ++i) {  // many, as the client's: few would stay in the server's caches
    std::string const name = "bench:raw-renew:" + std::to_string(i);
    std::string acquire, renew;
    conch::redis::encode(conch::protocol::acquire_command{name, 1, true, milliseconds{30'000}, milliseconds{3'000},
                                                          milliseconds{600'000}, 0, 0, false},
                         id, acquire);
    to.exchange(acquire);
    conch::protocol::renewal const one{name, 1, milliseconds{30'000}};
    conch::redis::encode(conch::protocol::renew_command{{&one, 1}, false}, id, renew);
    lanes.push_back({renew, renew});
  }
  double const before = redis.cpu_us();
  auto const cycles = run_lanes(to, lanes, in_seconds(how_long));
  return (redis.cpu_us() - before) / static_cast<double>(2 * cycles);
}

constexpr std::string_view least_renewal = "MGET, a comparison and PEXPIRE, 200 a script";

void keep_many(report& out, options const& chosen, server& redis, std::size_t count) {
  std::string const name = std::to_string(count) + " holds";
  progress("F9 " + name);
  redis.probe().command({"FLUSHALL"});
  asio::io_context context{1};
  conch::config settings = settings_for(redis.unix_url(), true);
  constexpr seconds often{2};  // instead of every 10 s, so that a run is short; scaled below
  settings.renew_every = often;
  conch::client client{context.get_executor(), settings};
  std::vector<conch::hold> const holds = acquire_many(context, client, count, "bench:kept:");
  context.run_for(often + milliseconds{300});

  samples client_us, server_us, floor_us, least_us, locks_a_script;
  for (int i = 0; i < std::min(chosen.repetitions, 3); ++i) {
    auto const before = client.stats();
    double const client_before = own_cpu_us(), server_before = redis.cpu_us();
    context.run_for(often);
    double const server_after = redis.cpu_us();
    auto const after = client.stats();
    auto const renewed = static_cast<double>(after.renewals - before.renewals);
    client_us.add((own_cpu_us() - client_before) / renewed);
    server_us.add((server_after - server_before) / renewed);
    locks_a_script.add(renewed / static_cast<double>(after.renewal_scripts - before.renewal_scripts));
    floor_us.add(raw_renewal_us(redis, chosen.seconds));
    least_us.add(least_renewal_us(redis, chosen.seconds));
  }
  // µs a renewal, of which there are count in 10 s.
  double const to_percent = static_cast<double>(count) / 10.0 / 1e6 * 100;
  out.add("F9", "client CPU, every 10 s, " + name, client_us.median() * to_percent, "% of a core");
  out.add("F9", "client CPU a renewal, " + name, client_us, "us");
  out.add("F9", "server CPU a renewal, " + name, server_us, "us", least_renewal, least_us);
  out.add("F9", "server CPU a renewal, " + name, server_us, "us", "own script, one a lock (what gathering saves)",
          floor_us);
  out.add("F9", "server CPU of MGET, a comparison and PEXPIRE, 200 a script, " + name, least_us, "us",
          "own script, one a lock", floor_us);
  out.add("F9", "locks a script, " + name, locks_a_script, "locks");
  if (client.stats().losses != 0) throw std::runtime_error("holds were lost");
}

}  // namespace

int main(int argc, char** argv) try {
  options const chosen =
      parse_options(argc, argv, "F9: CPU of client and server for 10,000 and 100,000 renewed holds.");
  server redis;
  raw_connection setup{redis.unix_url()};
  load_scripts(setup);
  report out{chosen};
  if (chosen.wants("F9")) {
    keep_many(out, chosen, redis, 10'000);
    keep_many(out, chosen, redis, 100'000);
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_watchdog: %s\n", error.what());
  return 1;
}
