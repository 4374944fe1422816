# What the library needs (all Debian packages; scripts/setup.sh installs them), and what only
# programs and tests need. LamellaConfig.cmake.in and lamella.pc.in repeat the first list.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LAMELLA_PMEM2 REQUIRED IMPORTED_TARGET libpmem2)
pkg_check_modules(LAMELLA_XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(LAMELLA_LZ4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(LAMELLA_ZSTD REQUIRED IMPORTED_TARGET libzstd)

if(LAMELLA_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(LAMELLA_BUILD_TOOLS OR LAMELLA_BUILD_BENCH)
  find_package(fmt REQUIRED)
  find_package(CLI11 CONFIG QUIET)
  if(NOT TARGET CLI11::CLI11)  # Debian 12's package is headers only, with its config file elsewhere in some versions
    find_path(LAMELLA_CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
    add_library(CLI11::CLI11 INTERFACE IMPORTED)
    target_include_directories(CLI11::CLI11 INTERFACE ${LAMELLA_CLI11_INCLUDE})
  endif()
  find_package(nlohmann_json REQUIRED)
endif()
if(LAMELLA_BUILD_BENCH)
  find_package(benchmark QUIET)
  find_package(GTest QUIET)  # of the test support that they use
  if(NOT benchmark_FOUND OR NOT GTest_FOUND)
    message(STATUS "Google Benchmark or GoogleTest not found: micro benchmarks (*_bench.cc) are skipped")
  endif()
endif()
