# libFuzzer programs, tests/fuzz/NAME_fuzz.cpp, with the sources of base and data they read with; needs clang++.
# They are compiled apart from everything else: another compiler, sanitizers, no MPI.
CLANGXX ?= $(firstword $(shell command -v clang++ clang++-14 clang++-15 clang++-16 2>/dev/null))
FUZZ_SECONDS ?= 30
FUZZ_SOURCES := $(sort $(wildcard tests/fuzz/*_fuzz.cpp))
FUZZ_LIB_SOURCES := $(sort $(wildcard src/base/*.cpp src/data/*.cpp))
FUZZ_COMPILE = $(CLANGXX) -std=c++20 -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined \
	-Itests/fuzz/clang14 -Iinclude -Isrc -Itests -pthread $(call system_includes,$(FOUND_CFLAGS))
fuzz_objects = $(patsubst %.cpp,$(BUILD)/fuzz/obj/%.o,$(1))

$(BUILD)/fuzz/obj/%.o: %.cpp
	@echo "compile (fuzz) $<"
	$(Q)mkdir -p $(@D) && $(FUZZ_COMPILE) -MMD -MP -c $< -o $@

$(BUILD)/fuzz/%_fuzz: $(BUILD)/fuzz/obj/tests/fuzz/%_fuzz.o $(call fuzz_objects,$(FUZZ_LIB_SOURCES))
	@echo "link $@"
	$(Q)$(CLANGXX) -fsanitize=fuzzer,address,undefined -o $@ $^ $(FOUND_LIBS) -pthread

fuzz: ## libFuzzer on the readers of files, FUZZ_SECONDS (30) each, two at a time; needs clang++
	@if [ -z '$(CLANGXX)' ]; then echo 'fuzz: clang++ is needed (CLANGXX names it)' >&2; exit 1; fi
	@$(MAKE) fuzz-programs
	@BUILD='$(BUILD)' FUZZ_SECONDS='$(FUZZ_SECONDS)' scripts/run_fuzzers.sh

fuzz-programs: $(patsubst tests/fuzz/%.cpp,$(BUILD)/fuzz/%,$(FUZZ_SOURCES))
	@:

.SECONDARY: $(call fuzz_objects,$(FUZZ_LIB_SOURCES) $(FUZZ_SOURCES))
.PHONY: fuzz fuzz-programs
-include $(shell find $(BUILD)/fuzz/obj -name '*.d' 2>/dev/null)
