# What a user may set, with defaults. A name added here shows up in `make config`.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
# Modules that the modulefile asks for: by default those that are loaded while it is written.
MODULES ?= $(subst :, ,$(LOADEDMODULES))
VERBOSE ?= 0
WERROR ?= 0
# auto: GPUs if CUDA, cuDNN and NCCL are found. 1: an error if they are not. 0: leave GPUs out.
CUDA ?= auto
# demo and test need no GPU and build without unless told otherwise; test-all compiles all.
CUDA_IF_ASKED = $(if $(filter auto,$(CUDA)),0,$(CUDA))
# Compute capabilities without the dot, 90a for Hopper's own instructions. native: of the GPU in this machine; empty: of the
# GPU in this machine if there is one, else 80 90a.
ARCH ?=
DEMO_TEXT ?=
# make bench-gpu: the rows to run (tests/bench/gpu_rows.py). With BUNDLE=dir (made by `make bundle`) bench-gpu and test-gpu use
# that bundle and build nothing.
ROW ?=
BUNDLE ?=
# For comparisons with Python packages only: make bench, make check-tokenizer TEXT=DIR.
PYTHON ?= python3
TEXT ?=
# Which processor to compile for (-march). The programs then run on that kind only: on a cluster whose login nodes
# differ from its compute nodes name the oldest of them, as in CPU=x86-64-v3.
CPU ?= native
ifeq ($(origin CXX),default)
CXX := g++
endif
# Never -Ofast or -ffast-math: they break isnan, and a NaN must always be seen.
CXXFLAGS ?= -O3 -g
LDFLAGS ?=
CLANG_FORMAT ?= $(firstword $(shell command -v clang-format-14 clang-format 2>/dev/null))
# Where libraries are; empty means: look (make/find.mk). X_ROOT is a directory with include/ and lib/.
MPICXX ?=
MPIRUN ?=
MPI_CFLAGS ?=
MPI_LIBS ?=
HDF5_ROOT ?=
HDF5_CFLAGS ?=
HDF5_LIBS ?=
BLAS_CFLAGS ?=
BLAS_LIBS ?=
BOOST_ROOT ?=
SIMDJSON_ROOT ?=
ZLIB_ROOT ?=
ZSTD_ROOT ?=
XXHASH_ROOT ?=
GTEST_ROOT ?=
NVCC ?=
CUDNN_ROOT ?=
NCCL_ROOT ?=
# Holds include/cudnn_frontend.h; empty: where `make deps` unzips it; none: own attention kernels, up to twice as slow.
CUDNN_FRONTEND_ROOT ?=

FIND_VARIABLES := CXX CPU MPICXX MPIRUN MPI_CFLAGS MPI_LIBS HDF5_ROOT HDF5_CFLAGS HDF5_LIBS BLAS_CFLAGS BLAS_LIBS \
	BOOST_ROOT SIMDJSON_ROOT ZLIB_ROOT ZSTD_ROOT XXHASH_ROOT GTEST_ROOT \
	CUDA ARCH NVCC CUDNN_ROOT NCCL_ROOT CUDNN_FRONTEND_ROOT
VARIABLES := BUILD PREFIX DESTDIR MODULES VERBOSE WERROR DEMO_TEXT CXXFLAGS LDFLAGS CLANG_FORMAT $(FIND_VARIABLES)

ifeq ($(filter 0 1 auto,$(CUDA)),)
$(error CUDA=$(CUDA): 0, 1 or auto is meant)
endif

ifneq ($(filter / . .. $(CURDIR),$(or $(BUILD),/)),)
$(error BUILD=$(BUILD): `make clean` removes this folder, so it must be one of its own)
endif
# `make clean all`: what is read below writes into the folder already, so it is emptied now and not in the recipe.
ifneq ($(and $(filter clean,$(MAKECMDGOALS)),$(filter-out clean,$(MAKECMDGOALS))),)
ifeq ($(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),)
CLEANED := $(shell rm -rf '$(BUILD)')yes
endif
endif

Q := $(if $(filter 1,$(VERBOSE)),,@)
# A value inside single quotes of a recipe.
quoted = $(subst ','\'',$(1))
# Writes text to a file at the time make reads its files, and only if that changes the file: what depends on it
# is made again exactly when the text is another one.
write_if_changed = $(file >$(1).new,$(2))$(shell cmp -s $(1).new $(1) && rm $(1).new || mv $(1).new $(1))
