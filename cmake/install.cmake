# Install, export, pkg-config.

include(CMakePackageConfigHelpers)

set(conch_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/conch")

# Components: what a program needs at run time (library), what its compiler needs (development), the same of conch::postgresql, and the command.
install(TARGETS conch EXPORT conchTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library NAMELINK_COMPONENT development
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT library)
set(conch_without "")
if(NOT TARGET conch_testing)
  set(conch_without PATTERN "testing.hpp" EXCLUDE)
endif()
install(DIRECTORY include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development FILES_MATCHING PATTERN "*.hpp" ${conch_without})
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT development)
if(TARGET conch-cli)
  install(TARGETS conch-cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT command)
  install(FILES src/cli/conch.1 DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT command)
  install(FILES src/cli/completion/conch.bash DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT command RENAME conch)
  # A second name: the Python package Twisted also has a program called conch, an SSH client.
  set(conch_names "${CMAKE_CURRENT_BINARY_DIR}/names")
  file(MAKE_DIRECTORY "${conch_names}")
  file(CREATE_LINK conch "${conch_names}/conch-lock" SYMBOLIC)
  file(CREATE_LINK conch.1 "${conch_names}/conch-lock.1" SYMBOLIC)
  install(FILES "${conch_names}/conch-lock" DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT command)
  install(FILES "${conch_names}/conch-lock.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT command)
  install(FILES src/cli/completion/conch.bash DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT command RENAME conch-lock)
  install(FILES src/cli/completion/_conch DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" COMPONENT command)
endif()

if(TARGET conch_postgresql)
  # Exported by itself: who does not ask for it need not have libpq.
  install(TARGETS conch_postgresql EXPORT conchPostgresqlTargets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT postgresql_development
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT postgresql NAMELINK_COMPONENT postgresql_development
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT postgresql)
  install(EXPORT conchPostgresqlTargets NAMESPACE conch:: DESTINATION "${conch_package_dir}" COMPONENT postgresql_development)
  install(FILES "${PROJECT_BINARY_DIR}/src/postgresql/postgresql.sql" DESTINATION "${CMAKE_INSTALL_DATADIR}/conch" COMPONENT postgresql)
endif()

if(TARGET conch_testing)
  # Exported by itself: who does not ask for it keeps the clocks of the system. A static library without other needs, so it goes with the headers.
  install(TARGETS conch_testing EXPORT conchTestingTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
  install(EXPORT conchTestingTargets NAMESPACE conch:: DESTINATION "${conch_package_dir}" COMPONENT development)
endif()

install(EXPORT conchTargets NAMESPACE conch:: DESTINATION "${conch_package_dir}" COMPONENT development)
configure_package_config_file(cmake/conchConfig.cmake.in conchConfig.cmake
  INSTALL_DESTINATION "${conch_package_dir}")
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(conchConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/conchConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/conchConfigVersion.cmake"
  DESTINATION "${conch_package_dir}" COMPONENT development)

# conch.pc finds its prefix from where it lies, so that an installed tree can be moved.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  message(STATUS "conch.pc is not installed: absolute install folders")
else()
  file(RELATIVE_PATH conch_pc_prefix
    "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
  string(REGEX REPLACE "/$" "" conch_pc_prefix "${conch_pc_prefix}")
  # What a static library leaves to the linker of the program, a shared one has found for itself. (`pkg-config --static` names it all the same.)
  set(conch_pc_private "")
  if(conch_kind STREQUAL "SHARED_LIBRARY")
    set(conch_pc_private ".private")
  endif()
  set(conch_pc_requires "")
  set(conch_pc_tls 0)
  if(CONCH_TLS)
    set(conch_pc_requires "libssl libcrypto")
    set(conch_pc_tls 1)
  endif()
  configure_file(cmake/conch.pc.in conch.pc @ONLY)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/conch.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)
  if(TARGET conch_testing)
    configure_file(cmake/conch-testing.pc.in conch-testing.pc @ONLY)
    install(FILES "${CMAKE_CURRENT_BINARY_DIR}/conch-testing.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)
  endif()
  if(TARGET conch_postgresql)
    # See src/servers/postgresql/CMakeLists.txt. As one word, which pkg-config does not take apart.
    if(BUILD_SHARED_LIBS)
      set(conch_pc_postgresql "-Wl,--push-state,--no-as-needed,-lconch-postgresql,--pop-state")
    else()
      set(conch_pc_postgresql "-Wl,-u,conch_component_postgresql -lconch-postgresql")
    endif()
    configure_file(cmake/conch-postgresql.pc.in conch-postgresql.pc @ONLY)
    install(FILES "${CMAKE_CURRENT_BINARY_DIR}/conch-postgresql.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
      COMPONENT postgresql_development)
  endif()
endif()
