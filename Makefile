# Everyday work. Make, since it needs no set-up of its own and every target is a line or two of shell.
.DEFAULT_GOAL := help
.PHONY: help setup quick test lint pages docs bench ci
BIN := .venv/bin
BIOME := npx --yes @biomejs/biome@2.6.8
BENCHMARKS ?= startup overhead locomo

help:  ## this list
	@sed -nE 's/^([a-z]+):.*## (.*)/make \1\t\2/p' Makefile | expand -t 14

.venv/made: pyproject.toml
	python3 -m venv .venv
	$(BIN)/pip install -q -e '.[test]'
	touch $@

.venv/made-docs: .venv/made
	$(BIN)/pip install -q -e '.[docs]'
	touch $@

setup: .venv/made  ## an environment in .venv, made again when pyproject.toml changes

quick: .venv/made  ## the tests of what is close to pure functions
	$(BIN)/python -m pytest tests/adapters tests/datasets tests/runfiles tests/scoring tests/stats

test: .venv/made  ## all tests but what takes minutes or more than the extra [test]: four minutes on two cores
	$(BIN)/python -m pytest

lint: .venv/made  ## style, types, and which package may import which; pages only where npx is
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	! command -v npx > /dev/null || $(MAKE) --no-print-directory pages

pages:  ## style and names of the pages' scripts, by biome, which npx brings
	$(BIOME) check --error-on-warnings

docs: .venv/made-docs  ## the site, into build/site; a broken link fails
	$(BIN)/mkdocs build --strict

bench: .venv/made  ## benchmarks of a minute each; others: make bench BENCHMARKS="monitor matching"
	for name in $(BENCHMARKS); do $(BIN)/python -m tests.benchmarks.$$name || exit; done

ci:  ## what must pass: the above, all that is slow, stores, torch, browsers; some: make ci STEPS="lint docs"
	.ci/run $(STEPS)
