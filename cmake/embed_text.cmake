# Writes text files as C++ (declarations: examples/live_page/assets.hpp).
#
#   cmake -DFOLDER=examples -DFILES=live_page/page.css,live_page/page.js -DOUTPUT=assets.cpp -P embed_text.cmake
#
# NAME.EXT becomes NAME_EXT. The text of a file never becomes a CMake list, nor an unquoted argument, nor an argument of a macro.

cmake_minimum_required(VERSION 3.25)

set(entries "")
string(REPLACE "," ";" files "${FILES}")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  string(REPLACE "." "_" name "${name}")
  file(READ "${FOLDER}/${file}" content)
  if(content MATCHES "\\)conch_text\"")
    message(FATAL_ERROR "embed_text: ${file}: contains the end mark of the C++ string")
  endif()
  string(APPEND entries "std::string_view const ${name} = R\"conch_text(")
  string(APPEND entries "${content}")
  string(APPEND entries ")conch_text\";\n")
endforeach()

set(text "// Written by cmake/embed_text.cmake; do not edit.\n\n#include \"assets.hpp\"\n\nnamespace live_page {\n\n")
string(APPEND text "${entries}")
string(APPEND text "\n}  // namespace live_page\n")
file(WRITE "${OUTPUT}" "${text}")
