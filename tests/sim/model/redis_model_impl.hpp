// What the files of redis_model share: the data, one running command, and how to answer it.
#pragma once

#include "sim/model/lua_host.hpp"
#include "sim/model/redis_model.hpp"

#include <array>
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>
#include <variant>

// Not conch::sim itself: a simulator will have its own `connection` and `call`.
namespace conch::sim::redis {

// ---- data ----

struct string_hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

template <class T>
using string_map = std::unordered_map<std::string, T, string_hash, std::equal_to<>>;

struct hash_data {
  std::vector<std::pair<std::string, std::string>> fields;  // as first set

  std::string* find(std::string_view field);
};

struct zset_data {
  struct entry {
    double score = 0;
    std::string member;

    bool before(double other_score, std::string_view other_member) const {
      return score != other_score ? score < other_score : member < other_member;
    }
  };

  std::vector<entry> entries;  // by score, then by bytes

  entry const* find(std::string_view member) const;
  void insert(double score, std::string_view member);
};

struct set_data {
  std::vector<std::string> members;  // by bytes
};

struct entry {
  static constexpr std::int64_t no_expiry = -1;

  std::variant<std::string, hash_data, zset_data, set_data> data;
  std::int64_t expires_at_ms = no_expiry;
};

using database = string_map<entry>;

std::string_view type_name(entry const& what);

struct connection {
  redis_model::connection_id id = 0;
  std::string address;
  std::string name;
  int protocol = 2;
  int database = 0;
  bool authenticated = true;
  std::int64_t connected_at_us = 0;
  std::vector<std::string> channels;
  std::vector<std::string> shard_channels;
  std::vector<std::string> patterns;
  std::int64_t waits_for = 0;  // the offset that a WAIT of it waits for
  bool asking = false;         // ASKING was the command before
};

// ---- one running command ----

struct command;

struct call {
  redis_model::impl& server;
  connection& from;
  std::span<std::string_view const> argv;
  value& reply;
  int protocol;   // of the connection, or of the script
  int& selected;  // the database
  bool in_script = false;
  command const* what = nullptr;

  std::size_t size() const { return argv.size(); }
  std::string_view operator[](std::size_t i) const { return argv[i]; }

  void error(std::string_view text) {
    reply.type = value::kind::error;
    reply.text = text;
  }
  void syntax_error() { error("ERR syntax error"); }
  void wrong_type();
  void wrong_count();  // of arguments
  void bad_expire_time();
  void nil() { reply.type = value::kind::nil; }
  void simple(std::string_view text) {
    reply.type = value::kind::simple;
    reply.text = text;
  }
  void ok() { simple("OK"); }
  void integer(std::int64_t number) {
    reply.type = value::kind::integer;
    reply.integer = number;
  }
  void count(std::size_t number) { integer(static_cast<std::int64_t>(number)); }
  void bulk(std::string_view text) {
    reply.type = value::kind::bulk;
    reply.text = text;
  }
  void real(double number) { reply = value::real(number); }
  value& list(value::kind type) {
    reply.type = type;
    return reply;
  }

  bool integer_argument(std::size_t i, std::int64_t& number);  // false: an error was replied
  bool score_argument(std::size_t i, double& score);

  // The live key, or null. The typed form replies WRONGTYPE, says so in `wrong`, and gives null.
  entry* find(std::string_view key);
  template <class T>
  T* find(std::string_view key, bool& wrong);
  template <class T>
  T& find_or_add(std::string_view key);
  void remove(std::string_view key);
};

using handler = void (*)(call&);

struct command {
  enum flags : unsigned {
    none = 0,
    write = 1,
    deny_oom = 2,
    no_script = 4,
    no_auth = 8,
    while_subscribed = 16,  // allowed to a subscribed connection of RESP2
    container = 32,         // has subcommands
    first_key = 64,         // its first argument is a key
    more_keys = 128,        // and so are all others
    counted_keys = 256,     // the second argument says how many follow
    shard_channel = 512     // its keys are channels
  };

  std::string_view name;  // "client|kill" for a subcommand
  int arity;              // as COMMAND INFO tells it: negative is a minimum
  unsigned marks;
  handler run;
  std::size_t index = 0;

  // For a command with these words, if it has that many.
  std::span<std::string_view const> keys(std::span<std::string_view const> argv) const;

  bool takes(std::size_t arguments) const {
    auto const n = static_cast<int>(arguments);
    return arity >= 0 ? n == arity : n >= -arity;
  }
};

// Each file of commands gives a list of its own.
std::span<command const> key_commands();
std::span<command const> zset_commands();
std::span<command const> hash_commands();
std::span<command const> server_commands();
std::span<command const> pubsub_commands();
std::span<command const> script_commands();
std::span<command const> cluster_commands();

// What a command's name and its subcommand's lead to. For an unknown subcommand only the container.
struct lookup {
  command const* container = nullptr;
  command const* found = nullptr;
};

lookup find_command(std::span<std::string_view const> argv);
std::span<command const> all_commands();
command const* command_named(std::string_view full_name);

}  // namespace conch::sim::redis

namespace conch::sim {

// ---- the server ----

// What a node of a Cluster knows of it.
struct redis_model::cluster {
  struct other : node {
    std::string master;  // the id of the one it replicates
  };

  node self;
  std::string master;  // the id of the master of this replica, or its own
  std::vector<other> nodes;
  std::array<std::int16_t, slot_count> owners{};  // places in `nodes`; -1: nobody
  std::map<int, node> migrating, importing;
  bool down = false;
  bool unsubscribed_channels_are_keys = false;
  std::vector<bus_message> bus;

  node const* owner(int slot) const {
    int const at = owners[static_cast<std::size_t>(slot)];
    return at < 0 ? nullptr : &nodes[static_cast<std::size_t>(at)];
  }
  std::int16_t place_of(node const& what);
};

struct redis_model::impl {
  static constexpr int database_count = 16;

  std::int64_t now_us = 0;
  std::int64_t started_us = 0;
  unsigned number = 0;    // of the server, in the ids of its runs
  std::uint64_t run = 0;  // number of restarts
  connection_id next_id = 1;
  std::map<connection_id, redis::connection> connections;
  std::vector<redis::database> databases;  // grows up to the highest one used

  std::map<std::string, std::vector<connection_id>, std::less<>> channels;
  std::map<std::string, std::vector<connection_id>, std::less<>> shard_channels;
  std::vector<pushed> pushes;
  std::vector<connection_id> killed;
  connection_id executing = 0;
  bool own_pushes_after_reply = false;

  redis::string_map<lua_script_ptr> scripts;
  std::map<std::string, std::string, std::less<>> config;
  std::string password;
  std::vector<fault> faults;
  std::set<std::string, std::less<>> denied;
  bool out_of_memory = false;
  bool demands_declared_keys = false;
  bool replica = false;
  bool replicating = false;
  std::vector<effect> effects;
  std::int64_t offset = 0;
  std::map<std::size_t, std::int64_t> acknowledged;  // by replica
  bool waits_for_own_writes = false;
  struct waiting {
    connection_id who;
    std::int64_t offset, replicas;
    std::int64_t until_ms;  // 0: forever
  };
  std::vector<waiting> waits;
  std::unique_ptr<cluster> in_cluster;
  std::uint64_t random = lua_host::first_random;
  std::vector<std::uint64_t> counts;

  std::int64_t now_ms() const { return now_us / 1000; }
  bool expired(redis::entry const& what) const {
    // Alive in the millisecond it names, as in Redis.
    return what.expires_at_ms != redis::entry::no_expiry && now_ms() > what.expires_at_ms;
  }

  redis::database& database_at(int index);
  void drop_connection(connection_id who);
  void push(connection_id to, value message);

  // Null, or the text of the error injected for this call.
  std::string const* injected(redis::command const& what, bool in_script);
  bool is_denied(redis::command const& what) const;
  void count(redis::command const& what) { ++counts[what.index]; }

  // To each subscriber; how many there are.
  std::size_t publish(std::string_view channel, std::string_view message);
  std::size_t publish_to_shard(std::string_view channel, std::string_view message);
  // Records a command that has run, for the replicas.
  void record(redis::command const& what, std::span<std::string_view const> argv, value const& reply, int selected);
  void record_key(std::string_view key, int selected);
  std::int64_t replicas_at(std::int64_t offset) const;
};

}  // namespace conch::sim

namespace conch::sim::redis {

// A command from a client, from its words to its reply.
value execute(redis_model::impl& server, connection& from, std::span<std::string_view const> argv);

inline constexpr std::string_view read_only = "READONLY You can't write against a read only replica.";

// What a Cluster lets a command do here.
enum class redirection : std::uint8_t { none, cross_slot, unstable, ask, moved, not_served, down };
struct routing {
  redirection to = redirection::none;
  int slot = 0;
  redis_model::node const* node = nullptr;
};
routing route(redis_model::impl& server, connection const& from, command const& what,
              std::span<std::string_view const> argv, int selected);
std::string redirection_error(routing const& to);            // as a client receives it
std::string redirection_error_in_script(routing const& to);  // and a script

// Tells subscribers of its channels that the slot has left, and unsubscribes them.
void drop_shard_channels(redis_model::impl& server, int slot);

// Takes the connection off all its channels.
void leave_channels(redis_model::impl& server, connection const& who);

// ---- small helpers ----

bool equal_ignoring_case(std::string_view a, std::string_view b);
bool to_integer(std::string_view text, std::int64_t& number);      // as strictly as Redis
bool to_double(std::string_view text, double& number);             // likewise; refuses nan
bool glob_match(std::string_view pattern, std::string_view text);  // * and ? only, any case

inline std::string joined(std::string_view a, std::string_view b, std::string_view c = {}) {
  std::string text{a};
  text += b;
  text += c;
  return text;
}

template <class T>
T* call::find(std::string_view key, bool& wrong) {
  entry* const found = find(key);
  wrong = found != nullptr && !std::holds_alternative<T>(found->data);
  if (wrong) {
    wrong_type();
    return nullptr;
  }
  return found == nullptr ? nullptr : std::get_if<T>(&found->data);
}

template <class T>
T& call::find_or_add(std::string_view key) {
  database& all = server.database_at(selected);
  auto place = all.find(key);
  if (place == all.end()) {
    place = all.emplace(std::string{key}, entry{T{}, entry::no_expiry}).first;
  }
  return std::get<T>(place->second.data);
}

}  // namespace conch::sim::redis
