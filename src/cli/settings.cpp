// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/settings.hpp"

#include "cli/duration.hpp"
#include "cli/exit_code.hpp"
#include "cli/option_table.hpp"
#include "cli/toml.hpp"
#include "servers/urls.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

namespace conch::cli {

namespace {

[[noreturn]] void refuse(std::string const& why) { throw failure{exit_code::wrong_config, why}; }

/// A folder that the system names. An empty one counts as not set (XDG Base Directory Specification).
std::optional<std::string> folder_in(char const* variable) {
  char const* const found = std::getenv(variable);
  if (found == nullptr || *found == '\0') return std::nullopt;
  return found;
}

/// `name`: one of connection_variables().
std::optional<std::string> environment(char const* name) {
  char const* const found = std::getenv(name);
  if (found == nullptr) return std::nullopt;
  // As on the command line: what a template has left empty must not lead to another server, or to no login, instead of
  // the one that is meant.
  if (*found == '\0') refuse(std::string{name} + " is empty: give it a value, or unset it");
  return found;
}

struct open_file {
  explicit open_file(std::string const& path) : fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)} {}
  ~open_file() {
    if (fd >= 0) ::close(fd);
  }
  open_file(open_file const&) = delete;
  open_file& operator=(open_file const&) = delete;
  int const fd;
};

std::string mode_of(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

/// Checks the open file, not the path, which could name another file by then.
void refuse_unless_private(int fd, std::string const& path, std::string const& what) {
  struct stat about {};
  if (::fstat(fd, &about) != 0) refuse(what + ' ' + path + ": " + std::strerror(errno));
  if (S_ISDIR(about.st_mode)) refuse(what + ' ' + path + " is a folder");
  if (!S_ISREG(about.st_mode)) return;  // a pipe, as <(...) gives it
  if ((about.st_mode & 077) != 0) {
    refuse(what + ' ' + path + " can be read or written by others (mode " + mode_of(about.st_mode) + "): chmod 600 " +
           path);
  }
  if (about.st_uid != ::geteuid() && about.st_uid != 0) refuse(what + ' ' + path + " belongs to another user");
}

std::string read_all(int fd, std::string const& path, std::string const& what) {
  constexpr std::size_t most = 1 << 20;
  std::string text;
  char buffer[4096];
  for (;;) {
    ssize_t const size = ::read(fd, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) refuse(what + ' ' + path + ": " + std::strerror(errno));
    if (size == 0) return text;
    text.append(buffer, static_cast<std::size_t>(size));
    if (text.size() > most) refuse(what + ' ' + path + " is longer than 1 MiB");
  }
}

std::string password_in(std::string const& path) {
  std::string text = read_private_file(path, "the password file");
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  if (text.empty()) refuse("the password file " + path + " is empty");
  return text;
}

/// What a configuration file says. Paths in it are relative to its folder.
struct file_settings {
  std::map<std::string, std::string> values;

  std::optional<std::string> get(std::string const& key) const {
    auto const found = values.find(key);
    if (found == values.end()) return std::nullopt;
    return found->second;
  }
};

std::optional<std::string> default_file() {
  std::optional<std::string> folder = folder_in("XDG_CONFIG_HOME");
  if (!folder) {
    std::optional<std::string> const home = folder_in("HOME");
    if (home) folder = *home + "/.config";
  }
  if (!folder) return std::nullopt;
  std::string path = *folder + "/conch.toml";
  if (::access(path.c_str(), F_OK) != 0) return std::nullopt;
  return path;
}

file_settings read_file(std::string const& given) {
  file_settings all;
  std::optional<std::string> const path = given.empty() ? default_file() : given;
  if (!path) return all;
  for (toml_entry& entry : parse_toml(read_private_file(*path, "the configuration file"), *path)) {
    if (find_setting(entry.key) == nullptr)
      refuse(*path + ':' + std::to_string(entry.line) + ": there is no setting " + entry.key);
    // As on the command line: what a template has left empty must not lead to another server than the one that is
    // meant.
    if (entry.value.empty()) refuse(*path + ':' + std::to_string(entry.line) + ": " + entry.key + " is empty");
    bool const is_path = entry.key.ends_with("-file") || entry.key.ends_with("-path");
    if (is_path && !entry.value.starts_with('/')) {
      auto const slash = path->rfind('/');
      if (slash != std::string::npos) entry.value = path->substr(0, slash + 1) + entry.value;
    }
    all.values[entry.key] = std::move(entry.value);
  }
  return all;
}

/// A setting: of the command line, else of a file that the command line names, else of the environment, else of the
/// file that is always read. What the user types goes before what happens to be set.
std::optional<std::string> chosen(std::string const& option, std::string const& key, connection_options const& given,
                                  file_settings const& file) {
  if (!option.empty()) return option;
  std::optional<std::string> in_file = file.get(key);
  if (in_file && !given.config_file.empty()) return in_file;
  if (auto set = environment(find_setting(key)->variable)) return set;
  return in_file;
}

std::optional<std::string> password_in_file(file_settings const& file) {
  if (auto set = file.get("password")) return set;
  if (auto const path = file.get("password-file")) return password_in(*path);
  return std::nullopt;
}

std::optional<std::string> password_of(connection_options const& given, file_settings const& file) {
  if (!given.password_file.empty()) return password_in(given.password_file);
  if (!given.config_file.empty()) {
    if (auto set = password_in_file(file)) return set;
  }
  if (auto set = environment(find_setting("password")->variable)) return set;
  return password_in_file(file);
}

/// User and password, in the form that this kind of server takes.
void read_login(connection_options const& given, file_settings const& file, connection& into) {
  std::string const user = chosen(given.user, "user", given, file).value_or("");
  std::optional<std::string> password = password_of(given, file);
  if (!password && user.empty()) return;
  conch::servers::login_rules const rules = conch::servers::login_rules_of(into.settings.url);
  if (!password && rules.needs_password) {
    refuse("a user without a password: set CONCH_PASSWORD, --password-file, or password in the configuration file");
  }
  credentials login;
  login.user = user;
  login.password = std::move(password).value_or("");
  if (rules.takes_provider) {
    into.settings.credentials_provider = [login](std::string const&, credentials_handler const& done) {
      done({}, login);
    };
    return;
  }
  if (!login.password.empty() && conch::servers::login_in(into.settings.url).password)
    refuse("two passwords: one is in the URL, and one is given beside it");
  into.settings.url = conch::servers::with_login(into.settings.url, login);
}

/// A duration of the command line, or of the file.
void read_time(std::optional<duration> const& given, char const* key, file_settings const& file, duration& into) {
  if (given) {
    into = *given;
  } else if (auto const text = file.get(key)) {
    std::optional<duration> const read = parse_duration(*text);
    if (!read) refuse(std::string{key} + ": '" + *text + "' is not a duration such as 500ms or 1s");
    into = *read;
  }
}

/// What the library refuses is not checked here: more replicas than there can be, no time at all.
void read_sync(connection_options const& given, file_settings const& file, config& into) {
  if (given.sync_replicas) {
    into.sync_replicas = *given.sync_replicas;
  } else if (auto const text = file.get("sync-replicas")) {
    auto const [end, error] = std::from_chars(text->data(), text->data() + text->size(), into.sync_replicas);
    if (error != std::errc{} || end != text->data() + text->size())
      refuse("sync-replicas is a number, not '" + *text + "'");
  }
  read_time(given.sync_timeout, "sync-timeout", file, into.sync_timeout);
}

}  // namespace

config connection::at(std::string const& url) const {
  config one = settings;
  one.url = url;
  return one;
}

std::string read_private_file(std::string const& path, std::string const& what) {
  open_file const file{path};
  if (file.fd < 0) refuse(what + ' ' + path + ": " + std::strerror(errno));
  refuse_unless_private(file.fd, path, what);
  return read_all(file.fd, path, what);
}

connection read_connection(connection_options const& given) {
  auto const in_argument = conch::servers::login_in(given.url);
  if (in_argument.user && !in_argument.password)
    throw failure{exit_code::usage, "--url: give the user with --user, not in the URL"};
  if (in_argument.password) {
    throw failure{exit_code::usage,
                  "--url: other users of this machine can read arguments, so give the password in CONCH_PASSWORD, "
                  "--password-file or the configuration "
                  "file, and the user with --user"};
  }
  file_settings const file = read_file(given.config_file);
  connection all;
  if (auto url = chosen(given.url, "url", given, file)) all.settings.url = std::move(*url);
  conch::servers::login_rules const rules = conch::servers::login_rules_of(all.settings.url);
  if (rules.in_this_process) {
    refuse(conch::servers::without_login(all.settings.url) +
           " exists only inside one process, so no other program can reach its locks: this command needs a server");
  }
  if (!given.key_prefix.empty()) {
    all.settings.key_prefix = given.key_prefix;
  } else if (auto in_file = file.get("key-prefix")) {
    all.settings.key_prefix = *in_file;
  }
  all.settings.label = given.label.empty() ? file.get("label") : given.label;
  all.settings.tls.ca_file = file.get("tls-ca-file").value_or("");
  all.settings.tls.ca_path = file.get("tls-ca-path").value_or("");
  all.settings.tls.cert_file = file.get("tls-cert-file").value_or("");
  all.settings.tls.key_file = file.get("tls-key-file").value_or("");
  all.settings.tls.server_name = file.get("tls-server-name").value_or("");

  if (rules.has_sentinels) {
    all.settings.sentinel_username = file.get("sentinel-user").value_or("");
    all.settings.sentinel_password = file.get("sentinel-password").value_or("");
    if (auto const path = file.get("sentinel-password-file")) all.settings.sentinel_password = password_in(*path);
  }

  read_login(given, file, all);
  read_sync(given, file, all.settings);
  read_time(given.lock_delay, "lock-delay", file, all.settings.lock_delay);
  all.servers = conch::servers::voters_of(all.settings.url);
  all.quorum = conch::servers::names_voters(all.settings.url);
  all.settings.client_name = "conch-cli";
  all.settings.single_threaded = true;
  return all;
}

}  // namespace conch::cli
