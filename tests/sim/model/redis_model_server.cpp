// The connection and the server itself: HELLO, CLIENT, TIME, INFO ...

#include "sim/model/redis_model_impl.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace conch::sim::redis {

namespace {

// ---- HELLO, AUTH, PING, SELECT ----

bool right_password(call& c, std::string_view user, std::string_view password) {
  return user == "default" && (c.server.password.empty() || password == c.server.password);
}

void wrong_password(call& c) { c.error("WRONGPASS invalid username-password pair or user is disabled."); }

bool set_name(call& c, std::string_view name) {
  auto const printable = [](char ch) { return ch >= '!' && ch <= '~'; };
  if (!std::all_of(name.begin(), name.end(), printable)) {
    c.error("ERR Client names cannot contain spaces, newlines or special characters.");
    return false;
  }
  c.from.name = name;
  return true;
}

// The words after the version; false: an error was replied.
bool hello_options(call& c) {
  for (std::size_t i = 2; i < c.size(); ++i) {
    auto const more = c.size() - 1 - i;
    if (equal_ignoring_case(c[i], "auth") && more >= 2) {
      if (!right_password(c, c[i + 1], c[i + 2])) {
        wrong_password(c);
        return false;
      }
      c.from.authenticated = true;
      i += 2;
    } else if (equal_ignoring_case(c[i], "setname") && more >= 1) {
      if (!set_name(c, c[i + 1])) {
        return false;
      }
      ++i;
    } else {
      c.error(joined("ERR Syntax error in HELLO option '", status_line(c[i]), "'"));
      return false;
    }
  }
  return true;
}

void hello(call& c) {
  std::int64_t version = 0;
  if (c.size() >= 2) {
    if (!to_integer(c[1], version)) {
      c.error("ERR Protocol version is not an integer or out of range");
      return;
    }
    if (version < 2 || version > 3) {
      c.error("NOPROTO unsupported protocol version");
      return;
    }
  }
  if (!hello_options(c)) {
    return;
  }
  if (!c.from.authenticated) {
    c.error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the "
        "HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and "
        "select the RESP protocol version at the same time");
    return;
  }
  if (version != 0) {
    c.from.protocol = static_cast<int>(version);
  }
  c.reply =
      value::list(value::kind::map, {value::bulk("server"), value::bulk("redis"), value::bulk("version"),
                                     value::bulk("7.0.15"), value::bulk("proto"), value::number(c.from.protocol),
                                     value::bulk("id"), value::number(static_cast<std::int64_t>(c.from.id)),
                                     value::bulk("mode"), value::bulk(c.server.in_cluster ? "cluster" : "standalone"),
                                     value::bulk("role"), value::bulk(c.server.replica ? "replica" : "master"),
                                     value::bulk("modules"), value::list(value::kind::array, {})});
}

void auth(call& c) {
  if (c.size() > 3) {
    c.syntax_error();
    return;
  }
  if (c.size() == 2 && c.server.password.empty()) {
    c.error(
        "ERR AUTH <password> called without any password configured for the default user. "
        "Are you sure your configuration is correct?");
    return;
  }
  if (!right_password(c, c.size() == 3 ? c[1] : "default", c[c.size() - 1])) {
    wrong_password(c);
    return;
  }
  c.from.authenticated = true;
  c.ok();
}

void ping(call& c) {
  if (c.size() > 2) {
    c.wrong_count();
    return;
  }
  bool const subscribed = !c.from.channels.empty() || !c.from.shard_channels.empty();
  if (subscribed && c.protocol == 2 && !c.in_script) {
    c.reply =
        value::list(value::kind::array, {value::bulk("pong"), value::bulk(c.size() == 2 ? c[1] : std::string_view{})});
  } else if (c.size() == 2) {
    c.bulk(c[1]);
  } else {
    c.simple("PONG");
  }
}

void select(call& c) {
  std::int64_t index = 0;
  if (!c.integer_argument(1, index)) {
    return;
  }
  if (index < std::numeric_limits<int>::min() || index > std::numeric_limits<int>::max()) {
    c.error("ERR value is out of range, value must between -2147483648 and 2147483647");
    return;
  }
  if (index < 0 || index >= redis_model::impl::database_count) {
    c.error("ERR DB index is out of range");
    return;
  }
  c.selected = static_cast<int>(index);
  c.ok();
}

// ---- CLIENT ----

void client_id(call& c) { c.integer(static_cast<std::int64_t>(c.from.id)); }

void client_info(call& c) {
  auto const& from = c.from;
  auto const age = std::max<std::int64_t>(0, (c.server.now_us - from.connected_at_us) / 1'000'000);
  std::string line = "id=" + std::to_string(from.id) + " addr=" + from.address +
                     " laddr=127.0.0.1:6379 fd=" + std::to_string(from.id + 7) + " name=" + from.name +
                     " age=" + std::to_string(age) + " idle=0 flags=N db=" + std::to_string(from.database) +
                     " sub=" + std::to_string(from.channels.size()) +
                     " psub=0 ssub=" + std::to_string(from.shard_channels.size()) +
                     " multi=-1 qbuf=26 qbuf-free=20448 argv-mem=10 multi-mem=0 rbs=16384 rbp=16384 obl=0 oll=0"
                     " omem=0 tot-mem=37658 events=r cmd=client|info user=default redir=-1 resp=" +
                     std::to_string(from.protocol) + "\n";
  c.reply = value::of(value::kind::verbatim, "txt:" + line);
}

void client_setname(call& c) {
  if (set_name(c, c[2])) {
    c.ok();
  }
}

void client_getname(call& c) {
  if (c.from.name.empty()) {
    c.nil();
  } else {
    c.bulk(c.from.name);
  }
}

struct kill_filter {
  redis_model::connection_id id = 0;
  std::string_view address;
  bool by_address = false;
  bool skip_me = true;
};

bool parse_kill_filter(call& c, kill_filter& filter) {
  for (std::size_t i = 2; i < c.size(); i += 2) {
    if (i + 1 >= c.size()) {
      c.syntax_error();
      return false;
    }
    auto const setting = c[i + 1];
    if (equal_ignoring_case(c[i], "id")) {
      std::int64_t id = 0;
      if (!to_integer(setting, id) || id < 1) {
        c.error("ERR client-id should be greater than 0");
        return false;
      }
      filter.id = static_cast<redis_model::connection_id>(id);
    } else if (equal_ignoring_case(c[i], "addr")) {
      filter.address = setting;
      filter.by_address = true;
    } else if (equal_ignoring_case(c[i], "skipme") && equal_ignoring_case(setting, "yes")) {
      filter.skip_me = true;
    } else if (equal_ignoring_case(c[i], "skipme") && equal_ignoring_case(setting, "no")) {
      filter.skip_me = false;
    } else {
      // TYPE, USER and LADDR exist in Redis and not here; SKIPME MAYBE exists nowhere.
      c.syntax_error();
      return false;
    }
  }
  return true;
}

void client_kill(call& c) {
  kill_filter filter;
  bool const old_form = c.size() == 3;
  if (old_form) {
    filter = {0, c[2], true, false};
  } else if (!parse_kill_filter(c, filter)) {
    return;
  }

  std::vector<redis_model::connection_id> victims;
  for (auto const& [id, other] : c.server.connections) {
    if ((filter.id != 0 && filter.id != id) || (filter.by_address && filter.address != other.address) ||
        (filter.skip_me && id == c.from.id)) {
      continue;
    }
    victims.push_back(id);
  }
  for (auto const id : victims) {
    c.server.killed.push_back(id);
    // The connection that runs this command is needed until its reply is made.
    if (id != c.from.id) {
      c.server.drop_connection(id);
    }
  }
  if (!old_form) {
    c.count(victims.size());
  } else if (victims.empty()) {
    c.error("ERR No such client");
  } else {
    c.ok();
  }
}

// ---- WAIT ----

void wait(call& c) {
  if (c.server.replica) {
    c.error(
        "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is "
        "configured to be writable (which is "
        "not the default) writes to replicas are just local and are not propagated.");
    return;
  }
  std::int64_t timeout = 0, replicas = 0;
  if (!to_integer(c[2], timeout)) {
    c.error("ERR timeout is not an integer or out of range");
    return;
  }
  if (timeout < 0) {
    c.error("ERR timeout is negative");
    return;
  }
  if (!c.integer_argument(1, replicas)) {
    return;
  }
  std::int64_t const there = c.server.replicas_at(c.from.waits_for);
  if (there >= replicas) {
    c.integer(there);
    return;
  }
  c.server.waits.push_back({c.from.id, c.from.waits_for, replicas, timeout == 0 ? 0 : c.server.now_ms() + timeout});
  c.reply = value::nothing();
}

// ---- TIME, INFO, CONFIG, the keyspace ----

void time(call& c) {
  auto const now = c.server.now_us;
  c.reply = value::list(value::kind::array,
                        {value::bulk(std::to_string(now / 1'000'000)), value::bulk(std::to_string(now % 1'000'000))});
}

std::string run_id(redis_model::impl const& server) {
  char digits[48];
  std::snprintf(digits, sizeof digits, "%08x%032llx", server.number,
                static_cast<unsigned long long>(server.started_us) * 1000 + server.run);
  return digits;
}

/// What CONFIG GET and INFO show: the defaults, and what a test has set.
std::map<std::string, std::string, std::less<>> settings_of(redis_model::impl const& server) {
  static std::map<std::string, std::string, std::less<>> const defaults{
      {"appendfsync", "everysec"},        {"appendonly", "no"},           {"databases", "16"}, {"maxmemory", "0"},
      {"maxmemory-policy", "noeviction"}, {"notify-keyspace-events", ""}, {"timeout", "0"}};
  auto settings = server.config;
  settings.insert(defaults.begin(), defaults.end());
  return settings;
}

void info(call& c) {
  auto const wants = [&](std::string_view section) {
    if (c.size() == 1) {
      return true;
    }
    return std::any_of(c.argv.begin() + 1, c.argv.end(), [&](std::string_view word) {
      return equal_ignoring_case(word, section) || equal_ignoring_case(word, "all") ||
             equal_ignoring_case(word, "default") || equal_ignoring_case(word, "everything");
    });
  };
  std::string text;
  auto const begin = [&text](std::string_view section) {
    text += joined(text.empty() ? "# " : "\r\n# ", section, "\r\n");
  };
  if (wants("server")) {
    // From the wall clock, as in Redis: a clock step changes it, downwards even below zero. Both moments are whole
    // seconds there, rounded down: a server that is 0.2 s old may say 1.
    auto const uptime = c.server.now_us / 1'000'000 - c.server.started_us / 1'000'000;
    begin("Server");
    text += "redis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:" + run_id(c.server) +
            "\r\ntcp_port:6379\r\nuptime_in_seconds:" + std::to_string(uptime) +
            "\r\nuptime_in_days:" + std::to_string(uptime / 86400) + "\r\n";
  }
  if (wants("clients")) {
    begin("Clients");
    text += "connected_clients:" + std::to_string(c.server.connections.size()) + "\r\n";
  }
  if (wants("memory")) {
    auto const settings = settings_of(c.server);
    begin("Memory");
    text += "used_memory:1048576\r\nmaxmemory:" + settings.at("maxmemory") +
            "\r\nmaxmemory_policy:" + settings.at("maxmemory-policy") + "\r\nallocator_frag_ratio:1.00\r\n";
  }
  if (wants("replication")) {
    begin("Replication");
    text += c.server.replica ? "role:slave\r\n" : "role:master\r\n";
    text += "connected_slaves:0\r\nmaster_failover_state:no-failover\r\n";
  }
  c.reply = value::of(value::kind::verbatim, "txt:" + text);
}

void config_get(call& c) {
  auto const settings = settings_of(c.server);
  auto& items = c.list(value::kind::map).items;
  for (auto const& [name, setting] : settings) {
    auto const matches = [&](std::string_view pattern) { return glob_match(pattern, name); };
    if (std::any_of(c.argv.begin() + 2, c.argv.end(), matches)) {
      items.push_back(value::bulk(name));
      items.push_back(value::bulk(setting));
    }
  }
}

void dbsize(call& c) { c.count(c.server.database_at(c.selected).size()); }

bool flush_mode(call& c) {
  if (c.size() == 1 || (c.size() == 2 && (equal_ignoring_case(c[1], "sync") || equal_ignoring_case(c[1], "async")))) {
    return true;
  }
  c.syntax_error();
  return false;
}

void flushall(call& c) {
  if (!flush_mode(c)) {
    return;
  }
  for (auto& all : c.server.databases) {
    all.clear();
  }
  c.ok();
}

void flushdb(call& c) {
  if (!flush_mode(c)) {
    return;
  }
  c.server.database_at(c.selected).clear();
  c.ok();
}

}  // namespace

std::span<command const> server_commands() {
  using enum command::flags;
  static constexpr command commands[] = {
      {"hello", -1, no_script | no_auth, hello},
      {"auth", -2, no_script | no_auth, auth},
      {"ping", -1, while_subscribed, ping},
      {"select", 2, none, select},
      {"client", -2, container, nullptr},
      {"client|id", 2, no_script, client_id},
      {"client|info", 2, no_script, client_info},
      {"client|setname", 3, no_script, client_setname},
      {"client|getname", 2, no_script, client_getname},
      {"client|kill", -3, no_script, client_kill},
      {"wait", 3, no_script, wait},
      {"time", 1, none, time},
      {"info", -1, none, info},
      {"config", -2, container, nullptr},
      {"config|get", -3, no_script, config_get},
      {"dbsize", 1, none, dbsize},
      {"flushall", -1, write, flushall},
      {"flushdb", -1, write, flushdb},
  };
  return commands;
}

}  // namespace conch::sim::redis
