# Needs GNU make and Python >= 3.11. `make help` lists what there is.

SHELL := /bin/sh
BIN := .venv/bin
export TIDEGATE_PORT ?= 8000
TIDEGATE_PAGES_PORT ?= 5173
export TIDEGATE_STARTED_AT := $(shell date +%s)
PYTEST_WORKERS ?= 2

# The first Python on the path that is new enough; `make up PYTHON=...` names another.
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$name >/dev/null 2>&1 \
	&& $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$name; break; }; done)

# What tools need to load the settings when they touch neither database nor Valkey.
UNCONNECTED := types imports migrations openapi openapi-check reference
$(UNCONNECTED): export TIDEGATE_ENV_FILE := /dev/null
$(UNCONNECTED): export TIDEGATE_RUN_AS := app
$(UNCONNECTED): export TIDEGATE_SECRET_KEY := only-for-tools-that-serve-nobody-at-all
$(UNCONNECTED): export TIDEGATE_DATABASE_URL := postgres://none:none@127.0.0.1:1/none
$(UNCONNECTED): export TIDEGATE_VALKEY_URL := redis://127.0.0.1:1/0

COMPILE_LOCK = $(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	--no-emit-index-url --no-emit-find-links --no-header --no-annotate pyproject.toml

NPM = cd frontend && PATH="$(abspath $(BIN)):$$PATH" npm

.DEFAULT_GOAL := help
.PHONY: help up dev down client status reset psql environment frontend-build test checks lint types imports \
	migrations openapi openapi-check reference hooks unit laws pure rest e2e pictures chromium identity-provider frontend bench \
	bench-smoke lock recipes slurm-bed slurm-bed-join slurm-bed-stop slurm-chaos kube-bed kube-bed-join \
	kube-bed-stop

help: ## List the targets
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

up: environment frontend-build ## Start everything and stay (DETACH=1: return once it is ready)
	@$(BIN)/python -m embedded up $(if $(DETACH),--detach)

dev: environment frontend-build ## Like up, for developers: Python reloads, Vite serves the pages
	@$(BIN)/python -m embedded up --dev $(TIDEGATE_PAGES_PORT)

down: ## Stop everything; jobs of the local cluster keep running
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m embedded down; \
	else echo "Nothing was ever started here."; fi

status: ## Say what is running
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m embedded status || true; \
	else echo "Nothing was ever started here."; fi

reset: ## Stop everything and delete all data (asks; YES=1 does not)
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m embedded reset $(if $(YES),--yes); \
	else echo "Nothing was ever started here."; fi

psql: ## Open the database as the application's role
	@$(BIN)/python -m embedded psql

environment:
	@test -n "$(PYTHON)" || { echo "Tidegate: there is no Python 3.11 or newer on this machine;" \
		"install one (Debian and Ubuntu: apt install python3 python3-venv), or name it:" \
		"make up PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) deploy/bootstrap.py environment

frontend-build: environment
	@$(PYTHON) deploy/bootstrap.py frontend

# Most of what the stages run keeps one core busy: as many stages as cores run side by side.
STAGES ?= checks frontend pure
STAGES_AT_ONCE ?= $(shell nproc 2>/dev/null || echo 2)

test: environment frontend-build chromium ## Everything, in stages: checks, frontend, pure tests; then the rest
	@$(MAKE) --no-print-directory --keep-going --output-sync=recurse --jobs=$(STAGES_AT_ONCE) \
		$(STAGES:%=stage-%)
	@$(MAKE) --no-print-directory rest

stage-%:
	@began=$$(date +%s); $(MAKE) --no-print-directory $* || failed=1; \
	echo "== stage $*: $$(( $$(date +%s) - began )) s$${failed:+, FAILED}"; [ -z "$$failed" ]

checks: lint types imports migrations openapi-check ## All that reads the code and runs none of it

lint: environment ## ruff: style and likely mistakes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: environment ## mypy, strict
	$(BIN)/mypy

imports: environment ## Who may import whom
	$(BIN)/lint-imports

migrations: environment ## The migrations say what the models say
	$(BIN)/python -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run

openapi: environment ## Write frontend/openapi.json and its TypeScript types anew
	$(BIN)/python manage.py export_openapi frontend/openapi.json
	$(BIN)/python manage.py export_cluster_kinds frontend/mock/cluster-kinds.json
	@$(PYTHON) deploy/bootstrap.py frontend
	$(NPM) run types

openapi-check: environment ## frontend/openapi.json is what the code says
	@mkdir -p var
	$(BIN)/python manage.py export_openapi var/openapi.json
	$(BIN)/python manage.py export_cluster_kinds var/cluster-kinds.json
	@diff -u frontend/openapi.json var/openapi.json \
		&& diff -u frontend/mock/cluster-kinds.json var/cluster-kinds.json \
		|| { echo "frontend/openapi.json or mock/cluster-kinds.json is not what the code says: run \`make openapi\`." >&2; exit 1; }

reference: environment ## Write the generated parts of docs/reference and docs/guide anew
	PYTHONPATH=.:platform:tests DJANGO_SETTINGS_MODULE=portal.settings $(BIN)/python tests/reference.py

hooks: environment ## Install the checks that run before a commit and before a push
	$(BIN)/pre-commit install

unit: environment identity-provider ## Tests of single modules
	$(BIN)/pytest -n $(PYTEST_WORKERS) tests/unit tests/property

laws: environment ## The laws on examples that nobody has tried yet
	$(BIN)/pytest -n $(PYTEST_WORKERS) tests/property tests/unit/chargeback/test_chargeback_laws.py \
		tests/unit/treefile/test_tree_file_laws.py \
		tests/integration/test_accounts_machine.py \
		--hypothesis-profile=new-examples

PURE = $(shell $(BIN)/python tests/pure_folders.py)

pure: environment ## The tests that need neither Django nor a server
	$(BIN)/pytest -n $(PYTEST_WORKERS) --dist worksteal $(PURE)

# The generator needs an older typer than the command, and so an environment of its own.
GENERATOR = var/client-generator
client: environment ## Write the Python client of the REST API: var/client, and a wheel in var/client/dist
	@[ $(GENERATOR)/made -nt deploy/client/requirements.lock ] || { $(PYTHON) -m venv --clear $(GENERATOR) \
		&& $(GENERATOR)/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
			--requirement deploy/client/requirements.lock && touch $(GENERATOR)/made; }
	@rm -rf var/client && mkdir -p var/client && cp deploy/client/pyproject.toml CHANGELOG.md var/client/
	@$(GENERATOR)/bin/openapi-python-client generate --path frontend/openapi.json --fail-on-warning \
		--config deploy/client/config.yaml --meta none --output-path var/client/tidegate_client
	@cd var/client && $(abspath $(BIN))/python -m hatchling build --target wheel

# These tests wait for real servers for half of their time: twice as many workers keep the cores busy.
# A file stays with one worker, so that nobody starts its installation twice, and the long ones come
# first (tests/long_tests.py).
rest: environment frontend-build chromium identity-provider client ## The tests that are not pure, browser included
	$(BIN)/pytest -n $$((2 * $(PYTEST_WORKERS))) --dist loadfile --no-loadscope-reorder $(PURE:%=--ignore=%)

e2e: environment frontend-build chromium identity-provider ## The story in a real browser
	$(BIN)/pytest tests/e2e

pictures: environment frontend-build chromium ## Take the pictures of docs/guide anew
	TIDEGATE_WRITE_PICTURES=1 $(BIN)/pytest tests/e2e/test_pictures.py tests/e2e/test_month_story.py

identity-provider: environment ## The OpenID Connect provider of tests/identity_provider
	@cd tests/identity_provider && { [ node_modules -nt package-lock.json ] || { \
		PATH="$(abspath $(BIN)):$$PATH" npm ci --no-audit --no-fund >/dev/null && touch node_modules; }; }

chromium:
	@$(PYTHON) deploy/chromium.py

frontend: frontend-build ## Types, style, tests and size of the frontend
	$(NPM) run typecheck
	$(NPM) run lint
	$(NPM) run test
	$(NPM) run size

slurm-bed: ## A real Slurm of 80 nodes on this machine, for the Slurm tests (as root; docs/slurm-bed.md)
	@deploy/slurm-bed/start.sh

slurm-bed-join: environment ## Make that Slurm a cluster of the Tidegate that runs here (as root)
	@$(BIN)/python deploy/slurm-bed/join.py

slurm-bed-stop: ## Stop that Slurm and remove its files and users
	@deploy/slurm-bed/stop.sh --purge

slurm-chaos: environment ## kill -9 and a bad network while 100 jobs go to a real Slurm (as root; minutes)
	TIDEGATE_CHAOS=1 $(BIN)/pytest -m chaos tests/slurm

kube-bed: environment ## A real Kubernetes with Kueue on this machine (docs/kube-bed.md; minutes once)
	@$(BIN)/python deploy/kube-bed/control.py start

kube-bed-join: environment ## Make that Kubernetes a cluster of the Tidegate that runs here
	@$(BIN)/python deploy/kube-bed/join.py

kube-bed-stop: ## Stop that Kubernetes and remove its files
	@if [ -x $(BIN)/python ]; then $(BIN)/python deploy/kube-bed/control.py stop --purge; fi

bench: environment frontend-build ## The figures of speed; TRACE=... QUOTAS=...: of that trace, too
	@for file in tests/performance/bench_*.py; do \
		case $$file in \
		*_simulation.py) words="$(TRACE) $(QUOTAS)" ;; \
		*_accasim.py) words="$(TRACE)" ;; \
		*_quality.py) words="$(if $(TRACE),$(TRACE) $(QUOTAS) --gpus 416 --gpus 512 --gpus 640)" ;; \
		*) words="" ;; \
		esac; \
		echo "== $$file $$words"; $(BIN)/python $$file $$words || exit 1; done

bench-smoke: environment frontend-build ## The benchmarks with small numbers: that they run
	@$(BIN)/python tests/performance/smoke.py

recipes: environment frontend-build ## Run the checkpointing recipes for real (installs some GB once; ONLY=FILE: one)
	$(BIN)/python tests/recipes/run_recipes.py $(ONLY)

lock: environment ## Resolve pyproject.toml into both lock files anew
	$(COMPILE_LOCK) --extra server --output-file requirements.lock
	$(COMPILE_LOCK) --all-extras --constraint requirements.lock --output-file requirements-dev.lock
	$(COMPILE_LOCK:pyproject.toml=deploy/client/requirements.in) --output-file deploy/client/requirements.lock
