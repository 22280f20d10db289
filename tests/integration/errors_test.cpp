// What an error says: its condition, its words, the server's words, and no password.

#include "integration/fixture.hpp"

namespace conch::test {
namespace {

TEST(Errors, BelongToTheirConditions) {
  for (errc const e : {errc::lost, errc::not_held}) {
    EXPECT_EQ(make_error_code(e), condition::not_mine);
    EXPECT_NE(make_error_code(e), condition::unreachable);
    EXPECT_NE(make_error_code(e), condition::invalid_request);
  }
  for (errc const e : {errc::unreachable, errc::closed}) EXPECT_EQ(make_error_code(e), condition::unreachable);
  for (errc const e : {errc::invalid_name, errc::invalid_config, errc::invalid_url, errc::not_supported}) {
    EXPECT_EQ(make_error_code(e), condition::invalid_request);
  }
  for (errc const e : {errc::timed_out, errc::access_denied, errc::wrong_type, errc::server_refused, errc::protocol}) {
    EXPECT_NE(make_error_code(e), condition::not_mine);
    EXPECT_NE(make_error_code(e), condition::unreachable);
    EXPECT_NE(make_error_code(e), condition::invalid_request);
  }
  EXPECT_NE(error_code{}, errc::lost);
  EXPECT_NE(error_code{}, condition::not_mine);
  EXPECT_STREQ(error_category().name(), "conch");
}

TEST(Errors, CarryTheServersWordsAndStayComparable) {
  error_code const ec = make_error_code(errc::server_refused, "OOM command not allowed");
  EXPECT_EQ(ec, errc::server_refused);
  EXPECT_NE(ec, errc::wrong_type);
  EXPECT_TRUE(ec.failed());
  EXPECT_NE(ec.message().find("OOM command not allowed"), std::string::npos);
  EXPECT_EQ(ec, make_error_code(errc::server_refused, "OOM command not allowed"));
  EXPECT_NE(std::string{boost::system::system_error{ec}.what()}.find("OOM command"), std::string::npos);
}

TEST(Errors, ForgetOldWordsButNotTheError) {
  error_code const old = make_error_code(errc::server_refused, "the first words of all");
  for (int i = 0; i < 300; ++i) make_error_code(errc::server_refused, "other words " + std::to_string(i));
  EXPECT_EQ(old, errc::server_refused);
  EXPECT_EQ(old.message(), make_error_code(errc::server_refused).message());
}

TEST(Errors, EveryOneHasAMessageOfItsOwn) {
  std::vector<std::string> seen;
  for (int i = 1; i <= static_cast<int>(errc::not_supported); ++i) {
    seen.push_back(make_error_code(static_cast<errc>(i)).message());
    EXPECT_NE(seen.back(), "unknown error");
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

}  // namespace
}  // namespace conch::test
