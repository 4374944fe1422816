# lamella_folder(<name> <directory> [LONGEST <regex>] [APART <regex>] [DEPENDS <target>...])
# makes of one folder of src/:
#   lamella_<name>        its library: every *.cc but tests, benchmarks and fuzzers
#   lamella_<name>_test   one GoogleTest program of its *_test.cc, known to ctest under the label
#     <name>: each suite, with each of its parameters, as one test, in one process; but each test of
#     APART (a regular expression), and of LONGEST, which begin before all others, by itself
#   lamella_<name>_bench  one Google Benchmark program of its *_bench.cc
# A folder of headers alone is an INTERFACE library. A new file is picked up by the next build.

# Most of what compiling a file takes is its headers: so several files of a target are compiled as
# one. Their anonymous namespaces are one then, and the compiler says so where two use a name.
set(LAMELLA_BATCH 16 CACHE STRING "Files of a target that are compiled together; 1 where one file is changed many times")

# lamella_batch(<target>)
function(lamella_batch target)
  if(LAMELLA_BATCH GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${LAMELLA_BATCH})
  endif()
endfunction()

# lamella_unhurried(<target>): of tests and what serves them alone. Compiling them is half of a
# build: most of that is optimizing what runs once, and checks of their own arithmetic and scopes.
function(lamella_unhurried target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(LAMELLA_SANITIZE MATCHES undefined)
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
  if(LAMELLA_SANITIZE MATCHES address)
    target_compile_options(${target} PRIVATE -fno-sanitize-address-use-after-scope)
  endif()
endfunction()

function(lamella_folder name directory)
  cmake_parse_arguments(ARG "" "LONGEST;APART" "DEPENDS" ${ARGN})
  set(target lamella_${name})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${directory}/*.cc)
  set(tests ${sources})
  set(benches ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")

  if(sources)
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PRIVATE lamella_flags)
    lamella_batch(${target})
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${target} ${scope} ${ARG_DEPENDS})

  if(LAMELLA_BUILD_TESTS AND tests)
    lamella_test(${target}_test LABEL ${name} LONGEST "${ARG_LONGEST}" APART "${ARG_APART}" SOURCES ${tests} DEPENDS ${target})
  endif()
  if(LAMELLA_BUILD_BENCH AND benches AND benchmark_FOUND AND GTest_FOUND)
    add_executable(${target}_bench ${benches})
    target_link_libraries(${target}_bench PRIVATE lamella_flags lamella_testing ${target} benchmark::benchmark_main)
  endif()
endfunction()

# lamella_test(<program> LABEL <label> [LONGEST <regex>] [APART <regex>] SOURCES <file>...
#              [DEPENDS <target>...])
function(lamella_test program)
  cmake_parse_arguments(ARG "" "LABEL;LONGEST;APART" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${program} ${ARG_SOURCES})
  # lamella_testing stands first: its objects may call what stands after it, and only those a test
  # uses are linked.
  target_link_libraries(${program} PRIVATE lamella_flags lamella_testing ${ARG_DEPENDS} GTest::gtest_main)
  lamella_unhurried(${program})
  if(LAMELLA_SANITIZE)
    target_compile_options(${program} PRIVATE -O0)
  endif()
  lamella_batch(${program})
  # Listing the tests is left to ctest, so a build never runs what it built.
  set(apart "\\.[^.]*Concurren")  # test.sh asks for those by name
  if(ARG_APART)
    string(APPEND apart "|${ARG_APART}")
  endif()
  set(include ${CMAKE_CURRENT_BINARY_DIR}/${program}_groups.cmake)
  file(GENERATE OUTPUT ${include} CONTENT
"include([[${PROJECT_SOURCE_DIR}/cmake/LamellaTestGroups.cmake]])
set(emulator [[${CMAKE_CROSSCOMPILING_EMULATOR}]])
add_test_groups([[$<TARGET_FILE:${program}>]] [[${ARG_LABEL}]] [[${apart}]] [[${ARG_LONGEST}]])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include})
endfunction()
