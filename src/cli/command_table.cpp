// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/exit_code.hpp"
#include "cli/option_table.hpp"

#include <algorithm>

namespace conch::cli {

namespace {

constexpr command_entry all_commands[]{
    {command_id::run, "run", operands::names_and_program, "run CMD under a lock",
     R"(Acquires the lock, runs CMD, releases the lock, and exits with the exit code of CMD.
Several NAMEs are several mutexes, all or nothing.

CMD runs in a process group of its own, in the foreground of the terminal. Signals go to that group.
After the second INT, TERM, HUP or QUIT it gets TERM, and KILL after the grace; after the third, KILL.

The lock is released when the whole group has ended: processes that CMD leaves behind get TERM, and KILL after the grace.
If the lock is lost, the group gets TERM immediately, and KILL after the grace, before another client can get the lock.
If conch is killed, or frozen for longer than the lease, the group is killed too.)"},
    {command_id::status, "status", operands::names,
     "show who holds a lock, since when, with which fence, and how many wait",
     "It also shows how long each lease still lasts."},
    {command_id::why, "why", operands::one_name, "show what a lock's holder waits for, and find deadlocks",
     R"(It follows the holder to the lock that the holder waits for, and so on, and says how to break a deadlock.
It knows the jobs of `conch run`, and tasks that have named themselves (`acquire_options::task`), after a second.)"},
    {command_id::list, "list", operands::patterns, "list the locks that are held or waited for",
     R"(A PATTERN matches names: `*` any text, `?` any byte, `[ab]` one of these, `\` before a character to be taken literally.
Without a PATTERN: all. At Redis it uses SCAN, not KEYS.)"},
    {command_id::watch, "watch", operands::patterns, "show the same, live",
     "On a terminal: one screen that is refreshed; `q` quits. Otherwise: a line for each change."},
    {command_id::unlock, "unlock", operands::one_name, "take a lock away from its holders",
     R"(Takes it from all holders, or from the one with the fence of `--fence`, and tells them.
On a terminal it asks first; elsewhere it needs `--yes`.)"},
    {command_id::doctor, "doctor", operands::none, "check whether the server, or each of several, is fit for locks",
     "Each line is ok, warning or bad, with advice."},
    {command_id::bench, "bench", operands::none, "measure the server briefly",
     "It measures a round trip, uncontended cycles per second, and the time of a hand-over between two connections."},
};

constexpr setting_entry all_settings[]{
    {"url", "CONCH_URL",
     "the URL of the server or servers; in the environment and in the file it may contain user and password"},
    {"user", "CONCH_USER"},
    {"password", "CONCH_PASSWORD", "the password"},
    {"password-file"},
    {"key-prefix"},
    {"sync-replicas"},
    {"sync-timeout"},
    {"lock-delay"},
    {"label"},
    {"tls-ca-file", nullptr,
     "TLS: a file with the trusted authorities; without this and `tls-ca-path`, those of the system"},
    {"tls-ca-path", nullptr, "TLS: a folder with the trusted authorities, as made by `openssl rehash`"},
    {"tls-cert-file", nullptr, "TLS: the client's certificate"},
    {"tls-key-file", nullptr, "TLS: the client's private key"},
    {"tls-server-name", nullptr, "TLS: the name in the server's certificate; without it, the host of the URL"},
    {"sentinel-user", nullptr, "the user at the Sentinels"},
    {"sentinel-password", nullptr, "the password at the Sentinels"},
    {"sentinel-password-file", nullptr, "a file with the password at the Sentinels"},
};

constexpr variable_entry all_child_variables[]{
    {child_variable::lock, "the NAME of the lock; several: one per line"},
    {child_variable::fence, "its fencing token; several: separated by spaces, in the order of the NAMEs"},
    {child_variable::segment, "with a striped lock, the segment: 1 to N"},
    {child_variable::task, "for a `conch run` in CMD: it is part of the same task, so `conch why` can follow it"},
};

constexpr exit_entry all_exit_codes[]{
    {exit_code::done, "done"},
    {exit_code::nothing_done, "`unlock`: nobody held it, or the answer was no; `doctor`: a warning"},
    {exit_code::not_fit, "`doctor`: something is bad"},
    {exit_code::usage, "wrong options or arguments"},
    {exit_code::unreachable, "no server could be reached, or none answered; also after `run --wait`"},
    {exit_code::internal, "a defect of conch, or the system refused something"},
    {exit_code::not_written, "standard output is closed or cannot be written, for example because the disk is full"},
    {exit_code::not_granted, "`run`: the lock was not free (`--conflict-exit-code`)"},
    {exit_code::refused, "the server refused, or a key is not a lock"},
    {exit_code::access_denied, "wrong user or password, or a right is missing"},
    {exit_code::wrong_config,
     "wrong configuration file, password file, URL or TLS file; a certificate is not accepted"},
    {exit_code::lost, "`run`: the lock was lost before CMD had ended"},
    {exit_code::not_replicated,
     "`run`, `bench`: too few replicas had the lock in time (`--sync-replicas`); it was released again"},
    {exit_code::not_executable, "`run`: CMD cannot be executed"},
    {exit_code::not_found, "`run`: CMD was not found"},
    {exit_code::of_signal, "`run`: signal N ended CMD, or the wait for the lock", "+N"},
};

constexpr example all_examples[]{
    {command_id::run, "A backup that runs on one machine at a time, and is skipped on the others",
     "conch run backup --no-wait -E 0 -- ./backup.sh"},
    {command_id::run, "Wait for five minutes at most; exit code 75 if the lock was not free, 69 if no server answered",
     "conch run backup --wait 5m -- ./backup.sh"},
    {command_id::run, "As another user, with the server in `--url`, because sudo does not pass `CONCH_URL` on",
     "sudo conch run backup --url redis://locks.internal -- /usr/sbin/backup"},
    {command_id::run, "At most four at a time", "conch run encoders --kind semaphore=4 -- ./encode film.mkv"},
    {command_id::status, "Who holds it?", "conch status backup"},
    {command_id::why, "Why does nobody get it?", "conch why backup"},
    {command_id::unlock, "Take it away from its holder", "conch unlock backup --yes"},
    {command_id::doctor, "Is the server fit? With the settings of a file", "conch doctor --config production.toml"},
};

constexpr std::string_view connection_paragraphs[]{
    R"(The server: `--url`, else `CONCH_URL`, else `url` in the configuration file, else redis://127.0.0.1:6379.
The password is never an argument: `--password-file`, else `CONCH_PASSWORD`, else `password` or `password-file` in the configuration file.
A configuration file named by `--config` wins over the environment.
A variable or a key that is set and empty is an error.)",
    R"(The configuration file: `--config`, else `$XDG_CONFIG_HOME/conch.toml` or `~/.config/conch.toml`.
Its lines are `key = 'text'`. It is refused if other users can read or write it.)",
    "Durations: `500ms`, `30s`, `5m`, `2h`, `1d`.",
};

}  // namespace

std::span<command_entry const> commands() { return all_commands; }
std::span<setting_entry const> settings() { return all_settings; }
std::span<variable_entry const> child_variables() { return all_child_variables; }
std::span<exit_entry const> exit_codes() { return all_exit_codes; }
std::span<example const> examples() { return all_examples; }
std::span<std::string_view const> about_connection() { return connection_paragraphs; }

command_entry const* find_command(std::string_view name) {
  auto const found = std::find_if(std::begin(all_commands), std::end(all_commands),
                                  [&](command_entry const& one) { return one.name == name; });
  return found == std::end(all_commands) ? nullptr : found;
}

setting_entry const* find_setting(std::string_view key) {
  auto const found = std::find_if(std::begin(all_settings), std::end(all_settings),
                                  [&](setting_entry const& one) { return one.key == key; });
  return found == std::end(all_settings) ? nullptr : found;
}

command_entry const& entry_of(command_id id) {
  return *std::find_if(std::begin(all_commands), std::end(all_commands),
                       [&](command_entry const& one) { return one.id == id; });
}

std::vector<char const*> connection_variables() {
  std::vector<char const*> all;
  for (setting_entry const& one : all_settings) {
    if (one.variable != nullptr) all.push_back(one.variable);
  }
  return all;
}

}  // namespace conch::cli
