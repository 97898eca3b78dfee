# Trireme: `make` builds, `make help` lists the targets. Every variable below can be set on the command line.
CXX ?= g++
BUILD ?= build
CUDA ?= 0
CPU ?= native
VERBOSE ?= 0
Q := $(if $(filter 1,$(VERBOSE)),,@)

MPI_PKG ?= ompi-c
HDF5_PKG ?= hdf5-openmpi
BLAS_PKG ?= openblas
PKGS := $(HDF5_PKG) $(MPI_PKG) $(BLAS_PKG)
PKG_CFLAGS = $(shell pkg-config --cflags $(PKGS))
PKG_LIBS = $(shell pkg-config --libs $(PKGS))

CXXFLAGS ?= -O3 -g
ALL_CXXFLAGS = -std=c++20 $(CXXFLAGS) -march=$(CPU) -Wall -Wextra -Wshadow -pthread -fno-math-errno -Iinclude -Isrc \
	-DOMPI_SKIP_MPICXX=1 $(PKG_CFLAGS)
ALL_LIBS = $(PKG_LIBS) -lboost_program_options -lsimdjson -lz -lzstd -pthread

LIB_SOURCES := $(shell find src -name '*.cpp' ! -path 'src/app/*')
APP_SOURCES := $(shell find src/app -name '*.cpp')
DATA_TOOL_SOURCES := $(shell find data_tools -name '*.cpp')
UNIT_SOURCES := $(shell find tests/unit tests/support -name '*.cpp')
objects = $(patsubst %.cpp,$(BUILD)/obj/%.o,$(1))

all: $(BUILD)/bin/trireme $(BUILD)/bin/trireme-data

$(BUILD)/libtrireme.a: $(call objects,$(LIB_SOURCES))
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/bin/trireme: $(call objects,$(APP_SOURCES)) $(BUILD)/libtrireme.a
	$(Q)mkdir -p $(@D) && $(CXX) -o $@ $^ $(ALL_LIBS)

$(BUILD)/bin/trireme-data: $(call objects,$(DATA_TOOL_SOURCES)) $(BUILD)/libtrireme.a
	$(Q)mkdir -p $(@D) && $(CXX) -o $@ $^ $(ALL_LIBS)

$(BUILD)/tests/unit: $(call objects,$(UNIT_SOURCES)) $(BUILD)/libtrireme.a
	$(Q)mkdir -p $(@D) && $(CXX) -o $@ $^ $(ALL_LIBS) -lgtest -lgtest_main

$(BUILD)/obj/%.o: %.cpp
	@echo "compile $<"
	$(Q)mkdir -p $(@D) && $(CXX) $(ALL_CXXFLAGS) -MMD -MP -c $< -o $@

unit: $(BUILD)/tests/unit
	$(BUILD)/tests/unit

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
.PHONY: all unit
