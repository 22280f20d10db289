#pragma once

// What conch offers over each kind of server: the table in docs/deployments.md, and a way to try each of its rows.

#include "integration/fixture.hpp"

#include <functional>
#include <string>
#include <vector>

namespace conch::test {

struct feature {
  std::string name;  // as in the table
  /// Uses it. The error that it ends with; none: it works. `lock`: a name of its own.
  std::function<asio::awaitable<error_code>(asio::any_io_executor on, config const& settings, std::string const& lock)>
      use;
  // by the error where it is not offered; else its name without what stands before "::"
  std::vector<std::string> named_as = {};
};

std::vector<feature> const& all_features();

/// The rows of the table for this kind of server, the scheme of its URLs: whether each feature is offered, by name.
std::vector<std::pair<std::string, bool>> offered_by_the_page(std::string const& kind_of_server);

/// The features that the page of a kind of server says are not there.
std::vector<std::string> not_there_by(std::string const& page);

/// Tries all features over that server.
void expect_as_the_page_says(world& w, std::string const& kind_of_server, config const& settings);

}  // namespace conch::test
