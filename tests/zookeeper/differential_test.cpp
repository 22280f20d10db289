// The model of ZooKeeper that the simulation uses (tests/sim/model/zookeeper_model.*) beside real servers: both are
// asked the same, at random, and must answer the same. zookeeper/differential.hpp says what is compared. What the model
// does not know, and what is therefore not drawn:
//
// - a sequence near 2^31, to which no client brings a folder;
// - requests behind the end of a session on the same connection: whether they are still refused one by one is a race in
// the server;
// - more than one request on a connection whose session is on another one by now: the server closes it behind the first
// write, and carries out none
//   of the others, but counts those that it knows by then;
// - an authentication together with other requests: the server answers it before them, or not;
// - characters above U+009F that a path may not have: conch writes none;
// - how long a server takes for anything, but for the end of a session: of that only the order is compared.
#include "zookeeper/differential.hpp"

#include "sim/worlds/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace conch::test {
namespace {

using namespace zookeeper;
using namespace std::chrono_literals;
using connection = zookeeper_differential::connection;

/// Clients with sessions, which ask at random for the same few nodes.
class random_clients {
 public:
  random_clients(zookeeper_differential& both, std::uint64_t seed) : both_{both}, random_{seed} {}

  /// So many requests, and more. Ends what it has begun.
  void run(std::uint64_t requests, bool expire) {
    std::uint64_t const begin = both_.requests();
    for (; both_.requests() < begin + requests; step()) {
      if (expire && both_.requests() > begin + requests / 2) {
        expire = false;
        let_one_expire();
      }
    }
    both_.compare_all();
    while (!open_.empty()) both_.ask(pick_connection(), {close_session{}}), forget_closed();
  }

 private:
  bool chance(int percent) { return random_.chance(percent); }
  template <class T>
  T const& one_of(std::vector<T> const& all) {
    return all[static_cast<std::size_t>(random_.below(std::ssize(all)))];
  }
  std::size_t server() { return static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(both_.servers()))); }
  connection pick_connection() { return one_of(open_); }
  void forget_closed() {
    std::erase_if(open_, [this](connection c) { return !both_.is_open(c); });
  }

  void step() {
    forget_closed();
    std::int64_t const what = random_.below(1000);
    if (open_.size() < 2 || (what < 40 && open_.size() < 6)) {
      add(both_.open(server(), one_of<std::chrono::milliseconds>({zookeeper_differential::long_session, 400s, 3600s})));
    } else if (what < 70) {
      both_.drop(pick_connection());
    } else if (what < 130) {
      add(both_.resume(one_of(sessions_), server()));
    } else if (what < 140) {
      (void)both_.resume(one_of(sessions_), server(), false);
    } else if (what < 145) {
      both_.greet_from_the_future(server());
    } else if (what < 165) {
      authenticate({"digest", one_of<std::string>({"user:secret", "user:other", "somebody:else"})});
    } else if (what < 167) {
      authenticate({"nonsense", "x"});
    } else if (what < 190) {
      both_.ask(pick_connection(), {close_session{}});
    } else {
      ask_some();
    }
  }
  /// A session that ends by itself, which takes seconds.
  void let_one_expire() {
    forget_closed();
    connection const c = both_.open(server(), 3s);
    both_.ask(c, {create{both_.folder() + "/expires", {}, node_kind::ephemeral, access::anyone},
                  create{both_.folder() + "/expires-", {}, node_kind::ephemeral_sequential, access::anyone}});
    for (connection const other : open_)
      both_.ask(other, {both_.barrier(other), get_data{both_.folder() + "/expires", true}});
    both_.expire(c, both_.folder() + "/expires");
    sessions_.push_back(c);
  }
  void add(connection c) {
    if (!both_.is_open(c)) return;
    open_.push_back(c);
    sessions_.push_back(c);
    if (sessions_.size() > 20) sessions_.erase(sessions_.begin());
  }

  /// Its answer comes at once, and before events that are under way.
  void authenticate(add_auth const& as) {
    connection const c = pick_connection();
    both_.ask(c, {both_.barrier(c)});
    both_.ask(c, {as});
  }
  void ask_some() {
    connection const c = pick_connection();
    if (both_.is_former(c)) {
      both_.ask(c, {chance(50) ? creation() : both_.barrier(c)});
      return;
    }
    std::vector<request> all;
    auto const count = chance(70) ? 1 : random_.between(2, 8);
    for (std::int64_t i = 0; i < count; ++i) {
      all.push_back(draw());
      // A follower reads what it has: first it has to receive what others have written.
      if (i == 0 && both_.servers() > 1 && !is_write(all.back())) all.insert(all.begin(), both_.barrier(c));
    }
    both_.ask(c, all);
  }

  request draw() {
    std::int64_t const what = random_.below(100);
    if (what < 35) return creation();
    if (what < 55 || (what < 65 && both_.tree().nodes().size() > 60)) return zookeeper::remove{some_path(80)};
    if (what < 75) return get_data{some_path(70), chance(60)};
    if (what < 83) return get_children{some_path(80)};
    if (what < 93)
      return set_data{below_root(some_path(80)), std::string(static_cast<std::size_t>(random_.below(4)), 'x')};
    if (what < 97) return sync{some_path(50)};
    return ping{};
  }

  request creation() {
    auto const kind = one_of<node_kind>({node_kind::persistent, node_kind::persistent, node_kind::ephemeral,
                                         node_kind::ephemeral_sequential, node_kind::ephemeral_sequential,
                                         node_kind::ephemeral_sequential, node_kind::container, node_kind::container});
    std::string path = chance(85) ? fresh_path(kind) : some_path(60);
    // what was made there before would count
    if (path == "/") return create{path, {}, node_kind::persistent, access::anyone};
    return create{std::move(path), chance(20) ? "data" : std::string{}, kind,
                  chance(10) ? access::creator_only : access::anyone};
  }
  std::string fresh_path(node_kind kind) {
    std::string const parent = chance(25) ? both_.folder() : some_path(80);
    if (chance(4))
      return one_of<std::string>({parent + '/', parent + "//a", parent + "/.", parent + "/..", parent + "/./a",
                                  parent + "/a/", parent + "/../a"});
    if (chance(2)) return one_of(forbidden(parent));
    std::string const name = one_of<std::string>({"a", "b", "c", "d", "e", "%2F", "~", "...", ".a", " "});
    return parent + '/' +
           (kind == node_kind::ephemeral_sequential ? one_of<std::string>({"", "1.1-", "2.1-", name}) : name);
  }
  static std::vector<std::string> forbidden(std::string const& parent) {
    return {"",
            "a",
            "a/b",
            "/",
            parent + '/' + std::string(1, '\0'),
            parent + "/a" + std::string(1, '\0') + "/b",
            parent + "/\1",
            parent + "/a\x1f",
            parent + "/\x7f",
            parent + "/\xc2\x80",
            parent + "/\xc2\x9f",
            parent + "/\xc2\xa0",
            parent + "/\n/a"};
  }
  /// Nothing of the root may change: it outlives this comparison.
  std::string below_root(std::string path) { return path == "/" ? both_.folder() : path; }
  /// Mostly of a node that is there.
  std::string some_path(int percent) {
    if (chance(3)) return "/";
    std::vector<std::string> there;
    for (auto const& [path, node] : both_.tree().nodes()) {
      if (path.starts_with(both_.folder() + '/')) there.push_back(path);
    }
    if (!there.empty() && chance(percent)) return one_of(there);
    if (chance(5)) {
      auto all = forbidden(both_.folder());
      std::erase(all, "");  // a read of it is one of the root
      return one_of(all);
    }
    return both_.folder() + '/' + one_of<std::string>({"a", "b", "a/b", "c/d/e", "a/1.1-0000000000", "zookeeper"});
  }

  zookeeper_differential& both_;
  sim::random_source random_;
  std::vector<connection> open_;
  std::vector<connection> sessions_;  // also those of which nothing is left: the connection that had one last
};

std::uint64_t number(char const* name, std::uint64_t otherwise) {
  char const* const text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Asks each server something five times a second, on connections of its own. ZooKeeper 3.6.0 to 3.8.0 can leave a
/// commit lying until that server receives anything else (ZOOKEEPER-4537), and here one client asks, and then waits for
/// the answer.
class pings {
 public:
  explicit pings(zookeeper_ensemble const& all) {
    for (std::size_t i = 0; i < all.size(); ++i)
      clients_.push_back(std::make_unique<zookeeper_client>(all.port(i), zookeeper_differential::long_session));
    thread_ = std::jthread{[this](std::stop_token const& end) { go_on(end); }};
  }

 private:
  void go_on(std::stop_token const& end) try {
    for (; !end.stop_requested(); std::this_thread::sleep_for(200ms)) {
      for (auto const& one : clients_) (void)one->ping(1s);
    }
  } catch (zookeeper_connection_ended const&) {  // the comparison sees it as well
  }

  std::vector<std::unique_ptr<zookeeper_client>> clients_;
  std::jthread thread_;
};

template <std::size_t Servers>
class Differential : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    zookeeper_options options;
    options.servers = Servers;
    options.tick = 500ms;
    options.shortest_session = 1s;
    options.longest_session = zookeeper_differential::long_session;
    options.sync_limit = 100;
    options.java = {"-Dznode.container.checkIntervalMs=3600000"};
    servers_ = std::make_unique<zookeeper_ensemble>(options);
    pings_ = std::make_unique<pings>(*servers_);
  }
  static void TearDownTestSuite() {
    pings_.reset();
    servers_.reset();
  }

  /// `expiries`: sessions that end by themselves.
  void compare(std::uint64_t runs, std::uint64_t requests, int expiries) {
    std::uint64_t const first = number("CONCH_SEED", 1);
    std::uint64_t all = 0;
    for (std::uint64_t seed = first; seed < first + runs; ++seed) {
      SCOPED_TRACE("CONCH_SEED=" + std::to_string(seed));
      zookeeper_differential both{*servers_, "/run" + std::to_string(++folders_), seed};
      try {
        random_clients clients{both, seed};
        clients.run(requests, expiries-- > 0);
      } catch (zookeeper_difference const& d) {
        FAIL() << d.what();
      }
      all += both.requests();
    }
    RecordProperty("requests", static_cast<int>(all));
    std::printf("%llu requests, each answered alike\n", static_cast<unsigned long long>(all));
  }

  static inline std::unique_ptr<zookeeper_ensemble> servers_;
  static inline std::unique_ptr<pings> pings_;
  static inline int folders_ = 0;
};

using ZookeeperDifferential = Differential<1>;
using ZookeeperEnsembleDifferential = Differential<3>;
class SlowZookeeperDifferential : public ZookeeperDifferential {};
class SlowZookeeperEnsembleDifferential : public ZookeeperEnsembleDifferential {};

TEST_F(ZookeeperDifferential, AServerByItselfAnswersAsTheModelDoes) { compare(6, 500, 1); }
TEST_F(ZookeeperEnsembleDifferential, ServersAnswerAsTheModelDoes) { compare(4, 300, 1); }
TEST_F(SlowZookeeperDifferential, AServerByItselfAnswersAsTheModelDoes) {
  compare(100, number("CONCH_REQUESTS", 100'000) / 100, 10);
}
TEST_F(SlowZookeeperEnsembleDifferential, ServersAnswerAsTheModelDoes) {
  compare(100, number("CONCH_REQUESTS", 100'000) / 100, 10);
}

}  // namespace
}  // namespace conch::test
