// Where the server is: what each form of a URL means, and what is wrong with those that mean nothing.

#include "servers/redis/url.hpp"
#include "base/url_text.hpp"
#include "registry/registry.hpp"
#include "servers/zookeeper/url.hpp"

#include <conch/client.hpp>
#include <conch/error.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace conch::redis {
namespace {

std::unique_ptr<servers::target> open(std::string const& url) {
  config c;
  c.url = url;
  return registry::open(c);
}

TEST(Url, EachFormMeansThis) {
  struct row {
    std::string url;
    std::string host;
    int port;
    std::string path, user, password;
    int database;
    std::string shown;
  };
  for (auto const& [url, host, port, path, user, password, database, shown] : std::vector<row>{
           {"redis://a", "a", 6379, "", "", "", 0, "redis://a:6379"},
           {"redis://a/", "a", 6379, "", "", "", 0, "redis://a:6379"},
           {"redis://a:1", "a", 1, "", "", "", 0, "redis://a:1"},
           {"redis://a:65535/15", "a", 65535, "", "", "", 15, "redis://a:65535"},
           {"redis://a.example.com/1000000", "a.example.com", 6379, "", "", "", 1'000'000,
            "redis://a.example.com:6379"},
           {"redis://10.0.0.1:7", "10.0.0.1", 7, "", "", "", 0, "redis://10.0.0.1:7"},
           {"redis://[::1]", "::1", 6379, "", "", "", 0, "redis://[::1]:6379"},
           {"redis://[fe80::1%eth0]:7/2", "fe80::1%eth0", 7, "", "", "", 2, "redis://[fe80::1%eth0]:7"},
           {"redis://u:p@a", "a", 6379, "", "u", "p", 0, "redis://a:6379"},
           {"redis://:p@a", "a", 6379, "", "", "p", 0, "redis://a:6379"},
           {"redis://u:p:q@a", "a", 6379, "", "u", "p:q", 0, "redis://a:6379"},
           {"redis://u:p,q@a", "a", 6379, "", "u", "p,q", 0, "redis://a:6379"},
           {"redis://u%3a:p%40%2F%25%00x@a", "a", 6379, "", "u:", std::string{"p@/%\0x", 6}, 0, "redis://a:6379"},
           {"valkey://u:p@a:7/2", "a", 7, "", "u", "p", 2, "redis://a:7"},
           {"rediss://u:p@a:7/2", "a", 7, "", "u", "p", 2, "rediss://a:7"},
           {"rediss://a", "a", 6379, "", "", "", 0, "rediss://a:6379"},
           {"valkeys://[::1]:7", "::1", 7, "", "", "", 0, "rediss://[::1]:7"},
           {"rediss://u:p@a/3?cacert=/ca%40b/c&sni=n", "a", 6379, "", "u", "p", 3, "rediss://a:6379"},
           {"unix:///run/r.sock", "", 6379, "/run/r.sock", "", "", 0, "unix:///run/r.sock"},
           {"unix:///run/r.sock?db=3", "", 6379, "/run/r.sock", "", "", 3, "unix:///run/r.sock"},
           {"unix://u:p@/run/r.sock", "", 6379, "/run/r.sock", "u", "p", 0, "unix:///run/r.sock"},
           {"unix:///run/a@b:c", "", 6379, "/run/a@b:c", "", "", 0, "unix:///run/a@b:c"},
           {"unix:///" + std::string(106, 's'), "", 6379, "/" + std::string(106, 's'), "", "", 0,
            "unix:///" + std::string(106, 's')},
       }) {
    address const a = parse_one(url);
    EXPECT_EQ(a.is_unix_socket(), !path.empty()) << url;
    EXPECT_EQ(a.host, host) << url;
    EXPECT_EQ(a.port, port) << url;
    EXPECT_EQ(a.path, path) << url;
    EXPECT_EQ(a.user, user) << url;
    EXPECT_EQ(a.password, password) << url;
    EXPECT_EQ(a.database, database) << url;
    EXPECT_EQ(a.shown(), shown) << url;
    EXPECT_EQ(open(url)->shown(), shown) << url;
  }
  for (std::string const url : {"memory://", "memory://a/b?c", "memory://u:p@a#b"})
    EXPECT_EQ(open(url)->shown(), url) << "all of it is a name";
}

std::string refusal(std::string const& url) {
  try {
    (void)open(url);
  } catch (boost::system::system_error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_url) << url;
    return e.code().message();
  }
  return "nothing";
}

TEST(Url, WhatMeansNothingIsRefusedWithTheReasonAndWithoutThePassword) {
  struct row {
    std::string url, why;
  };
  for (auto const& [url, why] : std::vector<row>{
           {"", "a URL begins with"},
           {"localhost:6379", "a URL begins with"},
           {"redis:/a", "a URL begins with"},
           {"http://a", "the scheme"},
           {"REDIS://a", "lower case"},
           {"Redis-Sentinel://a", "lower case"},
           {"redis://a,b,c", "did you mean redlock://"},
           {"redis://u:sek,ret@a,b", "did you mean redlock://"},
           {"valkey://a:1,b:2/3", "did you mean redlock://"},
           {"rediss://a,b", "config::quorum.servers"},
           {"redis://a,redis://b", "did you mean redlock://"},
           {"redis://redis://a", "a scheme is allowed only once"},
           {"redis://u:sekret/x@a", "ambiguous: "},
           {"redis://u:p@sekret@a", "ambiguous: "},
           {"redlock://a,u:p@sekret@b", "ambiguous: "},
           {"redlock://a,A.", "the same"},
           {"redlock://[::1],[0:0:0:0:0:0:0:1]", "the same"},
           {"redis://" + std::string(256, 'a'), "longer than 255 bytes"},
           {"redis://a\xe2\x80\x8b", "cannot be seen"},
           {"rediss", "a URL begins with"},
           {"redisss://a", "the scheme"},
           {"rediss://", "the host is missing"},
           {"rediss://a#x", "ambiguous: "},
           {"rediss://a?", "cacert="},
           {"rediss://a?cacert", "cacert="},
           {"rediss://a?insecure=1", "config::tls.verify"},
           {"rediss://a?verify=false", "config::tls.verify"},
           {"rediss://a?cacert=", "empty"},
           {"rediss://a?cacert=x%00y", "NUL"},
           {"rediss://a?cacert=x%0", "'%'"},
           {"rediss://a?cacert=x&", "cacert="},
           {"rediss://a?key=x", "key= needs cert="},
           {"rediss://a?cacert=x&cacert=y", "duplicate"},
           {"rediss://u:p?sekret@a", "ambiguous: "},
           {"valkey://a?db=1", "'?'"},
           {"redlock://a,rediss://b", "a scheme is allowed only once"},
           {"redis://", "the host is missing"},
           {"redis://:7", "the host is missing"},
           {"redis://u:sekret@", "the host is missing"},
           {"redis://[]", "the host is missing"},
           {"redis://[::1", "closing ']'"},
           {"redis://[::1]7", "after ']'"},
           {"redis://::1", "brackets"},
           {"redis://a b", "a space or a control character"},
           {std::string{"redis://a\0b", 11}, "a space or a control character"},
           {"redis://a]", "bracket"},
           {"redis://a:0", "port"},
           {"redis://a:65536", "port"},
           {"redis://a:", "port"},
           {"redis://a:-1", "port"},
           {"redis://a:+7", "port"},
           {"redis://a:7x", "port"},
           {"redis://a/x", "database"},
           {"redis://a/-1", "database"},
           {"redis://a/1000001", "database"},
           {"redis://a/1/2", "database"},
           {"redis://a?db=1", "'?'"},
           {"redis://a#x", "ambiguous: "},
           {"redis://sekret@a", "user:password"},
           {"redis://u:@a", "password before '@' is empty"},
           {"redis://u:sekret%4@a", "'%'"},
           {"redis://u:sekret%@a", "'%'"},
           {"redis://u:sekret%zz@a", "'%'"},
           {"redis://u:sekret?@a", "ambiguous: "},
           {"unix://run/r.sock", "absolute path"},
           {"unix://", "absolute path"},
           {"unix:///a?x=1", "?db=n"},
           {"unix:///a?db=", "database"},
           {"unix://u:@/a", "password before '@' is empty"},
           {"unix:///" + std::string(107, 's'), "107"},
           {std::string{"unix:///a\0b", 11}, "NUL"},
           {"redlock://", "the host is missing"},
           {"redlock://a,", "the host is missing"},
           {"redlock://a,b,a:6379", "the same"},
           {"redlock://a,u:sekret@a", "the same"},
           {"redlock://a,b,c,d,e,f,g,h,i,j", "1 to 9"},
       }) {
    std::string const said = refusal(url);
    EXPECT_NE(said.find(why), std::string::npos) << url << ": " << said;
    EXPECT_EQ(said.find("sekret"), std::string::npos) << said;
  }
}

TEST(Url, ThatCanBeUnderstoodInTwoWaysIsRefusedByEverySchemeWithTheSameWords) {
  std::vector<std::string> const schemes{
      "redis",           "rediss",        "valkey",         "valkeys",        "redlock",         "redis-sentinel",
      "rediss-sentinel", "redis-cluster", "rediss-cluster", "valkey-cluster", "valkeys-cluster", "zookeeper",
      "zookeepers",      "unix"};
  std::set<std::string> words;
  for (std::string const& scheme : schemes) {
    std::string const behind = scheme == "unix" ? "/run/x.sock" : "host";
    for (std::string const password :
         {"sek/ret", "sek@ret", "sek?ret", "sek#ret", "@sekret", "sek/@ret", "/sekret", "sek/r?e@t"}) {
      std::string const url = scheme + "://user:" + password + "@" + behind;
      std::string const said = refusal(url);
      EXPECT_NE(said.find("%2F"), std::string::npos) << url << ": " << said;
      EXPECT_EQ(said.find("sek"), std::string::npos) << url << ": " << said;
      EXPECT_EQ(said.find("ret"), std::string::npos) << url << ": " << said;
      words.insert(said);
    }
  }
  EXPECT_EQ(words.size(), 1u) << *words.rbegin();
}

TEST(Url, OfTlsNamesItsFilesAndTheServer) {
  address const a = parse_one("rediss://a?cacert=/etc/c%20a.pem&cacertdir=/d&cert=/x&key=/y%26&sni=redis.internal");
  EXPECT_TRUE(a.over_tls);
  EXPECT_EQ(a.tls.ca_file, "/etc/c a.pem");
  EXPECT_EQ(a.tls.ca_path, "/d");
  EXPECT_EQ(a.tls.cert_file, "/x");
  EXPECT_EQ(a.tls.key_file, "/y&");
  EXPECT_EQ(a.tls.server_name, "redis.internal");
  EXPECT_FALSE(parse_one("redis://a").over_tls);
}

TEST(Url, WhatItSaysOfTlsCountsInsteadOfTheConfiguration) {
  tls_config c;
  c.ca_file = "ca";
  c.ca_path = "folder";
  c.cert_file = "cert";
  c.key_file = "key";
  c.server_name = "name";
  c.verify = false;
  tls_config const same = tls_of(parse_one("rediss://a"), c);
  EXPECT_EQ(same.ca_file + same.ca_path + same.cert_file + same.key_file + same.server_name, "cafoldercertkeyname");
  EXPECT_FALSE(same.verify) << "no URL says anything of it";
  tls_config const other_ca = tls_of(parse_one("rediss://a?cacert=x"), c);
  EXPECT_EQ(other_ca.ca_file + other_ca.ca_path, "x") << "the configuration's folder is not trusted besides";
  EXPECT_EQ(other_ca.cert_file + other_ca.key_file + other_ca.server_name, "certkeyname");
  tls_config const other_key = tls_of(parse_one("rediss://a?cert=both&sni=n"), c);
  EXPECT_EQ(other_key.cert_file + other_key.key_file, "both") << "the key of another certificate does not help";
  EXPECT_EQ(other_key.ca_file + other_key.ca_path + other_key.server_name, "cafoldern");
}

/// Why these cannot vote together.
std::string refusal_of_votes(std::vector<std::string> const& urls) {
  try {
    config c;
    c.quorum.servers = urls;
    (void)registry::open(c);
  } catch (boost::system::system_error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_config);
    return e.code().message();
  }
  return "nothing";
}

TEST(Url, OneServerIsTheSameWithTlsAndWithout) {
  EXPECT_NE(refusal_of_votes({"redis://a:1", "rediss://a:1"}).find("the same"), std::string::npos);
  EXPECT_EQ(refusal_of_votes({"redis://a:1", "rediss://a:2"}), "nothing");
  EXPECT_NE(refusal_of_votes({"unix:///run/a", "unix:///run//./b/../a"}).find("the same"), std::string::npos);
  EXPECT_NE(refusal_of_votes({"redis://Host.example", "redis://host.EXAMPLE.:6379/3"}).find("the same"),
            std::string::npos);
}

TEST(Url, OfSentinelsNamesThemAndWhatIsKnownOfTheServer) {
  sentinel_url const all = parse_sentinels("redis-sentinel://u:p%40@a,b:1,[::1]:2/3?sentinelMasterId=my-master");
  ASSERT_EQ(all.sentinels.size(), 3u);
  EXPECT_EQ(all.sentinels[0].shown(), "redis-sentinel://a:26379");
  EXPECT_EQ(all.sentinels[1].shown(), "redis-sentinel://b:1");
  EXPECT_EQ(all.sentinels[2].shown(), "redis-sentinel://[::1]:2");
  for (address const& one : all.sentinels) EXPECT_EQ(one.user + one.password.bytes(), "") << "those are the server's";
  EXPECT_EQ(all.server.user, "u");
  EXPECT_EQ(all.server.password, "p@");
  EXPECT_EQ(all.server.database, 3);
  EXPECT_EQ(all.server.master, "my-master");
  EXPECT_EQ(all.server.host, "");
  EXPECT_EQ(all.server.shown(), "the master 'my-master'");
  EXPECT_FALSE(all.server.over_tls);
  EXPECT_EQ(parse_sentinels("redis-sentinel://a").server.master, "") << "the configuration may name it";
  EXPECT_EQ(parse_sentinels("redis-sentinel://a/?sentinelMasterId=%2b").server.master, "+");
}

TEST(Url, OfSentinelsOverTlsMeansBothKindsOfServers) {
  sentinel_url const all = parse_sentinels("rediss-sentinel://:p@a,b?cacert=/ca&sentinelMasterId=m&sni=n");
  EXPECT_TRUE(all.server.over_tls);
  EXPECT_EQ(all.server.tls.ca_file, "/ca");
  EXPECT_EQ(all.server.tls.server_name, "n");
  for (address const& one : all.sentinels) {
    EXPECT_TRUE(one.over_tls);
    EXPECT_EQ(one.tls.ca_file, "/ca");
  }
  EXPECT_EQ(all.sentinels[1].shown(), "rediss-sentinel://b:26379");
}

TEST(Url, OfSentinelsThatMeansNothingIsRefusedWithTheReason) {
  struct row {
    std::string url, why;
  };
  for (auto const& [url, why] : std::vector<row>{
           {"redis-sentinel://", "the host is missing"},
           {"redis-sentinel://a,", "the host is missing"},
           {"redis-sentinel://,a", "the host is missing"},
           {"redis-sentinel://a,b,a:26379", "two of the Sentinels are the same: redis-sentinel://a:26379"},
           {"redis-sentinel://a,b,c,d,e,f,g,h,i,j", "more than 9"},
           {"redis-sentinel://a?", "sentinelMasterId="},
           {"redis-sentinel://a/m", "?sentinelMasterId=NAME at the end"},
           {"redis-sentinel://a?master=m", "sentinelMasterId="},
           {"redis-sentinel://a?cacert=x", "sentinelMasterId="},
           {"redis-sentinel://a?sentinelMasterId=", "empty"},
           {"redis-sentinel://a?sentinelMasterId=m&sentinelMasterId=n", "duplicate"},
           {"redis-sentinel://a?sentinelMasterId=a%20b", "the name of the master"},
           {"redis-sentinel://a?sentinelMasterId=a%0ab", "the name of the master"},
           {"rediss-sentinel://a?sentinelMasterId=m&insecure=1", "sentinelMasterId="},
           {"rediss-sentinel://a?sentinelMasterId=m&key=x", "key= needs cert="},
           {"redis-sentinel://u:sek,ret@a", "percent-encode a ','"},
           {"redis-sentinel://sekret@a", "user:password"},
           {"redis-sentinel://a/x", "database"},
           {"redis-sentinel://a:0", "port"},
       }) {
    std::string said = "nothing";
    try {
      parse_sentinels(url);
    } catch (boost::system::system_error const& e) {
      EXPECT_EQ(e.code(), errc::invalid_url) << url;
      said = e.code().message();
    }
    EXPECT_NE(said.find(why), std::string::npos) << url << ": " << said;
    EXPECT_EQ(said.find("sekret"), std::string::npos) << said;
  }
}

TEST(Url, OfServersThatDecideByThemselvesGivesNoVote) {
  for (std::string const url :
       {"redis-sentinel://a", "rediss-sentinel://a?sentinelMasterId=m", "redis-cluster://a", "redlock://a,b"}) {
    EXPECT_NE(refusal_of_votes({url}).find("each server of a quorum"), std::string::npos) << refusal_of_votes({url});
  }
  EXPECT_NE(refusal_of_votes({"zookeeper://a"}).find("gives no votes"), std::string::npos);
}

TEST(Url, SeveralServersKeepTheirOrder) {
  auto const urls = urls_of_list("redlock://u:p@a:1/2,b,[::1]:3");
  ASSERT_EQ(urls.size(), 3u);
  EXPECT_EQ(parse_one(urls[0]).password, "p");
  EXPECT_EQ(parse_one(urls[0]).database, 2);
  EXPECT_EQ(parse_one(urls[1]).password, "");
  auto const all = open("redlock://u:p@a:1/2,b,[::1]:3");
  EXPECT_EQ(all->shown(), "redis://a:1, redis://b:6379, redis://[::1]:3");
  EXPECT_TRUE(all->is_quorum());
  EXPECT_TRUE(open("redlock://a")->is_quorum()) << "also one server, where the URL asks for it";
  EXPECT_FALSE(open("redis://a")->is_quorum());
  EXPECT_EQ(refusal_of_votes({"redis://a", "unix:///b", "redis://a:1", "memory://x"}), "nothing");
}

TEST(Url, ASettingOfAnotherKindOfServerIsRefused) {
  auto const refusal_with = [](std::string const& url, auto const& set) {
    try {
      config c;
      c.url = url;
      set(c);
      (void)registry::open(c);
    } catch (boost::system::system_error const& e) {
      return e.code().message();
    }
    return std::string{"nothing"};
  };
  auto const map = [](config& c) { c.address_map = {{"a:1", "b:1"}}; };
  auto const name = [](config& c) { c.master_name = "m"; };
  for (std::string const url : {"redis://a", "memory://", "zookeeper://a", "redlock://a,b"}) {
    EXPECT_NE(refusal_with(url, map).find("address_map is set, and the URL begins neither with"), std::string::npos)
        << url;
    EXPECT_NE(refusal_with(url, name).find("master_name is set, and the URL does not begin with redis-sentinel://"),
              std::string::npos)
        << url;
  }
  EXPECT_EQ(refusal_with("redis-cluster://a", map), "nothing");
  EXPECT_NE(refusal_with("redis-cluster://a", name), "nothing");
  EXPECT_EQ(refusal_with("redis-sentinel://a", [&](config& c) { map(c), name(c); }), "nothing");
}

TEST(Url, OfAComponentThatIsMissingSaysHowToLinkIt) {
  try {
    (void)open("postgresql://a/db");
    ADD_FAILURE();
  } catch (boost::system::system_error const& e) {
    EXPECT_EQ(e.code(), errc::not_supported);
    EXPECT_NE(e.code().message().find("conch::postgresql"), std::string::npos);
  }
}

/// As a new kind of server would be: known to the registry, and nothing else in the library knows of it.
class dummy final : public servers::target {
 public:
  std::string shown() const override { return "dummy://"; }
  void check(config&) const override {
    throw boost::system::system_error{make_error_code(errc::not_supported, "dummy:// keeps no locks")};
  }
  servers::deployment make(servers::client_services const&) const override { return {}; }
};

TEST(Url, KnowsTheHostsThatAreThisMachine) {
  for (std::string const host :
       {"localhost", "db.localhost", "127.0.0.1", "127.200.0.9", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(is_this_machine(host)) << host;
  for (std::string const host : {"127.example.com", "localhost.example.com", "10.0.0.1", "::2", "::ffff:10.0.0.1", ""})
    EXPECT_FALSE(is_this_machine(host)) << host;
}

TEST(Url, IsShownWithoutItsLogin) {
  for (auto const& [url, shown] : std::vector<std::pair<std::string, std::string>>{
           {"redis://u:p@h:1/2", "redis://h:1/2"},
           {"redis://u@h", "redis://h"},
           {"redlock://u:p@h,:q@i,j", "redlock://h,i,j"},
           {"unix://u:p@/a", "unix:///a"},
           {"unix://u:p@/a@b", "unix://***"},
           {"unix:///a@b", "unix:///a@b"},
           {"redis://u:p,q@h", "redis://h"},
           {"rediss://h/2?cert=c&key=k", "rediss://h/2"},
           {"redis-sentinel://u:p,@s,t/1?x=y&sentinelMasterId=m", "redis-sentinel://s,t/1?sentinelMasterId=m"},
           {"redis-sentinel://s?xsentinelMasterId=m", "redis-sentinel://s"},
           {"memory://a@b?c", "memory://a@b?c"},
           {"zookeeper://u:p@a,b/x", "zookeeper://a,b/x"},
           {"unknown://u:p@h?password=p", "unknown://h"},
           {"redis://u:p?x@h", "redis://***"},
           {"unknown://h?password=p@q", "unknown://***"},
           {"no scheme", "no scheme"}}) {
    EXPECT_EQ(servers::without_login(url), shown);
  }
}

TEST(Url, SaysWhetherItContainsALogin) {
  auto const in = [](std::string const& url) {
    auto const found = servers::login_in(url);
    return std::string{found.user ? "user " : ""} + (found.password ? "password" : "");
  };
  EXPECT_EQ(in("redis://h"), "");
  EXPECT_EQ(in("redis://u@h"), "user ");
  EXPECT_EQ(in("redis://u:p@h"), "user password");
  EXPECT_EQ(in("redlock://a,:p@b"), "user password");
  EXPECT_EQ(in("redlock://a:1,u@b:2"), "user ") << "a port is not a password";
  EXPECT_EQ(in("unix:///a@b:c"), "");
  EXPECT_EQ(in("unix://u:p@/a"), "user password");
  EXPECT_EQ(in("memory://a:b@c?password=x"), "");
  EXPECT_EQ(in("postgresql://h/db?sslpassword=p"), "password") << "also without the component";
  EXPECT_EQ(in(""), "");
}

TEST(Url, OfANewKindOfServerNeedsNothingButItsScheme) {
  static constexpr servers::scheme::name names[] = {{"dummy"}, {"dummies", true}};
  static constexpr servers::scheme kind{
      .names = names,
      .why_no_vote = "dummy:// gives no votes",
      .parse = [](std::string_view, config const&) -> std::unique_ptr<servers::target> {
        return std::make_unique<dummy>();
      }};
  static registry::component room{kind};
  ASSERT_NE(refusal("dummy://a").find("the scheme must be one of"), std::string::npos) << refusal("dummy://a");
  registry::add(room);
  EXPECT_EQ(open("dummy://a")->shown(), "dummy://");
  EXPECT_NE(refusal("http://a").find("dummy"), std::string::npos);
  EXPECT_NE(refusal_of_votes({"dummy://a"}).find("dummy:// gives no votes"), std::string::npos);
  EXPECT_NE(registry::names_with_tls().find("dummies://"), std::string::npos);
  asio::io_context context;
  try {
    config c;
    c.url = "dummy://a";
    client const refused{context.get_executor(), c};
    ADD_FAILURE();
  } catch (boost::system::system_error const& e) {
    EXPECT_EQ(e.code(), errc::not_supported);
    EXPECT_NE(e.code().message().find("dummy:// keeps no locks"), std::string::npos);
  }

  config asked;
  asked.url = "dummy://a";
  try {
    (void)servers::open_probe(asked);
    ADD_FAILURE();
  } catch (boost::system::system_error const& e) {
    EXPECT_EQ(e.code(), errc::not_supported);
    EXPECT_NE(std::string{e.what()}.find("dummy://"), std::string::npos) << e.what();
  }
}

TEST(ClusterUrl, NamesSeedsWithTheUserOfAll) {
  for (auto const& [scheme, over_tls] : {std::pair{"redis-cluster", false}, std::pair{"valkey-cluster", false},
                                         std::pair{"rediss-cluster", true}, std::pair{"valkeys-cluster", true}}) {
    std::string const url = std::string{scheme} + "://u:p%2C@a,b:7000,[::1]:7001";
    auto const all = parse_cluster(url).seeds;
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].host + std::to_string(all[0].port), "a6379");
    EXPECT_EQ(all[2].host + std::to_string(all[2].port), "::17001");
    for (address const& one : all) {
      EXPECT_EQ(one.user + "/" + one.password.bytes(), "u/p,");
      EXPECT_EQ(one.over_tls, over_tls);
    }
  }
  EXPECT_EQ(parse_cluster("rediss-cluster://a?cacert=/ca.pem").seeds[0].tls.ca_file, "/ca.pem");
  EXPECT_EQ(parse_cluster("redis-cluster://a/0").seeds.size(), 1u) << "the one database that there is";
}

TEST(ClusterUrl, RefusesWhatIsNotMeant) {
  for (auto const& [url, why] :
       {std::pair{"redis-cluster://", "the host is missing"}, std::pair{"redis-cluster://a,a", "are the same"},
        std::pair{"redis-cluster://a/1", "a Cluster has one database, number 0"},
        std::pair{"redis-cluster://a?cacert=x", "takes no '?'"},
        std::pair{"redis-cluster://a,u:p@b", "allowed once"}}) {
    try {
      (void)parse_cluster(url);
      ADD_FAILURE() << url;
    } catch (boost::system::system_error const& e) {
      EXPECT_EQ(e.code(), errc::invalid_url);
      EXPECT_NE(std::string{e.what()}.find(why), std::string::npos) << e.what();
    }
  }
}

TEST(ZookeeperUrl, NamesTheServersAndTheFolder) {
  auto const all = zookeeper::parse("zookeeper://u:p%2F@a,b:7000,[::1]:7001/shop/eu");
  ASSERT_EQ(all.servers.size(), 3u);
  EXPECT_EQ(all.chroot, "/shop/eu");
  EXPECT_EQ(all.servers[0].shown(), "zookeeper://a:2181");
  EXPECT_EQ(all.servers[2].shown(), "zookeeper://[::1]:7001");
  for (zookeeper::address const& one : all.servers) EXPECT_EQ(one.user + " " + one.password.bytes(), "u p/");
  EXPECT_EQ(zookeeper::parse("zookeeper://a/").chroot, "");
  zookeeper::address const over_tls = zookeeper::parse("zookeepers://a/x?cacert=/ca.pem").servers[0];
  EXPECT_EQ(over_tls.shown(), "zookeepers://a:2181");
  EXPECT_EQ(over_tls.tls.ca_file, "/ca.pem");
}

TEST(ZookeeperUrl, RefusesWhatIsNotMeant) {
  for (auto const& [url, why] :
       {std::pair{"zookeeper://", "the host is missing"}, std::pair{"zookeeper://a,a", "are the same"},
        std::pair{"zookeeper://a//b", "is empty"}, std::pair{"zookeeper://a/b/", "is empty"},
        std::pair{"zookeeper://a/..", "'..'"}, std::pair{"zookeeper://a:2181/app,b:2181/app", "allowed once"},
        std::pair{"zookeeper://a/app,b", "allowed once"}, std::pair{"zookeeper://a/app,", "allowed once"},
        std::pair{"zookeeper://a/\xff", "UTF-8"}, std::pair{"zookeeper://a/\xfe", "UTF-8"},
        std::pair{"zookeeper://a/zookeeper", "belongs to the servers"},
        std::pair{"zookeeper://a?cacert=x", "takes no '?'"}, std::pair{"zookeeper://a,u:p@b", "allowed once"},
        std::pair{"zookeeper://:p@a", "user:password"}}) {
    try {
      (void)zookeeper::parse(url);
      ADD_FAILURE() << url;
    } catch (boost::system::system_error const& e) {
      EXPECT_EQ(e.code(), errc::invalid_url);
      EXPECT_NE(std::string{e.what()}.find(why), std::string::npos) << url << ": " << e.what();
    }
  }
}

}  // namespace
}  // namespace conch::redis
