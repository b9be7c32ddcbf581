# SPDX-License-Identifier: Apache-2.0
# tools/setup.sh - sourced by ./quickstart and ./runtests: whatever is missing
# between a bare Debian machine and a built tree, and nothing when nothing is.
#
#   jb_setup_packages   Debian packages (root or sudo; else prints the line and stops)
#   jb_setup_venv       .venv from harness/requirements.lock
#   jb_setup_build DIR [cmake options]
#   jb_setup_browser    Chromium, for the tests of the report's page; never needed
#
# Each step is idempotent and leaves its stamp last, so Ctrl-C anywhere is safe.
# Once all three have run, none of them touches the network.

jb_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

jb_say() { printf '%s\n' "setup: $*" >&2; }
jb_die() { printf '%s\n' "setup: $*" >&2; exit 1; }

# What we need -> how to see it -> the Debian package that has it.
jb_needs='
cc        command:cc                build-essential
make      command:make              build-essential
cmake     command:cmake             cmake
pkgconfig command:pkg-config        pkg-config
yaml      module:yaml-0.1           libyaml-dev
cjson     module:libcjson           libcjson-dev
curl      module:libcurl            libcurl4-openssl-dev
sqlite    module:sqlite3            libsqlite3-dev
zlib      module:zlib               zlib1g-dev
crypto    module:libcrypto          libssl-dev
seccomp   module:libseccomp         libseccomp-dev
check     module:check              check
python    python:                   python3-dev
venv      venv:                     python3-venv
'

# An interpreter that can be embedded: 3.11 or later, with headers and a shared
# libpython.  Prints its path; fails when there is none.
jb_find_python() {
  local p
  for p in ${JAXBENCH_PYTHON:-} python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
    command -v "$p" >/dev/null 2>&1 || continue
    "$p" - <<'PY' >/dev/null 2>&1 && { command -v "$p"; return 0; }
import os, sys, sysconfig
v = sysconfig.get_config_var
ok = sys.version_info >= (3, 11) and os.path.exists(os.path.join(v("INCLUDEPY"), "Python.h"))
ok = ok and v("Py_ENABLE_SHARED") and os.path.exists(os.path.join(v("LIBDIR"), v("LDLIBRARY")))
sys.exit(0 if ok else 1)
PY
  done
  return 1
}

jb_have() {
  case $1 in
    command:*) command -v "${1#command:}" >/dev/null 2>&1 ;;
    module:*) command -v pkg-config >/dev/null 2>&1 && pkg-config --exists "${1#module:}" ;;
    python:) jb_find_python >/dev/null ;;
    venv:) local p; p=$(jb_find_python) && "$p" -c 'import ensurepip, venv' >/dev/null 2>&1 ;;
  esac
}

jb_setup_packages() {
  local name probe package missing=
  while read -r name probe package; do
    [ -n "$name" ] || continue
    jb_have "$probe" || case " $missing " in *" $package "*) ;; *) missing="$missing $package" ;; esac
  done <<<"$jb_needs"
  [ -n "$missing" ] || return 0
  local line="apt-get update && apt-get install -y --no-install-recommends$missing" sudo=
  if ! command -v apt-get >/dev/null 2>&1; then
    jb_die "missing:$missing (Debian names). This machine has no apt-get; install their equivalents and run again."
  fi
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then sudo="sudo"; else
      jb_die "missing system packages. Run this once, then again what you just ran:
  sudo sh -c '$line'"
    fi
  fi
  jb_say "installing$missing"
  $sudo sh -c "export DEBIAN_FRONTEND=noninteractive; $line" >"$jb_root/.setup.log" 2>&1 ||
    { tail -n 20 "$jb_root/.setup.log" >&2; jb_die "apt-get failed; the log is .setup.log"; }
  rm -f "$jb_root/.setup.log"
}

# The venv that lies there is kept whatever `python3` the PATH finds today, as long
# as it works and came from this lock file.  Where the new one can't be made, the
# old one is put back.
jb_setup_venv() {
  local lock="$jb_root/harness/requirements.lock" venv="$jb_root/.venv" python want
  want=$(sha256sum <"$lock")
  [ "$(cat "$venv/.jaxbench-lock" 2>/dev/null)" = "$want" ] && "$venv/bin/python" -c '' 2>/dev/null && return 0
  python=$(jb_find_python) || jb_die "no Python 3.11 or later with headers and a shared libpython. Install python3-dev, or set JAXBENCH_PYTHON to one that has them."
  jb_say "making .venv with $python (jax, jaxlib, libtpu and more; about 1.2 GB, once, some minutes)"
  rm -rf "$venv.old"
  [ -e "$venv" ] && mv "$venv" "$venv.old"
  if "$python" -m venv "$venv" && jb_pip "$lock"; then
    printf '%s\n' "$want" >"$venv/.jaxbench-lock"
    rm -rf "$venv.old"
    return 0
  fi
  rm -rf "$venv"
  [ -e "$venv.old" ] && mv "$venv.old" "$venv"
  jb_die "could not make .venv with $python from harness/requirements.lock (see above); nothing was changed. Run again to try again."
}

jb_pip() {
  "$jb_root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r "$1" 2>&1 |
    grep -v 'WARNING: Location' >&2
  return "${PIPESTATUS[0]}"
}

# 113 MB to fetch, 414 MB of disk: only for CI, where root can install it, and no
# failure when it can't be had; the tests that want it are then skipped.
jb_setup_browser() {
  command -v chromium >/dev/null 2>&1 && return 0
  command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 0
  jb_say "installing chromium, to look at the report's page"
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } >"$jb_root/.setup.log" 2>&1 ||
    jb_say "chromium can't be installed; the tests of the page are skipped"
  rm -f "$jb_root/.setup.log"
}

# Configure when options or the venv's Python changed, then let the generator
# decide what is stale; quiet when nothing is.
jb_setup_build() {
  local dir=$1 log="$1/setup.log" options
  shift
  mkdir -p "$dir"
  options="$* $("$jb_root/.venv/bin/python" -c 'import sys; print(sys.version.split()[0], sys.base_prefix)')"
  if [ ! -f "$dir/CMakeCache.txt" ] || [ "$(cat "$dir/.options" 2>/dev/null)" != "$options" ]; then
    jb_say "configuring and building $(basename "$dir") (about a minute)"
    cmake -S "$jb_root" -B "$dir" -DJAXBENCH_PYTHON="$jb_root/.venv/bin/python" "$@" >"$log" 2>&1 ||
      { rm -f "$dir/CMakeCache.txt"; tail -n 30 "$log" >&2; jb_die "cmake failed; the log is $log"; }
    printf '%s\n' "$options" >"$dir/.options"
  fi
  cmake --build "$dir" -j "$(nproc)" >"$log" 2>&1 || { grep -E 'error|Error|\*\*\*' "$log" | head -n 30 >&2; jb_die "the build failed; the log is $log"; }
}
