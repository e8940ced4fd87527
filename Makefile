# Every target makes .venv first if it is missing or older than pyproject.toml or constraints.txt.
# Needs Python 3.11 or newer and pip; nothing else (interop and conformance also need node and npm).

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.made
ARGS ?=
# More than half of the time a test waits for a program that it has started, so four workers share a processor. Each is
# given whole files (worksteal), so that only one of them loads what a file needs.
WORKERS ?= $(shell echo $$((4 * $$(getconf _NPROCESSORS_ONLN))))
# The tests start hundreds of programs; without bytecode each of them compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
define NEEDS_PYTHON
@test -n "$(PYTHON)" || { echo "No python3.11 or python3 found; set PYTHON=..." >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "$(PYTHON) is older than 3.11; set PYTHON=..." >&2; exit 1; }
endef
# Messages on the wire are shown; ARGS adds or overrides, e.g. make demo ARGS="--revision 2025-06-18".
# With ARGS=--web a person decides, so nothing is approved without asking.
DEMO_EXTRA := $(if $(findstring --web,$(ARGS)),[host])
DEMO_STAMP := .venv/.made-for-demo$(if $(DEMO_EXTRA),-on-page)
DEMO := $(if $(findstring --web,$(ARGS)),,--yes) --products 3 --messages

.PHONY: help setup demo test fuzz endurance postgres redis nginx browser screenshots interop conformance site dist check format cover bench bench-full constraints audit-dependencies clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

setup: $(STAMP) ## make .venv with everything needed

$(STAMP): pyproject.toml constraints.txt
	$(NEEDS_PYTHON)
	@echo "Making .venv with everything for tests and checks, once; it takes one to three minutes."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@echo "Compiling the tests, once: otherwise each worker of make test does it by itself."
	-@$(BIN)/pytest --collect-only -q > /dev/null
	@touch $@

demo: ## the mission in one minute: 3 products described through sampling, messages shown
	@test -e $(STAMP) || $(MAKE) --no-print-directory $(DEMO_STAMP)
	@$(BIN)/antiphon demo $(DEMO) $(ARGS)

# The demo needs no tools of developers, and on the page the extra for it. pip says what it fetches; without compiling
# beforehand it takes half of the time.
$(DEMO_STAMP): pyproject.toml constraints.txt
	$(NEEDS_PYTHON)
	@echo "Making .venv with what the demo needs, once; it takes less than a minute."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.$(DEMO_EXTRA)'
	@touch $@

test: $(STAMP) ## all tests but interop and the long runs
	$(BIN)/pytest -n $(WORKERS) --dist worksteal $(ARGS)

fuzz: $(STAMP) ## the long runs: 100,000 mutated frames a side, a host killed at 200 points, hosts stopped for a minute
	$(BIN)/pytest -n auto --dist worksteal -m "slow and not postgres" --timeout 900 tests/auth tests/faults tests/fuzz tests/gateway tests/host/store tests/model_api tests/properties tests/server $(ARGS)

postgres: $(STAMP) ## the store on a real PostgreSQL (needs its server programs; starts one of its own)
	$(BIN)/pytest -n auto --dist loadfile -m "postgres and not endurance" --timeout 120 tests/faults tests/host tests/machine tests/server tests/sql tests/replicas $(ARGS)

redis: $(STAMP) ## replicas on a real Redis (needs redis-server; starts one of its own)
	$(BIN)/pytest -m redis --timeout 120 tests/benchmarks tests/faults tests/server tests/replicas tests/test_deploy.py $(ARGS)

nginx: $(STAMP) ## two replicas behind a real nginx (which must be installed: apt-get install nginx-light)
	$(BIN)/pytest -m nginx --timeout 180 tests/faults tests/scenarios $(ARGS)

browser: $(STAMP) site ## the review page in a real Chromium (which must be installed; brings axe-core from npm)
	bash tests/browser/setup.sh
	$(BIN)/pytest -m browser -n auto --timeout 120 tests/browser $(ARGS)

screenshots: $(STAMP) ## the pictures of the review page in docs/images, taken anew (needs what make browser needs)
	bash tests/browser/setup.sh
	$(BIN)/python -m tests.browser.pictures docs/images
	$(BIN)/python -m tests.browser.recording docs/images
	$(BIN)/python -m tests.browser.minute docs/images
	$(BIN)/python -m tests.browser.compared docs/images

endurance: $(STAMP) ## 200 clients at once for a minute, 10,000 questions at once
	$(BIN)/pytest -m "endurance and not postgres" --timeout 300 tests/faults $(ARGS)

interop: $(STAMP) ## against other implementations (installs them first; needs node, npm, nginx and redis-server)
	bash tests/interop/setup.sh
	bash tests/conformance/setup.sh
	$(BIN)/pytest -n auto --dist loadfile -m interop --timeout 120 tests/adapters tests/interop $(ARGS)

conformance: $(STAMP) ## the official conformance suite, both sides (installs it first; needs npm, nginx and redis-server)
	bash tests/conformance/setup.sh
	$(BIN)/python -m tests.conformance.run $(ARGS)

check: $(STAMP) ## format, lint, types, layers, house limits
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright --warnings
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -q -p no:randomly tests/test_layout.py tests/test_public_api.py

format: $(STAMP) ## let ruff format and fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

cover: $(STAMP) ## branch coverage of the default tests
	$(BIN)/coverage run -m pytest $(ARGS)
	$(BIN)/coverage report --skip-covered --show-missing

bench: $(STAMP) ## speed beside the peers in 6 minutes (installs them first; needs npm for two); rewrites benchmarks/RESULTS.md
	@PYTHON="$(PYTHON)" bash benchmarks/peers/setup.sh
	@$(BIN)/python -m benchmarks.run $(ARGS)

bench-full: $(STAMP) ## the same in 40 minutes: more rounds, longer ones, more peers
	@PYTHON="$(PYTHON)" bash benchmarks/peers/setup.sh
	@$(BIN)/python -m benchmarks.run --full $(ARGS)

site: ## the documentation as a site, into build/site: every link and size checked
	@PYTHON="$(PYTHON)" bash .ci/site/build

dist: ## what is released, into dist/: built twice and compared, checked, installed and tried (docs/design/releasing.md)
	@PYTHON="$(PYTHON)" bash .ci/dist

constraints: ## pin anew: newest versions that pyproject.toml allows, into constraints.txt
	rm -rf .venv-pin && $(PYTHON) -m venv .venv-pin
	.venv-pin/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	.venv-pin/bin/python -m pip freeze --exclude-editable > constraints.txt
	rm -rf .venv-pin

# Strict: what the advisories do not know is a failure, so that no dependency is passed over in silence.
audit-dependencies: ## known vulnerabilities of all that is pinned (asks PyPI, whose advisories a mirror does not have)
	$(NEEDS_PYTHON)
	rm -rf .venv-audit && $(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1
	.venv-audit/bin/pip-audit --strict --disable-pip --no-deps --requirement constraints.txt
	rm -rf .venv-audit

clean: ## remove what was made here
	rm -rf .venv .venv-pin .venv-audit .venv-dist .venv-site build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
