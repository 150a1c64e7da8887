# Every outside library, found once. What core needs is required; gRPC and the exporter are optional, and
# CMAKE_DISABLE_FIND_PACKAGE_gRPC=ON gives the core build.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
# Module mode, and before gRPC's own config asks for it.
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG)
find_package(absl CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(GTest CONFIG REQUIRED)
find_package(benchmark CONFIG)
find_package(prometheus-cpp CONFIG REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
# The oracle of the kernels' tests; nothing that ships links it.
find_library(DNNL_LIBRARY dnnl)

if(gRPC_FOUND)
  set(QANAT_GRPC ON)
  find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
else()
  set(QANAT_GRPC OFF)
  message(STATUS "qanat: gRPC is off or missing: building core only")
endif()
