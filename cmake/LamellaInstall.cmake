# `cmake --install`: the archive, the public headers, the CMake package Lamella (target
# Lamella::lamella) and lamella.pc.
include(CMakePackageConfigHelpers)

install(TARGETS lamella EXPORT LamellaTargets ARCHIVE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/lamella TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE TYPE DOC)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Lamella)
install(EXPORT LamellaTargets NAMESPACE Lamella:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/LamellaConfig.cmake.in ${PROJECT_BINARY_DIR}/LamellaConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/LamellaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/LamellaConfig.cmake ${PROJECT_BINARY_DIR}/LamellaConfigVersion.cmake
        DESTINATION ${package_dir})

# The prefix is found from where the .pc file lies, so that a moved or staged tree still works.
file(RELATIVE_PATH LAMELLA_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${CMAKE_CURRENT_LIST_DIR}/lamella.pc.in ${PROJECT_BINARY_DIR}/lamella.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/lamella.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
