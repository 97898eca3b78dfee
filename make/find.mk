# What this machine has. scripts/find_dependencies.sh looks once and writes $(BUILD)/config.mk (FOUND_... variables)
# and config.txt (the report); it looks again when a variable, a tool's path or the script changes. Nothing is
# looked for when all goals asked for are among those that need no compiler.
FREE_GOALS := deps cluster-deps help demo test test-all test-slurm modulefile format lint check-layers clean bench-report \
	$(if $(BUNDLE),bench-gpu test-gpu)
FIND_ENV = $(foreach v,$(FIND_VARIABLES),$(v)='$(call quoted,$($(v)))')

ifneq ($(filter-out $(FREE_GOALS),$(or $(MAKECMDGOALS),all)),)
$(shell mkdir -p $(BUILD))
# -march=native is resolved here, so that a build folder shared with another kind of machine is built anew there.
CPU_RESOLVED := $(shell $(CXX) -march=$(CPU) -E -v -x c++ /dev/null 2>&1 | sed -n 's/.*cc1plus.*\(-march=.*\)/\1/p' | cksum)
TOOL_PATHS := $(shell command -v $(CXX) mpicxx mpirun h5pcc pkg-config $(or $(NVCC),nvcc) nvidia-smi 2>/dev/null) \
	$(wildcard $(BUILD)/cudnn-frontend/include/cudnn_frontend.h) $(shell $(CXX) -dumpfullversion 2>/dev/null)
$(call write_if_changed,$(BUILD)/config.inputs,$(FIND_ENV) $(TOOL_PATHS) $(PKG_CONFIG_PATH) $(CPATH) $(LIBRARY_PATH) $(CPU_RESOLVED))
FIND_STATUS := $(shell if [ ! -f $(BUILD)/config.mk ] || [ -n "$$(find $(BUILD)/config.inputs \
	scripts/find_dependencies.sh -newer $(BUILD)/config.mk)" ]; then $(FIND_ENV) scripts/find_dependencies.sh \
	$(BUILD) 1>&2; echo $$?; else echo 0; fi)
ifneq ($(FIND_STATUS),0)
$(error something that the programs need is missing (see above); plain `make` installs nothing, `make deps` does)
endif
include $(BUILD)/config.mk
endif

report:
	@cat $(BUILD)/config.txt
.PHONY: report
