#!/usr/bin/env python3
"""No binary of a core build may need gRPC. Usage: no_grpc_test.py BUILD_DIR"""
import pathlib
import subprocess
import sys

build = pathlib.Path(sys.argv[1])
binaries = [p for folder in ("tests", "bin") for p in (build / folder).glob("*")
            if p.is_file() and p.read_bytes()[:4] == b"\x7fELF"]
if not binaries:
    sys.exit(f"no binaries in {build}: nothing was checked")
guilty = [p.name for p in binaries
          if "libgrpc" in subprocess.run(["ldd", p], capture_output=True, text=True, check=True).stdout]
if guilty:
    sys.exit("these link gRPC: " + ", ".join(guilty))
print(f"{len(binaries)} binaries, none needs gRPC")
