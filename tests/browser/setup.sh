#!/usr/bin/env bash
# Installs what the browser tests need beside `make setup`: Chromium from the system's packages if there is none, axe-core,
# http_ece, which reads Web Push, and a host of others for interfaces (MCP Apps), pinned, outside the repository. Running it
# again does nothing.
#
#   tests/browser/setup.sh                 into ${XDG_CACHE_HOME:-$HOME/.cache}/antiphon-browser
#   ANTIPHON_BROWSER_DIR=/some/dir ...     into that directory (set it for the tests as well)
#
# Needs npm; and apt-get with the right to install where Chromium is missing.
set -euo pipefail

DIR="${ANTIPHON_BROWSER_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/antiphon-browser}"
PACKAGES=(
  axe-core@4.14.1
  http_ece@1.2.1
  @modelcontextprotocol/ext-apps@2.0.4
  @modelcontextprotocol/client@2.4.0
  @modelcontextprotocol/core@2.4.0
  @modelcontextprotocol/server@2.4.0
  zod@4.6.7
  esbuild@0.28.2
)

found() { command -v chromium || command -v chromium-browser || command -v google-chrome || command -v google-chrome-stable; }

if ! found > /dev/null; then
  echo "browser: installing Chromium"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium > /dev/null
fi
if ! fc-list 2> /dev/null | grep -qi 'noto.*cjk'; then
  # Without a font of Chinese its tests would look at empty boxes.
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq fonts-noto-cjk > /dev/null || echo "browser: no Chinese font" >&2
fi

if [ ! -f "$DIR/installed" ] || [ "$(cat "$DIR/installed")" != "${PACKAGES[*]}" ]; then
  mkdir -p "$DIR"
  cd "$DIR"
  [ -f package.json ] || echo '{"private": true}' > package.json
  npm install --save-exact --no-audit --no-fund --loglevel=error "${PACKAGES[@]}"
  echo "${PACKAGES[*]}" > installed
fi
echo "browser: ready ($(found))"
