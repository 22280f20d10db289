// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/url.hpp"

#include "base/numbers.hpp"
#include "base/readable.hpp"

#include <conch/error.hpp>

#include <boost/assert.hpp>
#include <boost/system/system_error.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

namespace conch::redis {

namespace {

[[noreturn]] void refuse(std::string_view why) { throw boost::system::system_error{make_error_code(errc::invalid_url, why)}; }

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string percent_decoded(std::string_view text, std::string const& where) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    int const high = i + 2 < text.size() ? hex(text[i + 1]) : -1;
    int const low = i + 2 < text.size() ? hex(text[i + 2]) : -1;
    if (high < 0 || low < 0) refuse("'%' in " + where + " must be followed by two hexadecimal digits");
    plain += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return plain;
}

void read_database(std::string_view text, address& to) {
  auto const number = whole_number<int>(text);
  if (!number || *number < 0 || *number > 1'000'000) refuse("the database must be a number, 0 or greater");
  to.database = *number;
}

void read_credentials(std::string_view text, address& to) {
  auto const colon = text.find(':');
  if (colon == std::string_view::npos) refuse("expected user:password or :password before '@'");
  to.user = percent_decoded(text.substr(0, colon), "user or password");
  if (looks_like_a_token(to.user)) to.token = to.user;
  to.password = percent_decoded(text.substr(colon + 1), "user or password");
  if (to.password.empty()) refuse("the password before '@' is empty");
}

/// The words of redis-cli.
std::string* setting_of_tls(std::string_view word, tls_config& to) {
  if (word == "cacert") return &to.ca_file;
  if (word == "cacertdir") return &to.ca_path;
  if (word == "cert") return &to.cert_file;
  if (word == "key") return &to.key_file;
  if (word == "sni") return &to.server_name;
  return nullptr;
}

/// `cacert=/etc/ca.pem&sni=redis.internal`. `find(word)`: where its value goes; null: there is no such word, and `known` tells which there are.
/// A word is not shown: it may be the rest of a password.
template <class Find>
void read_query(std::string_view query, Find const& find, std::string_view known) {
  for (;;) {
    std::string_view const one = query.substr(0, query.find('&'));
    auto const equals = one.find('=');
    std::string* const value = find(one.substr(0, equals));
    if (value == nullptr || equals == std::string_view::npos) refuse(known);
    if (!value->empty()) refuse("duplicate parameter after '?'");
    *value = percent_decoded(one.substr(equals + 1), "what follows '?'");
    if (value->empty() || value->find('\0') != std::string::npos) refuse("after '?' a value is empty or contains a NUL");
    if (one.size() == query.size()) break;
    query.remove_prefix(one.size() + 1);
  }
}

void check_key(tls_config const& t) {
  if (t.cert_file.empty() && !t.key_file.empty()) refuse("after '?' key= needs cert=");
}

void read_tls(std::string_view query, tls_config& to) {
  read_query(
      query, [&](std::string_view word) { return setting_of_tls(word, to); },
      "after '?' rediss:// takes cacert=, cacertdir=, cert=, key= and sni=; only config::tls.verify switches the verification off");
  check_key(to);
}

/// Takes `/db` and `user:password@` away.
std::string_view read_around_host(std::string_view rest, address& to) {
  if (auto const slash = rest.find('/'); slash != std::string_view::npos) {
    std::string_view const database = rest.substr(slash + 1);
    if (database.starts_with('/')) refuse("a scheme is allowed only once, at the beginning");
    if (!database.empty()) read_database(database, to);
    rest = rest.substr(0, slash);
  }
  if (auto const at = rest.rfind('@'); at != std::string_view::npos) {
    read_credentials(rest.substr(0, at), to);
    rest = rest.substr(at + 1);
  }
  return rest;
}

void read_tcp(std::string_view rest, address& to) {
  constexpr auto npos = std::string_view::npos;
  if (!to.over_tls && rest.find('?') != npos) refuse("redis:// takes no '?'");
  if (auto const query = rest.find('?'); query != npos) {
    read_tls(rest.substr(query + 1), to.tls);
    rest = rest.substr(0, query);
  }
  auto const at = rest.rfind('@');
  if (rest.find(',', at == npos ? 0 : at) != npos) {
    refuse(to.over_tls ? "this URL is for one server; did you mean config::quorum.servers, with a URL for each, or rediss-sentinel://?"
                       : "this URL is for one server; did you mean redlock:// (independent servers) or redis-sentinel://?");
  }
  read_host_and_port(read_around_host(rest, to), to);
}

void read_unix(std::string_view rest, address& to) {
  if (auto const query = rest.find('?'); query != std::string_view::npos) {
    std::string_view const text = rest.substr(query + 1);
    if (!text.starts_with("db=")) refuse("unix:// takes only ?db=n");
    read_database(text.substr(3), to);
    rest = rest.substr(0, query);
  }
  if (auto const at = rest.find('@'); at != std::string_view::npos && at < rest.find('/')) {
    read_credentials(rest.substr(0, at), to);
    rest = rest.substr(at + 1);
  }
  if (!rest.starts_with('/')) refuse("unix:// needs an absolute path: unix:///run/redis.sock");
  constexpr std::size_t longest = 107;  // sun_path, with its closing 0
  if (rest.size() > longest) refuse("the socket's path is longer than 107 bytes");
  if (rest.find('\0') != std::string_view::npos) refuse("the socket's path contains a NUL");
  to.path = rest;
}

/// libpq reads the rest. What it would repeat in an error, or look up as a name, is looked at here: a password without its '@' is a port.
void check_postgresql(std::string_view rest) {
  for (std::size_t i = rest.find('%'); i != std::string_view::npos; i = rest.find('%', i + 1)) {
    bool const is_whole = i + 2 < rest.size() && hex(rest[i + 1]) >= 0 && hex(rest[i + 2]) >= 0;
    if (!is_whole) refuse("'%' must be followed by two hexadecimal digits");
  }
  std::string_view hosts = rest.substr(0, rest.find_first_of("/?"));
  hosts.remove_prefix(hosts.rfind('@') + 1);  // npos + 1 is 0
  for (;;) {
    std::string_view one = hosts.substr(0, hosts.find(','));
    bool const is_last = one.size() == hosts.size();
    if (!is_last) hosts.remove_prefix(one.size() + 1);
    if (one.starts_with('[')) one.remove_prefix(std::min(one.find(']'), one.size() - 1));
    if (auto const colon = one.find(':'); colon != std::string_view::npos) {
      auto const port = whole_number<std::uint16_t>(one.substr(colon + 1));
      if (!port || *port == 0) refuse("the port must be a number from 1 to 65535");
    }
    if (is_last) return;
  }
}

constexpr std::string_view plain_sentinels = "redis-sentinel://", tls_sentinels = "rediss-sentinel://";

/// The schemes of a Cluster, and whether each is over TLS.
constexpr std::pair<std::string_view, bool> cluster_schemes[] = {
    {"redis-cluster://", false}, {"rediss-cluster://", true}, {"valkey-cluster://", false}, {"valkeys-cluster://", true}};

/// What Sentinel takes for a name.
void check_master(std::string_view name) {
  for (char const c : name) {
    if (c <= ' ' || c == 127) refuse("the name of the master contains a space or a control character");
  }
}

}  // namespace

bool can_be_host(std::string_view text) {
  constexpr std::size_t longest = 255;  // of a name in the DNS
  return !text.empty() && text.size() <= longest && text.find_first_of(" []") == std::string_view::npos && printable(text) == text;
}

bool looks_like_a_token(std::string_view user) noexcept {
  return user.size() >= 20 && std::any_of(user.begin(), user.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void refuse_ambiguous(std::string_view url) {
  constexpr auto npos = std::string_view::npos;
  constexpr std::string_view why = "ambiguous: in a user, a password and a value after '?' write '@' as %40, '/' as %2F, '?' as %3F and '#' as %23";
  auto const scheme_end = url.find("://");
  if (scheme_end == npos) return;
  std::string_view const scheme = url.substr(0, scheme_end), rest = url.substr(scheme_end + 3);
  // A name and a path are taken as they are, and there is nothing secret in them.
  if (scheme == "memory" || (scheme == "unix" && rest.starts_with('/'))) return;
  if (rest.find('#') != npos) refuse(why);
  if (scheme == "unix") {
    auto const at = rest.find('@');
    if (at != npos && (rest.substr(0, at).find_first_of("/?") != npos || rest.find('@', at + 1) != npos)) refuse(why);
    return;
  }
  bool const is_list_of_urls = scheme == "redlock";  // of which each has its own user
  for (std::string_view left = rest;;) {
    auto const comma = is_list_of_urls ? left.find(',') : npos;
    std::string_view const one = left.substr(0, comma);
    auto const at = one.rfind('@');
    if (at != npos && one.substr(0, at).find_first_of("@/?") != npos) refuse(why);
    if (comma == npos) return;
    left.remove_prefix(comma + 1);
  }
}

namespace {

/// Two spellings of one host are one server. Names are looked up without regard to case, and a dot at the end only says that a name is whole.
std::string one_spelling(std::string const& host) {
  std::array<unsigned char, sizeof(in6_addr)> binary{};
  for (int const family : {AF_INET, AF_INET6}) {
    if (::inet_pton(family, host.c_str(), binary.data()) != 1) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    return ::inet_ntop(family, binary.data(), text.data(), text.size());
  }
  std::string name = host;
  if (name.size() > 1 && name.ends_with('.')) name.pop_back();
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

/// With two votes of one server fewer servers than a majority could win.
bool is_same_server(address a, address b) {
  a.over_tls = b.over_tls;
  for (address* const one : {&a, &b}) {
    if (one->what == address::kind::unix_socket) one->path = std::filesystem::path{one->path}.lexically_normal().string();
  }
  a.host = one_spelling(a.host);
  b.host = one_spelling(b.host);
  return a.shown() == b.shown();
}

}  // namespace

void read_host_and_port(std::string_view text, address& to) {
  std::string_view port;
  if (text.starts_with('[')) {
    auto const close = text.find(']');
    if (close == std::string_view::npos) refuse("an IPv6 address lacks its closing ']'");
    to.host = text.substr(1, close - 1);
    port = text.substr(close + 1);
    if (!port.empty() && !port.starts_with(':')) refuse("after ']' only ':' and a port may follow");
  } else {
    auto const colon = text.find(':');
    to.host = text.substr(0, colon);
    port = colon == std::string_view::npos ? std::string_view{} : text.substr(colon);
    if (port.find(':', 1) != std::string_view::npos) refuse("an IPv6 address needs brackets");
  }
  if (to.host.empty()) refuse("the host is missing");
  for (char const c : to.host) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 127) refuse("the host contains a space or a control character");
    if (c == '[' || c == ']') refuse("the host contains a bracket");
  }
  if (!can_be_host(to.host)) refuse("the host is longer than 255 bytes, or contains a backslash or a character that cannot be seen");
  if (port.empty()) return;
  auto const number = whole_number<std::uint16_t>(port.substr(1));
  if (!number || *number == 0) refuse("the port must be a number from 1 to 65535");
  to.port = *number;
}

/// All of them. The words of both errors that name schemes.
static std::string known_schemes() {
  return "redis, valkey, redis-sentinel, redis-cluster, valkey-cluster, the same over TLS (rediss, valkeys, rediss-sentinel, rediss-cluster, "
         "valkeys-cluster), redlock (a list of servers), unix, memory, postgresql, postgres, zookeeper or zookeepers (TLS)";
}

address parse_url(std::string_view url) {
  address to;
  auto const scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) refuse("a URL begins with SCHEME://, where SCHEME is " + known_schemes());
  refuse_ambiguous(url);
  std::string_view const scheme = url.substr(0, scheme_end);
  std::string_view const rest = url.substr(scheme_end + 3);
  bool const plain = scheme == "redis" || scheme == "valkey";
  if (plain || scheme == "rediss" || scheme == "valkeys") {
    to.what = address::kind::tcp;
    to.over_tls = !plain;
    read_tcp(rest, to);
  } else if (scheme == "unix") {
    to.what = address::kind::unix_socket;
    read_unix(rest, to);
  } else if (scheme == "memory") {
    to.what = address::kind::memory;
    to.path = rest;
  } else if (scheme == "postgresql" || scheme == "postgres") {
    to.what = address::kind::postgresql;
    check_postgresql(rest);
    to.path = url;
  } else {
    if (names_cluster(url)) refuse("redis-cluster:// is not allowed here: name each server of a quorum");
    if (names_zookeeper(url)) refuse("zookeeper:// is not allowed here: an ensemble has its own majority, and gives no votes");
    if (names_sentinels(url)) refuse("redis-sentinel:// is not allowed here: name each server of a quorum");
    bool const shouts = std::any_of(scheme.begin(), scheme.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
    if (shouts) refuse("the scheme must be in lower case, such as redis://");
    refuse("the scheme must be " + known_schemes());
  }
  return to;
}

std::vector<address> parse_servers(std::string_view url) {
  constexpr std::string_view several = "redlock://";
  if (!url.starts_with(several)) return {parse_url(url)};
  std::vector<std::string> urls;
  for (std::string_view rest = url.substr(several.size());;) {
    auto const comma = rest.find(',');
    urls.push_back("redis://" + std::string{rest.substr(0, comma)});
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return parse_servers(urls);
}

std::vector<address> parse_servers(std::vector<std::string> const& urls) {
  constexpr std::size_t most = 9;
  if (urls.empty() || urls.size() > most) refuse("a lock is kept by 1 to 9 servers");
  std::vector<address> all;
  for (std::string const& url : urls) {
    address one = parse_url(url);
    if (one.what == address::kind::postgresql) refuse("a PostgreSQL server gives no votes: postgresql:// names one server for itself");
    for (address const& other : all) {
      if (is_same_server(other, one)) refuse("two of the servers are the same: " + one.shown());
    }
    all.push_back(std::move(one));
  }
  return all;
}

namespace {

/// User and password in front of a list of hosts are those of all.
void check_login_of_all(std::string_view rest) {
  if (auto const at = rest.rfind('@'); rest.find(',') < at && at != std::string_view::npos) {
    refuse("user and password are allowed once, before the first host; percent-encode a ',' in them");
  }
}

/// "host:port,host". All else of each is as in `common`. `names`: "the nodes".
std::vector<address> read_hosts(std::string_view list, address const& common, std::string const& names, std::size_t most,
                                std::string const& too_many) {
  std::vector<address> all;
  for (;;) {
    auto const comma = list.find(',');
    address one = common;
    read_host_and_port(list.substr(0, comma), one);
    for (address const& other : all) {
      if (is_same_server(other, one)) refuse("two of " + names + " are the same: " + one.shown());
    }
    all.push_back(std::move(one));
    if (all.size() > most) refuse(too_many);
    if (comma == std::string_view::npos) return all;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

bool names_sentinels(std::string_view url) noexcept { return url.starts_with(plain_sentinels) || url.starts_with(tls_sentinels); }

sentinel_url parse_sentinels(std::string_view url) {
  BOOST_ASSERT(names_sentinels(url));
  refuse_ambiguous(url);
  constexpr std::size_t most = 9;
  sentinel_url all;
  address& server = all.server;
  server.over_tls = url.starts_with(tls_sentinels);
  std::string_view rest = url.substr(server.over_tls ? tls_sentinels.size() : plain_sentinels.size());
  if (auto const query = rest.find('?'); query != std::string_view::npos) {
    auto const setting = [&server](std::string_view word) {
      if (word == "sentinelMasterId") return &server.master;
      return server.over_tls ? setting_of_tls(word, server.tls) : nullptr;
    };
    read_query(rest.substr(query + 1), setting,
               server.over_tls ? "after '?' rediss-sentinel:// takes sentinelMasterId=, cacert=, cacertdir=, cert=, key= and sni="
                               : "after '?' redis-sentinel:// takes only sentinelMasterId=");
    check_key(server.tls);
    check_master(server.master);
    rest = rest.substr(0, query);
  }
  check_login_of_all(rest);
  rest = read_around_host(rest, server);
  address common;
  common.port = 26379;
  common.over_tls = server.over_tls;
  common.tls = server.tls;
  common.is_sentinel = true;
  all.sentinels = read_hosts(rest, common, "the Sentinels", most, "there are more than 9 Sentinels; they name the others themselves");
  return all;
}

bool names_cluster(std::string_view url) noexcept {
  return std::any_of(std::begin(cluster_schemes), std::end(cluster_schemes), [&](auto const& scheme) { return url.starts_with(scheme.first); });
}

cluster_url parse_cluster(std::string_view url) {
  constexpr std::size_t most = 100;
  auto const scheme =
      std::find_if(std::begin(cluster_schemes), std::end(cluster_schemes), [&](auto const& one) { return url.starts_with(one.first); });
  BOOST_ASSERT(scheme != std::end(cluster_schemes));
  refuse_ambiguous(url);
  cluster_url all;
  address common;
  common.over_tls = scheme->second;
  std::string_view rest = url.substr(scheme->first.size());
  if (auto const query = rest.find('?'); query != std::string_view::npos) {
    if (!common.over_tls) refuse("redis-cluster:// takes no '?'");
    read_tls(rest.substr(query + 1), common.tls);
    rest = rest.substr(0, query);
  }
  check_login_of_all(rest);
  bool const has_path = rest.find('/') != std::string_view::npos;
  rest = read_around_host(rest, common);
  if (has_path && common.database != 0) refuse("a Cluster has one database, number 0");
  all.seeds = read_hosts(rest, common, "the nodes", most, "there are more than 100 nodes; a few are enough, they name the others themselves");
  return all;
}

namespace {

constexpr std::string_view plain_zookeeper = "zookeeper://", tls_zookeeper = "zookeepers://";

/// ZooKeeper's own rules for a path.
void check_chroot(std::string_view path) {
  for (std::string_view rest = path; !rest.empty();) {
    rest.remove_prefix(1);  // the slash
    std::string_view const part = rest.substr(0, rest.find('/'));
    if (part.empty() || part == "." || part == "..") refuse("a part of the path after the hosts is empty, '.' or '..'");
    rest.remove_prefix(part.size());
  }
  for (char const c : path) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 127) refuse("the path after the hosts contains a space or a control character");
  }
  // A server takes all that is not UTF-8 for the same character.
  if (readable(path, std::string::npos) != path) refuse("the path after the hosts is not plain UTF-8");
  if (path.find(',') != std::string_view::npos) refuse("the path is allowed once, after the last host, without ',': zookeeper://a:2181,b:2181/path");
  if (path == "/zookeeper" || path.starts_with("/zookeeper/")) refuse("/zookeeper belongs to the servers");
}

}  // namespace

bool names_zookeeper(std::string_view url) noexcept { return url.starts_with(plain_zookeeper) || url.starts_with(tls_zookeeper); }

zookeeper_url parse_zookeeper(std::string_view url) {
  BOOST_ASSERT(names_zookeeper(url));
  refuse_ambiguous(url);
  constexpr std::size_t most = 100;
  zookeeper_url all;
  address common;
  common.what = address::kind::zookeeper;
  common.port = 2181;
  common.over_tls = url.starts_with(tls_zookeeper);
  std::string_view rest = url.substr(common.over_tls ? tls_zookeeper.size() : plain_zookeeper.size());
  if (auto const query = rest.find('?'); query != std::string_view::npos) {
    if (!common.over_tls) refuse("zookeeper:// takes no '?'");
    read_tls(rest.substr(query + 1), common.tls);
    rest = rest.substr(0, query);
  }
  if (auto const slash = rest.find('/'); slash != std::string_view::npos) {
    all.chroot = rest.substr(slash);
    if (all.chroot == "/") all.chroot.clear();
    check_chroot(all.chroot);
    rest = rest.substr(0, slash);
  }
  check_login_of_all(rest);
  rest = read_around_host(rest, common);
  if (!common.password.empty() && common.user.empty()) refuse("zookeeper:// takes user:password before '@'");
  if (common.user.find(':') != std::string::npos) refuse("the user contains a ':', which ends a user's name in ZooKeeper");
  all.servers = read_hosts(rest, common, "the servers", most, "there are more than 100 servers");
  return all;
}

tls_config tls_of(address const& where, tls_config const& configured) {
  tls_config all = configured;
  tls_config const& named = where.tls;
  // Together: an authority, or a key, of the one does not belong to a file of the other.
  if (!named.ca_file.empty() || !named.ca_path.empty()) {
    all.ca_file = named.ca_file;
    all.ca_path = named.ca_path;
  }
  if (!named.cert_file.empty() || !named.key_file.empty()) {
    all.cert_file = named.cert_file;
    all.key_file = named.key_file;
  }
  if (!named.server_name.empty()) all.server_name = named.server_name;
  return all;
}

std::string address::shown() const {
  switch (what) {
    case kind::tcp:
      if (host.empty()) return "the master '" + master + "'";
      return (over_tls ? "rediss" : "redis") + std::string{is_sentinel ? "-sentinel://" : "://"} + host_and_port(host, port);
    case kind::unix_socket: return "unix://" + path;
    case kind::memory: return "memory://" + path;
    case kind::postgresql: {
      std::string_view where = std::string_view{path}.substr(path.find("://") + 3);
      where = where.substr(0, where.find('?'));
      return "postgresql://" + std::string{where.substr(where.rfind('@') + 1)};  // npos + 1 is 0
    }
    case kind::zookeeper: return (over_tls ? "zookeepers://" : "zookeeper://") + host_and_port(host, port);
  }
  return {};
}

std::string host_and_port(std::string const& host, std::uint16_t port) {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

}  // namespace conch::redis
