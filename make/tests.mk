# Test programs: tests/unit/**/*.cpp become one program without MPI; every tests/{oracle,layout,fault}/NAME_test.cpp
# becomes a program of its own, tests/bench/NAME.cpp likewise (started by tests/bench/*_bench.sh). A first line
# `// ranks: 1 2 4` makes it an MPI test: it is linked with tests/support/mpi_main.cpp and started on each of these numbers
# of ranks. Everything else in tests/support is linked into all of them. scripts/run_tests.sh runs them.
TEST_SUITES := oracle layout fault $(if $(filter 1,$(FOUND_CUDA)),gpu)
SUITE_SOURCES := $(sort $(wildcard $(TEST_SUITES:%=tests/%/*_test.cpp)))
BENCH_SOURCES := $(sort $(wildcard tests/bench/*.cpp))
GPU_BENCH_SOURCES := $(if $(filter 1,$(FOUND_CUDA)),$(sort $(wildcard tests/gpu/*_bench.cpp)))
BENCH_PROGRAMS := $(patsubst %.cpp,$(BUILD)/%,$(BENCH_SOURCES) $(GPU_BENCH_SOURCES))
MPI_TEST_SOURCES := $(if $(SUITE_SOURCES)$(BENCH_SOURCES),$(shell awk 'FNR == 1 && /^\/\/ ranks:/ {print FILENAME}' \
	$(SUITE_SOURCES) $(BENCH_SOURCES)))
UNIT_SOURCES := $(shell find tests/unit -name '*.cpp' 2>/dev/null | sort)
SUPPORT_SOURCES := $(shell find tests/support -name '*.cpp' ! -name '*_main.cpp' 2>/dev/null | sort)
TEST_PROGRAMS := $(if $(UNIT_SOURCES),$(BUILD)/tests/unit) $(patsubst %.cpp,$(BUILD)/%,$(SUITE_SOURCES))
TEST_SOURCES := $(UNIT_SOURCES) $(SUPPORT_SOURCES) $(SUITE_SOURCES) $(BENCH_SOURCES) $(GPU_BENCH_SOURCES) \
	$(wildcard tests/support/*_main.cpp)

$(call objects,$(TEST_SOURCES)): COMPILE += -Itests $(call system_includes,$(FOUND_TEST_CFLAGS))

# $(1): program, $(2): its sources, main included.
define test_program
$(1): $(call objects,$(2) $(SUPPORT_SOURCES)) $(BUILD)/libtrireme.a $(BUILD)/flags.link
	@echo "link $$@"
	$$(Q)mkdir -p $$(@D) && $$(CXX) $$(LDFLAGS) -Wl,--as-needed -o $$@ $$(filter %.o,$$^) $$(filter %.a,$$^) \
		$$(FOUND_TEST_LIBS) $$(ALL_LIBS)
endef
main_of = tests/support/$(if $(filter $(1),$(MPI_TEST_SOURCES)),mpi_main.cpp,plain_main.cpp)
$(eval $(call test_program,$(BUILD)/tests/unit,$(UNIT_SOURCES) tests/support/plain_main.cpp))
$(foreach s,$(SUITE_SOURCES),$(eval $(call test_program,$(s:%.cpp=$(BUILD)/%),$(s) $(call main_of,$(s)))))
$(foreach s,$(BENCH_SOURCES) $(GPU_BENCH_SOURCES),$(eval $(call test_program,$(s:%.cpp=$(BUILD)/%),$(s))))

RUN_TESTS = BUILD='$(BUILD)' CXX='$(CXX)' VERBOSE='$(VERBOSE)' MPIRUN='$(MPIRUN)' scripts/run_tests.sh
suite_programs = $(patsubst %.cpp,$(BUILD)/%,$(wildcard tests/$(1)/*_test.cpp))

test: deps ## everything that takes minutes: unit, oracle, layout, fault, scripts, slurm (short), check-layers
	@$(MAKE) CUDA=$(CUDA_IF_ASKED) programs test-programs
	@TRIREME_TEST_LEVEL=quick $(RUN_TESTS) unit oracle layout fault scripts slurm check-layers

test-all: deps cluster-deps ## all tests at full length
	@$(call as_root_with_apt,PYTHON='$(PYTHON)' scripts/install_packages.sh --reader-packages)
	@$(MAKE) programs test-programs bench-programs $(if $(CLANGXX),fuzz-programs)
	@TRIREME_TEST_LEVEL=full $(RUN_TESTS) unit oracle layout fault scripts check-layers slurm gpu fuzz

test-programs: $(TEST_PROGRAMS) ## build the test programs
	@:

bench-programs: $(BENCH_PROGRAMS)
	@:

unit: $(if $(UNIT_SOURCES),$(BUILD)/tests/unit) ## the unit tests alone (GTEST_FILTER=... chooses)
	@$(RUN_TESTS) unit

oracle: programs $(call suite_programs,oracle) ## the comparisons with PyTorch's committed results alone
	@$(RUN_TESTS) oracle

layout: programs $(call suite_programs,layout) ## the tests on several MPI ranks alone
	@$(RUN_TESTS) layout

fault: programs $(call suite_programs,fault) ## the tests of failures alone
	@$(RUN_TESTS) fault

# Tests that others' programs are needed for are skipped without them, so these are installed only where that asks for nothing.
as_root_with_apt = if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then $(1); fi

# A Slurm on one host needs root.
cluster-deps: deps # one after the other: apt locks
	@$(call as_root_with_apt,scripts/install_packages.sh --cluster-packages && \
		scripts/fetch_module_systems.sh '$(BUILD)/module-systems')

test-slurm: deps cluster-deps ## the programs and templates on a Slurm of several nodes on this host (needs root), and modulefiles
	@$(MAKE) CUDA=$(CUDA_IF_ASKED) programs
	@TRIREME_TEST_LEVEL=full $(RUN_TESTS) slurm

test-faults: programs ## checkpoints: 206 kills, full disks, flipped bits, spoilt files and markers, each followed by a resume
	@TRIREME_FAULT_CASES="66 40 40 30 30" TRIREME_TEST_LEVEL=full TRIREME_BIN='$(BUILD)/bin' MPIRUN='$(MPIRUN)' \
		tests/fault/checkpoint_faults_test.sh | tee '$(BUILD)/test-faults.log'; ! grep '^not ok' '$(BUILD)/test-faults.log'

test-gpu: $(if $(BUNDLE),,programs $(call suite_programs,gpu)) ## the comparisons of the GPU with the CPU (a CUDA build on a machine with a GPU)
	@TRIREME_REQUIRE=gpu BUNDLE='$(BUNDLE)' $(RUN_TESTS) gpu

bundle: programs $(call suite_programs,gpu) $(filter $(BUILD)/tests/gpu/%,$(BENCH_PROGRAMS)) ## pack programs, GPU tests and the libraries that another machine may lack into build/bundle
	@BUILD='$(BUILD)' scripts/make_bundle.sh

bench: programs $(patsubst %.cpp,$(BUILD)/%,$(BENCH_SOURCES)) ## time this build (tests/bench)
	@BUILD='$(BUILD)' PYTHON='$(PYTHON)' scripts/run_benchmarks.sh

bench-gpu: $(if $(BUNDLE),,programs) ## time training on this machine's GPUs beside PyTorch (ROW="124M 7B"; BUNDLE=dir)
	@BUILD='$(BUILD)' BUNDLE='$(BUNDLE)' PYTHON='$(PYTHON)' MPIRUN='$(MPIRUN)' scripts/bench_gpu.sh $(ROW)

bench-report: ## the table of what bench-gpu has recorded here, and else of the project's own figures
	@'$(PYTHON)' tests/bench/gpu_report.py docs/gpu-results.jsonl '$(BUILD)/bench-gpu.jsonl'

check-tokenizer: programs ## compare our ids on all text in TEXT=DIR with tiktoken's and tokenizers' (PYTHON has them)
	@if [ -z '$(TEXT)' ]; then echo 'check-tokenizer: TEXT=DIR names the folder of text' >&2; exit 2; fi
	@TRIREME_DATA='$(BUILD)/bin/trireme-data' '$(PYTHON)' tests/oracle/check_tokenizer.py '$(TEXT)'

check-transformers: programs $(BUILD)/tests/oracle/transformers_test ## compare logits and tensors with transformers' both ways (PYTHON has it)
	@'$(PYTHON)' tests/oracle/check_transformers.py '$(BUILD)'

objects: $(call objects,$(LIB_SOURCES) $(APP_SOURCES) $(DATA_TOOL_SOURCES) $(TEST_SOURCES))
	@:

.PHONY: test-faults test test-all test-programs bench-programs unit oracle layout fault cluster-deps test-slurm test-gpu \
	bundle bench bench-gpu bench-report check-tokenizer check-transformers objects
