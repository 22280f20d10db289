# Test of cmake/embed_lua.cmake: nasty text must arrive unchanged in the compiled program.
#
#   cmake -DEMBEDDER=... -DWORK_DIR=... -DCXX=... -DINCLUDE_DIR=... -P embed_lua_test.cmake

cmake_minimum_required(VERSION 3.25)

set(lua "${WORK_DIR}/lua")
file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${lua}/lib")

# embed(RESULT SCRIPTS): RESULT is the exit code, `output` what was said.
function(embed result scripts)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" "-DLUA_DIR=${lua}" "-DSCRIPTS=${scripts}"
      "-DOUTPUT=${WORK_DIR}/conch_scripts.cpp" -P "${EMBEDDER}"
    RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE said)
  set(${result} "${code}" PARENT_SCOPE)
  set(output "${said}" PARENT_SCOPE)
endfunction()

# ---- what is kept, what is dropped ---------------------------------------------------------------

file(WRITE "${lua}/lib/one.lua" [==[
-- a comment
local one = "a;b;;c"
-- @include lib/two.lua
]==])
file(WRITE "${lua}/lib/two.lua" "-- @include lib/one.lua\nlocal two = 2")
file(WRITE "${lua}/nasty.lua" [==[
-- dropped; [[
  --   @include lib/one.lua
-- @include lib/two.lua

	local s = "q\"uote \\ $x ${x} @x@ $ENV{HOME} ;" -- kept ; comment   
  local t = { [1] = 'a]', ["["] = ']', [ [[long]] ] = "-- kept" }
return s .. t[1]; -- "
   ]]
   [ ; ] ;; \n ( ) # $<1:x> %d && a
]==])
set(expected [==[
local one = "a;b;;c"
local two = 2
local s = "q\"uote \\ $x ${x} @x@ $ENV{HOME} ;" -- kept ; comment
local t = { [1] = 'a]', ["["] = ']', [ [[long]] ] = "-- kept" }
return s .. t[1]; -- "
]]
[ ; ] ;; \n ( ) # $<1:x> %d && a
]==])
file(WRITE "${lua}/empty.lua" "-- nothing\r\n\r\n")
file(WRITE "${lua}/windows.lua" "return 1 \r\nreturn 2")

embed(code "empty.lua,nasty.lua,windows.lua")
if(NOT code EQUAL 0)
  message(FATAL_ERROR "the embedder failed: ${output}")
endif()

file(WRITE "${WORK_DIR}/main.cpp" [==[
#include "servers/redis/scripts.hpp"
#include <fstream>
int main(int, char** argv) {
  for (auto const& script : conch::redis::all_scripts()) {
    auto const base = argv[1] + ("/" + std::string(script.name));
    std::ofstream(base + ".source", std::ios::binary) << script.source;
    std::ofstream(base + ".sha1", std::ios::binary) << script.sha1;
  }
}
]==])
execute_process(
  COMMAND "${CXX}" -std=c++20 "-I${INCLUDE_DIR}" -o "${WORK_DIR}/program"
    "${WORK_DIR}/main.cpp" "${WORK_DIR}/conch_scripts.cpp"
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${WORK_DIR}/program" "${WORK_DIR}" COMMAND_ERROR_IS_FATAL ANY)

function(check name text)
  file(READ "${WORK_DIR}/${name}.source" source)
  if(NOT source STREQUAL text)
    message(FATAL_ERROR "${name}: expected\n${text}\nbut the program holds\n${source}")
  endif()
  file(SHA1 "${WORK_DIR}/${name}.source" sha1)
  file(READ "${WORK_DIR}/${name}.sha1" embedded)
  if(NOT sha1 STREQUAL embedded)
    message(FATAL_ERROR "${name}: SHA-1 is ${sha1}, embedded was ${embedded}")
  endif()
endfunction()

check(nasty "${expected}")
check(empty "")
check(windows "return 1\nreturn 2\n")

# ---- no script at all ------------------------------------------------------------------------------

embed(code "")
if(NOT code EQUAL 0)
  message(FATAL_ERROR "the embedder failed without scripts: ${output}")
endif()
execute_process(
  COMMAND "${CXX}" -std=c++20 -fsyntax-only "-I${INCLUDE_DIR}" "${WORK_DIR}/conch_scripts.cpp"
  COMMAND_ERROR_IS_FATAL ANY)

# ---- what is refused -------------------------------------------------------------------------------

function(refused text words)
  file(WRITE "${lua}/bad.lua" "${text}")
  embed(code bad.lua)
  string(REGEX REPLACE "[ \n]+" " " output "${output}") # message() wraps its lines
  if(code EQUAL 0)
    message(FATAL_ERROR "accepted:\n${text}")
  elseif(NOT output MATCHES "bad.lua:2: ${words}")
    message(FATAL_ERROR "expected `${words}`, the embedder said: ${output}")
  endif()
endfunction()

refused("return 1\n-- @include lib/missing.lua\n" "lib/missing.lua does not exist")
refused("return 1\n-- @include one.lua\n" "expected")
refused("return 1\n--[[ a comment\nover lines ]]\n" "use -- at every line")
refused("return 1\nlocal s = [==[\n]==]\n" "a long string or comment must end")
refused("return 1\nlocal s = 'a\\\n  b'\n" "a string goes on")
