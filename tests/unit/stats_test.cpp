// What a snapshot is as text for Prometheus.

#include <conch/stats.hpp>

#include <gtest/gtest.h>

#include <string>

namespace conch {
namespace {

bool has_line(std::string const& text, std::string const& line) { return ("\n" + text).find("\n" + line + "\n") != std::string::npos; }

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

}  // namespace
}  // namespace conch
