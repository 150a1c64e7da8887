#!/usr/bin/env python3
"""What ships holds no failpoint. Usage: no_failpoints_test.py BUILD_DIR"""
import pathlib
import sys

binaries = sorted((pathlib.Path(sys.argv[1]) / "bin").glob("qanat*"))
if not binaries:
    sys.exit("no binaries: nothing was checked")
guilty = [p.name for p in binaries if b"Failpoints" in p.read_bytes()]
if guilty:
    sys.exit("these hold failpoints: " + ", ".join(guilty))
print(f"{len(binaries)} binaries, no failpoint in any")
