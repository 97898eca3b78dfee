# How objects, the library and the two programs are made.
comma := ,
# Headers of others are system headers: their warnings are not ours.
system_includes = $(patsubst -I%,-isystem %,$(1))
# g++ 12 miscompiles when it is tuned for processors whose constants it moves 32 bytes at a time: a struct constant whose last
# word is zero, passed by value, arrives with its first word there (tests/unit/base/compiler_test.cpp; seen for icelake-server,
# rocketlake, sapphirerapids, with AVX-512 and without). OpenBLAS chooses its own instructions at run time.
CXX_FAULTS = $(if $(and $(filter 12.%,$(FOUND_CXX_VERSION)),$(filter x86_64,$(shell uname -m))),-mno-avx512f -mmove-max=128 \
	-mstore-max=128)
COMPILE = $(CXX) -std=c++20 $(CXXFLAGS) -march=$(CPU) $(CXX_FAULTS) -fno-math-errno -Wall -Wextra -Wshadow \
	$(if $(filter-out 0,$(WERROR)),-Werror) -pthread -Iinclude -Isrc -DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1 \
	$(call system_includes,$(FOUND_CFLAGS))
ALL_LIBS = $(FOUND_LIBS) $(FOUND_CUDA_LIBS) -pthread

# Only what stands below a folder cuda/ or nccl/, and the two files that choose, is compiled for CUDA.
GPU_FOLDERS := $(wildcard src/*/cuda src/*/nccl)
GPU_CHOICES := $(wildcard src/backend/make.cpp src/comm/mpi/process_groups.cpp)
GPU_SOURCES := $(if $(filter 1,$(FOUND_CUDA)),$(if $(GPU_FOLDERS),$(shell find $(GPU_FOLDERS) -name '*.c[pu]*' ! -name '*.cuh' | sort)))
LIB_SOURCES := $(shell find src -name '*.cpp' ! -path 'src/app/*' ! -path '*/cuda/*' ! -path '*/nccl/*' | sort) $(GPU_SOURCES)
APP_SOURCES := $(shell find src/app -name '*.cpp' | sort)
DATA_TOOL_SOURCES := $(shell find data_tools -name '*.cpp' | sort)
PROGRAMS := $(BUILD)/bin/trireme $(BUILD)/bin/trireme-data
VERSION_SOURCE := $(BUILD)/generated/build_info.cpp
objects = $(patsubst %.cu,$(BUILD)/obj/%.o,$(patsubst %.cpp,$(BUILD)/obj/%.o,$(1)))

ifeq ($(FOUND_CUDA),1)
CUDA_FLAGS := -DTRIREME_CUDA $(call system_includes,$(FOUND_CUDA_CFLAGS))
NVCC_COMPILE = $(FOUND_NVCC) -ccbin $(firstword $(CXX)) -std=c++20 $(filter-out -W%,$(CXXFLAGS)) -lineinfo \
	$(foreach a,$(FOUND_CUDA_ARCH),-gencode arch=compute_$(a)$(comma)code=sm_$(a)) --extended-lambda \
	--expt-relaxed-constexpr -Xcompiler -Wall$(comma)-Wextra$(comma)-pthread $(if $(filter-out 0,$(WERROR)),-Werror all-warnings) \
	-Iinclude -Isrc -DTRIREME_CUDA $(call system_includes,$(FOUND_CUDA_CFLAGS))
endif

ifdef FOUND_CFLAGS
$(call write_if_changed,$(BUILD)/flags.compile,$(COMPILE) $(CPU_RESOLVED))
$(call write_if_changed,$(BUILD)/flags.cuda,$(CUDA_FLAGS) $(NVCC_COMPILE))
$(call write_if_changed,$(BUILD)/flags.link,$(CXX) $(LDFLAGS) $(ALL_LIBS))
# The commit is compiled into this one file only, so that a new commit rebuilds one file.
VERSION_TEXT := $(shell scripts/build_info.sh $(VERSION_SOURCE) '$(call quoted,$(CXX)) $(FOUND_CXX_VERSION)' \
	'$(call quoted,$(CXXFLAGS) -march=$(CPU))')
endif

# $(1): program, $(2): its sources. Objects come before the library, the library before what it uses.
define program
$(1): $(call objects,$(2)) $(BUILD)/libtrireme.a $(BUILD)/flags.link
	@echo "link $$@"
	$$(Q)mkdir -p $$(@D) && $$(CXX) $$(LDFLAGS) -Wl,--as-needed -o $$@ $$(filter %.o,$$^) $$(filter %.a,$$^) $$(ALL_LIBS)
endef
$(eval $(call program,$(BUILD)/bin/trireme,$(APP_SOURCES)))
$(eval $(call program,$(BUILD)/bin/trireme-data,$(DATA_TOOL_SOURCES)))

# The archive is made anew, so that no object of a removed source stays in it.
LIB_OBJECTS := $(call objects,$(LIB_SOURCES)) $(BUILD)/obj/generated/build_info.o
$(BUILD)/libtrireme.a: $(LIB_OBJECTS) $(BUILD)/library.list
	$(Q)rm -f $@ && ar rcs $@ $(LIB_OBJECTS)
ifdef FOUND_CFLAGS
$(call write_if_changed,$(BUILD)/library.list,$(LIB_OBJECTS))
endif

$(BUILD)/obj/generated/%.o: $(BUILD)/generated/%.cpp $(BUILD)/flags.compile
	$(Q)mkdir -p $(@D) && $(COMPILE) -MMD -MP -c $< -o $@

$(BUILD)/obj/%.o: %.cpp $(BUILD)/flags.compile
	@echo "compile $<"
	$(Q)mkdir -p $(@D) && $(COMPILE) -MMD -MP -c $< -o $@

$(BUILD)/obj/%.o: %.cu $(BUILD)/flags.cuda
	@echo "compile $<"
	$(Q)mkdir -p $(@D) && $(NVCC_COMPILE) -MMD -MP -c $< -o $@

# Half a million lines of templates that only build graphs at start: optimising them costs minutes and gains nothing.
$(BUILD)/obj/src/backend/cuda/attention_cudnn.o: override CXXFLAGS := -O1
# Whether kernels with Hopper's own instructions are in the build.
$(BUILD)/obj/src/backend/cuda/attention.o: COMPILE += $(if $(filter 90a,$(FOUND_CUDA_ARCH)),-DTRIREME_HOPPER)
$(call objects,$(filter %.cpp,$(GPU_SOURCES)) $(GPU_CHOICES)): COMPILE += $(CUDA_FLAGS)
$(call objects,$(filter %.cpp,$(GPU_SOURCES)) $(GPU_CHOICES)): $(BUILD)/flags.cuda

# Written above while make reads its files; here so that make knows that they exist.
$(BUILD)/flags.compile $(BUILD)/flags.cuda $(BUILD)/flags.link $(BUILD)/library.list $(VERSION_SOURCE): ;

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
