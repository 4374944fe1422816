# The language level, the warnings and the flags of each build type, for every target of this tree.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # the archive may be linked into a shared library
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)    # clang-tidy reads it

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()
# No -march: a package built here runs on any x86-64; code that wants more says so with a function
# attribute.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")

find_program(LAMELLA_CCACHE ccache)
mark_as_advanced(LAMELLA_CCACHE)
if(LAMELLA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LAMELLA_CCACHE})
endif()

add_library(lamella_flags INTERFACE)
target_compile_options(lamella_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough
  -Wno-missing-field-initializers  # designated initializers leave the rest at their defaults on purpose
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  $<$<BOOL:${LAMELLA_WERROR}>:-Werror>)
if(LAMELLA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage, for libFuzzer to go by
endif()
if(LAMELLA_SANITIZE)
  # -O1 and frame pointers: readable reports at a bearable speed. Assertions stay on (no NDEBUG in
  # Debug).
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -fno-omit-frame-pointer")
  add_compile_options(-fsanitize=${LAMELLA_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LAMELLA_SANITIZE})
  if(LAMELLA_SANITIZE MATCHES address AND LAMELLA_SANITIZE MATCHES undefined)
    # What goes through a null pointer, or wherever arithmetic on a pointer leads beyond an object,
    # is reported by the one; that the other looks at each access for it too is a fifth of the
    # compiling and more.
    add_compile_options(-fno-sanitize=null,object-size,pointer-overflow)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-Wno-maybe-uninitialized)  # gcc 12 sees them in its own library's code once that is instrumented
  endif()
  if(LAMELLA_SANITIZE STREQUAL thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # gcc warns that TSan does not see atomic_thread_fence. Where we use one, every access that it
    # orders is atomic itself, so the blind spot can only cost reports, not invent them.
    add_compile_options(-Wno-tsan)
  endif()
endif()
