// What a client asked for when it called a script: lua/gathered.lua stands for several calls of lua/acquire.lua and
// lua/release.lua.
#pragma once

#include "sim/model/redis_value.hpp"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace conch::sim {

using script_call_words = std::vector<std::string_view>;

// Each as it would have been sent alone, with all of its arguments. Of any other script: its own call.
std::vector<script_call_words> calls_in(std::span<std::string_view const> argv);

bool is_gathered(std::span<std::string_view const> argv);

// The answer to one of them.
value const& answer_to(value const& reply, std::size_t index, bool gathered);

}  // namespace conch::sim
