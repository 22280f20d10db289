# Writes the schema script of PostgreSQL as one file for a database's administrator, and as C++ (declarations: src/servers/postgresql/schema.hpp).
#
#   cmake -DSQL_DIR=sql -DFILES=1_tables.sql,2_mutex.sql -DSCRIPT=postgresql.sql -DOUTPUT=conch_schema.cpp -P embed_sql.cmake
#
# The text of a file never becomes a CMake list, nor an unquoted argument, nor an argument of a macro.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/kinds.cmake")

set(script "")
string(REPLACE "," ";" files "${FILES}")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  file(READ "${SQL_DIR}/${name}" content)
  if(content MATCHES "\\)conch_sql\"")
    message(FATAL_ERROR "embed_sql: ${name}: contains the end mark of the C++ string")
  endif()
  conch_put_constants(content sql "${name}")
  string(APPEND script "${content}\n")
endforeach()
file(WRITE "${SCRIPT}" "begin;\n${script}commit;\n")

set(text "// Written by cmake/embed_sql.cmake; do not edit.\n\n#include \"servers/postgresql/schema.hpp\"\n\nnamespace conch::postgresql {\n\n")
string(APPEND text "std::string_view schema() noexcept {\n  return R\"conch_sql(")
string(APPEND text "${script}")
string(APPEND text ")conch_sql\";\n}\n\n}  // namespace conch::postgresql\n")
file(WRITE "${OUTPUT}" "${text}")
