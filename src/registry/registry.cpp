// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "registry/registry.hpp"

#include "base/checks.hpp"
#include "registry/schemes.hpp"

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <utility>

namespace conch::registry {

namespace {

constinit thread_local stand_ins* stand_ins_of_thread = nullptr;

std::unique_ptr<servers::target> parse(servers::scheme const& kind, std::string const& url, config const& c) {
  auto real = kind.parse(url, c);
  return stand_ins_of_thread != nullptr ? stand_ins_of_thread->stand_in_for(std::move(real)) : std::move(real);
}

std::unique_ptr<servers::target> open_voter(std::string const& url, config const& c) {
  servers::scheme const& kind = scheme_of(url);
  if (!kind.why_no_vote.empty()) url::refuse(kind.why_no_vote);
  return parse(kind, url, c);
}

std::unique_ptr<servers::target> open_several(std::vector<std::string> const& urls, config const& c) {
  constexpr std::size_t most = 9;
  if (urls.empty() || urls.size() > most) url::refuse("a lock is kept by 1 to 9 servers");
  std::vector<std::unique_ptr<servers::target>> all;
  for (std::string const& url : urls) {
    auto one = open_voter(url, c);
    bool const twice =
        std::any_of(all.begin(), all.end(), [&](auto const& other) { return other->identity() == one->identity(); });
    if (twice) url::refuse("two of the servers are the same: " + one->shown());
    all.push_back(std::move(one));
  }
  return make_several(std::move(all));
}

/// What only means something to another kind of server than the one that is named: a mistake that would go unnoticed.
void refuse_settings_of_others(config const& c, servers::scheme const* kind) {
  auto const is_own = [&](std::string_view member) {
    if (kind == nullptr) return false;
    return std::any_of(kind->settings.begin(), kind->settings.end(),
                       [&](auto const& own) { return own.member == member; });
  };
  for (servers::scheme const* const other : all_schemes()) {
    for (servers::own_setting const& one : other->settings) {
      if (one.is_set(c) && !is_own(one.member)) {
        detail::refuse(errc::invalid_config, std::string{one.member} + " is set, and " + std::string{one.otherwise});
      }
    }
  }
}

std::unique_ptr<servers::target> open_listed(config const& c) {
  try {
    return open_several(c.quorum.servers, c);
  } catch (boost::system::system_error const& e) {
    detail::refuse(errc::invalid_config, std::string{"quorum.servers: "} + e.what());
  }
}

}  // namespace

void give_stand_ins(stand_ins* from) noexcept { stand_ins_of_thread = from; }

std::unique_ptr<servers::target> open(config const& c) {
  if (!c.quorum.servers.empty()) {
    auto all = open_listed(c);
    refuse_settings_of_others(c, nullptr);
    return all;
  }
  servers::scheme const& kind = scheme_of(c.url);
  auto found = kind.votes != nullptr ? open_several(kind.votes(c.url), c) : parse(kind, c.url, c);
  refuse_settings_of_others(c, &kind);
  return found;
}

std::string names_with_tls() {
  std::string all;
  for (servers::scheme const* const one : all_schemes()) {
    auto const found =
        std::find_if(one->names.begin(), one->names.end(), [](auto const& name) { return name.is_over_tls; });
    if (found == one->names.end()) continue;
    // One for each kind of server: "rediss", and neither "rediss-sentinel" nor "valkeys".
    if (found->text.find('-') == std::string_view::npos)
      all += (all.empty() ? "" : " or ") + std::string{found->text} + "://";
  }
  return all;
}

}  // namespace conch::registry

namespace conch::servers {

std::unique_ptr<probe> open_probe(config const& settings) {
  auto const where = registry::open(settings);
  auto asks = where->make_probe(settings);
  if (asks == nullptr) detail::refuse(errc::not_supported, where->shown() + " has nothing that a command could ask");
  return asks;
}

}  // namespace conch::servers
