// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/postgresql/parameters.hpp"

#include "base/endpoint.hpp"

#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <memory>

namespace conch::postgresql {

namespace {

std::vector<std::string> list_of(std::string const& text) {
  std::vector<std::string> all;
  for (std::size_t begin = 0;;) {
    std::size_t const comma = text.find(',', begin);
    all.push_back(text.substr(begin, comma - begin));
    if (comma == std::string::npos) return all;
    begin = comma + 1;
  }
}

/// The words of libpq up to what they quote: that may be a part of a password.
std::string without_quotes(std::string_view words) {
  words = words.substr(0, words.find('"'));
  while (!words.empty() && (words.back() == ' ' || words.back() == ':' || words.back() == '\n')) words.remove_suffix(1);
  return "libpq: " + std::string{words};
}

/// libpq's error for lists of unequal length, which it gets one by one.
void must_match(char const* key, std::size_t count, std::size_t hosts) {
  if (count == hosts) return;
  throw boost::system::system_error{make_error_code(
      errc::invalid_url,
      std::string{"the URL names "} + std::to_string(hosts) + " hosts, and " + std::to_string(count) + " of " + key)};
}

bool is_local(std::string const& host) {
  return host.empty() || host.starts_with('/') || host.starts_with('@') || is_this_machine(host);
}

}  // namespace

std::string const& value_of(parameters const& all, std::string_view key) {
  static std::string const none;
  auto const found = std::find_if(all.begin(), all.end(), [&](auto const& one) { return one.first == key; });
  return found == all.end() ? none : found->second;
}

parameters parameters_of(std::string const& url, config const& settings, std::vector<secret>& secrets) {
  using options_ptr = std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)>;
  char* wrong = nullptr;
  options_ptr const parsed{PQconninfoParse(url.c_str(), &wrong), &PQconninfoFree};
  std::unique_ptr<char, decltype(&PQfreemem)> const words{wrong, &PQfreemem};
  if (!parsed)
    throw boost::system::system_error{
        make_error_code(errc::invalid_url, without_quotes(wrong != nullptr ? wrong : "no memory"))};
  parameters all;
  auto const add = [&](PQconninfoOption const* options, auto const& wanted) {
    for (PQconninfoOption const* one = options; one != nullptr && one->keyword != nullptr; ++one) {
      if (one->val != nullptr && one->val[0] != '\0' && value_of(all, one->keyword).empty() &&
          wanted(std::string_view{one->keyword})) {
        all.emplace_back(one->keyword, one->val);
      }
    }
  };
  add(parsed.get(), [](std::string_view) { return true; });
  // Names that come from the environment are looked up here, too.
  options_ptr const defaults{PQconndefaults(), &PQconninfoFree};
  if (value_of(all, "host").empty() && value_of(all, "hostaddr").empty()) {
    add(defaults.get(), [](std::string_view key) { return key == "host" || key == "hostaddr"; });
  }
  add(defaults.get(), [](std::string_view key) { return key == "port"; });
  // The password of the environment, too. libpq marks what is secret.
  for (auto const& options : {parsed.get(), defaults.get()}) {
    for (PQconninfoOption const* one = options; one != nullptr && one->keyword != nullptr; ++one) {
      if (one->val != nullptr && one->dispchar != nullptr && one->dispchar[0] == '*') secrets.emplace_back(one->val);
    }
  }
  auto const unless_said = [&](char const* key, std::string value) {
    if (value_of(all, key).empty()) all.emplace_back(key, std::move(value));
  };
  unless_said("application_name", settings.client_name);
  unless_said("gssencmode", "disable");  // its look-up of a ticket blocks
  unless_said("target_session_attrs", "any");
  all.emplace_back("client_encoding", "UTF8");
  return all;
}

bool named_place::is_on_this_machine() const { return is_local(address.empty() ? name : address); }

std::vector<named_place> places_of(parameters const& all) {
  auto const names = list_of(value_of(all, "host")), addresses = list_of(value_of(all, "hostaddr")),
             ports = list_of(value_of(all, "port"));
  std::size_t const hosts = std::max(names.size(), addresses.size());
  if (!value_of(all, "host").empty() && !value_of(all, "hostaddr").empty())
    must_match("hostaddr", addresses.size(), names.size());
  if (ports.size() > 1) must_match("port", ports.size(), hosts);
  std::vector<named_place> places;
  for (std::size_t i = 0; i < hosts; ++i) {
    places.push_back({i < names.size() ? names[i] : std::string{}, i < addresses.size() ? addresses[i] : std::string{},
                      ports[ports.size() == 1 ? 0 : i]});
  }
  return places;
}

PGconn* begin_connection(parameters const& all, named_place const& to) {
  std::vector<char const*> keys, values;
  auto const add = [&](char const* key, std::string const& value) {
    if (value.empty()) return;
    keys.push_back(key);
    values.push_back(value.c_str());
  };
  for (auto const& [key, value] : all) {
    if (key != "host" && key != "hostaddr" && key != "port") add(key.c_str(), value);
  }
  add("host", to.name);
  add("hostaddr", to.address);
  add("port", to.port);
  keys.push_back(nullptr);
  values.push_back(nullptr);
  return PQconnectStartParams(keys.data(), values.data(), 0);
}

std::string shown_of(parameters const& all) {
  std::string const& name = value_of(all, "dbname");
  auto const hosts = list_of(value_of(all, "host").empty() ? value_of(all, "hostaddr") : value_of(all, "host")),
             ports = list_of(value_of(all, "port"));
  std::string text;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    std::string const& port = ports[std::min(i, ports.size() - 1)];
    text += (i == 0 ? "" : ",") + hosts[i] + (port.empty() || hosts[i].empty() ? "" : ':' + port);
  }
  return "postgresql://" + text + (name.empty() ? "" : "/" + name);
}

std::string warning_of(parameters const& all) {
  std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> const defaults{PQconndefaults(), &PQconninfoFree};
  std::string mode = value_of(all, "sslmode");
  for (PQconninfoOption const* one = defaults.get(); mode.empty() && one != nullptr && one->keyword != nullptr; ++one) {
    if (one->val != nullptr && one->keyword == std::string_view{"sslmode"}) mode = one->val;
  }
  bool const is_open =
      (mode.empty() || mode == "prefer" || mode == "allow") && value_of(all, "sslrootcert") != "system";
  auto const names = list_of(value_of(all, "host")), addresses = list_of(value_of(all, "hostaddr"));
  bool far = false;
  for (std::size_t i = 0; i < std::max(names.size(), addresses.size()); ++i) {
    bool const has_address = i < addresses.size() && !addresses[i].empty();
    far = far || !is_local(has_address ? addresses[i] : i < names.size() ? names[i] : std::string{});
  }
  if (!is_open || !far) return {};
  return "without sslmode=verify-full in the URL an attacker on the network may read the connection, and ask for the "
         "password";
}

}  // namespace conch::postgresql
