// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What the command line offers, written once: the parser reads it, and `--help`, the man page, the completions and
// docs/cli.md are made from it. The texts are plain English. Words between backticks are typed as they stand.
namespace conch::cli {

struct arguments;
class option_value;

enum class command_id { run, status, why, list, watch, unlock, doctor, bench };

/// Some of the commands.
class command_set {
 public:
  constexpr command_set(std::initializer_list<command_id> all) {
    for (command_id const one : all) bits_ |= bit(one);
  }
  constexpr bool has(command_id one) const noexcept { return (bits_ & bit(one)) != 0; }
  friend constexpr bool operator==(command_set, command_set) = default;

 private:
  static constexpr unsigned bit(command_id one) noexcept { return 1u << static_cast<unsigned>(one); }
  unsigned bits_ = 0;
};

inline constexpr command_set every_command{command_id::run,    command_id::status, command_id::why,
                                           command_id::list,   command_id::watch,  command_id::unlock,
                                           command_id::doctor, command_id::bench};

/// What a command takes besides its options.
enum class operands { none, one_name, names, names_and_program, patterns };

struct command_entry {
  command_id id;
  std::string_view name;
  operands takes;
  std::string_view brief;
  std::string_view text;  // paragraphs, with an empty line between two
};

/// An option. What has no value for a member leaves it out.
struct option_entry {
  std::string_view name;                         // without --
  char letter = 0;                               // -w
  std::string_view argument = {};                // its name, such as DURATION; empty: the option has none
  command_set commands = every_command;          // that take it
  std::string_view text;                         // a phrase: what it does
  std::string_view least = {}, most = {};        // the range of its argument, which the parser checks
  std::string_view initial = {};                 // what holds without it
  std::string_view more = {};                    // a sentence or two
  std::string_view excludes = {};                // an option that does not go with it
  std::vector<std::string_view> suggested = {};  // arguments that completions offer
  bool names_file = false;                       // completions offer files
  void (*read)(option_value const&, arguments&) = nullptr;
};

/// A key of the configuration file. An option of the same name, and a variable of the environment, may set the same.
struct setting_entry {
  std::string_view key;
  char const* variable = nullptr;
  std::string_view text = {};  // empty: that of the option
};

struct variable_entry {
  std::string_view name;
  std::string_view text;
};

struct exit_entry {
  int code;
  std::string_view text;
  std::string_view plus = {};  // what is added to the code
};

struct example {
  command_id command;
  std::string_view text;
  std::string_view line;
};

std::span<command_entry const> commands();
std::span<option_entry const> options();
std::span<setting_entry const> settings();
std::span<variable_entry const> child_variables();  // that `conch run` sets for CMD
std::span<exit_entry const> exit_codes();
std::span<example const> examples();

/// How a server is found, for the help and the man page: one paragraph each.
std::span<std::string_view const> about_connection();

/// Null: there is none.
command_entry const* find_command(std::string_view name);
option_entry const* find_option(std::string_view name);
setting_entry const* find_setting(std::string_view key);
command_entry const& entry_of(command_id);

std::vector<option_entry const*> options_of(command_id);      // those that not every command takes
std::vector<option_entry const*> options_of_every_command();  // the others

/// The environment variables that tell how to reach a server. No others are read for that, and `conch run` does not
/// pass them on.
std::vector<char const*> connection_variables();

/// What systemd addresses to one process id, its sockets and its watchdog: `conch run` does not pass it on.
inline constexpr char const* variables_of_systemd[]{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"};

/// The names in child_variables().
namespace child_variable {
inline constexpr char const* lock = "CONCH_LOCK";
inline constexpr char const* fence = "CONCH_FENCE";
inline constexpr char const* segment = "CONCH_SEGMENT";
inline constexpr char const* task = "CONCH_TASK";
}  // namespace child_variable

}  // namespace conch::cli
