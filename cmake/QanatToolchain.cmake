# The language, the warnings and the sanitizers: the same for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

set(QANAT_SANITIZE "" CACHE STRING "Sanitizers of the whole build: 'address,undefined', 'thread' or empty")
option(QANAT_WERROR "Warnings are errors" ON)
option(QANAT_FUZZERS "Build the libFuzzer targets (clang only)" OFF)

find_program(QANAT_CCACHE ccache)
if(QANAT_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${QANAT_CCACHE})
endif()

add_library(qanat_options INTERFACE)
target_compile_options(qanat_options INTERFACE -Wall -Wextra -Wno-unused-parameter)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 sees overlapping copies in std::string's assign that are not there (gcc bug 105651).
  target_compile_options(qanat_options INTERFACE -Wno-restrict)
endif()
if(QANAT_WERROR)
  target_compile_options(qanat_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Lock discipline is part of the types here; g++ ignores these annotations.
  target_compile_options(qanat_options INTERFACE -Wthread-safety)
endif()
if(QANAT_SANITIZE)
  target_compile_options(qanat_options INTERFACE
    -fsanitize=${QANAT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(qanat_options INTERFACE -fsanitize=${QANAT_SANITIZE})
  if(QANAT_SANITIZE STREQUAL "thread")
    # Protobuf's headers lay maps out otherwise when they see this macro, unlike the library of the distribution.
    target_compile_options(qanat_options INTERFACE -U__SANITIZE_THREAD__)
  endif()
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Debug" OR QANAT_SANITIZE)
  # Invariants of every data structure are checked after every change, and tests can inject faults.
  set(QANAT_FAILPOINTS ON)
  target_compile_definitions(qanat_options INTERFACE QANAT_DEBUG_CHECKS=1 QANAT_FAILPOINTS=1)
endif()
if(QANAT_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "qanat: QANAT_FUZZERS needs clang; use the preset fuzz")
  endif()
  # The libraries tell the fuzzer which branches an input took.
  target_compile_options(qanat_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(qanat_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
