// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/option_table.hpp"

#include "cli/option_value.hpp"
#include "cli/options.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <iterator>

namespace conch::cli {

namespace {

using value = option_value const&;

struct kind_entry {
  std::string_view word;  // of --kind; with '=' a number follows
  lock_kind kind;
  std::uint32_t most = 0;  // of that number
};

constexpr kind_entry kinds[]{{"mutex", lock_kind::mutex},
                             {"shared", lock_kind::shared},
                             {"exclusive", lock_kind::exclusive},
                             {"semaphore=", lock_kind::semaphore, 1'000'000},
                             {"striped=", lock_kind::striped, 1'000}};

std::string all_kinds(std::string_view quote) {
  std::string all;
  for (kind_entry const& one : kinds) {
    all.append(all.empty() ? "" : ", ").append(quote).append(one.word).append(one.most != 0 ? "N" : "").append(quote);
  }
  return all;
}

std::string_view text_of_kind() {
  static std::string const text = "the kind of lock: " + all_kinds("`");
  return text;
}

std::vector<std::string_view> words_of_kind() {
  std::vector<std::string_view> all;
  for (kind_entry const& one : kinds) all.push_back(one.word);
  return all;
}

void read_kind(value v, arguments& a) {
  std::string_view const given = v.raw();
  for (kind_entry const& one : kinds) {
    if (one.most == 0 ? given != one.word : !given.starts_with(one.word)) continue;
    a.kind = one.kind;
    if (one.most == 0) return;
    std::string_view const word = one.word.substr(0, one.word.size() - 1);
    a.size = v.number_within<std::uint32_t>(word, given.substr(one.word.size()), 1, one.most);
    return;
  }
  v.refuse("is one of " + all_kinds("") + ", not '" + v.raw() + "'");
}

struct signal_entry {
  std::string_view name;
  int number;
};

constexpr signal_entry signals[]{{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"USR1", SIGUSR1},
                                 {"USR2", SIGUSR2}, {"ALRM", SIGALRM}, {"TERM", SIGTERM}, {"WINCH", SIGWINCH}};

int signal_of(value v) {
  std::string_view name = v.raw();
  if (name.starts_with("SIG")) name.remove_prefix(3);
  std::string all;
  for (signal_entry const& one : signals) {
    if (name == one.name) return one.number;
    all.append(all.empty() ? "" : ", ").append(one.name);
  }
  v.refuse("is one of " + all + ", not '" + v.raw() + "'");
}

constexpr command_set run_only{command_id::run};

// In the order in which the texts have them.
std::vector<option_entry> options_about_the_lock() {
  return {
      {.name = "wait",
       .letter = 'w',
       .argument = "DURATION",
       .commands = run_only,
       .text = "wait at most this long",
       .initial = "until granted",
       .more = "Waiters queue in order and do not poll",
       .excludes = "no-wait",
       .suggested = {"500ms", "1s", "30s", "5m"},
       .read = [](value v, arguments& a) { a.wait = v.time(); }},
      {.name = "no-wait",
       .letter = 'n',
       .commands = run_only,
       .text = "try once, do not wait",
       .excludes = "wait",
       .read = [](value, arguments& a) { a.wait = duration::zero(); }},
      {.name = "conflict-exit-code",
       .letter = 'E',
       .argument = "N",
       .commands = run_only,
       .text = "the exit code when the lock is not free, at once or by the end of `--wait`",
       .least = "0",
       .most = "255",
       .initial = "75",
       .more = "If no server answers, the exit code is 69",
       .read = [](value v, arguments& a) { a.conflict_exit_code = v.number<int>(); }},
      {.name = "kind",
       .argument = "KIND",
       .commands = run_only,
       .text = text_of_kind(),
       .initial = "mutex",
       .more = "`shared` is a reader and `exclusive` a writer; `semaphore=N` has room for N; `striped=N` gives one of "
               "N segments",
       .suggested = words_of_kind(),
       .read = read_kind},
  };
}

std::vector<option_entry> options_about_the_hold() {
  return {
      {.name = "lease",
       .argument = "DURATION",
       .commands = run_only,
       .text = "how long the lock outlives a conch that has died",
       .initial = "30s",
       .more = "It is renewed every third of that",
       .suggested = {"1s", "30s", "5m"},
       .read = [](value v, arguments& a) { a.lease = v.time(); }},
      {.name = "lock-delay",
       .argument = "DURATION",
       .commands = run_only,
       .text = "after a loss, nobody is granted the lock for this long",
       .initial = "0s",
       .more = "Not after a release",
       .suggested = {"10s", "1m"},
       .read = [](value v, arguments& a) { a.connect.lock_delay = v.time(); }},
      {.name = "at-least",
       .argument = "DURATION",
       .commands = run_only,
       .text = "nobody is granted the lock again before this long since the grant, however early CMD ends",
       .initial = "0s",
       .more = "Of one mutex",
       .suggested = {"1m", "5m", "1h"},
       .read = [](value v, arguments& a) { a.at_least = v.time(); }},
      {.name = "label",
       .argument = "TEXT",
       .commands = run_only,
       .text = "names this job to people who look at the lock",
       .initial = "from CMD, host and process: `backup@pod-7:4711`",
       .more = "At most 64 bytes. All users who may read the lock can read it",
       .read = [](value v, arguments& a) { a.connect.label = v.text(); }},
      {.name = "note",
       .argument = "TEXT",
       .commands = run_only,
       .text = "says what this run is for, wherever its label is shown",
       .more = "At most 128 bytes",
       .read = [](value v, arguments& a) { a.note = v.text(); }},
      {.name = "fixed-lease",
       .commands = run_only,
       .text = "do not renew the lease: CMD is ended when it ends",
       .excludes = "max-hold",
       .read = [](value, arguments& a) { a.fixed_lease = true; }},
      {.name = "max-hold",
       .argument = "DURATION",
       .commands = run_only,
       .text = "stop renewing after this long",
       .excludes = "fixed-lease",
       .suggested = {"30s", "5m", "1h"},
       .read = [](value v, arguments& a) { a.max_hold = v.time(); }},
      {.name = "grace",
       .argument = "DURATION",
       .commands = run_only,
       .text = "the time between TERM and KILL, at most a quarter of the lease",
       .initial = "500ms",
       .more = "A loss is reported this long before the lease ends",
       .suggested = {"500ms", "1s", "5s"},
       .read = [](value v, arguments& a) { a.grace = v.time(); }},
      {.name = "warn",
       .argument = "SIGNAL",
       .commands = run_only,
       .text = "send this signal, such as `USR1`, to CMD when a renewal is late and the lock may soon be lost",
       .more = "Once, until a renewal succeeds",
       .suggested = {"USR1", "USR2", "HUP"},
       .read = [](value v, arguments& a) { a.warn_signal = signal_of(v); }},
      {.name = "events-fd",
       .argument = "N",
       .commands = run_only,
       .text = "write events as JSON, one object per line, to file descriptor N",
       .least = "1",
       .most = "1000000",
       .more = "CMD does not get this descriptor. With `--json` alone they go to standard error",
       .read = [](value v, arguments& a) { a.events_fd = v.number<int>(); }},
      {.name = "no-kill-child",
       .commands = run_only,
       .text = "if conch is killed or frozen, let CMD continue without the lock",
       .read = [](value, arguments& a) { a.kill_child = false; }},
      {.name = "keep-connection",
       .commands = run_only,
       .text = "pass `CONCH_URL`, `CONCH_USER` and `CONCH_PASSWORD` on to CMD, for a conch that it runs itself",
       .read = [](value, arguments& a) { a.keep_connection = true; }},
  };
}

std::vector<option_entry> options_of_some_commands() {
  constexpr command_set writers{command_id::run, command_id::bench, command_id::doctor};
  return {
      {.name = "names",
       .commands = {command_id::list},
       .text = "print only the names, one per line",
       .read = [](value, arguments& a) { a.names_only = true; }},
      {.name = "every",
       .argument = "DURATION",
       .commands = {command_id::watch},
       .text = "how often to look",
       .least = "100ms",
       .most = "1d",
       .initial = "1s",
       .suggested = {"200ms", "1s", "5s"},
       .read = [](value v, arguments& a) { a.every = v.time(); }},
      {.name = "fence",
       .argument = "N",
       .commands = {command_id::unlock},
       .text = "only from the holder with this fence, as `conch status` shows it",
       .least = "1",
       .read = [](value v, arguments& a) { a.fence = v.number<std::int64_t>(); }},
      {.name = "yes",
       .letter = 'y',
       .commands = {command_id::unlock},
       .text = "do not ask",
       .read = [](value, arguments& a) { a.yes = true; }},
      {.name = "time",
       .argument = "DURATION",
       .commands = {command_id::bench},
       .text = "how long to measure each part",
       .least = "10ms",
       .most = "10m",
       .initial = "1s",
       .suggested = {"1s", "10s"},
       .read = [](value v, arguments& a) { a.time = v.time(); }},
      {.name = "sync-replicas",
       .argument = "N",
       .commands = writers,
       .text = "a lock, or a renewal, counts only when N replicas have it",
       .least = "0",
       .most = "100",
       .initial = "0",
       .suggested = {"1", "2"},
       .read = [](value v, arguments& a) { a.connect.sync_replicas = v.number<std::uint32_t>(); }},
      {.name = "sync-timeout",
       .argument = "DURATION",
       .commands = writers,
       .text = "how long the replicas may take",
       .initial = "1s",
       .suggested = {"200ms", "1s"},
       .read = [](value v, arguments& a) { a.connect.sync_timeout = v.time(); }},
  };
}

std::vector<option_entry> general_options() {
  return {
      {.name = "url",
       .argument = "URL",
       .text = "the server or servers",
       .initial = "redis://127.0.0.1:6379",
       .more = "For example `redis://HOST:PORT/DB`, `rediss://HOST` (TLS), `unix:///PATH`, `redlock://HOST,HOST,HOST`, "
               "`postgresql://HOST/DB` or "
               "`zookeeper://HOST,HOST`. It may not contain a user or a password",
       .read = [](value v, arguments& a) { a.connect.url = v.text(); }},
      {.name = "config",
       .argument = "FILE",
       .text = "the configuration file",
       .names_file = true,
       .read = [](value v, arguments& a) { a.connect.config_file = v.text(); }},
      {.name = "user",
       .argument = "NAME",
       .text = "the user",
       .read = [](value v, arguments& a) { a.connect.user = v.text(); }},
      {.name = "password-file",
       .argument = "FILE",
       .text = "a file with the password",
       .more = "Other users must not be able to read it",
       .names_file = true,
       .read = [](value v, arguments& a) { a.connect.password_file = v.text(); }},
      {.name = "key-prefix",
       .argument = "TEXT",
       .text = "the prefix of all keys",
       .initial = "conch:",
       .read = [](value v, arguments& a) { a.connect.key_prefix = v.text(); }},
      {.name = "json",
       .text = "print JSON, one object per line",
       .more = "Fences are strings",
       .read = [](value, arguments& a) { a.json = true; }},
      {.name = "verbose",
       .letter = 'v',
       .text = "write the client's log to standard error",
       .read = [](value, arguments& a) { a.verbose = true; }},
      {.name = "help", .letter = 'h', .text = "explain the command and its options", .read = [](value, arguments&) {}},
  };
}

std::vector<option_entry> all_options() {
  std::vector<option_entry> all;
  for (auto const part : {options_about_the_lock, options_about_the_hold, options_of_some_commands, general_options}) {
    std::vector<option_entry> more = part();
    std::move(more.begin(), more.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

std::span<option_entry const> options() {
  static std::vector<option_entry> const all = all_options();
  return all;
}

option_entry const* find_option(std::string_view name) {
  auto const all = options();
  auto const found = std::find_if(all.begin(), all.end(), [&](option_entry const& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<option_entry const*> options_of(command_id command) {
  std::vector<option_entry const*> some;
  for (option_entry const& one : options()) {
    if (one.commands.has(command) && one.commands != every_command) some.push_back(&one);
  }
  return some;
}

std::vector<option_entry const*> options_of_every_command() {
  std::vector<option_entry const*> some;
  for (option_entry const& one : options()) {
    if (one.commands == every_command) some.push_back(&one);
  }
  return some;
}

}  // namespace conch::cli
