# Debian packages: `cpack -G DEB` in a build folder of the shared library (scripts/packages).

set(CPACK_PACKAGE_NAME conch)
set(CPACK_PACKAGE_VENDOR conch)
set(CPACK_PACKAGE_CONTACT "the maintainers of conch <conch@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_COMPONENTS_ALL library development)
if(TARGET conch-cli)
  list(APPEND CPACK_COMPONENTS_ALL command)
endif()
if(TARGET conch_postgresql)
  list(APPEND CPACK_COMPONENTS_ALL postgresql postgresql_development)
endif()
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_STRIP_FILES ON)

set(conch_soname_package "libconch${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# The command's library is in one of these packages: dpkg-shlibdeps finds it here, and the dependency is said below.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME "${conch_soname_package}")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "The shared library.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libconch-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# The program's Boost must be the library's (conch/detail/agreement.hpp).
set(conch_dev_needs "${conch_soname_package} (= ${PROJECT_VERSION}-1), libboost${Boost_VERSION_MAJOR}.${Boost_VERSION_MINOR}-dev")
if(CONCH_TLS)
  string(APPEND conch_dev_needs ", libssl-dev")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${conch_dev_needs}")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "The headers, and what CMake and pkg-config need to find them and the library.")

# By themselves: programs without them need no libpq.
set(conch_postgresql_package "libconch-postgresql${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(CPACK_DEBIAN_POSTGRESQL_PACKAGE_NAME "${conch_postgresql_package}")
set(CPACK_DEBIAN_POSTGRESQL_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_POSTGRESQL_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_POSTGRESQL_PACKAGE_DEPENDS "${conch_soname_package} (= ${PROJECT_VERSION}-1)")
set(CPACK_COMPONENT_POSTGRESQL_DESCRIPTION "The shared library for locks in PostgreSQL, and the script that makes their schema.")

set(CPACK_DEBIAN_POSTGRESQL_DEVELOPMENT_PACKAGE_NAME libconch-postgresql-dev)
set(CPACK_DEBIAN_POSTGRESQL_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_POSTGRESQL_DEVELOPMENT_PACKAGE_DEPENDS
  "${conch_postgresql_package} (= ${PROJECT_VERSION}-1), libconch-dev (= ${PROJECT_VERSION}-1), libpq-dev")
set(CPACK_COMPONENT_POSTGRESQL_DEVELOPMENT_DESCRIPTION "What CMake and pkg-config need to find the library for locks in PostgreSQL.")

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME conch)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS "${conch_soname_package} (= ${PROJECT_VERSION}-1)")
if(TARGET conch_postgresql) # the command reaches every kind of server
  string(APPEND CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS ", ${conch_postgresql_package} (= ${PROJECT_VERSION}-1)")
endif()
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "The command conch, its man page and completions for bash and zsh.")

include(CPack)
