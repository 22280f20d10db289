# One step of the consume tests; started by ctest, see CMakeLists.txt for the variables.

cmake_minimum_required(VERSION 3.25)

set(prefix "${WORK_DIR}/prefix")
set(program_source "${CMAKE_CURRENT_LIST_DIR}/project")

# By the environment, because a list does not survive being passed on from function to function.
set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} "${LAUNCHER}")
string(REPLACE ";" ":" prefix_path "${prefix};${PREFIX_PATH}")
set(ENV{CMAKE_PREFIX_PATH} "${prefix_path}")

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The project next to this file, configured with the arguments, built and run.
function(build_and_run name)
  set(build "${WORK_DIR}/${name}")
  file(REMOVE_RECURSE "${build}/bin")
  run("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${program_source}" -B "${build}"
    "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}"
    "-DCMAKE_CXX_COMPILER=${CXX}"
    "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}"
    "-DCMAKE_RUNTIME_OUTPUT_DIRECTORY=${build}/bin"
    "-DBUILD_SHARED_LIBS=${SHARED}"
    ${ARGN})
  run("${CMAKE_COMMAND}" --build "${build}" --parallel 2)
  run("${build}/bin/consumer")
endfunction()

if(HOW STREQUAL "install")
  file(REMOVE_RECURSE "${prefix}")
  run("${CMAKE_COMMAND}" --install "${CONCH_BINARY_DIR}" --prefix "${prefix}" --config "${BUILD_TYPE}")
  # Hardening options of our programs must not reach programs that link the library.
  file(GLOB_RECURSE exported "${prefix}/*.cmake" "${prefix}/*.pc")
  if(NOT exported)
    message(FATAL_ERROR "nothing is exported")
  endif()
  foreach(file IN LISTS exported)
    file(READ "${file}" text)
    string(REGEX MATCH "stack-protector|FORTIFY|cf-protection|GLIBCXX_ASSERTIONS|-z,|Werror|-Wall" flag "${text}")
    if(flag)
      message(FATAL_ERROR "${file} exports ${flag}")
    endif()
  endforeach()

elseif(HOW STREQUAL "command")
  # Where it will not lie, because packages install into a folder and move that.
  set(moved "${WORK_DIR}/command")
  file(REMOVE_RECURSE "${moved}")
  file(COPY "${prefix}/" DESTINATION "${moved}")
  set(ENV{LD_LIBRARY_PATH} "${moved}/${LIBDIR}:$ENV{LD_LIBRARY_PATH}")
  foreach(variable IN ITEMS CONCH_URL CONCH_USER CONCH_PASSWORD XDG_CONFIG_HOME)
    unset(ENV{${variable}})
  endforeach()
  set(ENV{HOME} "${moved}")
  set(command "${moved}/bin/conch")

  # expect(CODE PATTERN ARGUMENT...): what the command prints and exits with.
  function(expect code pattern)
    execute_process(COMMAND "${command}" ${ARGN} OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE result TIMEOUT 60)
    if(NOT result STREQUAL code OR NOT said MATCHES "${pattern}")
      message(FATAL_ERROR "conch ${ARGN}: exit code ${result}, not ${code}, or no '${pattern}' in:\n${said}")
    endif()
  endfunction()
  string(REPLACE "." "\\." version "${VERSION}")
  expect(0 "^conch ${version}\n$" --version)
  expect(0 "--no-kill-child" run --help)
  execute_process(COMMAND "${moved}/bin/conch-lock" --version OUTPUT_VARIABLE said RESULT_VARIABLE result)
  if(NOT result EQUAL 0 OR NOT said MATCHES "^conch ${version}\n$")
    message(FATAL_ERROR "conch-lock, the second name: exit code ${result}\n${said}")
  endif()
  expect(64 "there is no command" no-such-command)
  expect(69 "no-such.sock" status x --url "unix://${moved}/no-such.sock") # it tries to connect

  # installed(FILE PATTERN): the file is there, readable for all, and begins as it should.
  function(installed file pattern)
    if(NOT EXISTS "${moved}/${file}")
      message(FATAL_ERROR "${file} is not installed")
    endif()
    file(READ "${moved}/${file}" text LIMIT 400)
    if(NOT text MATCHES "${pattern}")
      message(FATAL_ERROR "${file} has no '${pattern}' in its first lines")
    endif()
  endfunction()
  installed(${MANDIR}/man1/conch.1 "\\.TH CONCH 1 ")
  installed(${DATADIR}/bash-completion/completions/conch "conch")
  installed(${DATADIR}/zsh/site-functions/_conch "^#compdef conch")
  # As a shell uses it.
  execute_process(COMMAND bash --norc -c
      "source '${moved}/${DATADIR}/bash-completion/completions/conch' && COMP_WORDS=(conch st) COMP_CWORD=1 && _conch && echo \"\${COMPREPLY[*]}\""
    OUTPUT_VARIABLE completed ERROR_VARIABLE failed)
  if(NOT completed STREQUAL "status\n")
    message(FATAL_ERROR "the completion of 'conch st' in bash is '${completed}': ${failed}")
  endif()
  # Built with a path to a library in the build folder, it would work here and nowhere else.
  execute_process(COMMAND readelf -d "${command}" OUTPUT_VARIABLE needs COMMAND_ERROR_IS_FATAL ANY)
  if(needs MATCHES "R(UN)?PATH" OR NOT needs MATCHES "NEEDED")
    message(FATAL_ERROR "the command has a path of its own to libraries:\n${needs}")
  endif()

elseif(HOW STREQUAL "readme_lines")
  # The lines of README, as they stand there, with a copy of this tree where they say.
  set(app "${WORK_DIR}/readme_lines")
  file(REMOVE_RECURSE "${app}")
  file(MAKE_DIRECTORY "${app}/third_party")
  file(CREATE_LINK "${CONCH_SOURCE_DIR}" "${app}/third_party/conch" SYMBOLIC)
  file(READ "${CONCH_SOURCE_DIR}/README.md" page)
  string(REGEX MATCH "```cmake\n(include\\(FetchContent\\)[^`]*)```" block "${page}")
  if(NOT block)
    message(FATAL_ERROR "README.md has no lines for FetchContent")
  endif()
  set(fetch_content "${CMAKE_MATCH_1}")
  # Those that install: configured only. That the result can be installed and found is what the steps install and find_package test.
  if(NOT page MATCHES "\ncmake --preset ([a-z]+)\ncmake --build build/([a-z]+)\nsudo cmake --install build/([a-z]+) ")
    message(FATAL_ERROR "README.md has no lines that install conch")
  endif()
  set(preset "${CMAKE_MATCH_1}")
  if(NOT CMAKE_MATCH_2 STREQUAL preset OR NOT CMAKE_MATCH_3 STREQUAL preset)
    message(FATAL_ERROR "README.md configures build/${preset}, builds build/${CMAKE_MATCH_2} and installs build/${CMAKE_MATCH_3}")
  endif()
  run("${CMAKE_COMMAND}" -S "${CONCH_SOURCE_DIR}" --preset "${preset}" -B "${app}/${preset}" "-DCMAKE_CXX_COMPILER=${CXX}")
  if(NOT EXISTS "${app}/${preset}/cmake_install.cmake" OR EXISTS "${app}/${preset}/tests")
    message(FATAL_ERROR "the preset ${preset} has no install step, or builds tests")
  endif()
  file(WRITE "${app}/lines.cmake" "${fetch_content}")
  file(WRITE "${app}/CMakeLists.txt" "cmake_minimum_required(VERSION 3.25)\nproject(app CXX)\nadd_executable(app \"${program_source}/small.cpp\")\ninclude(lines.cmake)\n")
  # Configured and generated: what it builds is what the test of a project with FetchContent builds.
  run("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${app}" -B "${app}/build" "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}" "-DCMAKE_CXX_COMPILER=${CXX}")

elseif(HOW STREQUAL "symbols")
  # What leaves the shared library: the functions and data of symbols.txt, Asio's, and nothing else of conch.
  execute_process(COMMAND readelf -d "${SHARED_LIBRARY}" OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "SONAME[^\n]*\\[([^\n]*)\\]" soname "${dynamic}")
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" version "${VERSION}")
  if(NOT soname MATCHES "\\[libconch\\.so\\.${version}\\]")
    message(FATAL_ERROR "${SHARED_LIBRARY} has another SONAME than libconch.so.${version}:\n${dynamic}")
  endif()
  # What a lock is kept in is spoken to by the library itself, or by a component of its own.
  execute_process(COMMAND ldd "${SHARED_LIBRARY}" OUTPUT_VARIABLE needs COMMAND_ERROR_IS_FATAL ANY)
  if(NOT needs MATCHES "libstdc|libc\\+\\+" OR needs MATCHES "libpq|zookeeper|hiredis")
    message(FATAL_ERROR "${SHARED_LIBRARY} needs the client library of a server, or nothing at all:\n${needs}")
  endif()
  execute_process(COMMAND nm -D --defined-only -C "${SHARED_LIBRARY}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "\\[abi:cxx11\\]" "" symbols "${symbols}")
  string(REGEX REPLACE "[][;]" "" symbols "${symbols}")
  string(REPLACE "\n" ";" symbols "${symbols}")
  list(LENGTH symbols count)
  list(FILTER symbols INCLUDE REGEX "conch")
  file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/symbols.txt" allowed)
  set(found "")
  set(unwanted "")
  foreach(symbol IN LISTS symbols)
    string(REGEX REPLACE "^[0-9a-f]* +[TD] ([^(]*).*$" "\\1" name "${symbol}")
    if(name IN_LIST allowed)
      list(APPEND found "${name}")
    elseif(NOT name MATCHES "^conch_(has|is|needs)_[A-Za-z_0-9]+$")
      string(APPEND unwanted "\n  ${symbol}")
    endif()
  endforeach()
  set(missing "${allowed}")
  list(REMOVE_ITEM missing ${found})
  if(unwanted OR missing OR count LESS 100 OR count GREATER 4000)
    message(FATAL_ERROR "${count} symbols. Not in symbols.txt, or not to leave the library: ${unwanted}\nIn symbols.txt, and not in the library (CONCH_API is missing?): ${missing}")
  endif()
  message(STATUS "${count} symbols, ${soname}")

elseif(HOW STREQUAL "programs")
  # Programs that use Asio already, and programs that do not agree with the library. Each object file is compiled once.
  set(work "${WORK_DIR}/programs")
  file(REMOVE_RECURSE "${work}")
  file(MAKE_DIRECTORY "${work}/lib")
  separate_arguments(cxx_flags UNIX_COMMAND "${CXX_FLAGS}")
  set(with_asio -DBOOST_ASIO_SEPARATE_COMPILATION)
  set(needs -pthread)
  if(TLS)
    list(APPEND with_asio -DCONCH_TLS=1 -DWITH_TLS)
    list(APPEND needs -lssl -lcrypto)
  else()
    list(APPEND with_asio -DCONCH_TLS=0)
  endif()
  function(compile source object)
    run(${LAUNCHER} "${CXX}" -std=c++20 -O0 ${cxx_flags} -Wall -Wextra -Werror ${ARGN} "-I${CONCH_SOURCE_DIR}/include" -c "${program_source}/${source}" -o "${work}/${object}")
  endfunction()
  # Beside the library as a program finds it at run time.
  file(CREATE_LINK "${SHARED_LIBRARY}" "${work}/lib/${SONAME}" SYMBOLIC)
  set(ENV{LD_LIBRARY_PATH} "${work}/lib:${work}:$ENV{LD_LIBRARY_PATH}")
  set(static "${STATIC_LIBRARY}")
  set(shared "${SHARED_LIBRARY}")

  compile(main.cpp main.o ${with_asio})
  compile(other.cpp other.o -fPIC) # header-only
  compile(own_bodies.cpp own_bodies.o ${with_asio})
  run("${CXX}" ${cxx_flags} -shared "${work}/other.o" -o "${work}/libother.so" -pthread)
  foreach(kind IN ITEMS static shared)
    # A library with header-only Asio, linked into the program or shared.
    foreach(other IN ITEMS other.o libother.so)
      run("${CXX}" ${cxx_flags} "${work}/main.o" "${work}/${other}" "${${kind}}" ${needs} -o "${work}/consumer")
      run("${work}/consumer")
    endforeach()
    run("${CXX}" ${cxx_flags} "${work}/main.o" "${work}/own_bodies.o" "${work}/other.o" "${${kind}}" ${needs} -o "${work}/consumer")
    run("${work}/consumer")
  endforeach()

  # does_not_link(WORDS OBJECT): with neither kind, and the linker says why.
  function(does_not_link words object)
    foreach(kind IN ITEMS static shared)
      execute_process(COMMAND "${CXX}" ${cxx_flags} "${work}/${object}" "${${kind}}" ${needs} -Wl,--gc-sections -o "${work}/consumer"
        OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE result)
      string(FIND "${said}" "${words}" at)
      if(result EQUAL 0 OR at EQUAL -1)
        message(FATAL_ERROR "${object} with the ${kind} library: exit code ${result}, or no '${words}' in:\n${said}")
      endif()
    endforeach()
  endfunction()
  compile(small.cpp agrees.o ${with_asio})
  run("${CXX}" ${cxx_flags} "${work}/agrees.o" "${static}" ${needs} -o "${work}/consumer")
  compile(small.cpp without_definitions.o -fdata-sections)
  does_not_link(conch_needs_BOOST_ASIO_SEPARATE_COMPILATION without_definitions.o)
  compile(small.cpp without_rtti.o ${with_asio} -fno-rtti)
  does_not_link(conch_needs_RTTI_and_this_is_compiled_with_fno_rtti without_rtti.o)
  compile(small.cpp other_boost.o ${with_asio} -DCONCH_AGREES_ON_BOOST=conch_is_compiled_with_another_version_of_Boost_than_this_BOOST_VERSION_199900)
  does_not_link(conch_is_compiled_with_another_version_of_Boost_than_this_BOOST_VERSION_199900 other_boost.o)

elseif(HOW STREQUAL "find_package")
  build_and_run(find_package)

elseif(HOW STREQUAL "subdirectory")
  # The targets and what a program is compiled with are the same as by FetchContent, which builds it.
  run("${CMAKE_COMMAND}" -G Ninja -S "${program_source}" -B "${WORK_DIR}/subdirectory" "-DCMAKE_CXX_COMPILER=${CXX}" "-DCONCH_SOURCE_DIR=${CONCH_SOURCE_DIR}"
    -DCMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)
  file(READ "${WORK_DIR}/subdirectory/compile_commands.json" commands)
  string(REGEX MATCH "[^\n]*main\\.cpp\\.o[^\n]*" command "${commands}")
  if(NOT command MATCHES "-DBOOST_ASIO_SEPARATE_COMPILATION -DCONCH_TLS=0 " OR command MATCHES "Werror|-Wall|visibility")
    message(FATAL_ERROR "the program is compiled by ${command}")
  endif()
  # A project that embeds this one gets the library and nothing else.
  if(commands MATCHES "/(tests|examples|bench|cli)/[a-z_/]+\\.cpp\"" AND NOT CMAKE_MATCH_0 MATCHES "consume")
    message(FATAL_ERROR "built as well: ${CMAKE_MATCH_0}")
  endif()

elseif(HOW STREQUAL "fetch_content")
  # Without TLS, as it is by default for a project that embeds this one, and where there is no OpenSSL. The library is compiled once more for that, so
  # as the demo compiles it: soon. The consumer's own files stay apart. (consume.postgresql_subdirectory compiles each file by itself.)
  file(WRITE "${WORK_DIR}/soon.cmake" "set(CMAKE_UNITY_BUILD ON)\nset(CMAKE_UNITY_BUILD_BATCH_SIZE 48)\nadd_compile_options(-O0 -w)\n")
  build_and_run(fetch_content "-DFETCHCONTENT_SOURCE_DIR_CONCH=${CONCH_SOURCE_DIR}" -DCMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON
    "-DCMAKE_PROJECT_conch_INCLUDE=${WORK_DIR}/soon.cmake")
  file(GLOB_RECURSE built "${WORK_DIR}/fetch_content/bin/*" "${WORK_DIR}/fetch_content/*.so*")
  foreach(file IN LISTS built)
    execute_process(COMMAND readelf -d "${file}" OUTPUT_VARIABLE needs COMMAND_ERROR_IS_FATAL ANY)
    if(NOT needs MATCHES "NEEDED" OR needs MATCHES "libssl|libcrypto")
      message(FATAL_ERROR "${file} needs OpenSSL, or nothing at all:\n${needs}")
    endif()
  endforeach()
  file(GLOB_RECURSE unwanted
    "${WORK_DIR}/fetch_content/*_tests" "${WORK_DIR}/fetch_content/*example_*")
  if(unwanted)
    message(FATAL_ERROR "built as well: ${unwanted}")
  endif()

elseif(HOW STREQUAL "pkg_config")
  # A moved tree, because conch.pc promises to find itself.
  set(moved "${WORK_DIR}/pkg_config/moved")
  file(REMOVE_RECURSE "${WORK_DIR}/pkg_config")
  file(MAKE_DIRECTORY "${moved}")
  file(COPY "${prefix}/" DESTINATION "${moved}")
  set(ENV{PKG_CONFIG_PATH} "${moved}/${LIBDIR}/pkgconfig:$ENV{PKG_CONFIG_PATH}")
  execute_process(COMMAND pkg-config --cflags --libs conch
    OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  separate_arguments(cxx_flags UNIX_COMMAND "${CXX_FLAGS}")
  set(ENV{LD_LIBRARY_PATH} "${moved}/${LIBDIR}:$ENV{LD_LIBRARY_PATH}")
  # Optimised: what Asio's functions have inside is then in their callers as well.
  run("${CXX}" -std=c++20 -O2 ${cxx_flags} -c "${program_source}/other.cpp"
    -o "${WORK_DIR}/pkg_config/other.o")
  run("${CXX}" -std=c++20 ${cxx_flags} "${program_source}/main.cpp" "${WORK_DIR}/pkg_config/other.o"
    -o "${WORK_DIR}/pkg_config/consumer" ${flags})
  run("${WORK_DIR}/pkg_config/consumer")

elseif(HOW STREQUAL "postgresql" OR HOW STREQUAL "postgresql_subdirectory")
  set(source "")
  if(HOW STREQUAL "postgresql_subdirectory")
    set(source "-DCONCH_SOURCE_DIR=${CONCH_SOURCE_DIR}")
  endif()
  set(build "${WORK_DIR}/${HOW}")
  file(REMOVE_RECURSE "${build}/bin")
  run("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${CMAKE_CURRENT_LIST_DIR}/postgresql" -B "${build}" "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}"
    "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}" "-DCMAKE_RUNTIME_OUTPUT_DIRECTORY=${build}/bin" "-DBUILD_SHARED_LIBS=${SHARED}"
    ${source})
  run("${CMAKE_COMMAND}" --build "${build}" --parallel 2)
  if(HOW STREQUAL "postgresql")
    # Without CMake.
    set(ENV{PKG_CONFIG_PATH} "${prefix}/${LIBDIR}/pkgconfig:$ENV{PKG_CONFIG_PATH}")
    set(ENV{LD_LIBRARY_PATH} "${prefix}/${LIBDIR}:$ENV{LD_LIBRARY_PATH}")
    execute_process(COMMAND pkg-config --cflags --libs conch-postgresql OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
      COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    separate_arguments(cxx_flags UNIX_COMMAND "${CXX_FLAGS}")
    run("${CXX}" -std=c++20 ${cxx_flags} "${CMAKE_CURRENT_LIST_DIR}/postgresql/main.cpp" -o "${build}/bin/with_pkg_config" ${flags})
    file(READ "${prefix}/${DATADIR}/conch/postgresql.sql" script)
    if(NOT script MATCHES "create schema conch")
      message(FATAL_ERROR "the schema script is not whole")
    endif()
  endif()
  file(GLOB programs "${build}/bin/with*")
  foreach(program IN LISTS programs)
    execute_process(COMMAND "${program}" OUTPUT_VARIABLE said COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY TIMEOUT 60)
    execute_process(COMMAND ldd "${program}" OUTPUT_VARIABLE needs COMMAND_ERROR_IS_FATAL ANY)
    message(STATUS "${said}")
    if(program MATCHES "/without$" AND (NOT said MATCHES "conch::postgresql" OR needs MATCHES "libpq"))
      message(FATAL_ERROR "without the component: ${said}\n${needs}")
    elseif(NOT program MATCHES "/without$" AND (NOT said MATCHES "/nowhere" OR NOT needs MATCHES "libpq"))
      message(FATAL_ERROR "with the component: ${said}\n${needs}")
    endif()
  endforeach()

elseif(HOW STREQUAL "testing")
  # Installed, and found by CMake.
  set(build "${WORK_DIR}/testing")
  file(REMOVE_RECURSE "${build}/bin")
  run("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${CMAKE_CURRENT_LIST_DIR}/testing" -B "${build}" "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}"
    "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}" "-DCMAKE_RUNTIME_OUTPUT_DIRECTORY=${build}/bin")
  run("${CMAKE_COMMAND}" --build "${build}" --parallel 2)
  # Without CMake.
  set(ENV{PKG_CONFIG_PATH} "${prefix}/${LIBDIR}/pkgconfig:$ENV{PKG_CONFIG_PATH}")
  set(ENV{LD_LIBRARY_PATH} "${prefix}/${LIBDIR}:$ENV{LD_LIBRARY_PATH}")
  execute_process(COMMAND pkg-config --cflags --libs conch-testing OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  separate_arguments(cxx_flags UNIX_COMMAND "${CXX_FLAGS}")
  set(object "${build}/main.o")
  run(${LAUNCHER} "${CXX}" -std=c++20 ${cxx_flags} ${flags} -c "${CMAKE_CURRENT_LIST_DIR}/testing/main.cpp" -o "${object}")
  run("${CXX}" ${cxx_flags} "${object}" -o "${build}/bin/with_pkg_config" ${flags})
  # Beside the shared library, whose clocks are then those of the world as well.
  set(needs -pthread)
  if(TLS)
    list(APPEND needs -lssl -lcrypto)
  endif()
  file(MAKE_DIRECTORY "${build}/lib")
  file(CREATE_LINK "${SHARED_LIBRARY}" "${build}/lib/${SONAME}" SYMBOLIC)
  set(ENV{LD_LIBRARY_PATH} "${build}/lib:$ENV{LD_LIBRARY_PATH}")
  run("${CXX}" ${cxx_flags} "${object}" "${TESTING_LIBRARY}" "${SHARED_LIBRARY}" ${needs} -o "${build}/bin/with_shared")
  foreach(program IN ITEMS consumer with_pkg_config with_shared)
    execute_process(COMMAND "${build}/bin/${program}" OUTPUT_VARIABLE said COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY TIMEOUT 60)
    if(NOT DEFINED expected)
      set(expected "${said}")
    elseif(NOT said STREQUAL expected)
      message(FATAL_ERROR "the same seed gives\n${said}in ${program}, and before it gave\n${expected}")
    endif()
  endforeach()

elseif(HOW STREQUAL "no_deprecated")
  separate_arguments(cxx_flags UNIX_COMMAND "${CXX_FLAGS}")
  if(TLS)
    set(with_tls 1)
  else()
    set(with_tls 0)
  endif()
  # Looked at, and not linked with anything that was compiled without this definition.
  file(GLOB sources "${CONCH_SOURCE_DIR}/src/registry/*.cpp" "${CONCH_SOURCE_DIR}/src/client/*.cpp"
    "${CONCH_SOURCE_DIR}/src/servers/*/connection.cpp")
  if(NOT POSTGRESQL)
    list(FILTER sources EXCLUDE REGEX "/postgresql/")
  endif()
  list(TRANSFORM POSTGRESQL_HEADERS PREPEND "-I")
  # As one unit, like that of the demo: each header is parsed once.
  set(unit "")
  foreach(source IN ITEMS "${program_source}/main.cpp" ${sources})
    string(APPEND unit "#include \"${source}\"\n")
  endforeach()
  file(WRITE "${WORK_DIR}/no_deprecated.cpp" "${unit}")
  run("${CXX}" -std=c++20 ${cxx_flags} -fsyntax-only -w
    -DBOOST_ASIO_SEPARATE_COMPILATION -DBOOST_ASIO_NO_DEPRECATED "-DCONCH_TLS=${with_tls}"
    "-I${CONCH_SOURCE_DIR}/include" "-I${CONCH_SOURCE_DIR}/src" ${POSTGRESQL_HEADERS} "${WORK_DIR}/no_deprecated.cpp")

else()
  message(FATAL_ERROR "unknown way to consume: ${HOW}")
endif()
