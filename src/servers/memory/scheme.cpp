// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/memory/scheme.hpp"

#include "base/checks.hpp"
#include "base/url_text.hpp"
#include "servers/memory/connection.hpp"

#include <utility>

namespace conch::memory {

namespace {

class target final : public servers::target {
 public:
  explicit target(std::string name) : name_{std::move(name)} {}

  std::string shown() const override { return "memory://" + name_; }
  // Each nonce would cost a twentieth of an acquire and release here.
  bool needs_nonces() const noexcept override { return false; }

  void check(config& c) const override {
    if (c.sync_replicas != 0)
      detail::refuse(errc::not_supported, "sync_replicas is set, and memory:// has no replicas");
  }

  servers::deployment make(servers::client_services const& client) const override {
    return servers::make_single(*this, client);
  }

  std::unique_ptr<transport> make_transport(servers::client_services const& client) const override {
    // Clients with different prefixes do not see each other's locks.
    return std::make_unique<connection>(client.shell, client.on, client.client_id,
                                        name_ + '\n' + client.settings.key_prefix);
  }

 private:
  std::string const name_;
};

std::unique_ptr<servers::target> parse(std::string_view of_url, config const&) {
  return std::make_unique<target>(std::string{url::behind_scheme(of_url)});
}

constexpr servers::scheme::name names[] = {{"memory"}};

}  // namespace

std::span<servers::scheme const> schemes() noexcept {
  static servers::scheme const all[] = {
      {.names = names, .shape = url::shape::name, .login = {.in_this_process = true}, .parse = parse},
  };
  return all;
}

}  // namespace conch::memory
