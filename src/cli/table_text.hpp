// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/option_table.hpp"

#include <string>
#include <string_view>

// The words of the table as the help, the man page, the completions and docs/cli.md need them.
namespace conch::cli {

/// `-w, --wait DURATION`
std::string heading_of(option_entry const&);
/// What it does, its range, its default, and more. With backticks.
std::string description_of(option_entry const&);
std::string description_of(setting_entry const&);

/// `conch run NAME... [OPTION...] -- CMD [ARG...]`
std::string short_synopsis(command_entry const&);
/// The same with the options of the command, if they are few.
std::string synopsis(command_entry const&);

/// `128+N`
std::string code_of(exit_entry const&);

/// `--url --config ...`: those with an argument that every command takes. They tell how to reach a server.
std::string names_of_connection_options();
/// Which variables of its own environment conch does not pass on to CMD.
std::string about_withheld_variables();

std::string without_backticks(std::string_view);
/// It begins with a capital letter, unless the first word is between backticks, and ends with a full stop.
std::string as_sentence(std::string);

}  // namespace conch::cli
