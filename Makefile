# make demo: install into .venv, measure the solvers at various (k, n) and decoding with the shipped pair, leave tables,
#            pictures and a page of both (report.html) in report/ and report/decode/.
# make test: install into .venv, lint, type-check, compile our kernels and test.
# make quick: install into .venv, lint, type-check, and test the solvers: under a minute on two cores, the first time
#            excepted, when the type checker has no cache.
# make site: build the documentation into $(SITE), warnings as errors; open its index.html in a browser.

PYTHON ?= python3
VENV ?= .venv
REPORT ?= report
SITE ?= build/site
SOLVERS ?= interval,global_resolution,global_resolution:tau=1e-4,max_flow,max_flow:engine=igraph,slackness,lp,lp:engine=pot,canonical,kseq,rrs
DEMO ?= --k 10,100 --n 2,3,4 --solver $(SOLVERS) --positions 20 --data llama3,smollm2 --budget 10 --jobs 2
DECODE ?= --first 6 --paths 2 --depth 3 --solver nested,interval --baselines generate,assisted,prompt-lookup,block --max-new-tokens 40 --budget 6
CORE = tests/test_laws.py tests/solvers
BIN = $(VENV)/bin
INSTALLED = $(VENV)/installed

# Modules are compiled when they are first imported, and no sooner (--no-compile below): pip would take a minute and a
# half for tens of thousands that nothing imports.  Where this is set, every process would compile its own anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick lint types compiled-solvers compiled-trees tests tests-compiled site clean

demo: $(INSTALLED)
	$(BIN)/otspec bench $(DEMO) --out $(REPORT)
	$(BIN)/otspec bench decode $(DECODE) --out $(REPORT)/decode

# Our kernels are compiled first, on both cores, as all tests would wait for them; they do not wait for the type checker.
test: $(INSTALLED)
	$(MAKE) lint
	$(MAKE) -j 2 tests-compiled types

quick: lint types
	$(BIN)/python -m pytest -q -n auto $(CORE)

lint: $(INSTALLED) otspec/solvers otspec/proofs_check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

types: $(INSTALLED) otspec/solvers otspec/proofs_check
	$(BIN)/mypy

compiled-solvers: $(INSTALLED)
	$(BIN)/python -c 'from otspec.warming import rows, solvers, warm_up; solvers(); rows(); warm_up("max_flow")'

compiled-trees: $(INSTALLED)
	$(BIN)/python -c 'from otspec.warming import passes, trees; trees(); passes()'

tests-compiled: compiled-trees compiled-solvers
	$(MAKE) tests

tests: $(INSTALLED)
	$(BIN)/python -m pytest -n auto --doctest-modules --durations 40 --durations-min 4 tests otspec

site: $(INSTALLED)
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --doctree-dir build/doctrees docs $(SITE)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "otspec needs Python >= 3.11: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $@

# The type checker and the linter of imports find these two through links; an unpacked sdist has none.
otspec/solvers otspec/proofs_check:
	ln -s ../$(notdir $@) $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
