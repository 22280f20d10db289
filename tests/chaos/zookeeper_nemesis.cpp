#include "chaos/zookeeper_nemesis.hpp"

#include "support/zookeeper_client.hpp"

#include <algorithm>
#include <iostream>

namespace conch::test {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using towards = tcp_proxy::towards;

zookeeper_options three() {
  zookeeper_options o;
  o.servers = 3;
  o.proxies = true;
  return o;
}

}  // namespace

zookeeper_nemesis::zookeeper_nemesis(chaos_options const& options)
    : nemesis{options},
      ensemble_{three()},
      links_(workers_.size()) {
  for (worker& w : workers_) {
    for (std::size_t i = 0; i < ensemble_.size(); ++i) {
      links_[static_cast<std::size_t>(w.number)].push_back(std::make_unique<tcp_proxy>(ensemble_.port(i), draw()));
    }
    start(w);
  }
}

std::vector<std::string> zookeeper_nemesis::arguments_of(worker const& w) {
  std::string url = "zookeeper://";
  for (auto const& link : links_[static_cast<std::size_t>(w.number)]) {
    url += (url.back() == '/' ? "" : ",") + ("127.0.0.1:" + std::to_string(link->port()));
  }
  return {"--url", url};
}

void zookeeper_nemesis::calm() {
  nemesis::calm();
  for (auto const& links : links_) {
    for (auto const& link : links) {
      link->refuse(false);
      link->heal();
    }
  }
  supervise();
  ensemble_.wait_until_serving();
}

/// Restarts what has ended by itself, as an operator would, and logs it.
void zookeeper_nemesis::supervise() {
  for (std::size_t i = 0; i < ensemble_.size(); ++i) {
    std::string const how = ensemble_.ended_by_itself(i);
    if (how.empty()) continue;
    note("servers that ended by themselves");
    std::cerr << "\nserver " << i << ' ' << how << "; its log:\n" << ensemble_.last_words(i) << std::endl;
    ensemble_.start(i);
  }
}

// ---------------------------------------------------------------------------------------------------------- events

void zookeeper_nemesis::strike() {
  int const what = roll(100);
  if (what < 35) {
    hurt_worker(any_worker(), roll(100));
  } else if (what < 65) {
    hurt_link(any_worker(), roll(100));
  } else if (!options_.sabotage && hurt_ == nobody) {
    hurt_servers(roll(100));
  }
}

void zookeeper_nemesis::hurt_link(worker const& w, int chance) {
  auto& links = links_[static_cast<std::size_t>(w.number)];
  tcp_proxy& p = *links[static_cast<std::size_t>(roll(static_cast<int>(links.size())))];
  auto const direction = roll(2) == 0 ? towards::server : towards::client;
  auto const mend_after = [&](int limit) {
    later(milliseconds{20 + roll(limit)}, [&p] {
      p.refuse(false);
      p.heal();
    });
  };
  if (chance < 25) {
    note("links delayed");
    p.set(direction, {.delay = milliseconds{roll(60)}, .jitter = milliseconds{1 + roll(80)}});
    mend_after(2000);
  } else if (chance < 35) {
    note("links split");
    p.set(direction, {.split = static_cast<std::size_t>(1 + roll(40)), .gap = std::chrono::microseconds{roll(300)}});
    mend_after(1500);
  } else if (chance < 55) {
    note("links stalled");
    p.set(direction, {.stalled = true});
    mend_after(roll(2) == 0 ? 300 : 2500);
  } else if (chance < 75) {
    note("links reset between two messages");
    p.reset_after(direction, static_cast<std::uint64_t>(roll(120)));
  } else if (chance < 90) {
    note("links reset");
    p.reset();
  } else {
    note("links refused");
    p.refuse(true);
    p.reset();
    mend_after(3000);
  }
}

/// All are well.
void zookeeper_nemesis::hurt_servers(int chance) {
  auto const lease = static_cast<int>(options_.lease.count());
  auto const which = static_cast<std::size_t>(roll(static_cast<int>(ensemble_.size())));
  if (chance < 25) {
    note("servers killed");
    hurt_ = which;
    ensemble_.kill(which);
    later(milliseconds{roll(2 * lease)}, [this, which] {
      ensemble_.start(which);
      hurt_ = nobody;
    });
  } else if (chance < 50) {
    note("servers stopped");
    hurt_ = which;
    ensemble_.stop(which);
    later(milliseconds{roll(2 * lease)}, [this, which] {
      ensemble_.cont(which);
      hurt_ = nobody;
    });
  } else {
    cut_off(which);
  }
}

/// Its clients are still answered.
void zookeeper_nemesis::cut_off(std::size_t follower) {
  std::size_t const leader = ensemble_.leader();
  if (follower == leader) return;
  note("followers cut off");
  hurt_ = follower;
  tcp_proxy& link = ensemble_.between(follower, leader);
  link.stall();
  auto const lease = static_cast<int>(options_.lease.count());
  bool const for_good = roll(2) == 0;
  later(milliseconds{roll(3) == 0 ? roll(lease) : lease + roll(lease)}, [this, &link, for_good] {
    if (for_good) link.reset();
    link.heal();
    hurt_ = nobody;
  });
}

// ------------------------------------------------------------------------------------------------------- the locks

void zookeeper_nemesis::take_away(std::string const& lock) {
  zookeeper_client client{ensemble_.port(ensemble_.leader()), 10s};
  std::string const folder = "/conch/" + lock;
  std::vector<std::string> nodes = client.list(folder);
  auto const sequence = [](std::string const& node) { return node.substr(node.rfind('-') + 1); };
  auto const first = std::min_element(nodes.begin(), nodes.end(),
                                      [&](auto const& a, auto const& b) { return sequence(a) < sequence(b); });
  if (first != nodes.end()) client.remove(folder + '/' + *first);
  client.ask(zookeeper::close_session{});
}

std::string zookeeper_nemesis::left() {
  zookeeper_client client{ensemble_.port(ensemble_.leader()), 10s};
  std::string all;
  for (std::string const& path : client.tree("/conch")) {
    if (path.rfind('-') != std::string::npos || path.starts_with("/conch/.clients/")) all += path + " ";
  }
  client.ask(zookeeper::close_session{});
  return all;
}

}  // namespace conch::test
