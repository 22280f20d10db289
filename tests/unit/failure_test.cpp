// Every error of an operation says what was asked, for which lock, at which server, and what that answered.
#include "base/failure.hpp"

#include <gtest/gtest.h>

#include <boost/asio/error.hpp>

#include <string>
#include <vector>

namespace conch {
namespace {

using namespace std::chrono_literals;
using kind = failed_task::kind;

TEST(Failures, AreWordedInOnePlace) {
  struct row {
    error_code why;
    failed_task of;
    std::string message;
  };
  std::string const redis = "redis://h:1";
  for (auto const& [why, of, message] : std::vector<row>{
           {make_error_code(errc::timed_out),
            {kind::waiting, "stock", redis, 2s},
            "timed out after 2 s waiting for lock \"stock\""},
           {make_error_code(errc::timed_out),
            {kind::waiting, "stock", redis, 2s, "billing@pod-7"},
            "timed out after 2 s waiting for lock \"stock\" (held by billing@pod-7)"},
           {make_error_code(errc::timed_out), {kind::waiting, "stock", redis}, "timed out waiting for lock \"stock\""},
           {make_error_code(errc::timed_out, "LOADING Redis is loading"),
            {kind::waiting, "stock", redis, 300ms},
            "timed out after 300 ms waiting for lock \"stock\": LOADING Redis is loading (redis://h:1)"},
           {make_error_code(errc::unreachable, "redis://h:1: Connection refused"),
            {kind::waiting, "stock", redis, 10s},
            "the lock server cannot be reached: redis://h:1: Connection refused (waiting for lock \"stock\")"},
           {make_error_code(errc::server_refused, "OOM command not allowed"),
            {kind::releasing, "stock", redis},
            "the lock server refused: OOM command not allowed (releasing lock \"stock\" at redis://h:1)"},
           {make_error_code(errc::wrong_type, "WRONGTYPE"),
            {kind::trying, "a\"\x1b\\", {}},
            "a key of the lock holds something else: WRONGTYPE (trying lock \"a\\\"\\x1b\\\\\")"},
           {make_error_code(errc::access_denied, "NOPERM"),
            {kind::extending, "s", redis},
            "the lock server denies access: NOPERM (extending lock \"s\" at redis://h:1)"},
           {make_error_code(errc::protocol, "no answer"),
            {kind::detaching, "s", redis},
            "the server does not speak the expected protocol: no answer (detaching lock \"s\" at redis://h:1)"},
           {make_error_code(errc::lost),
            {kind::holding, "s", redis},
            "the lock was lost (holding lock \"s\" at redis://h:1)"},
           {make_error_code(errc::not_replicated, "1 of 2"),
            {kind::waiting, "s", redis},
            "too few replicas have the lock: 1 of 2 (waiting for lock \"s\" at redis://h:1)"},
           {make_error_code(errc::tls_failed, "certificate"),
            {kind::waiting, "s", redis},
            "no TLS connection to the lock server: certificate (waiting for lock \"s\" at redis://h:1)"},
           {make_error_code(errc::closed),
            {kind::waiting, "s", redis},
            "the client is closed (waiting for lock \"s\" at redis://h:1)"},
           {make_error_code(errc::not_supported, "x"),
            {kind::waiting, "s", redis},
            "not supported by this server: x (waiting for lock \"s\" at redis://h:1)"},
           {make_error_code(errc::invalid_config, "x"),
            {kind::asking, "s", {}},
            "invalid configuration: x (asking about lock \"s\")"},
           {make_error_code(errc::unreachable, "x"),
            {kind::releasing, {}, redis},
            "the lock server cannot be reached: x (releasing a lock at redis://h:1)"},
       }) {
    error_code const told = explained(why, of);
    EXPECT_EQ(told.message(), message);
    EXPECT_EQ(told, why) << "the code is the same";
    EXPECT_EQ(told.value(), why.value());
    EXPECT_EQ(explained(told, of).message(), message) << "once is enough";
  }
}

TEST(Failures, ThatWereExplainedWithoutTheServerAreGivenIt) {
  error_code const near = explained(make_error_code(errc::server_refused, "OOM"), {kind::releasing, "s"});
  EXPECT_EQ(near.message(), "the lock server refused: OOM (releasing lock \"s\")");
  EXPECT_EQ(explained(near, {kind::releasing, {}, "redis://h:1"}).message(),
            "the lock server refused: OOM (releasing lock \"s\" at redis://h:1)");
}

TEST(Failures, OfOthersAndNoneStayAsTheyAre) {
  EXPECT_FALSE(explained({}, {kind::waiting, "s"}));
  error_code const cancelled = boost::asio::error::operation_aborted;
  EXPECT_EQ(explained(cancelled, {kind::waiting, "s"}).message(), cancelled.message());
}

TEST(Failures, TellDurationsInTheUnitThatAPersonWouldUse) {
  std::vector<std::pair<duration, std::string>> const all{{0ms, "0 ms"}, {1ms, "1 ms"},     {999ms, "999 ms"},
                                                          {1s, "1 s"},   {1234ms, "1.2 s"}, {2000400us, "2 s"},
                                                          {90s, "90 s"}, {600s, "10 min"}};
  for (auto const& [d, words] : all) EXPECT_EQ(in_words(d), words);
}

TEST(Failures, OfAThousandLocksInOneTurnKeepTheirTexts) {
  std::vector<error_code> all;
  for (int n = 0; n < 4000; ++n)
    all.push_back(explained(make_error_code(errc::timed_out), {kind::waiting, "lock-" + std::to_string(n)}));
  for (int n = 0; n < 4000; ++n)
    ASSERT_EQ(all[static_cast<std::size_t>(n)].message(),
              "timed out waiting for lock \"lock-" + std::to_string(n) + "\"");
  for (int n = 0; n < 5000; ++n) (void)make_error_code(errc::timed_out, "other " + std::to_string(n));
  EXPECT_EQ(all[0].message(), "timed out waiting for the lock") << "an old one shows none rather than that of another";
}

}  // namespace
}  // namespace conch
