// Where the server is: what each form of a URL means, and what is wrong with those that mean nothing.

#include "base/url.hpp"

#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace conch::redis {
namespace {

using kind = address::kind;

TEST(Url, EachFormMeansThis) {
  struct row {
    std::string url;
    kind what;
    std::string host;
    int port;
    std::string path, user, password;
    int database;
    std::string shown;
  };
  for (auto const& [url, what, host, port, path, user, password, database, shown] : std::vector<row>{
           {"redis://a", kind::tcp, "a", 6379, "", "", "", 0, "redis://a:6379"},
           {"redis://a/", kind::tcp, "a", 6379, "", "", "", 0, "redis://a:6379"},
           {"redis://a:1", kind::tcp, "a", 1, "", "", "", 0, "redis://a:1"},
           {"redis://a:65535/15", kind::tcp, "a", 65535, "", "", "", 15, "redis://a:65535"},
           {"redis://a.example.com/1000000", kind::tcp, "a.example.com", 6379, "", "", "", 1'000'000, "redis://a.example.com:6379"},
           {"redis://10.0.0.1:7", kind::tcp, "10.0.0.1", 7, "", "", "", 0, "redis://10.0.0.1:7"},
           {"redis://[::1]", kind::tcp, "::1", 6379, "", "", "", 0, "redis://[::1]:6379"},
           {"redis://[fe80::1%eth0]:7/2", kind::tcp, "fe80::1%eth0", 7, "", "", "", 2, "redis://[fe80::1%eth0]:7"},
           {"redis://u:p@a", kind::tcp, "a", 6379, "", "u", "p", 0, "redis://a:6379"},
           {"redis://:p@a", kind::tcp, "a", 6379, "", "", "p", 0, "redis://a:6379"},
           {"redis://u:p:q@a", kind::tcp, "a", 6379, "", "u", "p:q", 0, "redis://a:6379"},
           {"redis://u:p,q@a", kind::tcp, "a", 6379, "", "u", "p,q", 0, "redis://a:6379"},
           {"redis://u%3a:p%40%2F%25%00x@a", kind::tcp, "a", 6379, "", "u:", std::string{"p@/%\0x", 6}, 0, "redis://a:6379"},
           {"valkey://u:p@a:7/2", kind::tcp, "a", 7, "", "u", "p", 2, "redis://a:7"},
           {"rediss://u:p@a:7/2", kind::tcp, "a", 7, "", "u", "p", 2, "rediss://a:7"},
           {"rediss://a", kind::tcp, "a", 6379, "", "", "", 0, "rediss://a:6379"},
           {"valkeys://[::1]:7", kind::tcp, "::1", 7, "", "", "", 0, "rediss://[::1]:7"},
           {"rediss://u:p@a/3?cacert=/ca%40b/c&sni=n", kind::tcp, "a", 6379, "", "u", "p", 3, "rediss://a:6379"},
           {"unix:///run/r.sock", kind::unix_socket, "", 6379, "/run/r.sock", "", "", 0, "unix:///run/r.sock"},
           {"unix:///run/r.sock?db=3", kind::unix_socket, "", 6379, "/run/r.sock", "", "", 3, "unix:///run/r.sock"},
           {"unix://u:p@/run/r.sock", kind::unix_socket, "", 6379, "/run/r.sock", "u", "p", 0, "unix:///run/r.sock"},
           {"unix:///run/a@b:c", kind::unix_socket, "", 6379, "/run/a@b:c", "", "", 0, "unix:///run/a@b:c"},
           {"unix:///" + std::string(106, 's'), kind::unix_socket, "", 6379, "/" + std::string(106, 's'), "", "", 0,
            "unix:///" + std::string(106, 's')},
           {"memory://", kind::memory, "", 6379, "", "", "", 0, "memory://"},
           {"memory://a/b?c", kind::memory, "", 6379, "a/b?c", "", "", 0, "memory://a/b?c"},
       }) {
    address const a = parse_url(url);
    EXPECT_EQ(a.what, what) << url;
    EXPECT_EQ(a.host, host) << url;
    EXPECT_EQ(a.port, port) << url;
    EXPECT_EQ(a.path, path) << url;
    EXPECT_EQ(a.user, user) << url;
    EXPECT_EQ(a.password, password) << url;
    EXPECT_EQ(a.database, database) << url;
    EXPECT_EQ(a.shown(), shown) << url;
  }
}

std::string refusal(std::string const& url) {
  try {
    parse_servers(url);
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
  std::vector<std::string> const schemes{"redis",           "rediss",         "valkey",          "valkeys",       "redlock",        "postgresql",
                                         "postgres",        "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster", "valkey-cluster",
                                         "valkeys-cluster", "zookeeper",      "zookeepers",      "unix"};
  std::set<std::string> words;
  for (std::string const& scheme : schemes) {
    std::string const behind = scheme == "unix" ? "/run/x.sock" : "host";
    for (std::string const password : {"sek/ret", "sek@ret", "sek?ret", "sek#ret", "@sekret", "sek/@ret", "/sekret", "sek/r?e@t"}) {
      std::string const url = scheme + "://user:" + password + "@" + behind;
      std::string said = "nothing";
      try {
        if (names_sentinels(url)) (void)parse_sentinels(url);
        else if (names_cluster(url)) (void)parse_cluster(url);
        else if (names_zookeeper(url)) (void)parse_zookeeper(url);
        else (void)parse_servers(url);
      } catch (boost::system::system_error const& e) {
        said = e.code().message();
      }
      EXPECT_NE(said.find("%2F"), std::string::npos) << url << ": " << said;
      EXPECT_EQ(said.find("sek"), std::string::npos) << url << ": " << said;
      EXPECT_EQ(said.find("ret"), std::string::npos) << url << ": " << said;
      words.insert(said);
    }
  }
  EXPECT_EQ(words.size(), 1u) << *words.rbegin();
}

TEST(Url, OfPostgresqlShowsNothingOfAPasswordThatStandsInTheWrongPlace) {
  for (auto const& [url, why] : {std::pair{"postgresql://user:sekret/db", "the port"}, std::pair{"postgresql://user:sekret", "the port"},
                                 std::pair{"postgresql://a,user:sekret/db", "the port"}, std::pair{"postgresql://[::1]:sekret", "the port"},
                                 std::pair{"postgresql://user:sek%ret@a", "'%'"}, std::pair{"postgresql://a:0/db", "the port"},
                                 std::pair{"postgresql://a/db?password=sek@ret", "ambiguous: "}}) {
    std::string const said = refusal(url);
    EXPECT_NE(said.find(why), std::string::npos) << url << ": " << said;
    EXPECT_EQ(said.find("sek"), std::string::npos) << said;
  }
  EXPECT_EQ(parse_url("postgresql://u:sekret@a:1,b/db?password=sekret").shown(), "postgresql://a:1,b/db");
  EXPECT_EQ(parse_url("postgresql://u:sekret@a:1,b/db?password=sekret").shown(), "postgresql://a:1,b/db");
  for (std::string const url : {"postgresql://", "postgresql:///db", "postgresql://u:p@/db?host=/run",
                                "postgresql://u@[::1]:5432,b:1/db?sslmode=verify-full", "postgres://%2Frun%2Fpg/db", "postgresql://u:p%40%2F@a,b"}) {
    EXPECT_EQ(parse_url(url).path, url);
  }
}

TEST(Url, OfTlsNamesItsFilesAndTheServer) {
  address const a = parse_url("rediss://a?cacert=/etc/c%20a.pem&cacertdir=/d&cert=/x&key=/y%26&sni=redis.internal");
  EXPECT_TRUE(a.over_tls);
  EXPECT_EQ(a.tls.ca_file, "/etc/c a.pem");
  EXPECT_EQ(a.tls.ca_path, "/d");
  EXPECT_EQ(a.tls.cert_file, "/x");
  EXPECT_EQ(a.tls.key_file, "/y&");
  EXPECT_EQ(a.tls.server_name, "redis.internal");
  EXPECT_FALSE(parse_url("redis://a").over_tls);
}

TEST(Url, WhatItSaysOfTlsCountsInsteadOfTheConfiguration) {
  tls_config c;
  c.ca_file = "ca";
  c.ca_path = "folder";
  c.cert_file = "cert";
  c.key_file = "key";
  c.server_name = "name";
  c.verify = false;
  tls_config const same = tls_of(parse_url("rediss://a"), c);
  EXPECT_EQ(same.ca_file + same.ca_path + same.cert_file + same.key_file + same.server_name, "cafoldercertkeyname");
  EXPECT_FALSE(same.verify) << "no URL says anything of it";
  tls_config const other_ca = tls_of(parse_url("rediss://a?cacert=x"), c);
  EXPECT_EQ(other_ca.ca_file + other_ca.ca_path, "x") << "the configuration's folder is not trusted besides";
  EXPECT_EQ(other_ca.cert_file + other_ca.key_file + other_ca.server_name, "certkeyname");
  tls_config const other_key = tls_of(parse_url("rediss://a?cert=both&sni=n"), c);
  EXPECT_EQ(other_key.cert_file + other_key.key_file, "both") << "the key of another certificate is no help";
  EXPECT_EQ(other_key.ca_file + other_key.ca_path + other_key.server_name, "cafoldern");
}

TEST(Url, OneServerIsTheSameWithTlsAndWithout) {
  auto const refused = [](std::vector<std::string> const& urls) {
    try {
      parse_servers(urls);
    } catch (boost::system::system_error const& e) {
      return e.code().message();
    }
    return std::string{"nothing"};
  };
  EXPECT_NE(refused({"redis://a:1", "rediss://a:1"}).find("the same"), std::string::npos);
  EXPECT_EQ(refused({"redis://a:1", "rediss://a:2"}), "nothing");
  EXPECT_NE(refused({"unix:///run/a", "unix:///run//./b/../a"}).find("the same"), std::string::npos);
  EXPECT_NE(refused({"redis://Host.example", "redis://host.EXAMPLE.:6379/3"}).find("the same"), std::string::npos);
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
           {"redis-sentinel://a#m", "ambiguous: "},
           {"redis-sentinel://a?", "sentinelMasterId="},
           {"redis-sentinel://a?master=m", "sentinelMasterId="},
           {"redis-sentinel://a?cacert=x", "sentinelMasterId="},
           {"redis-sentinel://a?sentinelMasterId=", "empty"},
           {"redis-sentinel://a?sentinelMasterId=m&sentinelMasterId=n", "duplicate"},
           {"redis-sentinel://a?sentinelMasterId=a%20b", "the name of the master"},
           {"redis-sentinel://a?sentinelMasterId=a%0ab", "the name of the master"},
           {"rediss-sentinel://a?sentinelMasterId=m&insecure=1", "sentinelMasterId="},
           {"rediss-sentinel://a?sentinelMasterId=m&key=x", "key= needs cert="},
           {"redis-sentinel://u:sekret@a,u:sekret@b", "ambiguous: "},
           {"redis-sentinel://u:sek,ret@a", "percent-encode a ','"},
           {"redis-sentinel://u:sekret?@a", "ambiguous: "},
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

TEST(Url, OfSentinelsCannotBeAServerOfAQuorum) {
  EXPECT_EQ(parse_url("postgresql://u:sekret@a:1,b/db?password=sekret").shown(), "postgresql://a:1,b/db");
  for (std::string const url : {"redis-sentinel://a", "rediss-sentinel://a?sentinelMasterId=m"}) {
    EXPECT_TRUE(names_sentinels(url));
    EXPECT_NE(refusal(url).find("each server of a quorum"), std::string::npos) << refusal(url);
  }
  EXPECT_FALSE(names_sentinels("redis://redis-sentinel://"));
}

TEST(Url, SeveralServersKeepTheirOrder) {
  auto const all = parse_servers("redlock://u:p@a:1/2,b,[::1]:3");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].shown(), "redis://a:1");
  EXPECT_EQ(all[0].password, "p");
  EXPECT_EQ(all[0].database, 2);
  EXPECT_EQ(all[1].shown(), "redis://b:6379");
  EXPECT_EQ(all[1].password, "");
  EXPECT_EQ(all[2].shown(), "redis://[::1]:3");
  EXPECT_EQ(parse_servers("redlock://a").size(), 1u);
  EXPECT_EQ(parse_servers("redis://a").size(), 1u);
  EXPECT_EQ(parse_servers(std::vector<std::string>{"redis://a", "unix:///b", "redis://a:1"}).size(), 3u);
}

TEST(ClusterUrl, NamesSeedsWithTheUserOfAll) {
  for (auto const& [scheme, over_tls] : {std::pair{"redis-cluster", false}, std::pair{"valkey-cluster", false}, std::pair{"rediss-cluster", true},
                                         std::pair{"valkeys-cluster", true}}) {
    std::string const url = std::string{scheme} + "://u:p%2C@a,b:7000,[::1]:7001";
    ASSERT_TRUE(names_cluster(url));
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
  for (auto const& [url, why] : {std::pair{"redis-cluster://", "the host is missing"}, std::pair{"redis-cluster://a,a", "are the same"},
                                 std::pair{"redis-cluster://a/1", "a Cluster has one database, number 0"},
                                 std::pair{"redis-cluster://a?cacert=x", "takes no '?'"}, std::pair{"redis-cluster://a,u:p@b", "allowed once"}}) {
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
  auto const all = parse_zookeeper("zookeeper://u:p%2F@a,b:7000,[::1]:7001/shop/eu");
  ASSERT_EQ(all.servers.size(), 3u);
  EXPECT_EQ(all.chroot, "/shop/eu");
  EXPECT_EQ(all.servers[0].shown(), "zookeeper://a:2181");
  EXPECT_EQ(all.servers[2].shown(), "zookeeper://[::1]:7001");
  for (address const& one : all.servers) EXPECT_EQ(one.user + " " + one.password.bytes(), "u p/");
  EXPECT_EQ(parse_zookeeper("zookeeper://a/").chroot, "");
  address const over_tls = parse_zookeeper("zookeepers://a/x?cacert=/ca.pem").servers[0];
  EXPECT_EQ(over_tls.shown(), "zookeepers://a:2181");
  EXPECT_EQ(over_tls.tls.ca_file, "/ca.pem");
}

TEST(ZookeeperUrl, RefusesWhatIsNotMeant) {
  for (auto const& [url, why] :
       {std::pair{"zookeeper://", "the host is missing"}, std::pair{"zookeeper://a,a", "are the same"}, std::pair{"zookeeper://a//b", "is empty"},
        std::pair{"zookeeper://a/b/", "is empty"}, std::pair{"zookeeper://a/..", "'..'"},
        std::pair{"zookeeper://a:2181/app,b:2181/app", "allowed once"}, std::pair{"zookeeper://a/app,b", "allowed once"},
        std::pair{"zookeeper://a/app,", "allowed once"}, std::pair{"zookeeper://a/\xff", "UTF-8"}, std::pair{"zookeeper://a/\xfe", "UTF-8"},
        std::pair{"zookeeper://a/zookeeper", "belongs to the servers"}, std::pair{"zookeeper://a?cacert=x", "takes no '?'"},
        std::pair{"zookeeper://a,u:p@b", "allowed once"}, std::pair{"zookeeper://:p@a", "user:password"}, std::pair{"zookeeper://u:a/b@c", "%2F"}}) {
    try {
      (void)parse_zookeeper(url);
      ADD_FAILURE() << url;
    } catch (boost::system::system_error const& e) {
      EXPECT_EQ(e.code(), errc::invalid_url);
      EXPECT_NE(std::string{e.what()}.find(why), std::string::npos) << url << ": " << e.what();
    }
  }
  EXPECT_THROW((void)parse_servers(std::vector<std::string>{"zookeeper://a"}), boost::system::system_error) << "an ensemble gives no votes";
}

}  // namespace
}  // namespace conch::redis
