// The user of the guide at real Sentinels: what each of its rights is there for.
#include "integration/places.hpp"
#include "integration/sentinel_fixture.hpp"

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace conch::test {
namespace {

/// The command of the guide for the user at the Sentinels, for a user of that name.
std::vector<std::string> of_guide(std::string const& user) {
  std::ifstream file{sentinel_page};
  std::string const guide{std::istreambuf_iterator<char>{file}, {}};
  auto const begin = guide.find("ACL SETUSER");
  auto const end = guide.find("```", begin);
  if (begin == std::string::npos || end == std::string::npos)
    throw std::runtime_error{"no ACL SETUSER in docs/servers/sentinel.md"};
  std::istringstream words{guide.substr(begin, end - begin)};
  std::vector<std::string> command;
  for (std::string word; words >> word;)
    command.push_back(word == "orders" ? user : word == ">PASSWORD" ? ">pw" : word);
  return command;
}

/// What the Sentinel has refused to that user, from ACL LOG: commands, and channels.
std::set<std::string> refused(redis_server& sentinel, std::string const& user) {
  std::set<std::string> found;
  redis_probe probe{sentinel, 10s};
  std::string const entries = probe.command({"ACL", "LOG", "1000"});
  std::string const of_user = ", username, " + user + ",";
  for (auto at = entries.find(of_user); at != std::string::npos; at = entries.find(of_user, at + 1)) {
    auto const object = entries.rfind("object, ", at) + 8;
    found.insert(entries.substr(object, at - object));
  }
  return found;
}

/// What one client notices whose user has those rights at the Sentinels.
struct seen {
  error_code ec;
  bool epoch_known = false, others_known = false;
  std::set<std::string> refused_by_first;
};

seen look(sentinel_set& all, std::vector<std::string> const& rights, std::string const& user) {
  for (std::size_t i = 0; i < all.sentinels(); ++i) EXPECT_EQ(redis_probe(all.sentinel(i), 10s).command(rights), "OK");
  seen found;
  world w;
  journal log;
  auto const body = [&]() -> asio::awaitable<void> {
    config c;
    c.url = all.url({0});
    c.single_threaded = true;
    c.sentinel_username = user;
    c.sentinel_password = "pw";
    c.log = log.hook();
    client one{w.ctx.get_executor(), c};
    mutex m{one, user};  // of its own: none before it is given back
    auto got = co_await m.async_acquire(as_tuple);
    found.ec = std::get<0>(got);
    // It is asked for them before the master, so it has answered. What it was not allowed to be told it is not told
    // later either.
    found.others_known = log.contains("listens to");
    found.epoch_known = log.contains("(epoch ") && !log.contains("(epoch -1)");
  };
  w.run(body, 60s);
  found.refused_by_first = refused(all.sentinel(0), user);
  return found;
}

TEST(SentinelRights, EachOfTheGuideIsNeededAsItSays) {
  sentinel_set all{{.replicas = 0, .sentinels = 2}};
  seen const with_all = look(all, of_guide("with-all"), "with-all");
  EXPECT_FALSE(with_all.ec) << with_all.ec.message();
  EXPECT_TRUE(with_all.epoch_known);
  EXPECT_TRUE(with_all.others_known);
  EXPECT_EQ(with_all.refused_by_first, std::set<std::string>{});

  std::vector<std::string> rights;
  for (std::string const& word : of_guide("x")) {
    if (word.starts_with('+') || word.starts_with('&')) rights.push_back(word);
  }
  ASSERT_EQ(rights.size(), 9u);
  for (std::string const& right : rights) {
    std::string const user = "no-" + right.substr(1), what = right.substr(right.starts_with('&') ? 0 : 1);
    std::vector<std::string> without = of_guide(user);
    ASSERT_EQ(std::erase(without, right), 1u);
    seen const s = look(all, without, user);
    if (what == "sentinel|get-master-addr-by-name") {
      EXPECT_EQ(s.ec, errc::access_denied) << s.ec.message();
      continue;
    }
    EXPECT_FALSE(s.ec) << what << ": " << s.ec.message();
    EXPECT_EQ(s.epoch_known, what != "sentinel|master") << what;
    EXPECT_EQ(s.others_known, what != "sentinel|sentinels") << what;
    // Redis lets every user send these, and conch pings no Sentinel.
    bool const never_refused = what == "hello" || what == "auth" || what == "ping";
    std::string const object = what == "&+switch-master" ? "+switch-master" : what;
    EXPECT_EQ(s.refused_by_first, never_refused ? std::set<std::string>{} : std::set<std::string>{object}) << what;
  }
}

}  // namespace
}  // namespace conch::test
