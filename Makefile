# Set-up, chores and checks. `make demo` and `make test` need nothing but Python 3.11 or newer.

PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test lint bench bench-optimize bench-probe bench-recall bench-transforms bench-verdicts chaos fuzz fix docs lock types clean
.PHONY: demo-optimize screenshots

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' Makefile | expand -t 8

demo: .venv/.run  ## install into .venv and show a review of a pull request
	$(BIN)/python demo/run_demo.py $(ARGS)

demo-optimize: .venv/.torch  ## install PyTorch too, and show /optimize up to the follow-up pull request
	$(BIN)/python demo/optimize_demo.py $(ARGS)

screenshots: demo demo-optimize  ## take the pictures of the README with a headless Chromium
	@command -v chromium >/dev/null || apt-get install -y --no-install-recommends chromium
	$(BIN)/python demo/picture.py

test: .venv/.dev lint  ## every check and every test
	.ci/engine
	.ci/slurm
	$(BIN)/pytest -n $(WORKERS) --dist loadfile $(ARGS)

lint: .venv/.dev types  ## style, types, layers, workflows, schemas
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=.types $(BIN)/mypy -p pitstop
	$(BIN)/mypy demo
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --no-progress --quiet --pedantic action.yml examples/workflows docs/release/release.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows examples/workflows/*.yml docs/release/*.yml
	$(BIN)/actionlint -shellcheck= -pyflakes= examples/workflows/*.yml docs/release/*.yml

bench: .venv/.dev  ## how long audits take: growth, start-up, a pull request, traces, and ARGS="CHECKOUT ..."
	$(BIN)/python bench/audit.py $(ARGS)

bench-optimize: .venv/.dev  ## example jobs, as they are and proved faster, on this machine
	$(BIN)/python bench/optimize.py $(ARGS)

bench-probe: .venv/.dev  ## what the probe costs a job
	$(BIN)/python bench/probe.py $(ARGS)

bench-recall: .venv/.dev  ## whether faults that are put into real jobs are found
	$(BIN)/python bench/recall.py $(ARGS)

bench-transforms: .venv/.dev  ## every transform on ARGS="CHECKOUT ...", each change read again
	$(BIN)/python bench/transforms.py $(ARGS)

bench-verdicts: .venv/.dev  ## how often verdicts are right where the truth is known
	$(BIN)/python bench/verdicts.py $(ARGS)

chaos: .venv/.dev  ## reviews, publications and optimizations while everything around goes wrong
	$(BIN)/python bench/chaos.py $(ARGS)

fuzz: .venv/.dev  ## readers on texts that nobody would write, FUZZ_SECONDS each
	$(BIN)/python bench/fuzz.py $(ARGS)

fix: .venv/.dev  ## mend what the tools can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/.dev  ## write generated pages and schemas anew
	$(BIN)/python docs/generate.py

lock: .venv/.dev  ## take the newest dependencies into requirements/
	$(BIN)/python -m pip install --quiet uv
	cd requirements && ../$(BIN)/uv pip compile $(LOCK) ../pyproject.toml -o image.txt
	cd requirements && ../$(BIN)/uv pip compile $(LOCK) --group ../pyproject.toml:build -o build.txt
	cd requirements && ../$(BIN)/uv pip compile $(LOCK) --group ../pyproject.toml:dev \
		-c image.txt -c build.txt ../pyproject.toml -o dev.txt
	cd requirements && ../$(BIN)/uv pip compile $(LOCK) --group ../pyproject.toml:models \
		-c dev.txt -o models.txt

LOCK := --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header

# mypy does not follow the editable install's import hook: it reads these links.
types:
	@mkdir -p .types/pitstop
	@for package in bot rules transforms runners; do \
		ln -sfn ../../$$package .types/pitstop/$$package; done

.venv/.run: requirements/image.txt requirements/build.txt pyproject.toml | .venv/.made
	$(BIN)/pip install --quiet --require-hashes -r requirements/image.txt
	$(BIN)/pip install --quiet --require-hashes -r requirements/build.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# PyTorch stands outside the lock: which of its builds fits differs between machines.
.venv/.dev: requirements/dev.txt requirements/models.txt .venv/.run
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --require-hashes --no-deps -r requirements/models.txt
	@touch $@

# The build for CPUs where nothing else is wanted: it is a tenth of the size.
.venv/.torch: .venv/.run
	$(BIN)/pip install --quiet --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0
	@touch $@

.venv/.made:
	@.ci/venv "$(PYTHON)"
	@touch $@

clean:  ## remove everything that is made here
	rm -rf .venv .types .demo build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis
