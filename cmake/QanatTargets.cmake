# The kinds of target. A target is named after its folder (common/text -> common_text), so that the
# layering test can read the DEPS lines as edges between folders.
#
#   qanat_library(NAME [SRCS a.cc ...] [DEPS target ...])    a folder's code; header-only without SRCS
#   qanat_binary(NAME [OUTPUT name] SRCS ... DEPS ...)       goes to <build>/bin
#   qanat_test(NAME SRCS ... DEPS ... [LABELS l ...] [TIMEOUT s])    one GoogleTest binary, one ctest entry
#   qanat_benchmark(NAME SRCS ... DEPS ...)                  one Google Benchmark binary, never run by ctest
#   qanat_fuzzer(NAME SRCS ... DEPS ...)                     one libFuzzer binary in <build>/fuzz, with QANAT_FUZZERS

# The real model that release-only tests read; it is kept outside git, where tools/lib.sh puts it.
if(DEFINED ENV{QANAT_MODEL})
  set(default_model "$ENV{QANAT_MODEL}")
else()
  if(DEFINED ENV{QANAT_CACHE})
    set(default_cache "$ENV{QANAT_CACHE}")
  elseif(DEFINED ENV{XDG_CACHE_HOME})
    set(default_cache "$ENV{XDG_CACHE_HOME}/qanat")
  else()
    set(default_cache "$ENV{HOME}/.cache/qanat")
  endif()
  set(default_model "${default_cache}/SmolLM2-135M-Instruct.Q4_1.gguf")
endif()
set(QANAT_MODEL_FILE "${default_model}" CACHE FILEPATH "SmolLM2-135M-Instruct.Q4_1.gguf, for release-only tests")

function(qanat_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(${name} STATIC ${ARG_SRCS})
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE qanat_options)
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
  endif()
endfunction()

function(qanat_binary name)
  cmake_parse_arguments(ARG "" "OUTPUT" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} qanat_options)
  if(ARG_OUTPUT)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME ${ARG_OUTPUT})
  endif()
endfunction()

function(qanat_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main qanat_options)
  # Where a test finds data that is checked in, and the model that tools/ fetched outside git.
  target_compile_definitions(${name} PRIVATE
    QANAT_SOURCE_DIR="${CMAKE_SOURCE_DIR}" QANAT_BINARY_DIR="${CMAKE_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(QANAT_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 5")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  if("release-only" IN_LIST ARG_LABELS)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "QANAT_MODEL=${QANAT_MODEL_FILE}")
  endif()
endfunction()

function(qanat_benchmark name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  if(NOT TARGET benchmark::benchmark OR QANAT_SANITIZE)
    return()
  endif()
  add_executable(${name} ${ARG_SRCS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} benchmark::benchmark benchmark::benchmark_main qanat_options)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/benchmarks)
endfunction()

# All of them: what tools/fuzz builds.
if(QANAT_FUZZERS)
  add_custom_target(fuzzers)
endif()

function(qanat_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  if(NOT QANAT_FUZZERS)
    return()
  endif()
  add_executable(${name} ${ARG_SRCS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} qanat_options)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  add_dependencies(fuzzers ${name})
endfunction()
