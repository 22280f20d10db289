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

TEST(Errors, AreTheSameNumberAndTextWhateverWordsCameBefore) {
  for (int i = 0; i < 10; ++i) {
    error_code const plain = make_error_code(errc::invalid_config);
    error_code const ec = make_error_code(errc::invalid_config, "words no " + std::to_string(i));
    EXPECT_EQ(ec.value(), static_cast<int>(errc::invalid_config));
    EXPECT_EQ(ec.category(), error_category());
    EXPECT_EQ(ec, plain);
    EXPECT_EQ(hash_value(ec), hash_value(plain));
    EXPECT_EQ((std::ostringstream{} << ec).str(), "conch:11");
    EXPECT_EQ((std::ostringstream{} << ec).str(), (std::ostringstream{} << plain).str());
    EXPECT_EQ(ec.message(), "invalid configuration: words no " + std::to_string(i));
    EXPECT_NE(ec, make_error_code(errc::invalid_url, "words no " + std::to_string(i)));
    // As one of the standard library as well.
    std::error_code const standard = ec;
    EXPECT_EQ(standard.value(), ec.value());
    EXPECT_EQ(standard.message(), ec.message());
    EXPECT_EQ(standard, std::error_condition{make_error_condition(errc::invalid_config)});
    EXPECT_EQ(standard, std::error_condition{make_error_condition(condition::invalid_request)});
  }
}

TEST(Errors, KeepTheirWordsWhileOthersAreMadeOnOtherThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      for (int i = 0; i < 5'000; ++i) {
        std::string const words = "thread " + std::to_string(t) + " word " + std::to_string(i % 50);
        error_code const ec = make_error_code(errc::lost, words);
        if (ec != errc::lost || ec.message() != "the lock was lost: " + words) ++wrong;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Errors, ForgetOldWordsButNotTheError) {
  error_code const old = make_error_code(errc::server_refused, "the first words of all");
  for (int i = 0; i < 10'000; ++i) {
    error_code const other = make_error_code(errc::lost, "other words " + std::to_string(i));
    if (i == 100) {
      EXPECT_EQ(old.message(), "the lock server refused: the first words of all");
    }
    if (i >= 5'000) {
      EXPECT_EQ(old.message(), make_error_code(errc::server_refused).message());  // and never another's
    }
    EXPECT_EQ(other.message(), "the lock was lost: other words " + std::to_string(i));
  }
  EXPECT_EQ(old, errc::server_refused);
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
