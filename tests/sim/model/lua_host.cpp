#include "sim/model/lua_host.hpp"

#include "sim/model/lua_convert.hpp"
#include "sim/model/sha1.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

// Lua leaves C functions by longjmp. So every function below that may raise a Lua error holds
// only references and plain values at that moment; everything with a destructor belongs to the
// host or lives in a helper that has returned.

namespace conch::sim {

namespace {

// More texts than any simulation has; generated scripts of a long random test must not pile up.
constexpr std::size_t script_cache_limit = 2048;

constexpr char const* chunk_name = "@user_script";

int readonly_error(lua_State* lua) { return luaL_error(lua, "Attempt to modify a readonly table"); }

int missing_global(lua_State* lua) {
  if (lua_isstring(lua, 2) == 0) {
    return luaL_error(lua, "Second argument to luaProtectedTableError must be a string or number");
  }
  return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'", lua_tostring(lua, 2));
}

bool is_protected(lua_State* lua, int index) {
  if (lua_istable(lua, index) == 0 || lua_getmetatable(lua, index) == 0) {
    return false;
  }
  lua_pushliteral(lua, "__newindex");
  lua_rawget(lua, -2);
  bool const readonly = lua_tocfunction(lua, -1) == readonly_error;
  lua_pop(lua, 2);
  return readonly;
}

// rawset and setmetatable would go around the protection: these do what Lua's own do, but stop
// where Redis' stop.
int stop_if_protected(lua_State* lua) {
  if (!is_protected(lua, 1)) {
    return 0;
  }
  lua_pushliteral(lua, "Attempt to modify a readonly table");
  return lua_error(lua);
}

int guarded_rawset(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  luaL_checkany(lua, 2);
  luaL_checkany(lua, 3);
  stop_if_protected(lua);
  lua_settop(lua, 3);
  lua_rawset(lua, 1);
  return 1;
}

int guarded_setmetatable(lua_State* lua) {
  int const type = lua_type(lua, 2);
  luaL_checktype(lua, 1, LUA_TTABLE);
  luaL_argcheck(lua, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table expected");
  stop_if_protected(lua);
  if (luaL_getmetafield(lua, 1, "__metatable") != 0) {
    return luaL_error(lua, "cannot change a protected metatable");
  }
  lua_settop(lua, 2);
  lua_setmetatable(lua, 1);
  return 1;
}

// Unlike Lua's own, Redis' pcall hands out the text of an error table, not the table.
int protected_call(lua_State* lua) {
  int const count = lua_gettop(lua);
  lua_pushboolean(lua, 1);
  lua_insert(lua, 1);
  if (lua_pcall(lua, count - 1, LUA_MULTRET, 0) != 0) {
    lua_remove(lua, 1);
    if (lua_istable(lua, -1)) {
      lua_getfield(lua, -1, "err");
      if (lua_isstring(lua, -1) != 0) {
        lua_replace(lua, -2);
      }
    }
    lua_pushboolean(lua, 0);
    lua_insert(lua, 1);
  }
  return lua_gettop(lua);
}

// Adds to an error where it happened, and makes a table of it if it is none.
int message_handler(lua_State* lua) {
  lua_Debug where{};
  bool known = lua_getstack(lua, 1, &where) != 0;
  if (known) {
    lua_getinfo(lua, "Sl", &where);
    if (where.what[0] == 'C') {
      known = lua_getstack(lua, 2, &where) != 0;
      if (known) {
        lua_getinfo(lua, "Sl", &where);
      }
    }
  }
  if (!lua_istable(lua, 1)) {
    lua_createtable(lua, 0, 3);
    lua_pushliteral(lua, "ERR ");
    lua_getglobal(lua, "tostring");
    lua_pushvalue(lua, 1);
    lua_call(lua, 1, 1);
    lua_concat(lua, 2);
    lua_setfield(lua, -2, "err");
    lua_replace(lua, 1);
  }
  lua_settop(lua, 1);
  if (known) {
    lua_pushstring(lua, where.source);
    lua_setfield(lua, 1, "source");
    lua_pushinteger(lua, where.currentline);
    lua_setfield(lua, 1, "line");
  }
  return 1;
}

void too_long(lua_State* lua, lua_Debug*) {
  // From now on at every instruction: no pcall of the script shall go on.
  lua_sethook(lua, too_long, LUA_MASKCOUNT, 1);
  luaL_error(lua, "the model stopped a script that ran for too many instructions");
}

int push_error_and_return(lua_State* lua, char const* text) {
  detail::push_error(lua, text);
  return 1;
}

int raise_error(lua_State* lua, char const* text) {
  detail::push_error(lua, text);
  return lua_error(lua);
}

int status_reply(lua_State* lua) {
  if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
    return push_error_and_return(lua, "ERR wrong number or type of arguments");
  }
  lua_createtable(lua, 0, 1);
  lua_pushvalue(lua, 1);
  lua_setfield(lua, -2, "ok");
  return 1;
}

// redis.error_reply: the first word is the code; a text of one word is a message without code.
std::string error_reply_text(std::string_view text) {
  text = text.substr(0, text.find('\0'));
  if (text.starts_with('-')) {
    text.remove_prefix(1);
  }
  auto const space = text.find(' ');
  std::string code{space == std::string_view::npos ? "ERR" : text.substr(0, space)};
  std::string_view message = space == std::string_view::npos ? text : text.substr(space + 1);
  while (!message.empty() && (message.front() == '\r' || message.front() == '\n')) {
    message.remove_prefix(1);
  }
  while (!message.empty() && (message.back() == '\r' || message.back() == '\n')) {
    message.remove_suffix(1);
  }
  code += ' ';
  code += message;
  return code;
}

// tonumber() and string.format() of what our scripts ask for all the time; anything else is for Lua's own, the upvalue.
// Not by lua_call: the words of an error name the function that was called.
int call_original(lua_State* lua) { return lua_tocfunction(lua, lua_upvalueindex(1))(lua); }

int to_number(lua_State* lua) {
  if (lua_gettop(lua) == 1 && lua_type(lua, 1) == LUA_TSTRING) {
    std::size_t size = 0;
    char const* const text = lua_tolstring(lua, 1, &size);
    if (double number = 0; whole_number({text, size}, number)) {
      lua_pushnumber(lua, number);
      return 1;
    }
  }
  return call_original(lua);
}

int format(lua_State* lua) {
  if (lua_gettop(lua) == 2 && lua_type(lua, 1) == LUA_TSTRING && lua_type(lua, 2) == LUA_TNUMBER) {
    std::size_t size = 0;
    char const* const how = lua_tolstring(lua, 1, &size);
    std::int64_t whole = 0;
    if (std::string_view{how, size} == "%.0f" && whole_number(lua_tonumber(lua, 2), whole)) {
      char digits[24];
      char const* const end = std::to_chars(digits, digits + sizeof digits, whole).ptr;
      lua_pushlstring(lua, digits, static_cast<std::size_t>(end - digits));
      return 1;
    }
  }
  return call_original(lua);
}

int log_message(lua_State* lua) {
  if (lua_gettop(lua) < 2) {
    return raise_error(lua, "ERR redis.log() requires two arguments or more.");
  }
  if (lua_isnumber(lua, 1) == 0) {
    return raise_error(lua, "ERR First argument must be a number (log level).");
  }
  auto const level = lua_tonumber(lua, 1);
  if (!(level >= 0 && level < 4)) {
    return raise_error(lua, "ERR Invalid debug level.");
  }
  return 0;
}

int replicate_commands(lua_State* lua) {
  lua_pushboolean(lua, 1);
  return 1;
}

}  // namespace

// The memory of one interpreter. A script makes hundreds of small objects; malloc and free, which lock in a program of
// several threads, would be a tenth of its time.
class lua_host::memory {
 public:
  memory() = default;
  memory(memory const&) = delete;
  memory& operator=(memory const&) = delete;

  static void* allocate(void* self, void* block, std::size_t before, std::size_t size) {
    auto& mine = *static_cast<memory*>(self);
    if (class_of(before) == class_of(size) && before != 0 && size != 0 && size <= largest) return block;
    if (before > largest && size > largest) return std::realloc(block, size);
    void* const fresh = size == 0 ? nullptr : mine.take(size);
    if (block == nullptr) return fresh;
    if (fresh != nullptr) std::memcpy(fresh, block, std::min(before, size));
    if (fresh != nullptr || size == 0) mine.give_back(block, before);
    return fresh;
  }

 private:
  static constexpr std::size_t step = 16, largest = 512, piece = 64 * 1024;
  struct free_block {
    free_block* next;
  };

  static std::size_t class_of(std::size_t size) { return (size + step - 1) / step; }

  void* take(std::size_t size) {
    if (size > largest) return std::malloc(size);
    free_block*& first = free_[class_of(size)];
    if (first != nullptr) return std::exchange(first, first->next);
    std::size_t const whole = class_of(size) * step;
    if (left_ < whole) {
      pieces_.push_back(std::make_unique<std::byte[]>(piece));
      next_ = pieces_.back().get();
      left_ = piece;
    }
    left_ -= whole;
    return std::exchange(next_, next_ + whole);
  }

  void give_back(void* block, std::size_t size) {
    if (size > largest) {
      std::free(block);
      return;
    }
    free_block*& first = free_[class_of(size)];
    first = new (block) free_block{first};
  }

  std::array<free_block*, largest / step + 1> free_{};
  std::vector<std::unique_ptr<std::byte[]>> pieces_;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
};

// The functions that need the host; it is their upvalue.
struct lua_host::callbacks {
  static lua_host& host(lua_State* lua) { return *static_cast<lua_host*>(lua_touserdata(lua, lua_upvalueindex(1))); }

  // False if an argument is neither string nor number.
  static bool take_arguments(lua_State* lua, lua_host& self) noexcept {
    int const count = lua_gettop(lua);
    self.argv_.clear();
    for (int i = 1; i <= count; ++i) {
      std::size_t size = 0;
      char const* text = nullptr;
      if (lua_type(lua, i) == LUA_TNUMBER) {
        // Not by lua_tolstring: its format has 14 digits only. The text replaces the
        // argument on the stack, which keeps it alive for the call.
        self.text_.clear();
        append_number(self.text_, lua_tonumber(lua, i));
        lua_pushlstring(lua, self.text_.data(), self.text_.size());
        lua_replace(lua, i);
      }
      text = lua_tolstring(lua, i, &size);
      if (text == nullptr) {
        return false;
      }
      self.argv_.emplace_back(text, size);
    }
    return true;
  }

  static bool execute(lua_host& self) noexcept {
    self.reply_.type = value::kind::none;
    self.reply_.text.clear();
    self.reply_.items.clear();
    return self.target_->execute(self.argv_, self.reply_);
  }

  static int call(lua_State* lua, bool raise) {
    lua_host& self = host(lua);
    if (lua_gettop(lua) == 0) {
      detail::push_error(lua, "ERR Please specify at least one argument for this redis lib call");
      return raise ? lua_error(lua) : 1;
    }
    if (!take_arguments(lua, self)) {
      detail::push_error(lua, "ERR Lua redis lib command arguments must be strings or integers");
      return raise ? lua_error(lua) : 1;
    }
    bool const ran = execute(self);
    detail::push_reply(lua, self.reply_, self.target_->protocol);
    if (ran && self.reply_.is_error()) {
      lua_pushboolean(lua, 1);
      lua_setfield(lua, -2, "ignore_error_stats_update");
    }
    if (raise && self.reply_.is_error()) {
      return lua_error(lua);
    }
    return 1;
  }

  static int redis_call(lua_State* lua) { return call(lua, true); }
  static int redis_pcall(lua_State* lua) { return call(lua, false); }

  static int error_reply(lua_State* lua) {
    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
      return push_error_and_return(lua, "ERR wrong number or type of arguments");
    }
    lua_host& self = host(lua);
    std::size_t size = 0;
    char const* text = lua_tolstring(lua, 1, &size);
    self.text_ = error_reply_text({text, size});
    detail::push_error(lua, self.text_);
    return 1;
  }

  static int sha1(lua_State* lua) {
    if (lua_gettop(lua) != 1) {
      return raise_error(lua, "ERR wrong number of arguments");
    }
    lua_host& self = host(lua);
    std::size_t size = 0;
    char const* text = lua_tolstring(lua, 1, &size);
    self.text_ = sha1_hex({text, text == nullptr ? 0 : size});
    lua_pushlstring(lua, self.text_.data(), self.text_.size());
    return 1;
  }

  static int set_protocol(lua_State* lua) {
    if (lua_gettop(lua) != 1) {
      return raise_error(lua, "ERR redis.setresp() requires one argument.");
    }
    auto const protocol = lua_tonumber(lua, 1);
    if (protocol != 2 && protocol != 3) {
      return raise_error(lua, "ERR RESP version must be 2 or 3.");
    }
    host(lua).target_->protocol = static_cast<int>(protocol);
    return 0;
  }

  static int set_replication(lua_State* lua) {
    if (lua_gettop(lua) != 1) {
      return raise_error(lua, "ERR redis.set_repl() requires two arguments.");
    }
    auto const flags = lua_tointeger(lua, 1);
    if ((flags & ~3) != 0) {
      return raise_error(lua, "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.");
    }
    host(lua).target_->replication = static_cast<int>(flags);
    return 0;
  }

  // Redis has a generator of its own, that of lrand48.
  static int random(lua_State* lua) {
    std::uint64_t& state = host(lua).target_->random;
    state = (state * 0x5deece66dU + 0xbU) & 0xffffffffffffU;
    constexpr auto limit = std::numeric_limits<std::int32_t>::max();
    auto const whole = static_cast<std::int32_t>(state >> 17);
    double const fraction = static_cast<double>(whole % limit) / limit;
    switch (lua_gettop(lua)) {
      case 0: lua_pushnumber(lua, fraction); return 1;
      case 1: {
        auto const upper = luaL_checkint(lua, 1);
        luaL_argcheck(lua, 1 <= upper, 1, "interval is empty");
        lua_pushnumber(lua, std::floor(fraction * upper) + 1);
        return 1;
      }
      case 2: {
        auto const lower = luaL_checkint(lua, 1);
        auto const upper = luaL_checkint(lua, 2);
        luaL_argcheck(lua, lower <= upper, 2, "interval is empty");
        double const width = static_cast<double>(upper) - lower + 1;
        lua_pushnumber(lua, std::floor(fraction * width) + lower);
        return 1;
      }
      default: return luaL_error(lua, "wrong number of arguments");
    }
  }

  static int random_seed(lua_State* lua) {
    auto const seed = static_cast<std::uint32_t>(luaL_checkint(lua, 1));
    host(lua).target_->random = static_cast<std::uint64_t>(seed) << 16 | 0x330e;
    return 0;
  }

  static void add(lua_State* lua, lua_host* self, char const* name, lua_CFunction function) {
    lua_pushlightuserdata(lua, self);
    lua_pushcclosure(lua, function, 1);
    lua_setfield(lua, -2, name);
  }

  static void add_redis(lua_State* lua, lua_host* self) {
    lua_newtable(lua);
    add(lua, self, "call", redis_call);
    add(lua, self, "pcall", redis_pcall);
    add(lua, self, "error_reply", error_reply);
    add(lua, self, "status_reply", status_reply);
    add(lua, self, "sha1hex", sha1);
    add(lua, self, "setresp", set_protocol);
    add(lua, self, "log", log_message);
    add(lua, self, "set_repl", set_replication);
    add(lua, self, "replicate_commands", replicate_commands);
    struct constant {
      char const* name;
      int number;
    };
    constexpr constant constants[] = {{"LOG_DEBUG", 0},  {"LOG_VERBOSE", 1},
                                      {"LOG_NOTICE", 2}, {"LOG_WARNING", 3},
                                      {"REPL_NONE", 0},  {"REPL_AOF", 1},
                                      {"REPL_SLAVE", 2}, {"REPL_REPLICA", 2},
                                      {"REPL_ALL", 3},   {"REDIS_VERSION_NUM", 0x0007000f}};
    for (auto const& [name, number] : constants) {
      lua_pushinteger(lua, number);
      lua_setfield(lua, -2, name);
    }
    lua_pushliteral(lua, "7.0.15");
    lua_setfield(lua, -2, "REDIS_VERSION");
    lua_setglobal(lua, "redis");
  }
};

lua_host& lua_host::this_thread() {
  thread_local lua_host host;
  return host;
}

lua_host::lua_host() : memory_{std::make_unique<memory>()}, lua_{lua_newstate(memory::allocate, memory_.get())} {
  if (lua_ == nullptr) {
    throw std::runtime_error{"no memory for a Lua interpreter"};
  }
  // Little garbage at a time: a heap that stays in the cache of the processor is worth more than it costs to mark it
  // more often.
  lua_gc(lua_, LUA_GCSETPAUSE, 200);
  argv_.reserve(64);
  open_libraries();
}

lua_host::~lua_host() { lua_close(lua_); }

void lua_host::open_libraries() {
  lua_State* const lua = lua_;
  constexpr lua_CFunction openers[] = {luaopen_base, luaopen_table, luaopen_string, luaopen_math};
  for (auto const open : openers) {
    lua_pushcfunction(lua, open);
    lua_call(lua, 0, 0);
  }
  for (char const* name : {"dofile", "loadfile", "print", "newproxy", "setfenv", "getfenv", "require", "module"}) {
    lua_pushnil(lua);
    lua_setglobal(lua, name);
  }

  lua_getglobal(lua, "math");
  callbacks::add(lua, this, "random", callbacks::random);
  callbacks::add(lua, this, "randomseed", callbacks::random_seed);
  lua_pop(lua, 1);
  callbacks::add_redis(lua, this);
  lua_getglobal(lua, "tonumber");
  lua_pushcclosure(lua, to_number, 1);
  lua_setglobal(lua, "tonumber");
  lua_getglobal(lua, "string");
  lua_getfield(lua, -1, "format");
  lua_pushcclosure(lua, format, 1);
  lua_setfield(lua, -2, "format");
  lua_pop(lua, 1);
  lua_pushcfunction(lua, protected_call);
  lua_setglobal(lua, "pcall");
  lua_pushcfunction(lua, guarded_rawset);
  lua_setglobal(lua, "rawset");
  lua_pushcfunction(lua, guarded_setmetatable);
  lua_setglobal(lua, "setmetatable");

  // A string's metatable leads to the string library: keep scripts from reaching it.
  lua_pushliteral(lua, "");
  lua_getmetatable(lua, -1);
  lua_pushboolean(lua, 0);
  lua_setfield(lua, -2, "__metatable");
  lua_pop(lua, 2);

  for (char const* name : {"redis", "string", "table", "math", "coroutine"}) {
    lua_getglobal(lua, name);
    protect(lua_gettop(lua));
    lua_setglobal(lua, name);
  }

  // Reading an unknown global is an error, so the globals have a metatable too.
  lua_pushvalue(lua, LUA_GLOBALSINDEX);
  lua_newtable(lua);
  lua_pushcfunction(lua, missing_global);
  lua_setfield(lua, -2, "__index");
  lua_setmetatable(lua, -2);
  lua_pushvalue(lua, -1);
  globals_ = luaL_ref(lua, LUA_REGISTRYINDEX);
  protect(lua_gettop(lua));
  lua_pushvalue(lua, -1);
  lua_rawgeti(lua, LUA_REGISTRYINDEX, globals_);
  lua_insert(lua, -2);
  lua_setfield(lua, -2, "_G");
  lua_pop(lua, 1);
  lua_replace(lua, LUA_GLOBALSINDEX);

  lua_pushcfunction(lua, message_handler);
  error_handler_ = luaL_ref(lua, LUA_REGISTRYINDEX);
  lua_settop(lua, 0);
}

// Replaces the table at `index` (the top of the stack) by an empty one that shows its content and
// refuses writes. Redis has a flag for that in its Lua; the stock one has not.
void lua_host::protect(int index) {
  lua_newtable(lua_);
  lua_newtable(lua_);
  lua_pushvalue(lua_, index);
  lua_setfield(lua_, -2, "__index");
  lua_pushcfunction(lua_, readonly_error);
  lua_setfield(lua_, -2, "__newindex");
  lua_pushboolean(lua_, 0);
  lua_setfield(lua_, -2, "__metatable");
  lua_setmetatable(lua_, -2);
  lua_replace(lua_, index);
}

bool lua_host::compile(lua_script const& what, std::string& error) {
  if (luaL_loadbuffer(lua_, what.body.data(), what.body.size(), chunk_name) != 0) {
    error = "ERR Error compiling script (new function): ";
    error += lua_tostring(lua_, -1);
    lua_settop(lua_, 0);
    return false;
  }
  int const reference = luaL_ref(lua_, LUA_REGISTRYINDEX);
  auto const [place, inserted] = by_sha1_.emplace(what.sha1, reference);
  if (!inserted) {
    luaL_unref(lua_, LUA_REGISTRYINDEX, reference);
  }
  return true;
}

lua_script_ptr lua_host::load(std::string_view body, std::string& error) {
  if (auto const found = by_body_.find(body); found != by_body_.end()) {
    return found->second;
  }
  if (by_sha1_.size() >= script_cache_limit) {
    for (auto const& [sha1, reference] : by_sha1_) {
      luaL_unref(lua_, LUA_REGISTRYINDEX, reference);
    }
    by_sha1_.clear();
    by_body_.clear();
  }
  auto const fresh = std::make_shared<lua_script const>(lua_script{sha1_hex(body), std::string{body}});
  if (!compile(*fresh, error)) {
    return nullptr;
  }
  by_body_.emplace(fresh->body, fresh);
  return fresh;
}

void lua_host::set_global_list(char const* name, std::span<std::string_view const> items) {
  lua_createtable(lua_, static_cast<int>(items.size()), 0);
  int index = 0;
  for (auto const item : items) {
    lua_pushlstring(lua_, item.data(), item.size());
    lua_rawseti(lua_, -2, ++index);
  }
  lua_setfield(lua_, -2, name);
}

void lua_host::run(lua_script const& what, std::span<std::string_view const> keys,
                   std::span<std::string_view const> argv, commands& target, value& reply) {
  auto found = by_sha1_.find(what.sha1);
  if (found == by_sha1_.end()) {
    // Loaded by another thread, or dropped from a full cache.
    std::string error;
    if (!compile(what, error)) {
      reply = value::error(error);
      return;
    }
    found = by_sha1_.find(what.sha1);
  }
  target_ = &target;
  lua_sethook(lua_, too_long, LUA_MASKCOUNT, instruction_limit);

  lua_rawgeti(lua_, LUA_REGISTRYINDEX, globals_);
  set_global_list("KEYS", keys);
  set_global_list("ARGV", argv);
  lua_settop(lua_, 0);
  lua_rawgeti(lua_, LUA_REGISTRYINDEX, error_handler_);
  lua_rawgeti(lua_, LUA_REGISTRYINDEX, found->second);
  if (lua_pcall(lua_, 0, 1, 1) != 0) {
    take_error(what, reply);
  } else {
    detail::pop_result(lua_, target.protocol, reply);
  }
  lua_settop(lua_, 0);
  target_ = nullptr;
}

void lua_host::take_error(lua_script const& what, value& reply) {
  if (!lua_istable(lua_, -1)) {
    std::string text = "ERR Error running script ";
    text += what.sha1;
    text += ", ";
    text += std::string_view{lua_isstring(lua_, -1) != 0 ? lua_tostring(lua_, -1) : "execution failure"}.substr(0, 100);
    reply = value::error(error_line(text));
    return;
  }
  auto const field = [this](char const* name) {
    lua_pushstring(lua_, name);
    lua_rawget(lua_, -2);
    std::string text = lua_isstring(lua_, -1) != 0 ? lua_tostring(lua_, -1) : "";
    bool const present = lua_isstring(lua_, -1) != 0;
    lua_pop(lua_, 1);
    return std::pair{present, text};
  };
  auto const [has_text, text] = field("err");
  if (!has_text) {
    // Redis 7.0.15 dies of a null pointer here; no script of ours may ever do this.
    reply = value::error("ERR model: this script would crash Redis 7.0: error() with a table that has no err");
    return;
  }
  auto const [has_line, line] = field("line");
  auto const [has_source, source] = field("source");
  std::string full = text;
  if (has_line && has_source) {
    full += " script: " + what.sha1 + ", on " + source + ":" + line + ".";
  }
  reply = value::error(error_line(full));
}

}  // namespace conch::sim
