// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/resp.hpp"
#include "cli/settings.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// The masters of a Cluster, for the questions that the library does not ask.
namespace conch::cli {

bool names_cluster(std::string_view url) noexcept;

struct cluster_master {
  std::string host, port;
  std::size_t slots = 0;

  std::string address() const;
};

/// An answer to CLUSTER SLOTS, in the order of the slots. `asked`: the host that was asked, for nodes that do not know their own.
/// Throws failure: refused if it makes no sense.
std::vector<cluster_master> read_masters(reply const& slots, std::string_view asked);

/// As the first node of `url` says that can be asked, for a second each. Throws failure: unreachable, with what each of them said; access_denied.
std::vector<cluster_master> masters_of_cluster(connection const& all, std::string const& url);

/// `url`, or of a Cluster one of each master: by itself, as that of a single server.
std::vector<std::string> servers_behind(connection const& all, std::string const& url);

}  // namespace conch::cli
