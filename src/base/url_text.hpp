// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/endpoint.hpp"

#include <conch/config.hpp>
#include <conch/detail/api.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The parts of a URL, for every kind of server. What a part means, and which schemes there are, the rooms of the
// servers know. All functions throw boost::system::system_error{errc::invalid_url}; what() names the wrong part, and
// shows nothing secret.
namespace conch::url {

[[noreturn]] CONCH_API void refuse(std::string_view why);

/// "redis" of "redis://a"; nothing where there is no "://".
std::optional<std::string_view> scheme_of(std::string_view url) noexcept;
/// "a" of "redis://a".
CONCH_API std::string_view behind_scheme(std::string_view url) noexcept;

/// Where a user and a password can be given.
enum class shape {
  name,            // nowhere: all of it is a name
  socket,          // before the path of a unix socket
  hosts,           // before a host, or the first of several
  list_of_servers  // before each of several servers
};

/// Refuses a URL that can be understood in two ways, so that a part of a password could be taken for a host: a '/', '?'
/// or '#' before an '@', two '@', or one after '?'. Always with the same text. `rest`: what follows the scheme.
void refuse_ambiguous(std::string_view rest, shape of);

/// `where`: for the words, as in "'%' in user or password".
std::string percent_decoded(std::string_view text, std::string const& where);
/// Nothing in it has a meaning in a URL.
std::string percent_encoded(std::string_view text);
CONCH_API void check_percent_encoding(std::string_view text);

/// Removes '?' and what follows it, and returns the latter. None: there is no '?'.
std::optional<std::string_view> take_query(std::string_view& rest);

/// `a=x&b=y`. `find(word)`: where its value goes; null: there is no such word, and `known` lists those that exist. A
/// word is not shown: it may be the rest of a password.
void read_query(std::string_view query, std::function<std::string*(std::string_view)> const& find,
                std::string_view known);

/// Where the value of a word about TLS goes: cacert, cacertdir, cert, key and sni, as of redis-cli. Null: it is none of
/// these.
std::string* setting_of_tls(std::string_view word, tls_config& to) noexcept;
void check_key(tls_config const& t);
/// A query of such words only.
void read_tls(std::string_view query, tls_config& to);

/// Takes `user:password@` away.
void take_login(std::string_view& rest, login_endpoint& to);
/// Where user and password belong to a list of hosts, they come before the first.
void refuse_login_inside(std::string_view hosts);

/// `host:port`, with an IPv6 address in brackets.
void read_host_and_port(std::string_view text, endpoint& to);
/// A number from 1 to 65535.
CONCH_API std::uint16_t read_port(std::string_view text);

/// "host:port,host". All else of each is as in `common`. `names`: "the nodes". `Address`: an endpoint with shown().
template <class Address>
std::vector<Address> read_hosts(std::string_view list, Address const& common, std::string const& names,
                                std::size_t most, std::string const& too_many) {
  std::vector<Address> all;
  for (;;) {
    auto const comma = list.find(',');
    Address one = common;
    read_host_and_port(list.substr(0, comma), one);
    bool const twice = std::any_of(all.begin(), all.end(), [&](Address const& other) {
      return other.port == one.port && one_spelling(other.host) == one_spelling(one.host);
    });
    if (twice) refuse("two of " + names + " are the same: " + one.shown());
    all.push_back(std::move(one));
    if (all.size() > most) refuse(too_many);
    if (comma == std::string_view::npos) return all;
    list.remove_prefix(comma + 1);
  }
}

/// "host:port" in one spelling.
CONCH_API std::string site_of(endpoint const& one);

/// The site of several servers that are one in a simulated world: of the first in the alphabet, so that their order in
/// a URL makes no difference.
template <class Address>
std::string first_of(std::vector<Address> const& all) {
  std::string first = site_of(all.front());
  for (Address const& one : all) first = std::min(first, site_of(one));
  return first;
}

/// All of them, for messages. `Address`: has shown().
template <class Address>
std::string shown(std::vector<Address> const& all) {
  std::string names;
  for (Address const& one : all) names += (names.empty() ? "" : ", ") + one.shown();
  return names;
}

}  // namespace conch::url
