// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/scheme.hpp"

#include "base/checks.hpp"
#include "base/url_text.hpp"
#include "registry/registry.hpp"
#include "servers/simulated/connection.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

// `simulated://NAME`: a server of the world that the thread is in (conch::testing::world::url).
namespace conch::simulated {

namespace {

class target final : public servers::target {
 public:
  target(surroundings& of, std::string name) : world_{of}, name_{std::move(name)} {}

  std::string shown() const override { return "simulated://" + name_; }
  // Nobody in a world forges a push, and ids without them are easier to read.
  bool needs_nonces() const noexcept override { return false; }

  void check(config& c) const override {
    if (c.sync_replicas != 0)
      detail::refuse(errc::not_supported, "sync_replicas is set, and a simulated server has no replicas");
  }

  servers::deployment make(servers::client_services const& client) const override {
    return servers::make_single(*this, client);
  }

  std::unique_ptr<transport> make_transport(servers::client_services const& client) const override {
    return std::make_unique<connection>(client, world_.server_named(name_));
  }

 private:
  surroundings& world_;
  std::string const name_;
};

std::unique_ptr<servers::target> parse(std::string_view of_url, config const&) {
  if (surroundings* const world = surroundings::here()) {
    return std::make_unique<target>(*world, std::string{url::behind_scheme(of_url)});
  }
  url::refuse("a server of a conch::testing::world is named, and this thread has no world");
}

constexpr servers::scheme::name names[] = {{"simulated"}};
servers::scheme const kind{
    .names = names, .shape = url::shape::name, .login = {.in_this_process = true}, .parse = parse};
registry::component added{kind};

}  // namespace

void add_scheme() {
  static bool const once = registry::add(added);
  static_cast<void>(once);
}

}  // namespace conch::simulated
