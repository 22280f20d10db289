# Install, export, pkg-config.

include(CMakePackageConfigHelpers)

set(conch_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/conch")

install(TARGETS conch EXPORT conchTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
if(TARGET conch-cli)
  install(TARGETS conch-cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  install(FILES src/cli/conch.1 DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
  install(FILES src/cli/completion/conch.bash DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME conch)
  install(FILES src/cli/completion/_conch DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
endif()

install(EXPORT conchTargets NAMESPACE conch:: DESTINATION "${conch_package_dir}")
configure_package_config_file(cmake/conchConfig.cmake.in conchConfig.cmake
  INSTALL_DESTINATION "${conch_package_dir}")
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(conchConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/conchConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/conchConfigVersion.cmake"
  DESTINATION "${conch_package_dir}")

# conch.pc finds its prefix from where it lies, so that an installed tree can be moved.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  message(STATUS "conch.pc is not installed: absolute install folders")
else()
  file(RELATIVE_PATH conch_pc_prefix
    "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
  string(REGEX REPLACE "/$" "" conch_pc_prefix "${conch_pc_prefix}")
  set(conch_pc_requires "")
  set(conch_pc_tls 0)
  if(CONCH_TLS)
    set(conch_pc_requires "libssl libcrypto")
    set(conch_pc_tls 1)
  endif()
  configure_file(cmake/conch.pc.in conch.pc @ONLY)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/conch.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()
