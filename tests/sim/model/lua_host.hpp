// Runs scripts as Redis 7.0 does: Lua 5.1, `redis.call` and friends, KEYS and ARGV, protected
// globals, and the conversions between Lua and RESP. It knows no command itself.
//
// There is one interpreter per thread, shared by every redis_model of that thread: a simulation
// builds thousands of models a second, and neither an interpreter nor a compiled script may be
// paid for each time. Nothing a script does can outlive it, because globals and libraries are
// read-only to scripts (as in Redis).
//
// What differs from Redis: no cjson, cmsgpack, struct and bit; a protected table (_G, string,
// redis ...) looks empty to pairs() and rawget(); a script is stopped after instruction_limit.
#pragma once

#include "sim/model/redis_value.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

struct lua_State;

namespace conch::sim {

struct lua_script {
  std::string sha1;
  std::string body;
};

using lua_script_ptr = std::shared_ptr<lua_script const>;

class lua_host {
 public:
  // Where redis.call and redis.pcall go.
  class commands {
   public:
    // `reply` arrives empty. A failure is a reply of kind error. False if the call was refused
    // before the command ran; the error table of a script tells one from the other.
    virtual bool execute(std::span<std::string_view const> argv, value& reply) = 0;

    int protocol = 2;          // of the replies to the script; redis.setresp changes it
    int replication = 3;       // where the effects of its calls go; redis.set_repl changes it
    std::uint64_t random = 0;  // state of math.random, which one script takes over from the last

   protected:
    ~commands() = default;
  };

  // A real server would go on; a simulation must not hang on a script that never ends.
  static constexpr int instruction_limit = 20'000'000;

  // The seed of math.random in a fresh server.
  static constexpr std::uint64_t first_random = 0x1234abcd330e;

  static lua_host& this_thread();

  lua_host(lua_host const&) = delete;
  lua_host& operator=(lua_host const&) = delete;
  ~lua_host();

  // Compiles unless this thread has seen the same text before. Null, with the words of Redis in
  // `error`, if it does not compile. The result may be run on any thread.
  lua_script_ptr load(std::string_view body, std::string& error);

  void run(lua_script const& what, std::span<std::string_view const> keys, std::span<std::string_view const> argv,
           commands& target, value& reply);

 private:
  struct callbacks;
  class memory;

  struct string_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  lua_host();

  void open_libraries();
  void protect(int table);
  bool compile(lua_script const& what, std::string& error);
  void set_global_list(char const* name, std::span<std::string_view const> items);
  void take_error(lua_script const& what, value& reply);

  std::unique_ptr<memory> memory_;
  lua_State* lua_ = nullptr;
  int globals_ = 0;        // registry reference of the real globals, behind the proxy
  int error_handler_ = 0;  // likewise of the message handler

  // For the script that is running:
  commands* target_ = nullptr;
  std::vector<std::string_view> argv_;
  value reply_;
  std::string text_;

  std::unordered_map<std::string_view, lua_script_ptr> by_body_;  // keys live in the scripts
  std::unordered_map<std::string, int, string_hash, std::equal_to<>> by_sha1_;
};

}  // namespace conch::sim
