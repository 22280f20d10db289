// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/scheme.hpp"

#include "base/url_text.hpp"
#include "registry/registry.hpp"
#include "servers/simulated/surroundings.hpp"
#include "servers/simulated/target.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

// `simulated://NAME`: a server that only exists in a world (conch::testing::world::url).
namespace conch::simulated {

namespace {

/// A stand-in takes its place before a client is made of it.
class named final : public servers::target {
 public:
  explicit named(std::string name) : name_{std::move(name)} {}

  std::string shown() const override { return "simulated://" + name_; }
  servers::site where() const override { return {name_}; }
  void check(config&) const override {}
  servers::deployment make(servers::client_services const&) const override { return {}; }

 private:
  std::string const name_;
};

std::unique_ptr<servers::target> parse(std::string_view of_url, config const&) {
  if (surroundings::here() == nullptr)
    url::refuse("a server of a conch::testing::world is named, and this thread has no world");
  return std::make_unique<named>(std::string{url::behind_scheme(of_url)});
}

constexpr servers::scheme::name names[] = {{"simulated"}};
servers::scheme const kind{
    .names = names, .shape = url::shape::name, .login = {.in_this_process = true}, .parse = parse};
registry::component added{kind};

class of_world final : public registry::stand_ins {
 public:
  std::unique_ptr<servers::target> stand_in_for(std::unique_ptr<servers::target> real) override {
    return simulated::stand_in_for(std::move(real), *surroundings::here());
  }
};
constinit of_world stand_ins;

}  // namespace

/// A world calls this, so no linker leaves the scheme out.
void enter(surroundings* world) {
  static bool const once = registry::add(added);
  static_cast<void>(once);
  surroundings::of_thread = world;
  registry::give_stand_ins(world != nullptr ? &stand_ins : nullptr);
}

}  // namespace conch::simulated
