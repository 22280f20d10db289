#include "sim/model/lua_convert.hpp"

#include <cmath>
#include <limits>

namespace conch::sim::detail {

namespace {

std::string_view text_at(lua_State* lua, int index) {
  std::size_t size = 0;
  char const* text = lua_tolstring(lua, index, &size);
  return {text, size};
}

void push_text(lua_State* lua, std::string_view text) { lua_pushlstring(lua, text.data(), text.size()); }

void push_list(lua_State* lua, std::vector<value> const& items, int protocol) {
  lua_createtable(lua, static_cast<int>(items.size()), 0);
  int index = 0;
  for (auto const& item : items) {
    push_reply(lua, item, protocol);
    lua_rawseti(lua, -2, ++index);
  }
}

void push_map(lua_State* lua, std::vector<value> const& items, int protocol) {
  lua_createtable(lua, 0, 1);
  lua_createtable(lua, 0, static_cast<int>(items.size() / 2));
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    push_reply(lua, items[i], protocol);
    push_reply(lua, items[i + 1], protocol);
    lua_rawset(lua, -3);
  }
  lua_setfield(lua, -2, "map");
}

void push_set(lua_State* lua, std::vector<value> const& items, int protocol) {
  lua_createtable(lua, 0, 1);
  lua_createtable(lua, 0, static_cast<int>(items.size()));
  for (auto const& item : items) {
    push_reply(lua, item, protocol);
    lua_pushboolean(lua, 1);
    lua_rawset(lua, -3);
  }
  lua_setfield(lua, -2, "set");
}

void push_verbatim(lua_State* lua, std::string_view text) {
  lua_createtable(lua, 0, 1);
  lua_createtable(lua, 0, 2);
  push_text(lua, text.substr(4));
  lua_setfield(lua, -2, "string");
  push_text(lua, text.substr(0, 3));
  lua_setfield(lua, -2, "format");
  lua_setfield(lua, -2, "verbatim_string");
}

// The conversion of C on x86-64, which Redis leaves undefined: out of range gives the minimum.
std::int64_t truncated(double number) {
  if (number >= -9223372036854775808.0 && number < 9223372036854775808.0) {
    return static_cast<std::int64_t>(number);
  }
  return std::numeric_limits<std::int64_t>::min();
}

// Pushes the field and says whether it has the type; if not, pops it again.
bool push_field(lua_State* lua, char const* name, int type) {
  lua_pushstring(lua, name);
  lua_rawget(lua, -2);
  if (lua_type(lua, -1) == type) {
    return true;
  }
  lua_pop(lua, 1);
  return false;
}

void pop_pairs(lua_State* lua, int protocol, bool with_values, std::vector<value>& items) {
  lua_pushnil(lua);
  while (lua_next(lua, -2) != 0) {
    // lua_next needs the key to stay what it is, hence the copy.
    lua_pushvalue(lua, -2);
    pop_result(lua, protocol, items.emplace_back());
    if (with_values) {
      pop_result(lua, protocol, items.emplace_back());
    } else {
      lua_pop(lua, 1);
    }
  }
  lua_pop(lua, 1);
}

// {double=}, {map=}, {set=} ...: the forms with which a script names a type of RESP3.
bool pop_typed_table(lua_State* lua, int protocol, value& reply) {
  if (push_field(lua, "double", LUA_TNUMBER)) {
    reply = value::real(lua_tonumber(lua, -1));
    lua_pop(lua, 1);
  } else if (push_field(lua, "map", LUA_TTABLE)) {
    reply.type = value::kind::map;
    pop_pairs(lua, protocol, true, reply.items);
  } else if (push_field(lua, "set", LUA_TTABLE)) {
    reply.type = value::kind::set;
    pop_pairs(lua, protocol, false, reply.items);
  } else if (push_field(lua, "big_number", LUA_TSTRING)) {
    reply = value::of(value::kind::big_number, status_line(text_at(lua, -1)));
    lua_pop(lua, 1);
  } else if (push_field(lua, "verbatim_string", LUA_TTABLE)) {
    bool const whole = push_field(lua, "format", LUA_TSTRING);
    if (whole) {
      // Redis pads or cuts the format to three characters.
      std::string text{text_at(lua, -1)};
      text.resize(3, ' ');
      lua_pop(lua, 1);
      if (push_field(lua, "string", LUA_TSTRING)) {
        text += ':';
        text += text_at(lua, -1);
        reply = value::of(value::kind::verbatim, text);
        lua_pop(lua, 1);
      }
    }
    lua_pop(lua, 1);
  } else {
    return false;
  }
  return reply.type != value::kind::none;
}

void take_table(lua_State* lua, int protocol, value& reply) {
  if (push_field(lua, "err", LUA_TSTRING)) {
    reply = value::error(error_line(text_at(lua, -1)));
    lua_pop(lua, 1);
    return;
  }
  if (push_field(lua, "ok", LUA_TSTRING)) {
    reply = value::simple(status_line(text_at(lua, -1)));
    lua_pop(lua, 1);
    return;
  }
  if (pop_typed_table(lua, protocol, reply)) {
    return;
  }
  reply.type = value::kind::array;
  for (int index = 1;; ++index) {
    lua_rawgeti(lua, -1, index);
    if (lua_isnil(lua, -1)) {
      lua_pop(lua, 1);
      return;
    }
    pop_result(lua, protocol, reply.items.emplace_back());
  }
}

}  // namespace

void push_error(lua_State* lua, std::string_view text) {
  lua_createtable(lua, 0, 1);
  push_text(lua, text);
  lua_setfield(lua, -2, "err");
}

void push_reply(lua_State* lua, value const& reply, int protocol) {
  luaL_checkstack(lua, 6, "not enough stack for a reply");
  bool const three = protocol >= 3;
  switch (reply.type) {
    case value::kind::none:
    case value::kind::nil:
      if (three) {
        lua_pushnil(lua);
      } else {
        lua_pushboolean(lua, 0);
      }
      break;
    case value::kind::simple:
      lua_createtable(lua, 0, 1);
      push_text(lua, reply.text);
      lua_setfield(lua, -2, "ok");
      break;
    case value::kind::error: push_error(lua, reply.text); break;
    case value::kind::integer: lua_pushnumber(lua, static_cast<double>(reply.integer)); break;
    case value::kind::bulk: push_text(lua, reply.text); break;
    case value::kind::array:
    case value::kind::push: push_list(lua, reply.items, protocol); break;
    case value::kind::map:
      if (three) {
        push_map(lua, reply.items, protocol);
      } else {
        push_list(lua, reply.items, protocol);
      }
      break;
    case value::kind::set:
      if (three) {
        push_set(lua, reply.items, protocol);
      } else {
        push_list(lua, reply.items, protocol);
      }
      break;
    case value::kind::boolean:
      if (three) {
        lua_pushboolean(lua, static_cast<int>(reply.integer));
      } else {
        lua_pushnumber(lua, static_cast<double>(reply.integer));
      }
      break;
    case value::kind::real:
      if (three) {
        lua_createtable(lua, 0, 1);
        push_text(lua, reply.text);
        lua_pushnumber(lua, lua_tonumber(lua, -1));
        lua_remove(lua, -2);
        lua_setfield(lua, -2, "double");
      } else {
        push_text(lua, reply.text);
      }
      break;
    case value::kind::verbatim:
      if (three) {
        push_verbatim(lua, reply.text);
      } else {
        push_text(lua, std::string_view{reply.text}.substr(4));
      }
      break;
    case value::kind::big_number:
      lua_createtable(lua, 0, 1);
      push_text(lua, reply.text);
      lua_setfield(lua, -2, "big_number");
      break;
  }
}

void pop_result(lua_State* lua, int script_protocol, value& reply) {
  reply = value{};
  if (lua_checkstack(lua, 6) == 0) {
    reply = value::error("ERR reached lua stack limit");
    lua_pop(lua, 1);
    return;
  }
  switch (lua_type(lua, -1)) {
    case LUA_TSTRING: reply = value::bulk(text_at(lua, -1)); break;
    case LUA_TNUMBER: reply = value::number(truncated(lua_tonumber(lua, -1))); break;
    case LUA_TBOOLEAN:
      if (script_protocol >= 3) {
        reply = value::truth(lua_toboolean(lua, -1) != 0);
      } else if (lua_toboolean(lua, -1) != 0) {
        reply = value::number(1);
      } else {
        reply = value::nil();
      }
      break;
    case LUA_TTABLE: take_table(lua, script_protocol, reply); break;
    default: reply = value::nil(); break;
  }
  lua_pop(lua, 1);
}

}  // namespace conch::sim::detail
