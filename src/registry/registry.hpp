// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/scheme.hpp"

#include <conch/config.hpp>
#include <conch/detail/api.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

// The list of all kinds of servers. Together with the rooms themselves this is the only place that knows one by name.
namespace conch::registry {

/// The schemes of a library beside this one, which needs another library. A program that links it has them. Lives as
/// long as the program.
struct component {
  servers::scheme const& kind;
  component const* next = nullptr;
};

/// Called while the program is loaded. Answers true.
CONCH_API bool add(component& c) noexcept;

/// What clients reach instead of the servers that their URLs name: the servers of a simulated world.
class stand_ins {
 public:
  /// `real` comes from a URL without mistakes.
  virtual std::unique_ptr<servers::target> stand_in_for(std::unique_ptr<servers::target> real) = 0;

 protected:
  ~stand_ins() = default;
};

/// From now on open() gives this thread stand-ins. Null: the servers themselves.
CONCH_API void give_stand_ins(stand_ins* from) noexcept;

/// What the settings name. Throws errc::invalid_url, with advice; errc::invalid_config for config::quorum.servers, and
/// for a setting of another kind of server; errc::not_supported where a component is missing.
std::unique_ptr<servers::target> open(config const& c);

/// One name with TLS of each kind of server: "rediss:// or zookeepers://".
std::string names_with_tls();

}  // namespace conch::registry
