// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/checks.hpp"
#include "servers/redis/scripts.hpp"

#include <conch/guard.hpp>

#include <iterator>
#include <utility>

// The commands of guarded writes.
namespace conch {

namespace {

using detail::refuse;

constexpr std::size_t most_arguments = 7000;  // a script has room for 8000 values

}  // namespace

std::string_view guard_prelude() noexcept { return redis::find_script("guard").source; }

std::vector<std::string> guarded_command(write_guard const& guard, std::vector<std::string> command, script_by how) {
  if (!guard) refuse(errc::not_held, "a guarded command needs the guard of a hold");
  if (command.size() < 2) refuse(errc::invalid_config, "a guarded command has a name and a key");
  if (command.size() - 2 > most_arguments)
    refuse(errc::invalid_config, "a guarded command has at most 7000 arguments behind its key");
  redis::script const& script = redis::find_script("guarded");
  bool const by_source = how == script_by::source;
  std::vector<std::string> words{by_source ? "EVAL" : "EVALSHA",
                                 std::string{by_source ? script.source : script.sha1},
                                 "2",
                                 guard.key,
                                 std::move(command[1]),
                                 guard.grant(),
                                 std::move(command[0])};
  words.insert(words.end(), std::move_iterator{command.begin() + 2}, std::move_iterator{command.end()});
  return words;
}

std::vector<std::string> guarded_set(write_guard const& guard, std::string key, std::string value,
                                     std::vector<std::string> options, script_by how) {
  std::vector<std::string> command{"SET", std::move(key), std::move(value)};
  command.insert(command.end(), std::move_iterator{options.begin()}, std::move_iterator{options.end()});
  return guarded_command(guard, std::move(command), how);
}

}  // namespace conch
