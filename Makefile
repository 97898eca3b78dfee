# Trireme's build. `make` builds the two programs and says what it found, `make help` lists the targets and
# `make config` the variables. Every variable can be set on the command line or in the environment.
# Sources are found, not listed: a new .cpp below src/, data_tools/ or tests/ is built without an edit here.
#   make/settings.mk  variables and flags        make/find.mk   what the machine has (cached in build/config.mk)
#   make/build.mk     how files are made         make/tests.mk  test programs and their targets
#   make/fuzz.mk      libFuzzer programs
MAKEFLAGS += --no-print-directory
# All cores, but not a whole login node; a -j on the command line wins.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell n=$$(nproc 2>/dev/null || echo 2); [ $$n -le 8 ] && echo $$n || echo 8)
endif
SHELL := /bin/sh
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:

include make/settings.mk
include make/find.mk
include make/build.mk
include make/tests.mk
include make/fuzz.mk

all: report programs ## build build/bin/trireme and build/bin/trireme-data, and say what was found (the default)
	@printf '  built       %s\n' '$(PROGRAMS)'

programs: $(PROGRAMS)
	@:

deps: ## install with apt what is missing (asks for nothing when all is there); CUDA: fetch cudnn-frontend's headers
	@$(FIND_ENV) scripts/install_packages.sh
	@$(FIND_ENV) scripts/fetch_cudnn_frontend.sh $(BUILD)/cudnn-frontend

config: report ## what was found, and every variable with its value
	@printf '\nvariables (value, where it comes from)\n'
	@printf '%s\n' $(foreach v,$(VARIABLES),'  $(v) = $(call quoted,$($(v)))  ($(if $(filter file,$(origin $(v))),default,$(origin $(v))))')
	@printf '\ncompile: %s\nlink:    %s\n' '$(call quoted,$(COMPILE))' '$(call quoted,$(CXX) $(LDFLAGS) OBJECTS $(ALL_LIBS))'

help: ## this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-13s %s\n", $$1, $$2}' Makefile make/*.mk
	@echo "  VERBOSE=1 shows the commands; make config lists the other variables"

demo: deps ## train a GPT on this machine's own text with 4 MPI ranks, resume on another layout, generate (DEMO_TEXT=dir)
	@$(MAKE) CUDA=$(CUDA_IF_ASKED) programs
	@BUILD='$(BUILD)' DEMO_TEXT='$(DEMO_TEXT)' scripts/demo.sh

install: programs ## copy programs, manual, templates and documents below PREFIX (default /usr/local; DESTDIR is honoured)
	@scripts/install.sh files '$(BUILD)' '$(PREFIX)' '$(DESTDIR)'

modulefile: ## write PREFIX/modulefiles for Lmod and Environment Modules (MODULES: what it needs loaded; default: what is loaded)
	@scripts/install.sh modulefile '$(PREFIX)' '$(DESTDIR)' $(MODULES)

format: ## format all C++ sources with clang-format 14
	@CLANG_FORMAT='$(CLANG_FORMAT)' scripts/check_format.sh --fix

lint: ## formatting, compiler warnings as errors, shellcheck where there is one
	@CLANG_FORMAT='$(CLANG_FORMAT)' scripts/check_format.sh
	@$(MAKE) BUILD='$(BUILD)/lint' CXXFLAGS=-O0 WERROR=1 ARCH=90a \
		CUDNN_FRONTEND_ROOT='$(or $(CUDNN_FRONTEND_ROOT),$(if $(wildcard $(BUILD)/cudnn-frontend/include),$(abspath $(BUILD)/cudnn-frontend),none))' objects
	@if command -v shellcheck >/dev/null; then scripts/check_scripts.sh; \
	else echo "shellcheck is not here: scripts were not checked"; fi
	@echo "lint: nothing found"

check-layers: ## check that layers include only what src/layers.txt allows them
	@scripts/check_layers.sh

clean: ## remove everything that was built
	@$(if $(CLEANED),,rm -rf '$(BUILD)')

.PHONY: all programs deps config help demo install modulefile format lint check-layers clean
