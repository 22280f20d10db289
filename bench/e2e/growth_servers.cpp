// F13 at servers other than a single Redis: a Cluster, TLS, PostgreSQL, ZooKeeper. How what they do grows with slots,
// tables and sessions.
#include <conch/conch.hpp>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <exception>
#include <string>
#include <vector>

#include "support/certificates.hpp"
#include "support/cluster_set.hpp"
#include "support/growth.hpp"
#include "support/report.hpp"
#include "support/server.hpp"
#include "support/zookeeper_ensemble.hpp"
#if CONCH_BENCH_POSTGRESQL
#include "support/postgresql_server.hpp"
#endif

namespace {

using namespace conch::bench;

/// Holds that are kept for three renewals. In ZooKeeper the session keeps them all.
measured kept(std::string const& url, std::size_t n, std::string const& prefix) {
  conch::config settings = settings_for(url, true);
  settings.renew_every = 1s;
  crowd c{settings};
  auto const holds = c.acquire(n, prefix);
  double const begin = thread_cpu_us();
  c.in.context.restart();
  c.in.context.run_for(3500ms);
  double const all = thread_cpu_us() - begin;
  auto const s = c.client->stats();
  return {all, 0, std::to_string(s.renewals) + " renewals, " + std::to_string(s.losses) + " losses"};
}

/// By the clock: what the server has to look through counts, too. The median of this many.
double one_cycle_us(std::string const& url, std::string const& name) {
  crowd c{settings_for(url, true)};
  samples us;
  for (int i = 0; i < 220; ++i) {
    auto const begin = steady::now();
    bool done = false;
    {
      conch::mutex m{*c.client, name};
      conch::hold held;
      m.async_acquire([&](conch::error_code ec, conch::hold h) {
        if (ec) throw boost::system::system_error{ec};
        held = std::move(h);
        held.async_release([&](conch::error_code, bool) { done = true; });
      });
      c.in.until([&] { return done; }, "a cycle");
    }
    if (i >= 20) us.add(seconds_since(begin) * 1e6);
  }
  return us.median();
}

/// A cycle of one lock beside as many that one other client holds: rows, keys, nodes.
measured beside_locks(std::string const& url, std::size_t n, std::string const& prefix) {
  crowd other{settings_for(url, true)};
  auto const holds = other.acquire(n, prefix);
  return {one_cycle_us(url, prefix + "alone") * static_cast<double>(n), 0};
}

/// Beside as many clients, each of which holds one: connections, sessions.
measured beside_clients(std::string const& url, std::size_t n, std::string const& prefix) {
  loop in;
  std::deque<conch::client> clients;
  std::vector<conch::hold> holds;
  for (std::size_t i = 0; i < n; ++i) {
    conch::mutex m{clients.emplace_back(in.context.get_executor(), settings_for(url, true)),
                   prefix + std::to_string(i)};
    m.async_acquire([&](conch::error_code ec, conch::hold h) {
      if (ec) throw boost::system::system_error{ec};
      holds.push_back(std::move(h));
    });
    if (i % 50 == 49 || i + 1 == n) in.until([&] { return holds.size() == i + 1; }, "holds");
  }
  return {one_cycle_us(url, prefix + "alone") * static_cast<double>(n), 0};
}

struct place {
  std::string name, url;
  std::vector<std::size_t> locks, clients;
};

void measure(growth& table, place const& at) {
  int run = 0;
  // Other names each time: what is left of the last run must not be in the way.
  auto const prefix = [&] { return "g" + std::to_string(++run) + ':'; };
  std::string const where = ", " + at.name;
  table.run({"acquires, then releases, at once" + where, at.locks, [&](std::size_t n) { return burst(at.url, n); }});
  table.run({"holds kept for three renewals" + where, at.locks,
             [&](std::size_t n) { return kept(at.url, n, prefix()); }, false});
  table.run({"locks held by another client, and a cycle beside them" + where, at.locks,
             [&](std::size_t n) { return beside_locks(at.url, n, prefix()); }, false, "us a cycle"});
  table.run({"clients with a lock, and a cycle beside them" + where, with_descriptors(at.clients, 4),
             [&](std::size_t n) { return beside_clients(at.url, n, prefix()); }, false, "us a cycle"});
  table.run({"clients in line" + where, with_descriptors(at.clients, 4),
             [&](std::size_t n) { return clients_in_line(at.url, n); }});
}

void over_tls(growth& table) {
  conch::test::certificates files;
  files.authority("ca");
  files.signed_by("ca", "server", "IP:127.0.0.1");
  server redis{{.tls = true,
                .arguments = {"--tls-cert-file", files.certificate("server"), "--tls-key-file", files.key("server"),
                              "--tls-auth-clients", "no"}}};
  table.prepare = [&] { redis.probe().command({"FLUSHALL"}); };
  measure(table, {"TLS",
                  redis.tcp_url() + "?cacert=" + files.certificate("ca"),
                  {1'000, 3'000, 10'000, 30'000},
                  {10, 30, 100, 300, 1'000}});
}

void in_a_cluster(growth& table) {
  conch::test::cluster_set set{{.masters = 3}};
  std::vector<conch::test::redis_probe> probes;
  for (std::size_t i = 0; i < set.size(); ++i) probes.emplace_back(set.node(i));
  table.prepare = [&] {
    for (auto& probe : probes) probe.command({"FLUSHALL"});
  };
  measure(table, {"Cluster of 3, as many slots", set.url(), {300, 1'000, 3'000, 10'000}, {10, 30, 100, 300}});
}

void in_postgresql(growth& table) {
#if CONCH_BENCH_POSTGRESQL
  conch::test::postgresql_server database{{.settings = {"max_connections=700", "autovacuum_naptime=5s"}}};
  table.prepare = [] {};
  measure(table, {"PostgreSQL, rows", database.url(), {300, 1'000, 3'000, 10'000}, {10, 30, 100, 300}});
#else
  (void)table;
  progress("without PostgreSQL: conch was built without it");
#endif
}

void in_zookeeper(growth& table) {
  conch::test::zookeeper_ensemble ensemble;
  table.prepare = [] {};
  measure(table, {"ZooKeeper, sessions", ensemble.url(), {100, 300, 1'000, 3'000}, {10, 30, 100, 300}});
}

}  // namespace

int main(int argc, char** argv) try {
  options const chosen =
      parse_options(argc, argv, "F13-servers: F13 over TLS, in a Cluster, in PostgreSQL and in ZooKeeper.");
  with_descriptors({});
  report out{chosen};
  bool failed = false;
  for (auto const measure_all : {over_tls, in_a_cluster, in_postgresql, in_zookeeper}) {
    growth table{out, chosen};
    try {
      measure_all(table);
    } catch (std::exception const& error) {
      std::fprintf(stderr, "bench_growth_servers: %s\n", error.what());
      failed = true;
    }
  }
  return failed ? 1 : 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_growth_servers: %s\n", error.what());
  return 1;
}
