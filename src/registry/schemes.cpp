// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "registry/schemes.hpp"

#include "base/checks.hpp"
#include "base/url_text.hpp"
#include "registry/registry.hpp"
#include "servers/memory/scheme.hpp"
#include "servers/redis/scheme.hpp"
#include "servers/zookeeper/scheme.hpp"

#include <algorithm>
#include <atomic>
#include <span>
#include <string>

namespace conch::registry {

namespace {

constinit std::atomic<component const*> first_component{nullptr};

/// Components that there are, whether the program has them or not.
struct known_component {
  std::span<std::string_view const> names;
  std::string_view where_missing;
};
constexpr std::string_view names_of_postgresql[] = {"postgresql", "postgres"};
constexpr known_component known_components[] = {
    {names_of_postgresql,
     "postgresql:// needs the component conch::postgresql, and this program is not linked with it: find_package(conch "
     "COMPONENTS "
     "postgresql), target_link_libraries(... conch::postgresql); without CMake see pkg-config conch-postgresql"},
};

void append(std::string& list, std::string_view name) {
  if (!list.empty()) list += ", ";
  list += name;
}

/// "redis, unix or memory; over TLS rediss".
std::string all_names() {
  std::string plain, over_tls;
  for (servers::scheme const* const one : all_schemes()) {
    for (auto const& [name, is_over_tls] : one->names) append(is_over_tls ? over_tls : plain, name);
  }
  for (known_component const& one : known_components) {
    for (std::string_view const name : one.names) {
      if (find(name) == nullptr) append(plain, name);
    }
  }
  return plain + "; over TLS " + over_tls;
}

[[noreturn]] void refuse_unknown(std::string_view name) {
  for (known_component const& one : known_components) {
    if (std::find(one.names.begin(), one.names.end(), name) != one.names.end())
      detail::refuse(errc::not_supported, one.where_missing);
  }
  bool const shouts = std::any_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if (shouts) url::refuse("the scheme must be in lower case, such as redis://");
  url::refuse("the scheme must be one of " + all_names());
}

}  // namespace

bool add(component& c) noexcept {
  c.next = first_component;
  first_component = &c;
  return true;
}

std::vector<servers::scheme const*> all_schemes() {
  std::vector<servers::scheme const*> all;
  for (auto const room : {redis::schemes(), memory::schemes(), zookeeper::schemes()}) {
    for (servers::scheme const& one : room) all.push_back(&one);
  }
  for (component const* one = first_component; one != nullptr; one = one->next) all.push_back(&one->kind);
  return all;
}

servers::scheme const* find(std::string_view name) {
  for (servers::scheme const* const one : all_schemes()) {
    for (servers::scheme::name const& its : one->names) {
      if (its.text == name) return one;
    }
  }
  return nullptr;
}

servers::scheme const& scheme_of(std::string_view url) {
  auto const name = url::scheme_of(url);
  if (!name) url::refuse("a URL begins with SCHEME://, where SCHEME is one of " + all_names());
  servers::scheme const* const found = find(*name);
  if (found == nullptr) refuse_unknown(*name);
  url::refuse_ambiguous(url::behind_scheme(url), found->shape);
  return *found;
}

}  // namespace conch::registry
