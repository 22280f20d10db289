// EVAL, EVALSHA, SCRIPT, and what redis.call may do.

#include "sim/model/redis_model_impl.hpp"

#include <algorithm>

namespace conch::sim::redis {

namespace {

// The commands of one script run. The checks stand in the order of Redis' scriptCall; their words
// are other than those a client gets.
class script_commands_target final : public lua_host::commands {
 public:
  script_commands_target(call& outer, std::span<std::string_view const> declared)
      : server_{outer.server},
        from_{outer.from},
        declared_{declared},
        selected_{outer.selected},
        out_of_memory_{outer.server.out_of_memory} {}

  bool execute(std::span<std::string_view const> argv, value& reply) override {
    auto const [container, what] = find_command(argv);
    if (what == nullptr) {
      reply = value::error("ERR Unknown Redis command called from script");
      return false;
    }
    if (!what->takes(argv.size())) {
      reply = value::error("ERR Wrong number of args calling Redis command from script");
      return false;
    }
    if ((what->marks & command::no_script) != 0) {
      reply = value::error("ERR This Redis command is not allowed from script");
      return false;
    }
    // Not NOPERM: so says 7.0.
    if (server_.is_denied(*what)) {
      reply = value::error("ERR The user executing the script can't run this command or subcommand");
      return false;
    }
    if (server_.demands_declared_keys && (what->marks & command::shard_channel) == 0 &&
        touches_another(what->keys(argv))) {
      reply = value::error("ERR script tried accessing undeclared key");
      return false;
    }
    if (server_.replica && (what->marks & command::write) != 0) {
      reply = value::error(std::string{read_only});
      return false;
    }
    // Whether memory is full is asked once, before the script; a first write lifts the ban.
    if (out_of_memory_ && !written_ && (what->marks & command::deny_oom) != 0) {
      reply = value::error("OOM command not allowed when used memory > 'maxmemory'.");
      return false;
    }
    if (auto const* text = server_.injected(*what, true)) {
      reply = value::error(*text);
      return false;
    }
    if ((what->marks & command::write) != 0) {
      written_ = true;
    }
    if (routing const to = route(server_, from_, *what, argv, selected_); to.to != redirection::none) {
      reply = value::error(redirection_error_in_script(to));
      return false;
    }
    call inner{server_, from_, argv, reply, protocol, selected_, true, what};
    server_.count(*what);
    what->run(inner);
    constexpr int to_replicas = 2;
    if ((replication & to_replicas) != 0 && !reply.is_error()) {
      server_.record(*what, argv, reply, selected_);
    }
    return true;
  }

 private:
  bool touches_another(std::span<std::string_view const> keys) const {
    return std::any_of(keys.begin(), keys.end(), [&](std::string_view key) {
      return std::find(declared_.begin(), declared_.end(), key) == declared_.end();
    });
  }

  redis_model::impl& server_;
  connection& from_;
  std::span<std::string_view const> declared_;
  int selected_;  // SELECT in a script does not reach the client
  bool out_of_memory_;
  bool written_ = false;
};

// Checks the number of keys, the second argument; false: an error was replied.
bool split_arguments(call& c, std::span<std::string_view const>& keys, std::span<std::string_view const>& arguments) {
  std::int64_t count = 0;
  if (!c.integer_argument(2, count)) {
    return false;
  }
  auto const rest = c.argv.subspan(3);
  if (count > static_cast<std::int64_t>(rest.size())) {
    c.error("ERR Number of keys can't be greater than number of args");
    return false;
  }
  if (count < 0) {
    c.error("ERR Number of keys can't be negative");
    return false;
  }
  keys = rest.first(static_cast<std::size_t>(count));
  arguments = rest.subspan(static_cast<std::size_t>(count));
  return true;
}

void run(call& c, lua_script const& what, std::span<std::string_view const> keys,
         std::span<std::string_view const> arguments) {
  script_commands_target target{c, keys};
  target.random = c.server.random;
  lua_host::this_thread().run(what, keys, arguments, target, c.reply);
  c.server.random = target.random;
}

lua_script_ptr load(call& c, std::string_view body) {
  std::string error;
  auto loaded = lua_host::this_thread().load(body, error);
  if (loaded == nullptr) {
    c.error(error_line(error));
  } else {
    c.server.scripts.try_emplace(loaded->sha1, loaded);
  }
  return loaded;
}

void eval(call& c) {
  std::span<std::string_view const> keys;
  std::span<std::string_view const> arguments;
  if (!split_arguments(c, keys, arguments)) {
    return;
  }
  if (auto const loaded = load(c, c[1])) {
    run(c, *loaded, keys, arguments);
  }
}

lua_script_ptr find_script(redis_model::impl const& server, std::string_view sha1) {
  auto found = server.scripts.find(sha1);
  if (found == server.scripts.end()) {
    std::string lower{sha1};
    for (char& ch : lower) {
      if (ch >= 'A' && ch <= 'Z') {
        ch = static_cast<char>(ch - 'A' + 'a');
      }
    }
    found = server.scripts.find(lower);
  }
  return found == server.scripts.end() ? nullptr : found->second;
}

void evalsha(call& c) {
  constexpr std::string_view no_script = "NOSCRIPT No matching script. Please use EVAL.";
  if (c[1].size() != 40) {
    c.error(no_script);
    return;
  }
  std::span<std::string_view const> keys;
  std::span<std::string_view const> arguments;
  if (!split_arguments(c, keys, arguments)) {
    return;
  }
  if (auto const found = find_script(c.server, c[1])) {
    run(c, *found, keys, arguments);
  } else {
    c.error(no_script);
  }
}

void script_load(call& c) {
  if (auto const loaded = load(c, c[2])) {
    c.bulk(loaded->sha1);
  }
}

void script_exists(call& c) {
  auto& items = c.list(value::kind::array).items;
  for (auto const sha1 : c.argv.subspan(2)) {
    items.push_back(value::number(find_script(c.server, sha1) != nullptr ? 1 : 0));
  }
}

void script_flush(call& c) {
  if (c.size() > 3 || (c.size() == 3 && !equal_ignoring_case(c[2], "sync") && !equal_ignoring_case(c[2], "async"))) {
    c.error("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
    return;
  }
  c.server.scripts.clear();
  c.ok();
}

}  // namespace

std::span<command const> script_commands() {
  using enum command::flags;
  static constexpr command commands[] = {
      {"eval", -3, no_script | counted_keys, eval},
      {"evalsha", -3, no_script | counted_keys, evalsha},
      {"script", -2, container, nullptr},
      {"script|load", 3, no_script, script_load},
      {"script|exists", -3, no_script, script_exists},
      {"script|flush", -2, no_script, script_flush},
  };
  return commands;
}

}  // namespace conch::sim::redis
