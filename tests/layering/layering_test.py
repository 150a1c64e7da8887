#!/usr/bin/env python3
"""Who may include whom, and who may link whom: the table of docs/architecture.md, checked.

Usage: layering_test.py SOURCE_DIR            checks the tree
       layering_test.py SOURCE_DIR --selftest checks that forbidden edges are found
Prints each edge that is not in the table as FILE:LINE and exits 1 when there is one.
"""
import pathlib
import re
import sys

# Outside libraries, by the beginning of an include and by the name of a CMake target.
LIBRARIES = {
    "abseil": (("absl/",), ("absl::",)),
    "spdlog": (("spdlog/",), ("spdlog::",)),
    "pcre2": (("pcre2",), ("PkgConfig::PCRE2",)),
    "json": (("nlohmann/",), ("nlohmann_json::",)),
    "xxhash": (("xxhash",), ("PkgConfig::XXHASH",)),
    "prometheus": (("prometheus/",), ("prometheus-cpp::",)),
    "hwloc": (("hwloc",), ("PkgConfig::HWLOC",)),
    "cli11": (("CLI/",), ("CLI11::",)),
    "proto": (("google/protobuf/",), ("protobuf::", "qanat_proto")),
    "grpc": (("grpc/", "grpcpp/"), ("gRPC::", "qanat_grpc_proto")),
    "gloo": (("gloo/",), ("gloo",)),
    "nccl": (("nccl",), ("nccl",)),
    "cuda": (("cuda", "cublas"), ("CUDA::",)),
    "beast": (("boost/",), ("Boost::",)),
    "gtest": (("gtest/", "gmock/"), ("GTest::",)),
    "benchmark": (("benchmark/",), ("benchmark::",)),
    "dnnl": (("dnnl", "oneapi/"), ("dnnl",)),
}
BASE = {"common/base", "abseil", "spdlog"}
CORE = BASE | {"common/text", "common/hash", "common/metrics"}
ROUTER_CORE = {"router/snapshot", "router/index", "router/routing", "router/admission"}

# Folder -> what its files may include and its target may link, beside std, threads and itself.
TABLE = {
    "kernels": set(),
    "common/base": BASE,
    "common/hash": BASE | {"xxhash"},
    "common/text": BASE | {"pcre2", "json"},
    "common/metrics": BASE,
    "common/cli": BASE | {"cli11"},
    "common/api": CORE | {"proto"},
    "common/rpc": BASE | {"proto", "grpc"},
    "worker/kv": BASE | {"common/hash"},
    "worker/sampling": BASE | {"common/hash"},
    "worker/engine": CORE | {"worker/kv"},
    "worker/sim": BASE | {"common/hash"},
    "worker/model": CORE | {"worker/sampling"},
    "worker/backend": BASE | {"kernels", "hwloc"},
    "worker/parallel": BASE,
    "worker/service": CORE | {"common/api", "common/rpc", "worker/engine", "proto", "grpc"},
    "router/snapshot": CORE,
    "router/index": CORE | {"router/snapshot"},
    "router/routing": CORE | {"router/snapshot", "router/index"},
    "router/admission": CORE | {"router/snapshot"},
    "router/cluster": CORE | ROUTER_CORE | {"common/api", "proto"},
    "router/forward": CORE | ROUTER_CORE | {"common/api", "proto", "router/cluster"},
    "router/link": CORE | {"common/api", "proto"},
    "router/service": CORE | ROUTER_CORE | {"common/api", "common/rpc", "proto", "grpc", "beast",
                                            "router/cluster", "router/forward", "router/link"},
}
# One file (or all files with a beginning) -> what it may use beyond its folder, and the headers by which a folder
# may be entered although the folder as a whole may not.
FILES = {
    "common/metrics/exporter": {"prometheus"},
    "router/link/grpc_link": {"grpc", "common/rpc", "router/cluster"} | ROUTER_CORE,
    "worker/parallel/gloo_": {"gloo"},
    "worker/parallel/nccl_": {"nccl"},
    "worker/backend/cuda_": {"cuda"},
    "worker/model/weights/safetensors_header": {"json"},
    "worker/sim/step_model_file": {"json"},
    "kernels/cuda/": {"cuda"},
}
ENGINE_INTERFACES = {"worker/engine/model_runner.h", "worker/engine/request.h", "worker/engine/engine_metrics.h"}
DOORS = {
    "worker/engine": {"worker/sampling/params.h"},
    "worker/model": ENGINE_INTERFACES | {"worker/backend/backend.h", "worker/parallel/communicator.h"},
    "worker/sim": ENGINE_INTERFACES | {"worker/sampling/params.h"},
    "router/cluster": {"router/link/worker_link.h"},
    "router/forward": {"router/link/worker_link.h"},
}
# Targets a folder may link for the sake of such a header.
DOOR_TARGETS = {
    "worker/engine": {"worker/sampling"},
    "worker/model": {"worker/engine", "worker/backend"},
    "worker/sim": {"worker/engine", "worker/sampling"},
    "router/cluster": {"router/link"},
    "router/forward": {"router/link"},
}
# Composition roots and what nobody includes: anything goes.
FREE = ("tests/", "tools/", "worker/main.cc", "worker/flags.", "router/main.cc", "router/flags.", "proto/")
CODE = {".h", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def folder_of(path):
    """The row of the table a project path belongs to, or None."""
    parts = path.split("/")
    if parts[0] == "kernels":
        return "kernels"
    name = "/".join(parts[:2])
    return name if name in TABLE else None


def library_of(include):
    if include.endswith(".grpc.pb.h"):
        return "grpc"
    if include.endswith(".pb.h"):
        return "proto"
    return next((name for name, (starts, _) in LIBRARIES.items() if include.startswith(starts)), None)


def check_include(path, include):
    """What is wrong with `path` including `include`, or None."""
    folder = folder_of(path)
    if path.startswith(FREE) or folder is None:
        return None
    if include.startswith(("tests/", "tools/")) or include.endswith("main.cc"):
        return "nobody includes tests/, tools/ or a main.cc"
    target = folder_of(include) or library_of(include)
    if target is None or target == folder or target in TABLE[folder] or include in DOORS.get(folder, ()):
        return None
    if any(path.startswith(start) and target in allowed for start, allowed in FILES.items()):
        return None
    return f"{folder} may not include {target}"


def target_folder(target):
    """The row of the table, or the library, that a CMake target stands for."""
    for folder in TABLE:
        name = folder.replace("/", "_")
        if target == name or target.startswith(name + "_"):
            return folder
    return next((name for name, (_, starts) in LIBRARIES.items() if target.startswith(starts)), None)


def libraries_in(text):
    """(line, target, deps) of every qanat_library() in a CMakeLists.txt."""
    for match in re.finditer(r"qanat_library\(\s*([\w-]+)([^)]*)\)", text):
        body = re.sub(r"#[^\n]*", "", match.group(2))
        deps = body.split("DEPS", 1)[1].split() if "DEPS" in body else []
        yield text.count("\n", 0, match.start()) + 1, match.group(1), deps
    for match in re.finditer(r"target_link_libraries\(\s*([\w-]+)([^)]*)\)", text):
        deps = [word for word in match.group(2).split() if word not in ("PUBLIC", "PRIVATE", "INTERFACE")]
        yield text.count("\n", 0, match.start()) + 1, match.group(1), deps


def check_link(path, target, dep):
    """What is wrong with the CMake target `target`, made in `path`, linking `dep`, or None."""
    folder, other = target_folder(target), target_folder(dep)
    if path.startswith(("tests/", "tools/", "cmake/", "proto/")) or folder is None:
        return None
    # A target of some files of a folder (router_link_grpc) may link what those files may include.
    extra = set().union(*(allowed for start, allowed in FILES.items() if start.startswith(folder + "/")))
    allowed = TABLE[folder] | DOOR_TARGETS.get(folder, set()) | extra
    if other is None or other == folder or other in allowed:
        return None
    return f"{folder} may not link {other}"


def errors_in(root):
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name.startswith(("build/", ".git/")) or not path.is_file():
            continue
        if path.suffix in CODE:
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                match = INCLUDE.match(line)
                problem = match and check_include(name, match.group(1) or match.group(2))
                if problem:
                    yield f"{name}:{number}: {line.strip()}: {problem}"
        elif path.name == "CMakeLists.txt":
            for number, target, deps in libraries_in(path.read_text()):
                for dep in deps:
                    problem = check_link(name, target, dep)
                    if problem:
                        yield f"{name}:{number}: {target} links {dep}: {problem}"


def selftest():
    """Edges that must be refused, and their lawful neighbours."""
    refused = [("kernels/gemm.h", "absl/types/span.h"), ("worker/kv/kv.h", "worker/engine/engine.h"),
               ("worker/engine/engine.cc", "worker/sampling/sampler.h"), ("common/text/t.cc", "qanat/v1/model.pb.h"),
               ("worker/model/decoder.cc", "worker/backend/cpu_backend.h"), ("common/api/a.cc", "grpcpp/grpcpp.h"),
               ("worker/service/s.cc", "worker/kv/kv_manager.h"), ("worker/sim/s.h", "worker/engine/engine.h"), ("router/cluster/c.cc", "router/link/grpc_link.h"),
               ("common/metrics/catalogue.cc", "prometheus/registry.h"), ("router/service/s.cc", "worker/engine/engine.h"),
               ("router/forward/f.h", "qanat/cluster/v1/worker.grpc.pb.h"), ("common/base/x.h", "tests/fakes/clock.h")]
    allowed = [("worker/engine/engine.cc", "worker/sampling/params.h"), ("kernels/gemm.h", "immintrin.h"),
               ("common/metrics/exporter.cc", "prometheus/registry.h"), ("router/link/grpc_link.cc", "grpcpp/grpcpp.h"),
               ("router/forward/f.h", "router/link/worker_link.h"), ("worker/model/decoder.cc", "worker/backend/backend.h"),
               ("worker/main.cc", "worker/backend/cpu_backend.h"), ("common/api/generate.h", "qanat/v1/inference.pb.h")]
    links_refused = [("kernels", "absl::span"), ("worker_kv", "worker_engine"), ("common_api", "gRPC::grpc++"),
                     ("router_forward", "qanat_grpc_proto"), ("worker_model", "worker_kv")]
    wrong = [f"not refused: {edge}" for edge in refused if check_include(*edge) is None]
    wrong += [f"refused: {edge}: {check_include(*edge)}" for edge in allowed if check_include(*edge)]
    wrong += [f"link not refused: {edge}" for edge in links_refused if check_link("CMakeLists.txt", *edge) is None]
    return wrong


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    wrong = selftest() if "--selftest" in sys.argv else list(errors_in(root))
    print("\n".join(wrong) if wrong else "layering: every edge is in the table")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
