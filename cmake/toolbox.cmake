# Functions used by the CMakeLists.txt files of this tree.

# conch_glob(OUT [RECURSE] PATTERN...): paths relative to the current folder, re-read at every build.
function(conch_glob out)
  set(patterns ${ARGN})
  set(mode GLOB)
  if("RECURSE" IN_LIST patterns)
    set(mode GLOB_RECURSE)
    list(REMOVE_ITEM patterns RECURSE)
  endif()
  file(${mode} found CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" ${patterns})
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

function(conch_add_optional_subdirectory folder)
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
    add_subdirectory("${folder}")
  endif()
endfunction()

# The warnings for code of this project; call it for every target of ours.
function(conch_warnings target)
  if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      # Part of clang's -Wconversion but not of g++'s; the two compilers shall agree.
      target_compile_options(${target} PRIVATE -Wno-sign-conversion)
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      # Warns about std::string itself, wherever `"literal" + string` is inlined (GCC bug 105651).
      target_compile_options(${target} PRIVATE
        -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
    endif()
    if(CMAKE_UNITY_BUILD)
      # Builds that do not join files see what is hidden here: a name that shadows another, and a missing #include.
      target_compile_options(${target} PRIVATE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    endif()
    if(CONCH_WERROR)
      target_compile_options(${target} PRIVATE -Werror)
      if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        # These depend on the optimiser's data flow, and g++ is often wrong about them in coroutine
        # frames and inlined containers, more so with sanitizers: shown, but not fatal.
        target_compile_options(${target} PRIVATE
          -Wno-error=maybe-uninitialized -Wno-error=array-bounds
          -Wno-error=mismatched-new-delete -Wno-error=free-nonheap-object)
      endif()
    endif()
  endif()
endfunction()

# conch_quick_to_compile(TARGET [LEVEL]): of code that waits for servers, and need not be quick itself. -O3 takes half as long again to compile.
# LEVEL: instead of -Og.
function(conch_quick_to_compile target)
  set(level -Og)
  if(ARGC GREATER 1)
    set(level ${ARGV1})
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${level}>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # With so little it does not see that the frame of a coroutine comes from the operator new of the same class.
    target_compile_options(${target} PRIVATE -Wno-mismatched-new-delete)
  endif()
endfunction()

# conch_alone(FILE...): not to be joined with others where CMAKE_UNITY_BUILD joins files; mostly for they have the same names.
function(conch_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# conch_precompile(TARGET HEADER...): only for what is no library of users, and not what they copy: it hides that an #include is missing.
function(conch_precompile target)
  target_precompile_headers(${target} PRIVATE ${ARGN}
    <algorithm> <array> <atomic> <chrono> <cstdint> <deque> <functional> <map> <memory> <mutex> <optional> <random> <set> <span> <string> <string_view>
    <unordered_map> <utility> <variant> <vector>)
  conch_fit_for_ccache(${target})
endfunction()

# conch_add_precompiled(TARGET): holds a precompiled header that several targets reuse; conch_precompile says which.
function(conch_add_precompiled target)
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "// holds a precompiled header\n")
  add_library(${target} OBJECT "${source}")
endfunction()

function(conch_reuse_precompiled target from)
  target_precompile_headers(${target} REUSE_FROM ${from})
  conch_fit_for_ccache(${target})
endfunction()

function(conch_fit_for_ccache target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess) # ccache asks for it
  endif()
endfunction()

# For programs that people run, and the code that is only theirs: what a compiler can add against mistakes with memory. Never for the
# library: its users decide for themselves, and what they decide must hold for all of their program.
function(conch_harden target)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang" OR NOT UNIX OR APPLE)
    return()
  endif()
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-fcf-protection CONCH_HAS_CF_PROTECTION) # x86 only
  target_compile_options(${target} PRIVATE
    -fstack-protector-strong
    $<$<BOOL:${CONCH_HAS_CF_PROTECTION}>:-fcf-protection>
    # Needs an optimising build, and is in the way of the sanitizers, whose builds are Debug.
    $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE> $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-D_FORTIFY_SOURCE=3>)
  target_compile_definitions(${target} PRIVATE _GLIBCXX_ASSERTIONS)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    target_link_options(${target} PRIVATE -Wl,-z,relro -Wl,-z,now)
  endif()
endfunction()

# ccache and a fast linker, where they are found and nothing else was asked for, and much memory for g++, where there is much.
function(conch_use_fast_tools)
  cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY) # in MiB
  cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
  math(EXPR share "${memory} / ${processors}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND share GREATER_EQUAL 3072)
    # It looks for garbage again and again, each time in all of a precompiled header as well. Without this, a build takes a tenth more; what is
    # compiled is the same.
    add_compile_options(--param=ggc-min-heapsize=1048576)
  endif()
  find_program(CONCH_CCACHE ccache)
  mark_as_advanced(CONCH_CCACHE)
  if(CONCH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # Without this sloppiness ccache refuses everything that uses a precompiled header. CCACHE_DEPEND: it compares headers to the byte. Otherwise a
    # precompiled header is found again after a comment has changed, and the compiler takes the header in it for another file.
    set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_DEPEND=1;CCACHE_SLOPPINESS=pch_defines,time_macros;${CONCH_CCACHE}"
      PARENT_SCOPE)
  endif()
  if(NOT "${CMAKE_EXE_LINKER_FLAGS} ${CMAKE_CXX_FLAGS}" MATCHES "-fuse-ld=")
    include(CheckLinkerFlag)
    foreach(linker mold lld)
      check_linker_flag(CXX "-fuse-ld=${linker}" CONCH_LINKER_${linker})
      if(CONCH_LINKER_${linker})
        add_link_options("-fuse-ld=${linker}")
        break()
      endif()
    endforeach()
  endif()
endfunction()

# conch_embed_lua(TARGET FOLDER): compiles every FOLDER/*.lua into TARGET (see embed_lua.cmake).
function(conch_embed_lua target folder)
  conch_glob(scripts "${folder}/*.lua")
  conch_glob(preludes "${folder}/lib/*.lua")
  # Names, not only dependencies: a script that was added or deleted changes the command, and so
  # leads to a new run as well.
  string(REPLACE ";" "," script_names "${scripts}")
  string(REPLACE ";" "," prelude_names "${preludes}")
  set(output "${CMAKE_CURRENT_BINARY_DIR}/conch_scripts.cpp")
  set(embedder "${PROJECT_SOURCE_DIR}/cmake/embed_lua.cmake")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}"
      "-DLUA_DIR=${CMAKE_CURRENT_SOURCE_DIR}/${folder}"
      "-DSCRIPTS=${script_names}" "-DPRELUDES=${prelude_names}"
      "-DOUTPUT=${output}" -P "${embedder}"
    DEPENDS ${scripts} ${preludes} "${embedder}" "${PROJECT_SOURCE_DIR}/cmake/kinds.cmake" "${PROJECT_SOURCE_DIR}/src/rules/kinds.inc"
    COMMENT "Embedding the Lua scripts"
    VERBATIM)
  target_sources(${target} PRIVATE "${output}")
  # For other targets that compile the output: it is written once, and before either is built.
  add_custom_target(${target}_lua DEPENDS "${output}")
  add_dependencies(${target} ${target}_lua)
endfunction()
