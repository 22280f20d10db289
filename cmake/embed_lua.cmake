# Writes the server-side scripts as C++ (declarations: src/servers/redis/scripts.hpp).
#
#   cmake -DLUA_DIR=lua -DSCRIPTS=a.lua,b.lua -DOUTPUT=conch_scripts.cpp -P embed_lua.cmake
#
# SCRIPTS: comma separated; only the file names count, the files lie in LUA_DIR.
#
# What happens to a script on the way:
#   - a line `-- @include lib/NAME.lua` becomes the content of that file, once per script;
#   - lines that hold only a comment, and empty lines, are dropped;
#   - blanks at both ends of a line are dropped;
#   - words such as KIND_SEGMENTS and FENCE_EPOCH_US become what src/rules/kinds.inc says.
# A construct for which this would change the meaning (a string or comment over several lines) is
# an error. The SHA-1 is that of exactly the embedded bytes, which is what EVALSHA wants.
#
# The text of a script never becomes a CMake list, nor an unquoted argument, nor an argument of a
# macro: `;`, brackets, backslashes and dollars pass unharmed.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/kinds.cmake")

foreach(required LUA_DIR OUTPUT)
  if(NOT DEFINED ${required})
    message(FATAL_ERROR "embed_lua: -D${required}=... is missing")
  endif()
endforeach()

# Lines of LUA_DIR/FILE with its includes; the property `included` names the preludes already in.
function(flatten file result)
  if(NOT EXISTS "${LUA_DIR}/${file}")
    message(FATAL_ERROR "embed_lua: ${file} does not exist")
  endif()
  file(READ "${LUA_DIR}/${file}" rest)
  set(flat "")
  set(number 0)
  while(NOT rest STREQUAL "")
    math(EXPR number "${number} + 1")
    string(FIND "${rest}" "\n" end)
    if(end EQUAL -1)
      set(line "${rest}")
      set(rest "")
    else()
      string(SUBSTRING "${rest}" 0 ${end} line)
      math(EXPR end "${end} + 1")
      string(SUBSTRING "${rest}" ${end} -1 rest)
    endif()
    string(STRIP "${line}" line)

    if(line MATCHES "^--[ \t]*@include[ \t]+(lib/[A-Za-z0-9_]+\\.lua)$")
      set(prelude "${CMAKE_MATCH_1}")
      get_property(included GLOBAL PROPERTY included)
      if(NOT prelude IN_LIST included)
        set_property(GLOBAL APPEND PROPERTY included "${prelude}")
        if(NOT EXISTS "${LUA_DIR}/${prelude}")
          message(FATAL_ERROR "embed_lua: ${file}:${number}: ${prelude} does not exist")
        endif()
        flatten("${prelude}" content)
        string(APPEND flat "${content}")
      endif()
    elseif(line MATCHES "^--[ \t]*@include")
      message(FATAL_ERROR
        "embed_lua: ${file}:${number}: expected `-- @include lib/NAME.lua`, found: ${line}")
    elseif(line MATCHES "^--\\[=*\\[")
      message(FATAL_ERROR "embed_lua: ${file}:${number}: use -- at every line of a comment")
    elseif(line STREQUAL "" OR line MATCHES "^--")
      # dropped
    else()
      if(line MATCHES "\\\\$")
        message(FATAL_ERROR "embed_lua: ${file}:${number}: a string goes on at the next line")
      endif()
      if(line MATCHES "\\[(=*)\\[")
        string(FIND "${line}" "]${CMAKE_MATCH_1}]" closed)
        if(closed EQUAL -1)
          message(FATAL_ERROR
            "embed_lua: ${file}:${number}: a long string or comment must end where it began")
        endif()
      endif()
      string(APPEND flat "${line}\n")
    endif()
  endwhile()
  set(${result} "${flat}" PARENT_SCOPE)
endfunction()

set(entries "")
set(count 0)
string(REPLACE "," ";" scripts "${SCRIPTS}")
foreach(script IN LISTS scripts)
  get_filename_component(file "${script}" NAME)
  get_filename_component(name "${script}" NAME_WE)
  set_property(GLOBAL PROPERTY included "")
  flatten("${file}" source)
  if(source MATCHES "\\)conch_lua\"")
    message(FATAL_ERROR "embed_lua: ${file}: contains the end mark of the C++ string")
  endif()
  conch_put_constants(source lua "${file}")
  string(SHA1 sha1 "${source}")
  string(APPEND entries "    {\"${name}\"sv,\n     R\"conch_lua(")
  string(APPEND entries "${source}")
  string(APPEND entries ")conch_lua\"sv,\n     \"${sha1}\"sv},\n")
  math(EXPR count "${count} + 1")
endforeach()

set(text "// Written by cmake/embed_lua.cmake; do not edit.\n\n")
string(APPEND text "#include \"servers/redis/scripts.hpp\"\n\n#include <array>\n\n")
string(APPEND text "namespace conch::redis {\n\nnamespace {\n\n")
string(APPEND text "using namespace std::string_view_literals;\n\n")
if(count EQUAL 0)
  string(APPEND text "constexpr std::array<script, 0> embedded{};\n\n")
else()
  string(APPEND text "constexpr std::array<script, ${count}> embedded{{\n")
  string(APPEND text "${entries}")
  string(APPEND text "}};\n\n")
endif()
string(APPEND text "}  // namespace\n\n")
string(APPEND text "std::span<script const> all_scripts() noexcept { return embedded; }\n\n")
string(APPEND text "}  // namespace conch::redis\n")
file(WRITE "${OUTPUT}" "${text}")
