// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace conch {

/// The addresses at which one run of a server has answered: whether its name means another server by now.
///
/// A name may have many addresses of one server, proxies for instance, of which each answer to a look-up has a few. So
/// an answer that lacks the present address is not enough: only one with none of these is another server's. After a
/// reconnect that finds the same run the new address is one of them, too.
class own_addresses {
 public:
  /// It is connected to at that address. `run`: names the run of the server; empty: it is not known, and every
  /// connection may be to another one.
  CONCH_API void connected(std::string_view run, std::string_view address);
  /// The name means these addresses now. An empty answer changes nothing.
  CONCH_API bool are_elsewhere(std::vector<std::string> const& found) const;

 private:
  std::string run_;
  std::vector<std::string> all_;
};

}  // namespace conch
