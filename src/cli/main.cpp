// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/operator.hpp"
#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/show.hpp"

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <csignal>
#include <exception>
#include <string>
#include <utility>
#include <vector>

// The command `conch`. docs/cli.md describes it.
namespace conch::cli {

namespace {

int carry_out(arguments const& given, connection const& servers) {
  switch (given.command) {
    case command_id::run: return run(given, servers);
    case command_id::status: return status(given, servers);
    case command_id::why: return why(given, servers);
    case command_id::list: return list(given, servers);
    case command_id::watch: return watch(given, servers);
    case command_id::unlock: return unlock(given, servers);
    case command_id::doctor: return doctor(given, servers);
    case command_id::bench: return bench(given, servers);
  }
  return exit_code::internal;
}

int carry_out(std::vector<std::string> const& words) {
  arguments given;
  auto const mine_end = std::find(words.begin(), words.end(), "--");
  given.json = std::find(words.begin(), mine_end, "--json") != mine_end;  // for an error of the command line itself
  try {
    request const asked = parse_command_line(words);
    if (!asked.command) {
      print(asked.text);
      return exit_code::done;
    }
    given = *asked.command;
    connection const servers = read_connection(given.connect);
    // The commands ask each server by itself, and some ask it what a client does not.
    bool const is_run = given.command == command_id::run;
    bool const checks_by_itself = given.command == command_id::doctor || (is_run && !servers.quorum);
    if (!checks_by_itself) require_valid(servers);
    if (!is_run) std::signal(SIGPIPE, SIG_IGN);  // CMD would inherit it
    return carry_out(given, servers);
  } catch (failure const& error) {
    say(given, error.what(), error.code);
    return error.code;
  } catch (not_written const& error) {
    say(given, error.what(), exit_code::not_written);
    return exit_code::not_written;
  } catch (boost::system::system_error const& error) {
    int const code = exit_code_of(error.code());
    say(given, error.code().message(), code);
    return code;
  } catch (std::exception const& error) {
    say(given, error.what(), exit_code::internal);
    return exit_code::internal;
  }
}

}  // namespace
}  // namespace conch::cli

int main(int argc, char** argv) {
  conch::cli::fill_standard_streams();
  conch::cli::let_signals_in();
  return conch::cli::carry_out(std::vector<std::string>(argv + 1, argv + argc));
}
