// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/url.hpp"

#include "base/numbers.hpp"
#include "base/url_text.hpp"

#include <filesystem>

namespace conch::redis {

namespace {

using url::refuse;

constexpr auto npos = std::string_view::npos;

/// rediss, valkeys, rediss-sentinel, ...
bool is_over_tls(std::string_view of_url) { return of_url.starts_with("rediss") || of_url.starts_with("valkeys"); }

constexpr char no_database[] = "the database must be a number, 0 or greater";

void read_database(std::string_view text, address& to, char const* otherwise = no_database) {
  auto const number = whole_number<int>(text);
  if (!number || *number < 0 || *number > 1'000'000) refuse(otherwise);
  to.database = *number;
}

/// Takes `/db` away.
void take_database(std::string_view& rest, address& to, char const* otherwise = no_database) {
  auto const slash = rest.find('/');
  if (slash == npos) return;
  std::string_view const database = rest.substr(slash + 1);
  if (database.starts_with('/')) refuse("a scheme is allowed only once, at the beginning");
  if (!database.empty()) read_database(database, to, otherwise);
  rest = rest.substr(0, slash);
}

void read_tcp(std::string_view rest, address& to) {
  if (auto const query = url::take_query(rest)) {
    if (!to.over_tls) refuse("redis:// takes no '?'");
    url::read_tls(*query, to.tls);
  }
  auto const found = rest.rfind('@');
  if (rest.find(',', found == npos ? 0 : found) != npos) {
    refuse(to.over_tls
               ? "this URL is for one server; did you mean config::quorum.servers, with a URL for each, or "
                 "rediss-sentinel://?"
               : "this URL is for one server; did you mean redlock:// (independent servers) or redis-sentinel://?");
  }
  take_database(rest, to);
  url::take_login(rest, to);
  url::read_host_and_port(rest, to);
}

void read_unix(std::string_view rest, address& to) {
  if (auto const query = url::take_query(rest)) {
    if (!query->starts_with("db=")) refuse("unix:// takes only ?db=n");
    read_database(query->substr(3), to);
  }
  if (auto const slash = rest.find('/'); rest.find('@') < slash && slash != npos) {
    std::string_view login = rest.substr(0, slash);
    url::take_login(login, to);
    rest.remove_prefix(slash - login.size());
  }
  if (!rest.starts_with('/')) refuse("unix:// needs an absolute path: unix:///run/redis.sock");
  constexpr std::size_t longest = 107;  // sun_path, with its closing 0
  if (rest.size() > longest) refuse("the socket's path is longer than 107 bytes");
  if (rest.find('\0') != npos) refuse("the socket's path contains a NUL");
  to.path = rest;
}

/// What Sentinel takes for a name.
void check_master(std::string_view name) {
  for (char const c : name) {
    if (c <= ' ' || c == 127) refuse("the name of the master contains a space or a control character");
  }
}

void read_sentinel_query(std::string_view query, address& to) {
  auto const setting = [&to](std::string_view word) {
    if (word == "sentinelMasterId") return &to.master;
    return to.over_tls ? url::setting_of_tls(word, to.tls) : nullptr;
  };
  url::read_query(
      query, setting,
      to.over_tls ? "after '?' rediss-sentinel:// takes sentinelMasterId=, cacert=, cacertdir=, cert=, key= and sni="
                  : "after '?' redis-sentinel:// takes only sentinelMasterId=");
  url::check_key(to.tls);
  check_master(to.master);
}

}  // namespace

std::string address::shown() const {
  if (is_unix_socket()) return "unix://" + path;
  if (host.empty()) return "the master '" + master + "'";
  return (over_tls ? "rediss" : "redis") + std::string{is_sentinel ? "-sentinel://" : "://"} +
         host_and_port(host, port);
}

std::string identity_of(address const& where) {
  if (where.is_unix_socket()) return "unix://" + std::filesystem::path{where.path}.lexically_normal().string();
  return "redis://" + host_and_port(one_spelling(where.host), where.port);
}

std::string site_of(address const& where) { return where.is_unix_socket() ? identity_of(where) : url::site_of(where); }

address parse_one(std::string_view of_url) {
  address to;
  to.over_tls = is_over_tls(of_url);
  std::string_view const rest = url::behind_scheme(of_url);
  if (of_url.starts_with("unix")) read_unix(rest, to);
  else read_tcp(rest, to);
  return to;
}

std::vector<std::string> urls_of_list(std::string_view of_url) {
  std::vector<std::string> all;
  for (std::string_view rest = url::behind_scheme(of_url);;) {
    auto const comma = rest.find(',');
    all.push_back("redis://" + std::string{rest.substr(0, comma)});
    if (comma == npos) return all;
    rest.remove_prefix(comma + 1);
  }
}

sentinel_url parse_sentinels(std::string_view of_url) {
  constexpr std::size_t most = 9;
  sentinel_url all;
  address& server = all.server;
  server.over_tls = is_over_tls(of_url);
  std::string_view rest = url::behind_scheme(of_url);
  if (auto const query = url::take_query(rest)) read_sentinel_query(*query, server);
  url::refuse_login_inside(rest);
  // Other clients' URLs have the name of the master there.
  take_database(rest, server,
                "the path must be the number of a database: name the master by ?sentinelMasterId=NAME at the end");
  url::take_login(rest, server);
  address common;
  common.port = 26379;
  common.over_tls = server.over_tls;
  common.tls = server.tls;
  common.is_sentinel = true;
  all.sentinels = url::read_hosts(rest, common, "the Sentinels", most,
                                  "there are more than 9 Sentinels; they name the others themselves");
  return all;
}

cluster_url parse_cluster(std::string_view of_url) {
  constexpr std::size_t most = 100;
  cluster_url all;
  address common;
  common.over_tls = is_over_tls(of_url);
  std::string_view rest = url::behind_scheme(of_url);
  if (auto const query = url::take_query(rest)) {
    if (!common.over_tls) refuse("redis-cluster:// takes no '?'");
    url::read_tls(*query, common.tls);
  }
  url::refuse_login_inside(rest);
  take_database(rest, common);
  if (common.database != 0) refuse("a Cluster has one database, number 0");
  url::take_login(rest, common);
  all.seeds = url::read_hosts(rest, common, "the nodes", most,
                              "there are more than 100 nodes; a few are enough, they name the others themselves");
  return all;
}

}  // namespace conch::redis
