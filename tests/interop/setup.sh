#!/usr/bin/env bash
# Installs the peers the interop tests talk to: pinned, outside the repository, once. Running it again does nothing.
#
#   tests/interop/setup.sh                 into ${XDG_CACHE_HOME:-$HOME/.cache}/antiphon-interop
#   ANTIPHON_INTEROP_DIR=/some/dir ...     into that directory (set it for the tests as well)
#
# Needs python3 (or $PYTHON) and npm. The Inspector wants a newer Node than many systems have, so one is installed with it.
set -euo pipefail

DIR="${ANTIPHON_INTEROP_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/antiphon-interop}"
PYTHON="${PYTHON:-python3}"
ROOT="$(cd "$(dirname "$0")/../.." && pwd)"

PYTHON2_PEERS=(mcp==2.3.0)
# The servers beside the older SDK do not start with the newer one.
PYTHON1_PEERS=(mcp==1.30.0 mcp-server-sqlite==2025.4.25 mcp-server-calculator==0.2.0)
PYTHONSERVERS_PEERS=(mcp==2.3.0 mcp-server-time==2026.10.19 mcp-server-git==2026.10.19 mcp-server-fetch==2026.10.24)
# The servers of tests/interop/ported are written for both; it makes servers of OpenAPI documents, too.
FASTMCP_PEERS=(fastmcp==4.2.3)
# Programs that call a vendor's API themselves, for the model API; LiteLLM is asked about consent as well.
PYTHONAPI_PEERS=('litellm[proxy]==1.106.2' langchain-openai==1.7.3 langchain-anthropic==1.7.7)
# A gateway with approvals of its own, asked the same as ours.
CTRLRUN_PEERS=('ctrlrun[gateway]==0.12.2')
# Frameworks in which agents are built; each excludes packages of the others, so each has an environment of its own.
# Each with the framework's own MCP client, which is measured beside ours.
ADAPTER_LANGCHAIN=(langchain==1.5.2 langgraph==1.2.24 langchain-mcp-adapters==0.3.2)
ADAPTER_OPENAI_AGENTS=(openai-agents==0.24.0)
ADAPTER_GOOGLE_ADK=('google-adk[mcp]==2.13.0')
ADAPTER_PYDANTIC_AI=('pydantic-ai-slim[mcp]==2.68.0')
ADAPTER_TESTS=(pytest==9.2.0 pytest-asyncio==1.5.0 pytest-timeout==2.4.0)
# What hosts start a bundle of type uv with; it installs nothing in the tests.
UV_PEERS=(uv==0.13.9)
NODE_PEERS=(
  @modelcontextprotocol/server-everything@2026.8.31
  @modelcontextprotocol/sdk@1.32.2
  @modelcontextprotocol/client@2.4.0
  @modelcontextprotocol/server@2.4.0
  @modelcontextprotocol/node@2.1.2
  @modelcontextprotocol/inspector@2.12.0
  zod@4.6.7
  oidc-provider@9.13.3
  openai@7.57.0
  @anthropic-ai/sdk@1.12.0
  @anthropic-ai/mcpb@2.1.2
  node@22.23.3
)

# Servers that start without a network, a key or an account.
SERVERS=(
  @modelcontextprotocol/server-everything@2026.8.31
  @modelcontextprotocol/server-filesystem@2026.8.31
  @modelcontextprotocol/server-memory@2026.8.31
  @modelcontextprotocol/server-sequential-thinking@2026.8.31
  mcp-server-kubernetes@4.1.7
  @playwright/mcp@0.0.83
  @upstash/context7-mcp@4.1.1
)

# Hosts whose configuration "antiphon install" changes; 1.4 GB, most of it their own runtimes.
HOSTS=(
  @anthropic-ai/claude-code@2.1.330
  @openai/codex@0.169.0
  @google/gemini-cli@0.61.0
  @github/copilot@1.0.102
  opencode-ai@1.18.33
)

# AgentDojo has an environment beside those of the benchmarks, which use it as well.
(cd "$ROOT" && "$PYTHON" -m benchmarks.agentdojo.environment > /dev/null)

STAMP="$DIR/installed"
WANTED="${PYTHON2_PEERS[*]} ${PYTHONAPI_PEERS[*]} ${PYTHON1_PEERS[*]} ${NODE_PEERS[*]} ${HOSTS[*]}
${PYTHONSERVERS_PEERS[*]} ${SERVERS[*]} ${FASTMCP_PEERS[*]} ${UV_PEERS[*]} ${CTRLRUN_PEERS[*]}
${ADAPTER_LANGCHAIN[*]} ${ADAPTER_OPENAI_AGENTS[*]} ${ADAPTER_GOOGLE_ADK[*]} ${ADAPTER_PYDANTIC_AI[*]} ${ADAPTER_TESTS[*]}"
if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$WANTED" ]; then
  echo "interop peers: already in $DIR"
  exit 0
fi

mkdir -p "$DIR/npm" "$DIR/hosts" "$DIR/servers"
rm -f "$STAMP"

install_python() { # name, packages...
  local venv="$DIR/$1"
  [ -x "$venv/bin/python" ] || "$PYTHON" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"
}

install_node() { # folder, packages...
  cd "$DIR/$1"
  [ -f package.json ] || echo '{"private": true}' > package.json
  npm install --save-exact --no-audit --no-fund --loglevel=error "${@:2}"
}

# The library's own dependencies come with it; the tests then take the modules of their checkout.
install_adapter() { # name, packages...
  install_python "adapter_$1" "${@:2}" "${ADAPTER_TESTS[@]}" "$ROOT[host]"
}

echo "interop peers: installing into $DIR"
(install_python python2 "${PYTHON2_PEERS[@]}" && install_python python1 "${PYTHON1_PEERS[@]}" &&
  install_python pythonapi "${PYTHONAPI_PEERS[@]}" && install_python pythonservers "${PYTHONSERVERS_PEERS[@]}" &&
  install_python fastmcp "${FASTMCP_PEERS[@]}" && install_python uv "${UV_PEERS[@]}" && install_python ctrlrun "${CTRLRUN_PEERS[@]}" &&
  install_adapter langchain "${ADAPTER_LANGCHAIN[@]}" && install_adapter openai_agents "${ADAPTER_OPENAI_AGENTS[@]}" &&
  install_adapter google_adk "${ADAPTER_GOOGLE_ADK[@]}" && install_adapter pydantic_ai "${ADAPTER_PYDANTIC_AI[@]}") &
python_job=$!
install_node npm "${NODE_PEERS[@]}"
install_node servers "${SERVERS[@]}"
install_node hosts "${HOSTS[@]}"
wait "$python_job"

echo "$WANTED" > "$STAMP"
echo "interop peers: ready"
