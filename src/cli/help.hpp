// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/option_table.hpp"

#include <string>

namespace conch::cli {

/// The text of `conch --help`.
std::string help_of_all();
/// The text of `conch COMMAND --help`.
std::string help_of(command_entry const&);

}  // namespace conch::cli
