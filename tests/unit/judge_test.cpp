// What `conch doctor` makes of what holds for every kind of server.

#include <gtest/gtest.h>

#include <servers/judge.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace conch::servers {
namespace {

using namespace std::chrono_literals;

TEST(Judge, SaysWhatToDoAboutEachFailure) {
  struct row {
    errc why;
    char const* words;
    char const* advice;  // a part of it; "": the words say it
  };
  for (row const& one : std::vector<row>{
           {errc::unreachable, "Connection refused", "check that it runs"},
           {errc::unreachable, "this looks like TLS: the URL then begins with rediss://", ""},
           {errc::protocol, "the server is a Sentinel", ""},
           {errc::server_refused, "OOM command not allowed when used memory > 'maxmemory'", "raise maxmemory"},
           {errc::server_refused, "READONLY You can't write against a read only replica.", "this is a replica"},
           {errc::unreachable, "the server is a replica", "this is a replica"},
           {errc::server_refused, "MISCONF Redis is configured to save RDB snapshots", "look at its disk"},
           {errc::server_refused, "NOREPLICAS Not enough good replicas to write.", "min-replicas-to-write"},
           {errc::server_refused, "ERR max number of clients reached", "maxclients"},
           {errc::tls_failed, "certificate verify failed", "tls-ca-file"},
           {errc::tls_failed, "certificate verify failed (SSL routines): certificate has expired", "renew"},
           {errc::tls_failed, "the server wants a certificate of the client: tls.cert_file", "tls-cert-file"},
           {errc::tls_failed, "hostname mismatch (it has no subjectAltName 'a')", "tls-server-name"},
           {errc::tls_failed, "tls.ca_file '/nope': No such file or directory", "that exist"},
           {errc::tls_failed, "wrong version number", "begin the URL with redis://"},
           {errc::unreachable, "no answer to the TLS handshake yet; is this a TLS port?",
            "begin the URL with redis://"},
           {errc::unreachable, "no answer to the greeting yet", "has it stopped"},
           {errc::access_denied, "WRONGPASS invalid username-password pair", "set user and password"},
           {errc::unreachable, "LOADING Redis is loading the dataset in memory", "not ready yet"},
           {errc::unreachable, "MASTERDOWN Link with MASTER is down", "not ready yet"},
           {errc::unreachable, "BUSY Redis is busy running a script", "SCRIPT KILL"},
           {errc::server_refused, "ERR DB index is out of range", "names a database"},
           {errc::server_refused, "the master 'm': redis-sentinel://a: does not know this name", "SENTINEL MASTERS"},
           {errc::server_refused, "this is not a Sentinel; the URL of a server begins with redis://", ""},
           {errc::not_supported,
            "the server is not a node of a Cluster; the URL of a single server begins with redis://", ""},
       }) {
    finding const f = judge_failure("hand-over", make_error_code(one.why, one.words), "redis://h");
    EXPECT_EQ(f.how, verdict::bad);
    EXPECT_NE(f.words.find("redis://h: "), std::string::npos) << f.words;
    EXPECT_NE(f.words.find(one.words), std::string::npos) << f.words;
    if (*one.advice == '\0') {
      EXPECT_EQ(f.advice, "") << one.words;
    } else {
      EXPECT_NE(f.advice.find(one.advice), std::string::npos) << one.words << " -> " << f.advice;
    }
  }
}

TEST(Judge, OfTimesAndClocks) {
  EXPECT_EQ(judge_round_trip(1ms, 5ms).how, verdict::ok);
  EXPECT_EQ(judge_round_trip(30ms, 40ms).how, verdict::warning);
  EXPECT_EQ(judge_round_trip(1ms, 2s).how, verdict::bad);
  EXPECT_EQ(judge_clocks({{"a", 0s, 1ms}, {"b", 5ms, 1ms}, {"c", -5ms, 1ms}}).how, verdict::ok);
  finding const apart = judge_clocks({{"a", 0s, 1ms}, {"b", 300ms, 1ms}});
  EXPECT_EQ(apart.how, verdict::warning);
  EXPECT_NE(apart.words.find("b is ahead of a"), std::string::npos) << apart.words;
  EXPECT_EQ(judge_clocks({{"a", 0s, 1ms}, {"b", 2s, 1ms}}).how, verdict::bad);
  EXPECT_EQ(judge_clocks({{"a", 0s, 2s}, {"b", 2s, 1ms}}).how, verdict::ok) << "it may be the network";
}

TEST(Judge, OfWhoCanReadTheConnection) {
  EXPECT_EQ(judge_exposure({"TLSv1.3", false, true, "use rediss://"}).how, verdict::ok);
  EXPECT_EQ(judge_exposure({"", true, true, "use rediss://"}).how, verdict::ok);
  EXPECT_EQ(judge_exposure({"", false, true, "use rediss://"}).how, verdict::warning);
  EXPECT_EQ(judge_exposure({"", false, false, "use rediss://"}).how, verdict::warning);
}

}  // namespace
}  // namespace conch::servers
