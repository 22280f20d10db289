// From a command's words to the function that runs it, and what those functions share.

#include "sim/model/redis_model_impl.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace conch::sim::redis {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// All commands, with their place in the counts.
struct command_table {
  // Names are short and few: their first bytes tell them apart.
  struct name_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const {
      std::uint64_t first = 0;
      std::memcpy(&first, name.data(), std::min(name.size(), sizeof first));
      return (first ^ name.size() << 56) * 0x9e3779b97f4a7c15U >> 32;
    }
  };

  std::vector<command> all;
  std::unordered_map<std::string, command const*, name_hash, std::equal_to<>> by_name;

  command_table() {
    for (auto const list : {key_commands(), zset_commands(), hash_commands()}) {
      for (command const& one : list) all.emplace_back(one).marks |= command::first_key;
    }
    for (auto const list : {server_commands(), pubsub_commands(), script_commands(), cluster_commands()}) {
      all.insert(all.end(), list.begin(), list.end());
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].index = i;
      by_name.emplace(all[i].name, &all[i]);
    }
  }

  static command_table const& get() {
    static command_table const table;
    return table;
  }
};

std::string lowered(std::string_view text) {
  std::string result{text};
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

// The words of Redis for a name it does not know: at most 128 bytes of name and of arguments.
std::string unknown_command(std::span<std::string_view const> argv) {
  std::string arguments;
  for (std::size_t i = 1; i < argv.size() && arguments.size() < 128; ++i) {
    arguments += joined("'", status_line(argv[i].substr(0, 128 - arguments.size())), "' ");
  }
  return joined(joined("ERR unknown command '", status_line(argv[0].substr(0, 128)), "', with args beginning with: "),
                arguments);
}

std::string unknown_subcommand(std::span<std::string_view const> argv, command const& container) {
  std::string upper{container.name};
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') {
      c = static_cast<char>(c - 'a' + 'A');
    }
  }
  return joined(joined("ERR unknown subcommand '", status_line(argv[1].substr(0, 128)), "'. Try "), upper, " HELP.");
}

}  // namespace

// ---- helpers ----

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

bool to_integer(std::string_view text, std::int64_t& number) {
  // from_chars takes no '+' and no spaces; what Redis refuses beyond that are zeros in front.
  auto const end = text.data() + text.size();
  auto const [stop, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc{} || stop != end) {
    return false;
  }
  std::string_view const digits = text.starts_with('-') ? text.substr(1) : text;
  return digits.front() != '0' || text == "0";
}

bool to_double(std::string_view text, double& number) {
  if (text.empty() || std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    return false;
  }
  if (whole_number(text, number)) {
    return true;
  }
  std::string const terminated{text};
  char* end = nullptr;
  errno = 0;
  number = std::strtod(terminated.c_str(), &end);
  if (end != terminated.c_str() + terminated.size() || std::isnan(number)) {
    return false;
  }
  return errno != ERANGE || (!std::isinf(number) && number != 0);
}

bool glob_match(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) {
    return text.empty();
  }
  if (pattern.front() == '*') {
    for (std::size_t skip = 0; skip <= text.size(); ++skip) {
      if (glob_match(pattern.substr(1), text.substr(skip))) {
        return true;
      }
    }
    return false;
  }
  if (text.empty() || (pattern.front() != '?' && lower(pattern.front()) != lower(text.front()))) {
    return false;
  }
  return glob_match(pattern.substr(1), text.substr(1));
}

std::string_view type_name(entry const& what) {
  constexpr std::string_view names[] = {"string", "hash", "zset", "set"};
  return names[what.data.index()];
}

// ---- the command table ----

lookup find_command(std::span<std::string_view const> argv) {
  auto const& table = command_table::get();
  // No command's name is longer; the buffer keeps a lookup free of allocation.
  char buffer[64];
  std::size_t size = 0;
  auto const append = [&](std::string_view text) {
    if (text.size() > sizeof buffer - size) {
      return false;
    }
    for (char const c : text) {
      buffer[size++] = lower(c);
    }
    return true;
  };
  if (argv.empty() || !append(argv[0])) {
    return {};
  }
  auto const found = table.by_name.find(std::string_view{buffer, size});
  if (found == table.by_name.end()) {
    return {};
  }
  command const* const first = found->second;
  if ((first->marks & command::container) == 0 || argv.size() < 2) {
    return {first, first};
  }
  if (!append("|") || !append(argv[1])) {
    return {first, nullptr};
  }
  auto const second = table.by_name.find(std::string_view{buffer, size});
  return {first, second == table.by_name.end() ? nullptr : second->second};
}

std::span<command const> all_commands() { return command_table::get().all; }

command const* command_named(std::string_view full_name) {
  auto const& table = command_table::get();
  auto const found = table.by_name.find(lowered(full_name));
  return found == table.by_name.end() ? nullptr : found->second;
}

// ---- call ----

void call::wrong_type() { error("WRONGTYPE Operation against a key holding the wrong kind of value"); }

void call::wrong_count() { error(joined("ERR wrong number of arguments for '", what->name, "' command")); }

void call::bad_expire_time() { error(joined("ERR invalid expire time in '", what->name, "' command")); }

bool call::integer_argument(std::size_t i, std::int64_t& number) {
  if (to_integer(argv[i], number)) {
    return true;
  }
  error("ERR value is not an integer or out of range");
  return false;
}

bool call::score_argument(std::size_t i, double& score) {
  if (to_double(argv[i], score)) {
    return true;
  }
  error("ERR value is not a valid float");
  return false;
}

entry* call::find(std::string_view key) {
  database& all = server.database_at(selected);
  auto const place = all.find(key);
  if (place == all.end()) {
    return nullptr;
  }
  if (server.expired(place->second)) {
    all.erase(place);
    return nullptr;
  }
  return &place->second;
}

void call::remove(std::string_view key) {
  database& all = server.database_at(selected);
  if (auto const place = all.find(key); place != all.end()) {
    all.erase(place);
  }
}

// ---- a command from a client ----

// The checks stand in the order of Redis' processCommand: which error wins depends on it.
value execute(redis_model::impl& server, connection& from, std::span<std::string_view const> argv) {
  value reply;
  auto const [container, what] = find_command(argv);
  if (container == nullptr) {
    return value::error(unknown_command(argv));
  }
  if (what == nullptr) {
    return value::error(unknown_subcommand(argv, *container));
  }
  if (!what->takes(argv.size())) {
    return value::error(joined("ERR wrong number of arguments for '", what->name, "' command"));
  }
  if (!from.authenticated && (what->marks & command::no_auth) == 0) {
    return value::error("NOAUTH Authentication required.");
  }
  if (server.is_denied(*what)) {
    return value::error(joined("NOPERM this user has no permissions to run the '", what->name, "' command"));
  }
  if (routing const to = route(server, from, *what, argv, from.database); to.to != redirection::none) {
    return value::error(redirection_error(to));
  }
  if (server.out_of_memory && (what->marks & command::deny_oom) != 0) {
    return value::error("OOM command not allowed when used memory > 'maxmemory'.");
  }
  if (server.replica && (what->marks & command::write) != 0) {
    return value::error(std::string{read_only});
  }
  if (from.protocol == 2 && !(from.channels.empty() && from.shard_channels.empty()) &&
      (what->marks & command::while_subscribed) == 0) {
    return value::error(joined("ERR Can't execute '", what->name,
                               "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET "
                               "are allowed in this context"));
  }
  if (auto const* text = server.injected(*what, false)) {
    return value::error(*text);
  }

  std::int64_t const before = server.offset;
  call running{server, from, argv, reply, from.protocol, from.database, false, what};
  server.count(*what);
  what->run(running);
  if (!reply.is_error()) {
    server.record(*what, argv, reply, from.database);
  }
  if (!server.waits_for_own_writes || server.offset != before) {
    from.waits_for = server.offset;
  }
  return reply;
}

}  // namespace conch::sim::redis

namespace conch::sim {

std::string const* redis_model::impl::injected(redis::command const& what, bool in_script) {
  for (auto& fault : faults) {
    if (fault.applies != where::anywhere && (fault.applies == where::script) != in_script) {
      continue;
    }
    if (!fault.command.empty() && fault.command != what.name) {
      continue;
    }
    if (fault.skip > 0) {
      --fault.skip;
    } else if (fault.times > 0) {
      if (fault.times != always) {
        --fault.times;
      }
      return &fault.error;
    }
  }
  return nullptr;
}

bool redis_model::impl::is_denied(redis::command const& what) const {
  return !denied.empty() && denied.contains(what.name);
}

}  // namespace conch::sim
