// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/judge.hpp"

#include "base/duration_text.hpp"

#include <chrono>

namespace conch::servers {

using namespace std::chrono_literals;

finding judge_round_trip(duration median, duration greatest) {
  std::string const shown = "median " + duration_text(median) + ", greatest " + duration_text(greatest);
  if (greatest > 1s)
    return {verdict::bad, "round trip", shown, "renewals of short leases come late: look at the network and the server's log of slow commands"};
  if (median > 20ms || greatest > 200ms) return {verdict::warning, "round trip", shown, "each acquire and each release takes at least one of these"};
  return {verdict::ok, "round trip", shown, ""};
}

finding judge_exposure(exposure const& e) {
  if (!e.tls.empty()) return {verdict::ok, "TLS", e.tls, ""};
  if (e.on_this_machine) return {verdict::ok, "TLS", "none, and the server is on this machine", ""};
  if (e.has_password) return {verdict::warning, "TLS", "none: the password can be read on the network", e.remedy + ", or a private network"};
  return {verdict::warning, "TLS", "none, and no password: everybody who reaches the server can take every lock",
          e.remedy + ", and a user for conch"};
}

}  // namespace conch::servers
