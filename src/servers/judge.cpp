// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/judge.hpp"

#include "base/duration_text.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

namespace conch::servers {

using namespace std::chrono_literals;

finding judge_round_trip(duration median, duration greatest) {
  std::string const shown = "median " + duration_text(median) + ", greatest " + duration_text(greatest);
  if (greatest > 1s)
    return {verdict::bad, "round trip", shown,
            "renewals of short leases come late: look at the network and the server's log of slow commands"};
  if (median > 20ms || greatest > 200ms)
    return {verdict::warning, "round trip", shown, "each acquire and each release takes at least one of these"};
  return {verdict::ok, "round trip", shown, ""};
}

finding judge_exposure(exposure const& e) {
  if (!e.tls.empty()) return {verdict::ok, "TLS", e.tls, ""};
  if (e.on_this_machine) return {verdict::ok, "TLS", "none, and the server is on this machine", ""};
  if (e.has_password)
    return {verdict::warning, "TLS", "none: the password can be read on the network",
            e.remedy + ", or a private network"};
  return {verdict::warning, "TLS", "none, and no password: everybody who reaches the server can take every lock",
          e.remedy + ", and a user for conch"};
}

namespace {

std::string advice_about_tls(std::string_view words) {
  auto const says = [&](std::string_view part) { return words.find(part) != std::string_view::npos; };
  if (says("has expired") || says("not yet valid"))
    return "renew the certificate, the server's or its authority's; or correct the clock that is wrong";
  if (says("no subjectAltName"))
    return "give the server a certificate with this name, or set tls-server-name to a name that its certificate has";
  if (says("tls.ca_file '") || says("tls.ca_path '") || says("tls.cert_file '") || says("tls.key_file:"))
    return "name files in PEM format that exist and that this user can read";
  if (says("certificate of the client")) return "set tls-cert-file, and tls-key-file if the key is in another file";
  if (says("certificate")) return "set tls-ca-file to the authority that signed the server's certificate";
  return "if that port does not speak TLS, begin the URL with redis://";
}

}  // namespace

finding judge_failure(std::string what, error_code why, std::string const& server) {
  std::string words = why.message();
  if (!server.empty() && words.find(server) == std::string::npos) words = server + ": " + words;
  auto const says = [&](std::string_view part) { return words.find(part) != std::string::npos; };
  std::string advice;
  if (says("begins with rediss://") || says("did you mean") || says("is a Sentinel") || says("not a Sentinel")) {
    // The text says what to do.
  } else if (says("OOM")) {
    advice = "the memory of the server is full: raise maxmemory, or remove keys";
  } else if (says("READONLY") || says("is a replica")) {
    advice = "this is a replica: name the master in the URL, or the Sentinels (redis-sentinel://)";
  } else if (says("MISCONF")) {
    advice = "the server cannot write its snapshot or its append-only file: look at its disk and its log";
  } else if (says("NOREPLICAS")) {
    advice = "fewer replicas are connected than min-replicas-to-write demands";
  } else if (says("LOADING") || says("MASTERDOWN") || says("CLUSTERDOWN")) {
    advice = "it is running but not ready yet: wait, and check its log";
  } else if (says("BUSY")) {
    advice = "another client's script keeps it busy: wait, or end that with SCRIPT KILL";
  } else if (says("DB index is out of range")) {
    advice = "the URL names a database that the server does not have: see `databases` in its configuration";
  } else if (says("does not know this name")) {
    advice = "check sentinelMasterId: SENTINEL MASTERS at a Sentinel lists the names";
  } else if (says("not a node of a Cluster") || says("is a Cluster node")) {
    // The text says what to do.
  } else if (says("max number of clients")) {
    advice = "raise maxclients, or find out who has opened so many connections (CLIENT LIST)";
  } else if (why == errc::tls_failed || says("is this a TLS port?")) {
    advice = advice_about_tls(words);
  } else if (why == errc::access_denied) {
    advice = "set user and password (conch doctor --help), and give that user the rights of the guide";
  } else if (says("no answer to the greeting")) {
    advice =
        "it accepts the connection but does not answer: has it stopped, is it overloaded, is it another kind of "
        "server?";
  } else if (why == condition::unreachable) {
    advice = "check that it runs, the URL, and firewalls in between";
  }
  return {verdict::bad, std::move(what), words, advice};
}

clocks_apart furthest_apart(std::vector<clock_offset> const& all) {
  auto const [least, most] = std::minmax_element(
      all.begin(), all.end(), [](clock_offset const& a, clock_offset const& b) { return a.ahead < b.ahead; });
  clocks_apart found{most->ahead - least->ahead, most->uncertainty + least->uncertainty};
  found.shown = "up to " + duration_text(found.apart) + " apart, give or take " + duration_text(found.unsure) + " (" +
                most->server + " is ahead of " + least->server + ')';
  return found;
}

finding judge_clocks(std::vector<clock_offset> const& all) {
  auto const [apart, unsure, shown] = furthest_apart(all);
  constexpr duration of_a_vote = std::chrono::milliseconds{500}, noticeable = std::chrono::milliseconds{100};
  if (apart - unsure > of_a_vote) {
    return {verdict::bad, "clocks", shown,
            "without quorum.strict_fence (the default has it) fences of a new server may be smaller than earlier ones: "
            "run NTP"};
  }
  if (apart - unsure > noticeable) return {verdict::warning, "clocks", shown, "run NTP on each server"};
  return {verdict::ok, "clocks", shown, ""};
}

}  // namespace conch::servers
