#!/usr/bin/env bash
# Installs the peers that are measured beside us: pinned, outside the repository, once. Running it again does nothing.
#
#   benchmarks/peers/setup.sh              into ${XDG_CACHE_HOME:-$HOME/.cache}/antiphon-benchmarks
#   ANTIPHON_BENCHMARKS_DIR=/some/dir ...  into that directory (set it for the run as well)
#
# Needs python3 (or $PYTHON) and, for the TypeScript SDKs, npm. What cannot be installed is said, and left out of the run.
set -uo pipefail

DIR="${ANTIPHON_BENCHMARKS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/antiphon-benchmarks}"
PYTHON="${PYTHON:-python3}"

# uvloop and httptools for all: what a peer is served by shall not be what is compared.
install_python() { # name, packages...
  local venv="$DIR/$1" wanted="${*:2}"
  [ "$(cat "$venv/installed" 2>/dev/null)" = "$wanted" ] && return
  rm -rf "$venv"
  if "$PYTHON" -m venv "$venv" && "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    uvloop httptools "${@:2}"; then
    echo "$wanted" > "$venv/installed"
  else
    rm -rf "$venv"
    echo "benchmarks: $1 could not be installed ($wanted); its rows stay empty" >&2
  fi
}

install_node() { # name, packages...
  local folder="$DIR/$1" wanted="${*:2}"
  [ "$(cat "$folder/installed" 2>/dev/null)" = "$wanted" ] && return
  if ! command -v npm > /dev/null; then
    echo "benchmarks: no npm, so no $1; its rows stay empty" >&2
    return
  fi
  rm -rf "$folder"
  mkdir -p "$folder"
  echo '{"private": true}' > "$folder/package.json"
  if (cd "$folder" && npm install --save-exact --no-audit --no-fund --loglevel=error "${@:2}"); then
    echo "$wanted" > "$folder/installed"
  else
    rm -rf "$folder"
    echo "benchmarks: $1 could not be installed ($wanted); its rows stay empty" >&2
  fi
}

# What the tools of benchmarks/io_bound work with: the versions that we test with, see constraints.txt.
IO_BOUND=(redis==8.1.0 hiredis==3.5.0 aiohttp==3.14.5 httpx==0.28.1)

mkdir -p "$DIR"
install_python python1 mcp==1.30.0 &
install_python python2 mcp==2.3.0 "${IO_BOUND[@]}" &
install_python fastmcp4 fastmcp==4.2.3 mcp==2.3.0 "${IO_BOUND[@]}" &
install_python mcp-proxy mcp-proxy==0.13.0 mcp==1.30.0 &
install_node ts1 @modelcontextprotocol/sdk@1.32.2 zod@4.6.7
install_node ts2 @modelcontextprotocol/server@2.4.0 @modelcontextprotocol/client@2.4.0 \
  @modelcontextprotocol/node@2.1.2 zod@4.6.7 ioredis@6.0.0
wait
