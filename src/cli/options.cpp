// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/options.hpp"

#include "cli/duration.hpp"
#include "cli/exit_code.hpp"

#include <conch/version.hpp>

#include <boost/program_options.hpp>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>
#include <utility>

namespace conch::cli {

namespace po = boost::program_options;

namespace {

struct command_help {
  std::string_view name;
  std::string_view words;  // behind the name
  std::string_view brief;
  std::string_view text;
};

constexpr command_help commands[]{
    {"run", "NAME... [OPTION...] -- CMD [ARG...]", "run CMD under a lock",
     R"(Acquires the lock, runs CMD, releases the lock, and exits with the exit code of CMD.
Several NAMEs are several mutexes, all or nothing.

CMD gets CONCH_LOCK (NAME; several: one per line), CONCH_FENCE (the fencing token; several: separated
by spaces, in the order of the NAMEs) and, with a striped lock, CONCH_SEGMENT (1 to N).

CMD runs in a process group of its own, in the foreground of the terminal. Signals go to that group.
After the second INT, TERM, HUP or QUIT it gets TERM, and KILL after the grace; after the third, KILL.
The lock is released when the whole group has ended: processes that CMD leaves behind get TERM, and
KILL after the grace. If the lock is lost, the group gets TERM immediately, and KILL after the grace,
before another client can get the lock. If conch is killed, or frozen for longer than the lease, the
group is killed too.
)"},
    {"status", "NAME...", "show who holds a lock, since when, with which fence, and how many wait", ""},
    {"list", "[PATTERN...]", "list the locks that are held or waited for",
     R"(A PATTERN matches names: * any text, ? any byte, [ab] one of these, \ before a character to be taken
literally. Without one: all. At Redis it uses SCAN, not KEYS.
)"},
    {"watch", "[PATTERN...]", "show the same, live", R"(On a terminal: one screen that is refreshed; q quits. Otherwise: a line for each change.
)"},
    {"unlock", "NAME [--fence N]", "take a lock away from its holders",
     R"(Takes the lock from the holder with that fence, or from all holders, and tells them. On a terminal it
asks first; elsewhere it needs --yes.
)"},
    {"doctor", "", "check whether the server, or each of several, is fit for locks",
     R"(Each line is ok, warning or bad, with advice.
)"},
    {"bench", "", "measure the server briefly",
     R"(A round trip, uncontended cycles per second, and the time of a hand-over between two connections.
)"},
};

constexpr std::string_view exit_codes = R"(Exit codes
   0  done
   1  unlock: nobody held it, or the answer was no; doctor: a warning
   2  doctor: something is bad
  64  wrong options or arguments
  69  no server could be reached, or none answered
  70  a defect of conch, or the system refused something
  74  standard output cannot be written, for example because the disk is full
  75  run: the lock was not free (--conflict-exit-code)
  76  the server refused, or a key is not a lock
  77  wrong user or password, or a right is missing
  78  wrong configuration file, password file, URL or TLS file; a certificate is not accepted
  79  run: the lock was lost before CMD had ended
  80  run, bench: too few replicas had the lock in time (--sync-replicas); it was released again
 126  run: CMD cannot be executed
 127  run: CMD was not found
 128+N  run: signal N ended CMD, or the wait for the lock
run exits with the code of CMD in all other cases.
)";

constexpr std::string_view how_to_connect = R"(The server: --url, else CONCH_URL, else url in the configuration file, else redis://127.0.0.1:6379.
The password is never an argument: --password-file, else CONCH_PASSWORD, else password or
password-file in the configuration file. The configuration file: --config, else
$XDG_CONFIG_HOME/conch.toml or ~/.config/conch.toml. Other users must not be able to read it.
A variable or a key that is set and empty is an error.
Durations: 500ms, 30s, 5m, 2h, 1d.
)";

command_help const* find_command(std::string_view name) {
  auto const found = std::find_if(std::begin(commands), std::end(commands), [&](command_help const& one) { return one.name == name; });
  return found == std::end(commands) ? nullptr : found;
}

[[noreturn]] void refuse(std::string const& why, std::string const& command = {}) {
  throw failure{exit_code::usage, why + "; see conch " + (command.empty() ? "" : command + " ") + "--help"};
}

po::options_description general_options() {
  po::options_description general{"Options of every command"};
  auto add = general.add_options();
  add("url", po::value<std::string>()->value_name("URL"),
      "redis://HOST[:PORT][/DB], rediss://..., unix:///PATH, redlock://HOST,HOST,HOST, postgresql://HOST/DB, zookeeper://HOST,HOST");
  add("config", po::value<std::string>()->value_name("FILE"), "the configuration file");
  add("user", po::value<std::string>()->value_name("NAME"), "the user; else CONCH_USER, else user in the configuration file");
  add("password-file", po::value<std::string>()->value_name("FILE"), "a file with the password");
  add("key-prefix", po::value<std::string>()->value_name("TEXT"), "the prefix of all keys (conch:)");
  add("json", "print JSON, one object per line");
  add("verbose,v", "write the client's log to standard error");
  add("help,h", "print this");
  return general;
}

bool waits_for_replicas(std::string_view command) { return command == "run" || command == "bench" || command == "doctor"; }

po::options_description own_options(std::string_view command) {
  po::options_description own{"Options of conch " + std::string{command}};
  auto add = own.add_options();
  if (command == "run") {
    add("wait,w", po::value<std::string>()->value_name("DURATION"), "wait at most this long (default: until granted)");
    add("no-wait,n", "try once, do not wait");
    add("conflict-exit-code,E", po::value<std::string>()->value_name("N"), "the exit code when the lock was not free (75)");
    add("kind", po::value<std::string>()->value_name("KIND"), "mutex (default), shared, exclusive, semaphore=N, striped=N");
    add("lease", po::value<std::string>()->value_name("DURATION"), "how long the lock outlives a conch that has died (30s)");
    add("fixed-lease", "do not renew the lease: CMD is ended when it ends");
    add("max-hold", po::value<std::string>()->value_name("DURATION"), "stop renewing after this long");
    add("grace", po::value<std::string>()->value_name("DURATION"),
        "time between TERM and KILL (500ms), at most a quarter of the lease. A loss is reported this long before the lease ends");
    add("events-fd", po::value<std::string>()->value_name("N"), "write events as JSON lines to descriptor N (--json alone: standard error)");
    add("no-kill-child", "if conch is killed or frozen, let CMD continue without the lock");
    add("keep-connection", "pass CONCH_URL, CONCH_USER and CONCH_PASSWORD on to CMD, for a conch that it runs itself");
  } else if (command == "list") {
    add("names", "only the names, one a line");
  } else if (command == "unlock") {
    add("fence", po::value<std::string>()->value_name("N"), "only the holder with this fence, as conch status shows it");
    add("yes,y", "do not ask");
  } else if (command == "watch") {
    add("every", po::value<std::string>()->value_name("DURATION"), "how often to look (1s), 100ms to 1d");
  } else if (command == "bench") {
    add("time", po::value<std::string>()->value_name("DURATION"), "how long to measure each part (1s), 10ms to 10m");
  }
  if (waits_for_replicas(command)) {
    add("sync-replicas", po::value<std::string>()->value_name("N"), "a lock, or a renewal, counts only when N replicas have it (0)");
    add("sync-timeout", po::value<std::string>()->value_name("DURATION"), "how long the replicas may take (1s)");
  }
  return own;
}

std::string overview() {
  std::ostringstream text;
  text << "conch " << version() << ": distributed locks in Redis, PostgreSQL and ZooKeeper\n\n";
  std::size_t width = 0;
  for (command_help const& one : commands) width = std::max(width, one.name.size() + one.words.size());
  for (command_help const& one : commands) {
    std::string head = "conch " + std::string{one.name} + ' ' + std::string{one.words};
    head.resize(width + 9, ' ');
    text << "  " << head << one.brief << '\n';
  }
  text << "\nconch COMMAND --help explains one command.\n\n" << general_options() << '\n' << how_to_connect << '\n' << exit_codes;
  return text.str();
}

std::string help_of(command_help const& one) {
  std::ostringstream text;
  text << "conch " << one.name << ' ' << one.words << ": " << one.brief << "\n\n" << one.text << (one.text.empty() ? "" : "\n");
  po::options_description const own = own_options(one.name);
  if (!own.options().empty()) text << own << '\n';
  text << general_options() << '\n' << how_to_connect << '\n' << exit_codes;
  return text.str();
}

duration duration_of(std::string const& option, std::string const& text, std::string const& command) {
  std::optional<duration> const read = parse_duration(text);
  if (!read) refuse("--" + option + ": '" + text + "' is not a duration such as 500ms, 30s or 5m", command);
  return *read;
}

template <class Number>
Number number_of(std::string const& option, std::string_view text, Number least, Number most, std::string const& command) {
  Number number{};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most) {
    refuse("--" + option + " must be a number from " + std::to_string(least) + " to " + std::to_string(most) + ", not '" + std::string{text} + "'",
           command);
  }
  return number;
}

void read_kind(std::string const& text, arguments& into) {
  auto const equals = text.find('=');
  std::string const kind = text.substr(0, equals);
  bool const counted = kind == "semaphore" || kind == "striped";
  constexpr std::pair<std::string_view, lock_kind> kinds[]{{"mutex", lock_kind::mutex},
                                                           {"shared", lock_kind::shared},
                                                           {"exclusive", lock_kind::exclusive},
                                                           {"semaphore", lock_kind::semaphore},
                                                           {"striped", lock_kind::striped}};
  auto const known = std::find_if(std::begin(kinds), std::end(kinds), [&](auto const& one) { return one.first == kind; });
  if (known == std::end(kinds) || counted != (equals != std::string::npos)) {
    refuse("--kind is one of mutex, shared, exclusive, semaphore=N, striped=N, not '" + text + "'", "run");
  }
  into.kind = known->second;
  if (!counted) return;
  std::uint32_t const most = kind == "semaphore" ? 1'000'000 : 1'000;
  into.size = number_of<std::uint32_t>("kind " + kind, std::string_view{text}.substr(equals + 1), 1, most, "run");
}

class given_options {
 public:
  given_options(po::variables_map values, std::string command) : values_{std::move(values)}, command_{std::move(command)} {}

  bool has(char const* option) const { return values_.count(option) != 0; }
  std::string text(char const* option) const { return has(option) ? values_[option].as<std::string>() : std::string{}; }
  std::optional<duration> time(char const* option) const {
    if (!has(option)) return std::nullopt;
    return duration_of(option, text(option), command_);
  }
  /// What the command itself bounds. The library refuses its own settings.
  std::optional<duration> time(char const* option, char const* least, char const* most) const {
    std::optional<duration> const given = time(option);
    if (!given || (*given >= *parse_duration(least) && *given <= *parse_duration(most))) return given;
    refuse("--" + std::string{option} + " must be " + least + " to " + most + ", not '" + text(option) + "'", command_);
  }

 private:
  po::variables_map values_;
  std::string command_;
};

void read_run(given_options const& given, arguments& into) {
  into.wait = given.time("wait");
  if (given.has("no-wait")) {
    if (into.wait) refuse("--wait and --no-wait do not go together", "run");
    into.wait = duration::zero();
  }
  into.lease = given.time("lease");
  into.max_hold = given.time("max-hold");
  into.grace = given.time("grace");
  into.fixed_lease = given.has("fixed-lease");
  into.kill_child = !given.has("no-kill-child");
  into.keep_connection = given.has("keep-connection");
  into.conflict_exit_code = exit_code::not_granted;
  if (given.has("conflict-exit-code")) {
    into.conflict_exit_code = number_of<int>("conflict-exit-code", given.text("conflict-exit-code"), 0, 255, "run");
  }
  if (given.has("events-fd")) into.events_fd = number_of<int>("events-fd", given.text("events-fd"), 1, 1'000'000, "run");
  if (given.has("kind")) read_kind(given.text("kind"), into);
  if (into.fixed_lease && into.max_hold) refuse("--fixed-lease and --max-hold do not go together", "run");
  if (into.names.size() > 1 && into.kind != lock_kind::mutex) refuse("--kind needs exactly one NAME: several NAMEs are mutexes", "run");
  if (into.child.empty()) refuse("missing '-- CMD' after the NAME", "run");
}

void check_names(arguments const& given) {
  std::string const& command = given.command;
  bool const takes_patterns = command == "list" || command == "watch";
  bool const takes_none = command == "doctor" || command == "bench";
  if (takes_none && !given.names.empty()) refuse("conch " + command + " takes no NAME: '" + given.names.front() + "'", command);
  if (!takes_none && !takes_patterns && given.names.empty()) refuse("the NAME of the lock is missing", command);
  if (command == "unlock" && given.names.size() > 1) refuse("conch unlock takes one NAME", command);
  for (std::string const& name : given.names) {
    if (name.empty() || name.size() > 512) refuse("a NAME must have 1 to 512 bytes", command);
  }
  std::vector<std::string> sorted = given.names;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) refuse("duplicate NAME", command);
}

request text_request(std::string text) { return {std::nullopt, std::move(text)}; }

}  // namespace

request parse_command_line(std::vector<std::string> const& words) {
  if (words.empty()) refuse("the command is missing");
  std::string const first = words.front() == "help" && words.size() > 1 ? words[1] : words.front();
  if (first == "--help" || first == "-h" || first == "help") return text_request(overview());
  if (first == "--version") return text_request("conch " + std::string{version()} + '\n');
  command_help const* const command = find_command(first);
  if (command == nullptr) refuse(first.starts_with('-') ? "the command comes first, then the options" : "there is no command '" + first + "'");
  if (words.front() == "help") return text_request(help_of(*command));

  arguments all;
  all.command = first;
  auto const dashes = std::find(words.begin() + 1, words.end(), "--");
  std::vector<std::string> const mine{words.begin() + 1, dashes};
  if (dashes != words.end() && first == "run") all.child.assign(dashes + 1, words.end());
  if (dashes != words.end() && first != "run") all.names.assign(dashes + 1, words.end());  // names that look like options

  po::options_description known;
  known.add(own_options(first)).add(general_options());
  known.add_options()("name", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("name", -1);
  po::variables_map values;
  try {
    // No abbreviations: they would change their meaning when an option is added.
    constexpr int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(mine).options(known).positional(positional).style(style).run(), values);
    po::notify(values);
  } catch (po::error const& error) {
    refuse(error.what(), first);
  }
  given_options const given{values, first};
  if (given.has("help")) return text_request(help_of(*command));
  if (given.has("name")) {
    auto const& names = values["name"].as<std::vector<std::string>>();
    all.names.insert(all.names.begin(), names.begin(), names.end());
  }
  all.json = given.has("json");
  all.verbose = given.has("verbose");
  // An unset variable of a script must not lead to another server than the one that is meant.
  for (char const* const option : {"url", "config", "user", "password-file", "key-prefix"}) {
    if (given.has(option) && given.text(option).empty()) refuse(std::string{"--"} + option + " is empty", first);
  }
  all.connect = {given.text("url"), given.text("config"), given.text("user"), given.text("password-file"), given.text("key-prefix")};
  if (given.has("sync-replicas")) all.connect.sync_replicas = number_of<std::uint32_t>("sync-replicas", given.text("sync-replicas"), 0, 100, first);
  all.connect.sync_timeout = given.time("sync-timeout");
  check_names(all);
  if (first == "run") read_run(given, all);
  all.names_only = given.has("names");
  if (first == "unlock") {
    all.yes = given.has("yes");
    if (given.has("fence")) all.fence = number_of<std::int64_t>("fence", given.text("fence"), 1, INT64_MAX, first);
  }
  if (first == "watch") all.every = given.time("every", "100ms", "1d");
  if (first == "bench") all.time = given.time("time", "10ms", "10m");
  return {std::move(all), {}};
}

}  // namespace conch::cli
