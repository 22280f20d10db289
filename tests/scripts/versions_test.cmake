# Files that repeat the version name that of include/conch/version.hpp.

file(READ "${ROOT}/packaging/vcpkg/conch/vcpkg.json" port)
string(JSON version GET "${port}" version)
if(NOT version STREQUAL VERSION)
  message(FATAL_ERROR "vcpkg.json: ${version}, not ${VERSION}")
endif()

string(REGEX MATCH "^[0-9]+\\.[0-9]+" minor "${VERSION}")
foreach(expected IN ITEMS "README.md|find_package(conch ${minor} REQUIRED)" "CHANGELOG.md|## ${VERSION}"
    "docs/guide.md|`libconch.so.${minor}`" "scripts/packages|libconch${minor} " "packaging/README.md|`libconch${minor}`")
  string(REGEX MATCH "^([^|]*)\\|(.*)$" matched "${expected}")
  set(words "${CMAKE_MATCH_2}")
  file(READ "${ROOT}/${CMAKE_MATCH_1}" text)
  string(FIND "${text}" "${words}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${CMAKE_MATCH_1} does not say '${words}'")
  endif()
endforeach()
