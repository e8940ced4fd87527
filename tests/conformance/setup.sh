#!/usr/bin/env bash
# Installs the official conformance suite, and the Node it needs, pinned and outside the repository, once.
#
#   tests/conformance/setup.sh                 into ${XDG_CACHE_HOME:-$HOME/.cache}/antiphon-conformance
#   ANTIPHON_CONFORMANCE_DIR=/some/dir ...     into that directory (set it for tests.conformance.run as well)
#
# Needs npm. The suite needs Node 22: the one on the path is used if it is new enough, else one is installed with it.
set -euo pipefail

DIR="${ANTIPHON_CONFORMANCE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/antiphon-conformance}"

PACKAGES=(@modelcontextprotocol/conformance@0.2.0-alpha.12)
if ! node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 22)' 2>/dev/null; then
  PACKAGES+=(node@22.23.3)
fi

STAMP="$DIR/installed"
if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "${PACKAGES[*]}" ]; then
  echo "conformance suite: already in $DIR"
  exit 0
fi

echo "conformance suite: installing into $DIR"
mkdir -p "$DIR"
rm -f "$STAMP"
cd "$DIR"
[ -f package.json ] || echo '{"private": true}' > package.json
npm install --save-exact --no-audit --no-fund --loglevel=error "${PACKAGES[@]}"

echo "${PACKAGES[*]}" > "$STAMP"
echo "conformance suite: ready"
