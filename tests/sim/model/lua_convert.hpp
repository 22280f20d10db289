// Between Lua values and replies, with the rules of Redis 7.0 (script_lua.c).
#pragma once

#include "sim/model/redis_value.hpp"

#include <lua.hpp>

namespace conch::sim::detail {

// Pushes what redis.call returns for `reply`. `protocol` is the script's (redis.setresp). May
// leave by a Lua error, so the caller holds nothing that needs a destructor.
void push_reply(lua_State* lua, value const& reply, int protocol);

// Pushes {err = text}.
void push_error(lua_State* lua, std::string_view text);

// Reads what a script returned from the top of the stack, and pops it.
void pop_result(lua_State* lua, int script_protocol, value& reply);

}  // namespace conch::sim::detail
