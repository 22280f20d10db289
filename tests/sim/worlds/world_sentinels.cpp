// Sentinels: each learns of a new master in its own time, or never, and tells the clients that it can reach.
#include "sim/digest.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string{text} + "\r\n";
}

constexpr std::string_view port_of_servers = "6379";

}  // namespace

void world::make_sentinels() {
  for (int i = 0; i < plan_.sentinels; ++i) sentinels_.emplace_back();
  cut_from_sentinels_.assign(plan_.clients.size(), std::vector<nanos>(sentinels_.size(), 0));
}

/// The leader of the failover names the new master first, and the epoch of that later.
void world::tell_sentinels(fault_plan const& f) {
  ++epoch_;
  std::size_t const leader = static_cast<std::size_t>(random_.below(plan_.sentinels));
  for (std::size_t i = 0; i < sentinels_.size(); ++i) {
    if (is_liar(i)) continue;
    nanos const hears = f.told <= 0 ? (f.told < 0 ? f.length2 : 0) : random_.between(0, f.told);
    nanos const wholly = i == leader ? hears + random_.between(0, f.length2) : hears;
    after(hears, [this, i, to = master(), epoch = epoch_] {
      if (sentinels_[i].epoch < epoch) sentinels_[i].address = to;
    });
    after(std::min(wholly, f.length2), [this, i, to = master(), epoch = epoch_] { sentinel_hears(i, to, epoch); });
  }
}

/// The former master has been made a replica: those that did it know why.
void world::all_sentinels_know() {
  for (std::size_t i = 0; i < sentinels_.size(); ++i) {
    if (!is_liar(i)) sentinel_hears(i, master(), epoch_);
  }
}

void world::sentinel_hears(std::size_t number, std::size_t server, std::int64_t epoch) {
  sentinel_state& s = sentinels_[number];
  if (s.epoch >= epoch) return;
  say("Sentinel " + std::to_string(number) + " knows that server " + std::to_string(server) + " is the master");
  std::string const event =
      "m " + sim_sentinels::host_of_server(s.server) + " 6379 " + sim_sentinels::host_of_server(server) + " 6379";
  s.epoch = epoch;
  s.server = s.address = server;
  observer_->sentinel_knows(number, server);
  for (auto const& weak : s.lines) {
    sentinel_line_ptr const l = weak.lock();
    if (l != nullptr && l->open && l->subscribed)
      l->to_client(">3\r\n" + bulk("message") + bulk("+switch-master") + bulk(event));
  }
}

nanos world::sentinel_delay(sentinel_line& l, bool up) {
  nanos& last = up ? l.last_up : l.last_down;
  nanos const cut_until = cut_from_sentinels_[static_cast<std::size_t>(l.client)][l.sentinel];
  last = std::max({last, cut_until, now_ + plan_.latency + random_.between(0, plan_.jitter)});
  return last - now_;
}

void world::to_sentinel(sentinel_line_ptr const& l, std::string bytes) {
  note_sent(now_, bytes);
  after(sentinel_delay(*l, true), [this, l, bytes = std::move(bytes)] {
    if (!l->open) return;
    l->received += bytes;
    std::string_view rest = l->received;
    std::vector<std::string_view> argv;
    std::string answers;
    while (!rest.empty() && next_command(rest, argv)) answers += answer_of_sentinel(l, argv);
    l->received.erase(0, l->received.size() - rest.size());
    if (!answers.empty()) l->to_client(std::move(answers));
  });
}

std::string world::answer_of_sentinel(sentinel_line_ptr const& l, std::vector<std::string_view> const& argv) {
  sentinel_state& s = sentinels_[l->sentinel];
  if (argv[0] == "HELLO") return "%1\r\n" + bulk("mode") + bulk("sentinel");
  if (argv[0] == "SUBSCRIBE") {
    l->subscribed = true;
    std::erase_if(s.lines, [](auto const& weak) { return weak.expired(); });
    s.lines.push_back(l);
    return ">3\r\n" + bulk("subscribe") + bulk(argv[1]) + ":1\r\n";
  }
  if (argv[0] != "SENTINEL") throw violation{10, "a Sentinel is asked for " + std::string{argv[0]}};
  if (argv[1] == "MYID") return bulk("id" + std::to_string(l->sentinel));
  if (argv[1] == "GET-MASTER-ADDR-BY-NAME")
    return "*2\r\n" + bulk(sim_sentinels::host_of_server(s.address)) + bulk(port_of_servers);
  if (argv[1] == "MASTER")
    return "%2\r\n" + bulk("flags") + bulk("master") + bulk("config-epoch") + bulk(std::to_string(s.epoch));
  if (argv[1] != "SENTINELS") throw violation{10, "a Sentinel is asked for SENTINEL " + std::string{argv[1]}};
  std::string others = "*" + std::to_string(sentinels_.size() - 1) + "\r\n";
  for (std::size_t i = 0; i < sentinels_.size(); ++i) {
    if (i == l->sentinel) continue;
    others += "%4\r\n" + bulk("runid") + bulk("id" + std::to_string(i)) + bulk("ip") +
              bulk(sim_sentinels::host_of_sentinel(i)) + bulk("port") + bulk("26379") + bulk("flags") +
              bulk("sentinel");
  }
  return others;
}

void world::named(int client, std::size_t server) {
  say("client " + std::to_string(client) + " is told that server " + std::to_string(server) + " is the master");
  addresses_[static_cast<std::size_t>(client)] = server;
  if (server == master() && promoted_at() >= 0) observer_->told_of_switch(client);
}

}  // namespace conch::sim
