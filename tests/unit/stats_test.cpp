// What a snapshot is as text for Prometheus.

#include <conch/stats.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <utility>

namespace conch {
namespace {

bool has_line(std::string const& text, std::string const& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Stats, ResultsAreLabelsOfOneCounter) {
  statistics s;
  s.tls_handshakes = 3;
  s.tls_handshakes_failed = 2;
  s.reauthentications_failed = 1;
  std::string const text = to_prometheus(s, "client=\"a\"");
  EXPECT_TRUE(has_line(text, "# TYPE conch_tls_handshakes_total counter")) << text;
  EXPECT_TRUE(has_line(text, "conch_tls_handshakes_total{client=\"a\",result=\"ok\"} 3")) << text;
  EXPECT_TRUE(has_line(text, "conch_tls_handshakes_total{client=\"a\",result=\"failed\"} 2")) << text;
  EXPECT_TRUE(has_line(to_prometheus(s), "conch_reauthentications_total{result=\"ok\"} 0")) << text;
  EXPECT_TRUE(has_line(to_prometheus(s), "conch_reauthentications_total{result=\"failed\"} 1")) << text;
}

TEST(Stats, TheEndOfACertificateIsOnlyToldWhereThereIsOne) {
  statistics s;
  EXPECT_EQ(to_prometheus(s).find("tls_peer_certificate"), std::string::npos);
  s.tls_peer_expires = std::chrono::sys_seconds{std::chrono::seconds{1'800'000'000}};
  EXPECT_TRUE(has_line(to_prometheus(s), "conch_tls_peer_certificate_expires_seconds 1800000000"));
}

statistics of_two_servers() {
  statistics s;
  s.tls_peer_expires = std::chrono::sys_seconds{std::chrono::seconds{1'800'000'000}};
  s.servers.resize(2);
  s.servers[0].url = "redis://one:6379";
  s.servers[0].connected = true;
  s.servers[0].votes = 7;
  s.servers[0].round_trip = std::chrono::microseconds{1500};
  s.servers[1].url = "redis://a\"b\\c\nd";
  s.servers[1].cleanups_pending = 3;
  return s;
}

TEST(Stats, EachServerOfAQuorumHasItsLines) {
  std::string const text = to_prometheus(of_two_servers(), "client=\"a\"");
  EXPECT_TRUE(has_line(text, "conch_server_connected{client=\"a\",server=\"redis://one:6379\"} 1")) << text;
  EXPECT_TRUE(has_line(text, "conch_server_votes_total{client=\"a\",server=\"redis://one:6379\"} 7")) << text;
  EXPECT_TRUE(has_line(text, "conch_server_round_trip_seconds{client=\"a\",server=\"redis://one:6379\"} 0.0015"))
      << text;
  EXPECT_TRUE(has_line(text, R"(conch_server_connected{client="a",server="redis://a\"b\\c\nd"} 0)")) << text;
  EXPECT_TRUE(has_line(text, R"(conch_server_cleanups_pending{client="a",server="redis://a\"b\\c\nd"} 3)")) << text;
  EXPECT_EQ(to_prometheus(statistics{}).find("conch_server_"), std::string::npos);
}

TEST(Stats, NamesOfLocksAreLabelsThatNobodyCanBreakOutOf) {
  statistics s;
  EXPECT_EQ(to_prometheus(s).find("conch_lock_"), std::string::npos) << "only where they are asked for";
  s.locks.resize(3);
  s.locks[0].name = "orders";
  s.locks[0].grants = 7;
  s.locks[0].wait = std::chrono::milliseconds{1500};
  s.locks[1].name = "a\"} 1\nevil{x=\"b";
  s.locks[2].name = "a\\x00";  // as text, and then as a byte
  s.locks.push_back(s.locks[2]);
  s.locks[3].name = std::string{"a\0", 2};
  std::string const text = to_prometheus(s, "client=\"c\"");
  EXPECT_TRUE(has_line(text, "# TYPE conch_lock_wait_seconds_total counter")) << text;
  EXPECT_TRUE(has_line(text, "conch_lock_grants_total{client=\"c\",lock=\"orders\"} 7")) << text;
  EXPECT_TRUE(has_line(text, "conch_lock_wait_seconds_total{client=\"c\",lock=\"orders\"} 1.5")) << text;
  EXPECT_TRUE(has_line(text, R"(conch_lock_losses_total{client="c",lock="a\"} 1\\x0aevil{x=\"b"} 0)")) << text;
  EXPECT_TRUE(has_line(text, R"(conch_lock_losses_total{client="c",lock="a\\\\x00"} 0)")) << text;
  EXPECT_TRUE(has_line(text, R"(conch_lock_losses_total{client="c",lock="a\\x00"} 0)")) << text;
}

std::set<std::string> all_of(std::string const& text, std::regex const& form) {
  std::set<std::string> found;
  for (std::sregex_iterator at{text.begin(), text.end(), form}, end; at != end; ++at)
    found.insert(at->str(at->size() - 1));
  return found;
}

TEST(Stats, AlertsAndDashboardNameOnlyMetricsThatAreWritten) {
  std::string const written = to_prometheus(of_two_servers());
  auto const samples = all_of(written, std::regex{"(?:^|\n)(conch_[a-z_]+)"});
  ASSERT_GT(samples.size(), 40U);
  EXPECT_TRUE(samples.contains("conch_wait_seconds_bucket"));
  for (auto const& [name, fewest] : {std::pair{"alerts.yml", 14U}, std::pair{"dashboard.json", 20U}}) {
    std::ifstream file{std::filesystem::path{CONCH_SOURCE_DIR} / "examples/monitoring" / name};
    std::string const text{std::istreambuf_iterator<char>{file}, {}};
    auto const named = all_of(text, std::regex{"(conch_[a-z_]+)"});
    EXPECT_GE(named.size(), fewest) << name;
    for (auto const& metric : named) EXPECT_TRUE(samples.contains(metric)) << name << " names " << metric;
  }
}

}  // namespace
}  // namespace conch
