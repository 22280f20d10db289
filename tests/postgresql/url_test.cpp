// URLs that libpq reads: what is looked at before, so that it repeats no secret.

#include "servers/postgresql/url.hpp"
#include "base/secrets.hpp"
#include "registry/registry.hpp"
#include "servers/urls.hpp"

#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace conch::postgresql {
namespace {

std::string refusal(std::string const& url) {
  try {
    config c;
    c.url = url;
    (void)registry::open(c);
  } catch (boost::system::system_error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_url) << url;
    return e.code().message();
  }
  return "nothing";
}

TEST(PostgresqlUrl, ShowsNothingOfAPasswordThatStandsInTheWrongPlace) {
  for (auto const& [url, why] :
       {std::pair{"postgresql://user:sekret/db", "the port"}, std::pair{"postgresql://user:sekret", "the port"},
        std::pair{"postgresql://a,user:sekret/db", "the port"}, std::pair{"postgresql://[::1]:sekret", "the port"},
        std::pair{"postgresql://user:sek%ret@a", "'%'"}, std::pair{"postgresql://a:0/db", "the port"},
        std::pair{"postgresql://a/db?password=sek@ret", "ambiguous: "},
        std::pair{"postgres://user:sek/ret@a", "ambiguous: "}, std::pair{"postgresql://user:sek#ret@a", "ambiguous: "},
        std::pair{"postgresql://user:@sekret@a", "ambiguous: "}}) {
    std::string const said = refusal(url);
    EXPECT_NE(said.find(why), std::string::npos) << url << ": " << said;
    EXPECT_EQ(said.find("sek"), std::string::npos) << said;
  }
  for (std::string const url : {"postgresql://u:sekret@a:1,b/db?password=sekret", "postgresql://u:sekret@a:1,b/db"}) {
    EXPECT_EQ(shown(url), "postgresql://a:1,b/db");
    EXPECT_EQ(servers::without_login(url), "postgresql://a:1,b/db");
    EXPECT_TRUE(servers::login_in(url).password);
  }
}

TEST(PostgresqlUrl, IsTakenAsItIs) {
  for (std::string const url : {"postgresql://", "postgresql:///db", "postgresql://u:p@/db?host=/run",
                                "postgresql://u@[::1]:5432,b:1/db?sslmode=verify-full", "postgres://%2Frun%2Fpg/db",
                                "postgresql://u:p%40%2F@a,b"}) {
    EXPECT_EQ(refusal(url), "nothing") << url;
  }
}

TEST(PostgresqlUrl, GivesNoVote) {
  config c;
  c.quorum.servers = {"postgresql://a/db"};
  try {
    (void)registry::open(c);
    ADD_FAILURE();
  } catch (boost::system::system_error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_config);
    EXPECT_NE(e.code().message().find("gives no votes"), std::string::npos);
  }
}

}  // namespace
}  // namespace conch::postgresql
