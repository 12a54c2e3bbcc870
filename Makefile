# Everything from a bare clone: `make demo` and `make test` need Python 3.11 or newer and make, nothing else.
# A C compiler and Java are used where they are found and done without where they are not.

.DEFAULT_GOAL := help
.PHONY: help setup compile demo quick test hunt check format docs wheel clean
.PHONY: campaign churn churn-conversation conversations graphs votes islands sequencers twin mutants programs returning fuzz sealed-fuzz rotations networks overlap parting guarding durable streams cluster planted seeds relays
.PHONY: seats service-scaling takeover service-failure service-order views measure bench side-by-side peers latency paper psync graph-growth many-groups stall recording scaling commuting audit-scale cost needle

VENV := .venv
BIN := $(VENV)/bin
PYTHON_CHOICES := $(PYTHON) python3 python3.13 python3.12 python3.11

help:
	@echo 'Use it'
	@echo '  make setup         virtual environment in .venv, dependencies, compiled core; then .venv/bin/antiphon is ready'
	@echo '  make demo          five real processes, a bad network, a Spark audit of what they did, an HTML report'
	@echo '  make compile       compile the core anew if a source changed (make setup, demo and test do so too)'
	@echo '  make wheel         a wheel in dist/, installed into an empty environment and tried there'
	@echo '  make docs          the pages and the reference of the interface, in build/site'
	@echo '  make clean         remove what was built, but not .venv'
	@echo
	@echo 'Check it'
	@echo '  make quick         the tests that need neither Spark nor other processes'
	@echo '  make test          all tests but the hunts, on all cores'
	@echo '  make hunt          the tests that look for rare mistakes at length'
	@echo '  make check         ruff, mypy, and the tests of style'
	@echo '  make format        let ruff put imports and layout in order'
	@echo
	@echo 'Campaigns: many runs, each held to its promises'
	@echo '  make campaign      2,000 simulated seeds with all faults, audited in-process'
	@echo '  make seeds         2,000 seeds by antiphon campaign, on Spark, with a page'
	@echo '  make churn         20,000 simulated seeds: overlapping groups, whose members come, go, crash and come back'
	@echo '  make churn-conversation  the same on the stack conversation: 20,000 seeds, a group each'
	@echo '  make conversations 20,000 simulated conversations: crashes, restarts by checkpoint and from the beginning, removals'
	@echo '  make graphs        10,000 random conversations, their graphs beside a slow twin made by the definition'
	@echo '  make votes         the agreed order of the stack domain on all graphs of 4 members and 5 messages, by its definition'
	@echo '  make sequencers    20,000 runs of several sequencers: groups move, overlap shifts, sequencers crash (SEEDS=a:b)'
	@echo '  make relays        200 runs of three linked domains whose relays are killed and replaced'
	@echo '  make islands       2,000 groups of the stack domain whose network parts and merges, also while it merges'
	@echo '  make service-scaling  what 1 to 16 sequencers can place, groups apart and overlapping, with measured costs'
	@echo '  make seats         1,000 runs of replicated sequencers that crash, come back and are cut off'
	@echo '  make service-failure  a sequencer killed under the load of 50 clients and 200 groups, recorded and audited'
	@echo '  make takeover      how long nobody leads after kill -9 and SIGSTOP, beside a lease of etcd'
	@echo '  make twin          50 seeds through Spark and the reference auditor, which must agree'
	@echo '  make planted       10,000 histories with planted violations, through both auditors'
	@echo '  make mutants       protocols broken on purpose, each let loose until it is caught'
	@echo '  make returning     20,000 seeds of conversations whose participants come back, with the public filters, in virtual time, audited'
	@echo '  make programs      20,000 seeds of whole programs on the public API, in virtual time with all faults, audited'
	@echo '  make sealed-fuzz   a million bad inputs into each decoder of seals, identities and their files'
	@echo '  make rotations     a key rotated 1,000 times under load, with crashes, in virtual time'
	@echo '  make fuzz          a million spoiled datagrams into a working group'
	@echo '  make networks      seven processes on a real network with loss: kill -9, SIGSTOP, partition, joins; as root'
	@echo '  make overlap       two overlapping groups there under two faults at a time, 100 cycles; as root'
	@echo '  make parting       eight processes there on the stack domain: split in three, one-way links, merged, audited; as root'
	@echo '  make durable       a replicated object on disk there: kill -9 of one, two and all members, back from disk; as root'
	@echo '  make guarding      leaders, locks and resilient objects there: kill -9, SIGSTOP, partitions, a guarded resource; as root'
	@echo '  make streams       a live group through Spark and back, queries and feeder killed on the way'
	@echo '  make cluster       an audit on a Spark cluster of its own, and kill -9 of a worker in the middle'
	@echo
	@echo 'Measure'
	@echo '  make bench         messages per second, compiled and as plain Python'
	@echo '  make side-by-side OLD=DIR  another compiled checkout and this one, in turns: rates, steps, allocations'
	@echo '  make peers         Antiphon beside ZeroMQ, Corosync, JGroups and the bare wire, with targets; as root'
	@echo '  make service-order the sequencing service beside NATS JetStream, Redis streams and etcd'
	@echo '  make latency       round trips beside a raw echo, one way idle and at half load: p50, p99, p99.9'
	@echo '  make scaling       throughput and processor time by members, sizes, orders and groups'
	@echo '  make measure       messages and bytes beside the paper, growth with members and groups, 200 of each'
	@echo '  make paper         the tables of isis-1991, ours beside the paper'\''s'
	@echo '  make psync         the tables of psync-1989, also with as many packets lost as there; as root'
	@echo '  make graph-growth  what a message costs in the context graph, up to a million messages'
	@echo '  make many-groups   what a message costs after 10,000 groups were left, and beside 3,000; what is kept of each'
	@echo '  make commuting     a replicated set whose additions commute, beside the same in full agreed order'
	@echo '  make stall         memory while a receiver does not read for 30 s'
	@echo '  make recording     what it costs to record a history'
	@echo '  make views         how long it takes from kill -9 to the next view; as root'
	@echo '  make audit-scale   1, 10 and 100 million events through the audit'
	@echo '  make cost          cores that Spark needs to be ahead of one process, and the share of its driver'
	@echo '  make needle        one violation among 10 million events, found and explained'
	@echo
	@echo 'PYTHON=python3.12 chooses the Python that .venv is made with; ANTIPHON_PURE=1 does without compiled files;'
	@echo 'TESTS=tests/runtime narrows quick, test and hunt.'

setup: compile

# A Python counts only if it runs and is new enough: a launcher on the path may stand for a version that is not there.
$(VENV)/made:
	@for python in $(PYTHON_CHOICES); do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then chosen="$$python"; break; fi; \
	done; \
	if [ -z "$$chosen" ]; then \
	    echo 'Antiphon needs Python 3.11 or newer, and none was found on the path; install it, or name it: make PYTHON=/path/to/python3' >&2; exit 1; \
	fi; \
	if ! "$$chosen" -c 'import ensurepip, venv' 2>/dev/null; then \
	    echo "$$chosen cannot make virtual environments: it lacks the venv or ensurepip module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; \
	fi; \
	echo "making $(VENV) with $$("$$chosen" --version)"; \
	rm -rf $(VENV) && "$$chosen" -m venv $(VENV) && touch $@

# Compiling is a step of its own below, so that it is done once and in place.
$(VENV)/installed: $(VENV)/made pyproject.toml
	@echo 'installing dependencies into $(VENV); Spark alone is 450 MB'
	@ANTIPHON_PURE=1 $(BIN)/python -m pip install --disable-pip-version-check --editable '.[spark,speed,dev]'
	@touch $@

compile: $(VENV)/installed
	@$(BIN)/python setup.py --quiet build_ext --inplace

demo: setup
	@$(BIN)/antiphon demo

# One worker a core; tests that share a Spark session, or disturb each other, share a worker (tests/conftest.py).
# Bytecode is kept, whatever the environment says: else every worker, and every process that a test starts, would
# compile all sources again. Many tests wait for something, so there are more workers than cores.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest --numprocesses $(shell expr $(shell nproc) + 2) --dist loadgroup
TESTS := tests
SAMPLE := 5

quick: setup
	$(PYTEST) --sample $(SAMPLE) -m 'not spark and not processes and not networks and not hunt' $(TESTS)

test: setup
	$(PYTEST) -m 'not hunt' $(TESTS)

hunt: setup
	$(PYTEST) --hypothesis-profile hunt -m 'hunt or random' $(TESTS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest --quiet tests/test_tidy.py

campaign: setup
	$(BIN)/python -m tests.simulation.campaign --seeds 0:2000

churn: setup
	$(BIN)/python -m tests.simulation.churn --seeds 0:20000 --jobs $(shell nproc)

churn-conversation: setup
	$(BIN)/python -m tests.simulation.churn --stack conversation --seeds 0:20000 --jobs $(shell nproc)

conversations: setup
	$(BIN)/python -m tests.simulation.free_conversations --seeds 0:20000 --jobs $(shell nproc)

graphs: setup
	$(BIN)/python -m tests.parts.graphs --conversations 10000

votes: setup
	$(BIN)/python -m tests.stacks.domain.graphs --members 4 --messages $(or $(MESSAGES),5)

sequencers: setup
	$(BIN)/python -m tests.simulation.sequencers --seeds $(or $(SEEDS),0:20000) --jobs 2

relays: setup
	$(BIN)/python -m tests.domain.relays --seeds 0:200

islands: setup
	$(BIN)/python -m tests.stacks.domain.islands --seeds 0:$(or $(SEEDS),2000) --jobs 2

twin: setup
	$(BIN)/python -m tests.simulation.spark_twin --seeds 0:50

cluster: setup
	$(BIN)/python -m tests.pipeline.cluster

mutants: setup
	ANTIPHON_PURE=1 $(BIN)/python -m tests.mutants.hunt

returning: setup
	$(BIN)/python -m tests.programs.campaign --seeds 0:20000 --program conversations --jobs $(shell nproc)

programs: setup
	$(BIN)/python -m tests.programs.campaign --seeds 0:20000 --jobs $(shell nproc)

sealed-fuzz: setup
	$(BIN)/python -m tests.fuzz.sealed_fuzz --datagrams 1000000

rotations: setup
	$(BIN)/python -m tests.runtime.rotations --rotations 1000

fuzz: setup
	$(BIN)/python -m tests.fuzz.fuzz --datagrams 1000000

networks: setup
	$(BIN)/python -m tests.networks.scenario

overlap: setup
	$(BIN)/python -m tests.networks.overlap

parting: setup
	$(BIN)/python -m tests.networks.parting

durable: setup
	$(BIN)/python -m tests.networks.durable

guarding: setup
	$(BIN)/python -m tests.networks.guarding

streams: setup
	$(BIN)/python -m tests.streams.scenario

measure: setup
	$(BIN)/python -m bench.wire
	ANTIPHON_PURE=1 $(BIN)/python -m bench.growth
	$(BIN)/python -m bench.survival

views: setup
	$(BIN)/python -m bench.views

service-scaling: setup
	$(BIN)/python -m bench.service_scaling --out bench/results
	$(BIN)/python -m bench.direct

seats: setup
	$(BIN)/python -m tests.stacks.sequencer.seat_scripts --seeds 0:1000

takeover: setup
	$(BIN)/python -m bench.takeover

service-failure: setup
	$(BIN)/python -m bench.service_failure

service-order: setup
	$(BIN)/python -m bench.service_order
	$(BIN)/python -m bench.service_order --durable

bench: setup
	$(BIN)/python -m bench.throughput
	ANTIPHON_PURE=1 $(BIN)/python -m bench.throughput

peers: setup
	$(BIN)/python -m bench.peers --must --save bench/results/peers.json --plot bench/results/peers.svg

latency paper stall recording scaling commuting: setup
	$(BIN)/python -m bench.$@ --out bench/results

psync: setup
	$(BIN)/python -m bench.paper_psync --losses --out bench/results

graph-growth: setup
	$(BIN)/python -m bench.graph_growth --out bench/results

many-groups: setup
	$(BIN)/python -m bench.many_groups
	ANTIPHON_PURE=1 $(BIN)/python -m bench.many_groups --counts --left 1000 --live 1000

planted: setup
	$(BIN)/python -m tests.pipeline.planted --histories 10000 --jobs $(shell nproc)
	$(BIN)/python -m tests.pipeline.planted --first 10000 --histories 300 --jobs $(shell nproc) --spark 100

cost: setup
	$(BIN)/python -m bench.cost --out bench/results
	$(BIN)/python -m bench.cost --share 8,64,256

audit-scale: setup
	$(BIN)/python -m bench.audit_scale --events 1000000,10000000,100000000 --compare 10000000 --out bench/results

needle: setup
	$(BIN)/python -m bench.audit_scale --events 10000000 --plant causal=1

seeds: setup
	$(BIN)/antiphon campaign --seeds 0:2000

side-by-side: setup
	$(BIN)/python -m bench.side_by_side --old $(OLD) --new .

$(VENV)/documented: $(VENV)/installed
	@echo 'installing what the pages are built with'
	@ANTIPHON_PURE=1 $(BIN)/python -m pip install --disable-pip-version-check --editable '.[docs]'
	@touch $@

docs: $(VENV)/documented
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'the pages are in build/site/index.html'

wheel: setup
	$(BIN)/python -m tests.wheel

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests -name '__pycache__' -type d -prune -exec rm -rf {} +
	find src -name '*.so' -delete
	rm -f src/antiphon/_build_stamp.json
