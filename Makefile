# Two commands for a fresh machine: make run, make test. Everything lives in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# One BLAS/numba thread per process: the exact kernels are memory bound, and two test workers share two cores.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: run test check bench reproduce nightly clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	touch $@

run: $(VENV)/.installed
	$(BIN)/codedfl compare

test: check
	$(BIN)/python -m pytest -n 2 --dist loadgroup

check: $(VENV)/.installed
	$(BIN)/ruff check src tests experiments
	$(BIN)/ruff format --check src tests experiments
	$(BIN)/mypy

bench: $(VENV)/.installed
	$(BIN)/python -m experiments.bench
	$(BIN)/python -m experiments.memory

reproduce: $(VENV)/.installed
	$(BIN)/codedfl reproduce all --out results

nightly: test bench reproduce

clean:
	rm -rf $(VENV) results .pytest_cache .mypy_cache .ruff_cache
