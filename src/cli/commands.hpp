// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/options.hpp"

#include <string>

// One function for each command. Result: the exit code. Throws failure, and boost::system::system_error of the library.
namespace conch::cli {

int run(arguments const& given, connection const& servers);
int status(arguments const& given, connection const& servers);
int why(arguments const& given, connection const& servers);
int unlock(arguments const& given, connection const& servers);
int list(arguments const& given, connection const& servers);
int watch(arguments const& given, connection const& servers);
int doctor(arguments const& given, connection const& servers);
int bench(arguments const& given, connection const& servers);

/// One line on standard error, behind "conch: ". With --json an object {"error": words, "exit_code": code}.
void say(arguments const& given, std::string const& words, int code);
/// What it writes.
std::string as_error(arguments const& given, std::string const& words, int code);

}  // namespace conch::cli
