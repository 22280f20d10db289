// A Cluster over TLS, users with the rights of the guide, clients behind NAT, and servers that are not a Cluster.

#include "integration/cluster_fixture.hpp"
#include "integration/places.hpp"
#include "integration/tls_fixture.hpp"
#include "support/free_port.hpp"
#include "support/tcp_proxy.hpp"

#include <conch/stats.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <vector>

namespace conch::test {
namespace {

/// Two clients hand the lock on.
asio::awaitable<void> hand_over(client& one, client& two, std::string name) {
  mutex a{one, name}, b{two, name};
  hold first = co_await a.async_acquire();
  EXPECT_TRUE(first.valid());
  hold second;
  bool waits = false;
  b.async_acquire([&](error_code ec, hold got) {
    EXPECT_FALSE(ec) << ec.message();
    second = std::move(got);
  });
  auto const in_line_there = [&] { return waits; };
  mutex any{one, name};
  for (int i = 0; i < 1000 && !waits; ++i) {
    lock_status const status = co_await any.async_inspect();
    waits = status.waiting == 1;
    co_await pause_for(2ms);
  }
  co_await until(in_line_there, "the waiter in line");
  bool const was_held = co_await first.async_release();
  EXPECT_TRUE(was_held);
  auto const served = [&] { return second.valid(); };
  co_await until(served, "the grant of the waiter");
  bool const was_held_too = co_await second.async_release();
  EXPECT_TRUE(was_held_too);
}

/// The words of the page after that line, up to the end of the block.
std::vector<std::string> block_of(char const* page, std::string const& line, std::string const& begin_of_block) {
  std::ifstream file{page};
  std::string const guide{std::istreambuf_iterator<char>{file}, {}};
  auto const at = guide.find(line);
  auto const begin = guide.find(begin_of_block, at);
  auto const end = guide.find("```", begin);
  if (at == std::string::npos || begin == std::string::npos || end == std::string::npos)
    throw std::runtime_error{std::string{"no such block in "} + page};
  std::istringstream words{guide.substr(begin, end - begin)};
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(word);
  return all;
}

/// A user of that name at all nodes, as the guide says, without one of the rights.
void make_user(cluster_set& all, std::string const& user, std::string const& without = {}) {
  std::vector<std::string> command = block_of(redis_page, "This user may do what conch needs", "ACL SETUSER");
  std::vector<std::string> const more = block_of(cluster_page, "at every node", "+cluster|slots");
  command.insert(command.end(), more.begin(), more.end());
  for (std::string& word : command) word = word == "orders" ? user : word == ">PASSWORD" ? ">pw" : word;
  std::erase_if(command, [&](std::string const& word) {
    return word == without || word == "+subscribe" || word == "+publish" || word == "+pubsub|numsub";
  });
  for (std::size_t i = 0; i < all.size(); ++i) {
    redis_probe probe{all.node(i)};
    ASSERT_EQ(probe.command(std::vector<std::string>{command}), "OK");
  }
}

std::string with_user(std::string const& url, std::string const& user) {
  auto const at = url.find("://") + 3;
  return url.substr(0, at) + user + ":pw@" + url.substr(at);
}

#if CONCH_TLS
TEST(ClusterTls, AllNodesAreReachedOverTls) {
  tls_files files;
  cluster_set all{{.tls = true, .arguments = files.options().arguments}};
  make_user(all, "app");
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = over(with_user(all.url({0}), "app"));
    settings.tls.ca_file = files.certificate("ca");
    client one{w.ctx.get_executor(), settings}, two{w.ctx.get_executor(), settings};
    for (std::size_t node = 0; node < all.size(); ++node) co_await hand_over(one, two, all.name_at(node));
    EXPECT_GE(one.stats().tls_handshakes, 4u) << "three masters and the map";
  };
  w.run(body, 60s);

  config settings = over(all.url({0}));
  settings.tls.ca_file = files.certificate("server");
  auto const refused = acquire_once(settings);
  EXPECT_EQ(refused.ec, errc::tls_failed) << refused.words();
}
#endif

TEST(ClusterRights, TheUserOfTheGuideCanDoAllAndWhatIsMissingIsSaid) {
  cluster_set all;
  make_user(all, "app");
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = over(with_user(all.url({1}), "app"));
    settings.lease = 3s;
    client one{w.ctx.get_executor(), settings}, two{w.ctx.get_executor(), settings};
    std::string const name = all.name_at(0);
    co_await hand_over(one, two, name);
    unsigned const slot = redis::slot_of_lock(name);
    mutex m{one, name};
    semaphore s{one, "s", 2};
    hold permit = co_await s.async_acquire();
    hold h = co_await m.async_acquire();
    all.begin_move(slot, 1);
    all.move_keys(slot, 1);
    co_await pause_for(4s);
    EXPECT_TRUE(h.valid()) << "renewed behind ASKING";
    all.end_move(slot, 1);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    co_await permit.async_release();
  };
  w.run(body, 60s);

  int n = 0;
  for (std::string const right : {"+cluster|slots", "+ssubscribe", "+spublish", "+evalsha"}) {
    std::string const user = "without" + std::to_string(n++);
    make_user(all, user, right);
    auto const refused = acquire_once(over(with_user(all.url(), user)));
    EXPECT_EQ(refused.ec, errc::access_denied) << right << ": " << refused.words();
  }
  std::string const wrong = with_user(all.url(), "app");
  auto const refused =
      acquire_once(over(wrong.substr(0, wrong.find(":pw@")) + ":wrong" + wrong.substr(wrong.find(":pw@") + 3)));
  EXPECT_EQ(refused.ec, errc::access_denied) << refused.words();
}

TEST(ClusterAddresses, AClientBehindNatHasAMapOfAddresses) {
  cluster_set all;
  std::vector<std::unique_ptr<tcp_proxy>> doors;
  config settings = over(all);
  std::string seeds;
  for (std::size_t i = 0; i < all.size(); ++i) {
    doors.push_back(std::make_unique<tcp_proxy>(all.node(i).port()));
    std::string const outside = "127.0.0.1:" + std::to_string(doors.back()->port());
    settings.address_map["127.0.0.1:" + std::to_string(all.node(i).port())] = outside;
    seeds += (seeds.empty() ? "" : ",") + outside;
  }
  settings.url = "redis-cluster://" + seeds;
  settings.client_name = "outside";
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), settings}, two{w.ctx.get_executor(), settings};
    for (std::size_t node = 0; node < all.size(); ++node) co_await hand_over(one, two, all.name_at(node));
    std::string const name = all.name_at(0);
    mutex m{one, name};
    hold h = co_await m.async_acquire();
    time_point const before = h.deadline();
    all.move_slot(redis::slot_of_lock(name), 2);
    auto const renewed = [&] { return h.deadline() > before; };
    co_await until(renewed, "a renewal at the address of the map", 60s);
    co_await h.async_release();
  };
  w.run(body, 60s);
}

TEST(ClusterRefusals, WhatIsNoClusterIsSaidAtOnce) {
  redis_server one{{.tcp = true}};
  std::string const url = "redis-cluster://127.0.0.1:" + std::to_string(one.port());
  auto const refused = acquire_once(over(url));
  EXPECT_EQ(refused.ec, errc::not_supported) << refused.words();
  EXPECT_NE(refused.words().find("the server is not a node of a Cluster"), std::string::npos) << refused.words();
  EXPECT_LT(refused.took, 5s);

  asio::io_context ctx;
  config replicas = over(url);
  replicas.sync_replicas = 1;
  EXPECT_EQ(error_of([&] { client{ctx.get_executor(), replicas}; }), errc::not_supported);
  config quorum = over(url);
  quorum.quorum.servers = {url};
  EXPECT_EQ(error_of([&] { client{ctx.get_executor(), quorum}; }), errc::invalid_config);
}

TEST(ClusterRefusals, ANodeWithoutSlotsIsNotBelieved) {
  cluster_set all{{.empty = 1}};
  redis_server stranger{
      {.tcp = true, .arguments = {"--cluster-enabled", "yes", "--cluster-port", std::to_string(find_free_port())}}};
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), over("redis-cluster://127.0.0.1:" + std::to_string(stranger.port()) + "," +
                                          all.url({0}).substr(std::string{"redis-cluster://"}.size()))};
    mutex m{one, all.name_at(1)};
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(h.valid());
  };
  w.run(body, 60s);
}

}  // namespace
}  // namespace conch::test
