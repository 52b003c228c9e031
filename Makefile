# Everything a newcomer or CI runs. `make demo` and `make test` do the set-up themselves.
#
#   make demo    what wharfinger does, on a real cluster's pods
#   make check   lint, import contracts, types, and the tests that need no server: two minutes, for every change
#   make test    all tests, with real servers; prints the slowest
#   make test-servers   only the tests that `make check` leaves out
#   make replay-check   decisions that were recorded are the same when they are made again: of an archive that is checked in;
#                with FULL=1 also those of a whole demo, on real servers (some minutes). A release check
#   make replay-archive   records that archive anew
#   make docs    the pages of docs/, with reference pages made from the code, in build/site
#   make browser  Chromium, for tests of the web page in a browser; `make pictures` takes its pictures for the documents
#   make soak    faults without end (SECONDS=600 SEED=1), judged by etcd's own history; one table at the end
#   make bench   how many decisions, attempts and pods a second, also beside kube-scheduler, and what a rollout costs; see
#                docs/benchmarks.md
#   make kubernetes-fields   list the fields of Kubernetes' objects anew, from the Go module in tools/kubernetes-fields
#   make kubernetes-merge-keys   list how kubectl apply merges lists anew, from the Go module in tools/kubernetes-merge-keys
#   make monitoring   dashboards for Grafana, and the rules for the Prometheus operator, from the table of metrics
#   make contract   the contract for other languages anew, from the workflows and their models
#   make setup   virtual environment with the locked packages, this package in it, etcd and Temporal; quick when done before
#   make interpreters   the quick tests on each Python from 3.11 to 3.14 that is on this machine
#   make lock    writes requirements/ for what pyproject.toml names; UPGRADE=1 takes the newest versions
#   make audit   known vulnerabilities of the locked packages; says so where their data cannot be reached
#   make pins    writes the digests of etcd's and Temporal's archives, from their projects' own lists
#   make release-check   what must hold before a release: all digests are pinned, the rules for alerts pass their tests
#   make cluster-server   Temporal's full server, for the tests that run it on PostgreSQL (`make test` does it with Go)
#   make kubernetes-servers   Kubernetes' API server and scheduler, for the tests that run them (`make test`: likewise)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
RELEASE := build/release
# The lock of development is made first: what the others have in common with it, they have in the same version.
LOCK = UV_CUSTOM_COMPILE_COMMAND="make lock" $(RELEASE)/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url $(if $(UPGRADE),--upgrade)
LOCK_ALIKE = $(LOCK) --constraints requirements/development.txt

# Each of the hundreds of processes that tests start would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: release-clients helm installed interpreters lock audit pins release-check release-pins browser contract pictures kubernetes-fields kubernetes-merge-keys setup linked servers cluster-server kubernetes-servers demo check quick-tests replay-check replay-archive test test-servers soak lint docs types bench clean monitoring release-rules

setup: linked servers

demo: servers
	@$(BIN)/wharfinger demo

# No server is started, built or downloaded: a test that would do so fails (tests/server_marker.py). Of the 2,500
# simulated fleets a fifth is played, of the 2,000 lives of workers 300. The tests are run by six forks of one
# pytest (tests/forked_session.py). Lint and types run beside them, because collection takes one core and some tests
# wait; `+` lets the tests print at once, while -O keeps the output of the others together.
check: linked
	@$(MAKE) --no-print-directory -j 2 -O quick-tests lint types

quick-tests: linked
	+@TESTS_PROCESSES=6 $(BIN)/pytest -m "not servers and not long" --durations=10 -q

# Seven processes, for two cores too: most of the time a test waits for servers. An eighth one computes in the meantime.
# The tests of a file, and of files on the same servers, stay in one process. Files are handed out in the order of
# tests/batches.py, long ones first.
# Temporal's full server and Kubernetes' are built where Go is at hand; where they cannot be had, their tests are skipped
# and say so.
test test-servers: setup
	@! command -v go >/dev/null || $(MAKE) --no-print-directory -k cluster-server kubernetes-servers || true
	@TESTS_PROCESSES=8 $(BIN)/pytest $(if $(filter test-servers,$@),-m "servers or long") --durations=20 -q

# Rounds of faults on servers until the time is up, and fleets and workers in virtual time beside them.
soak: setup
	@$(BIN)/python -m tests.soak --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

lint: linked docs
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports --no-logo

# Strict: a broken link, a missing anchor or a page in no menu fails. (With --quiet MkDocs would count no warnings.)
docs: linked
	@mkdir -p build
	@NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build > build/docs.log 2>&1 || { cat build/docs.log; exit 1; }

types: linked
	@$(BIN)/mypy

contract: linked
	@$(BIN)/python -m tools.documents.contract

monitoring: linked
	@$(BIN)/python -m tools.documents.monitoring

bench: setup
	@$(BIN)/python benchmarks/core.py --nodes 5000
	@$(BIN)/python benchmarks/attempts.py --nodes 1000 --pods 2000
	@$(BIN)/python benchmarks/throughput.py --nodes 5000 --pods 20000
	@$(BIN)/python benchmarks/throughput.py --nodes 5000 --rate 20 50 100 200 500 1000 --peer kube-scheduler
	@$(BIN)/python benchmarks/rollout.py --runs 100
	@$(BIN)/python benchmarks/kubernetes.py --turns 2 --import 0

# The environment is made again from the locks whenever they or pyproject.toml change. First what runs, which is all that
# the demonstration needs; then what tests, and checks.
$(VENV)/.runtime: pyproject.toml requirements/runtime.txt requirements/build.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up $(VENV) (once; a minute or so) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes --requirement requirements/runtime.txt --requirement requirements/build.txt
	@rm -f $(VENV)/.files && touch $@

$(VENV)/.dependencies: $(VENV)/.runtime requirements/development.txt
	@$(PIP) install --require-hashes --requirement requirements/development.txt
	@touch $@

# A strict editable install is a tree of links, one a file (type checkers need it: two wings are mapped into
# the package). So it is made again when a file came or went, not when one was edited.
linked: $(VENV)/.dependencies installed

installed: $(VENV)/.runtime
	@find src workflows activities tools examples deploy -type f ! -name '*.pyc' ! -path '*.egg-info/*' | LC_ALL=C sort > $(VENV)/.files.now
	@cmp -s $(VENV)/.files.now $(VENV)/.files || \
		$(PIP) install --no-deps --no-build-isolation --config-settings editable_mode=strict --editable .
	@mv $(VENV)/.files.now $(VENV)/.files

servers: installed
	@$(BIN)/python -m wharfinger.dev.binaries

cluster-server: installed
	@$(BIN)/python -m wharfinger.dev.binaries temporal-server temporal-sql-tool

kubernetes-servers: installed
	@$(BIN)/python -m wharfinger.dev.binaries kube-apiserver kube-scheduler

# Tests compare the chart with the manifests where helm is; nothing else needs it.
helm:
	@GOBIN=$(CURDIR)/.tools GOFLAGS= GOWORK=off CGO_ENABLED=0 go install helm.sh/helm/v3/cmd/helm@v3.19.0

# Go prints the fields of the release that go.mod names; the list is part of the package, so users need no Go.
kubernetes-fields:
	@cd tools/kubernetes-fields && GOFLAGS=-mod=readonly GOWORK=off go run . > fields.new || { rm -f fields.new; exit 1; }
	@mv tools/kubernetes-fields/fields.new src/wharfinger/objects/documents/kubernetes_fields.json

# How kubectl apply merges the fields of the same release.
kubernetes-merge-keys:
	@cd tools/kubernetes-merge-keys && GOFLAGS=-mod=readonly GOWORK=off go run . > keys.new || { rm -f keys.new; exit 1; }
	@mv tools/kubernetes-merge-keys/keys.new src/wharfinger/placement/applying/merge_keys.json

# Chromium by the system's packages, and what drives it. Tests in a browser are skipped, in one line, where it is not there.
browser: linked
	@$(PIP) install --require-hashes --requirement requirements/browser.txt
	@command -v chromium chromium-browser google-chrome >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }

# A cluster of 5,000 nodes and 50,000 pods in memory, and the page before it: some minutes. Then the quick start in
# Temporal's UI.
pictures: setup
	@$(BIN)/python -m tests.page.pictures docs/pictures
	@$(BIN)/python -m tests.page.temporal_pictures docs/pictures

interpreters:
	@tools/release/interpreters.sh

# Programs for those who lock, audit and release, in an environment of their own.
$(RELEASE)/.done: requirements/release.txt
	@test -x $(RELEASE)/bin/python || $(PYTHON) -m venv $(RELEASE)
	@$(RELEASE)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --requirement $<
	@touch $@

lock: $(RELEASE)/.done
	@$(LOCK) --extra dev pyproject.toml --output-file requirements/development.txt
	@$(LOCK_ALIKE) pyproject.toml --output-file requirements/runtime.txt
	@$(LOCK_ALIKE) --extra browser pyproject.toml --output-file requirements/browser.txt
	@$(LOCK_ALIKE) --group build --output-file requirements/build.txt
	@$(LOCK_ALIKE) --group release --output-file requirements/release.txt

audit: $(RELEASE)/.done
	@$(RELEASE)/bin/python tools/release/audit.py requirements/*.txt

# The head of the file, which says what it is, stays.
pins: linked
	@$(BIN)/python -m wharfinger.dev.releases --fetch > build/pins
	@{ sed '/^[^#]/d' src/wharfinger/dev/SHA256SUMS; cat build/pins; } > build/SHA256SUMS
	@mv build/SHA256SUMS src/wharfinger/dev/SHA256SUMS

# Each step is a target of its own; all are tried.
release-check:
	@$(MAKE) --no-print-directory --keep-going release-pins release-clients release-rules

# Clients of examples/clients, where Go and Node are.
release-clients: linked
	@$(BIN)/python tools/release/clients.py

release-pins: linked
	@$(BIN)/python -m wharfinger.dev.releases

release-rules: linked
	@$(BIN)/python tools/release/rules.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Recorded decisions are the same when they are made again: of an archive that is checked in, with FULL=1 of the demo.
replay-check: linked
	@$(BIN)/wharfinger replay --archive tests/replay/demo.archive --fail-on 'same < 100%'
	@if [ -n "$(FULL)" ]; then $(BIN)/python benchmarks/replay.py; fi

replay-archive: setup
	@$(BIN)/python benchmarks/replay.py --pods 1200 --archive tests/replay/demo.archive
