# The CUDA backend on an emulated GPU.

# On another backend all methods are tested with passes of any size, and those that select also in
# later turns; for the other tests, some methods represent each kind of statistics.  Sanitizer
# builds run all tests.
if(TURNBENCH_SANITIZE)
  string(CONCAT methods_on_cuda_filter "*Conformance*:*CornerMask*"
    "-*CanonicalNameParsesToItself*:*SmallSettingsChangeTheLogits*")
else()
  string(CONCAT methods_on_cuda_filter "*Conformance.IsDeterministic*:"
    "*.LaterTurns/oracle:*.LaterTurns/sparq:*.LaterTurns/infllm:*.LaterTurns/quest:"
    "*.LaterTurns/clusterkv:*.LaterTurns/shadowkv:*.LaterTurns/pqcache:*.LaterTurns/snapkv:"
    "*Conformance*/h2o:*Conformance*/keyformer:*Conformance*/loopserve:*CornerMask*:"
    "ConformanceChecks.RejectHostKeys*:"
    "Round.EqualsAPlainReference:Round.HostKeepsUnreadTokens:SparQ.BlendsIfItReadsNoCandidate"
    "-*CanonicalNameParsesToItself*:*SmallSettingsChangeTheLogits*")
endif()
# The operations that policies use differ with the heads per group and with a single KV head.
string(CONCAT inference_on_cuda_filter "RmsNormHeads.*:*LogitsAndGreedyTokens*:*SixteenBitCache*:"
  "*EnginePolicies*/llama3:*EnginePolicies*/qwen2:Stages.*:*/StagesOf.*:*MemoryOfStages*:"
  "ScoreVectors.*:*/KeyScores.*:*/PageScores.*:ScoreCodes.*:*/DimensionScores.*:ReduceHeads.*:TopK.*:"
  "AssignNearest.*:ReadKeys.*:RebuildKeys.*:SlotMass.*:AddValues.*:BlendRows.*:Merge.*:"
  "PreRopeKeys.*:Selection.*:"
  "LastLayer.LeavesOut*:*Offload.BitsDoNot*:*Offload.ForksShare*:PinnedLayerTest.*")
if(NOT TURNBENCH_SANITIZE)
  # Stages behave as on the CPU, so one of each kind is enough; and the ownership of pages does not
  # depend on heads.
  string(APPEND inference_on_cuda_filter "-*/StagesOf.ComputeTheSame/*:"
    "*/StagesOf.ServeFollowers/untied:*/StagesOf.AreFilled/untied:"
    "*/StagesOf.HoldOnlyTheirLayers/untied:"
    "*.ForksAreIndependent/qwen2:*.FollowersEqualSequencesAlone/qwen2:*Offload.*/qwen2")
endif()
# Of the kernels' tests, the thread sanitizer skips sizes that execute no additional code.
if(TURNBENCH_SANITIZE MATCHES thread)
  string(CONCAT cuda_filter "-CudaDecodeAttention.EqualsTheReference:CudaPatterns.PatternsEqualCpu:"
    "CudaAttendRows.EqualsCpu:GraphsTest.RepeatToTheBit*:"
    "GraphsTest.AreForgotten*:HostTransfersTest.OfAnySize*:DeviceMemoryTest.CopiesKeepTheOrder*:"
    "RepeatedDecoding.*")
  set(methods_on_cuda_filter
    *Conformance.IsDeterministic/snapkv:*Conformance.IsDeterministic/loopserve)
  set(inference_on_cuda_filter *EnginePolicies.EvictionEqualsNotReading*:Stages.*)
endif()

# The CUDA backend without a GPU: its sources as plain C++ with the headers of the emulation, always
# under sanitizers.
file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/inference/cuda/*.cpp
  cuda/emulation/*.cpp)
list(FILTER cuda_sources EXCLUDE REGEX "/inference/cuda/library_loader")
turnbench_kernels(cuda_kernels inference/cuda)
set_source_files_properties(${cuda_kernels} PROPERTIES LANGUAGE CXX)
add_library(turnbench_cuda_emulated STATIC ${cuda_sources} ${cuda_kernels})
target_include_directories(turnbench_cuda_emulated BEFORE PUBLIC cuda/emulation)
target_compile_definitions(turnbench_cuda_emulated PUBLIC TURNBENCH_EMULATED
  PRIVATE TURNBENCH_CUDA_LIBRARY_DIR="/toolkit/lib64")
target_compile_options(turnbench_cuda_emulated
  PUBLIC -Wno-unknown-pragmas  # "unroll" is for nvcc
  # Whole models run in it, under sanitizers too; -O2 would take longer to compile than it saves.
  PRIVATE -O1 -march=native -UNDEBUG
  -fno-strict-aliasing)  # kernels copy elements of all types as 16-byte words
if(NOT TURNBENCH_SANITIZE)
  # Other undefined behaviour, whose checks take as long to compile again, is detected in separate
  # builds (`make test-asan`).
  set(in_kernels -fsanitize=alignment,shift,signed-integer-overflow -fno-sanitize-recover=all)
  target_compile_options(turnbench_cuda_emulated
    PUBLIC -fsanitize=address -fno-omit-frame-pointer PRIVATE ${in_kernels})
  target_link_options(turnbench_cuda_emulated PUBLIC -fsanitize=address,undefined)
  set_source_files_properties(cuda/emulation_sanitizers_test.cpp PROPERTIES
    COMPILE_OPTIONS "${in_kernels}" SKIP_UNITY_BUILD_INCLUSION ON)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # With a shared runtime, its calls at each switch between emulated threads take a fifth of the
    # time.
    target_link_options(turnbench_cuda_emulated PUBLIC -static-libasan)
  endif()
  # These take much of the time, and access kernel memory only after it has been checked.
  set_source_files_properties(cuda/emulation/collectives.cpp cuda/emulation/scheduler.cpp
    cuda/emulation/tensor_cores.cpp PROPERTIES COMPILE_OPTIONS -fno-sanitize=all)
endif()
if(TURNBENCH_SANITIZE MATCHES thread)
  # Their accesses to their own data are not those of kernels; thread_order.h defines the order of
  # kernel accesses.
  set_source_files_properties(cuda/emulation/collectives.cpp cuda/emulation/fiber.cpp
    cuda/emulation/scheduler.cpp cuda/emulation/tensor_cores.cpp PROPERTIES
    COMPILE_OPTIONS -fno-sanitize=thread COMPILE_DEFINITIONS EMULATION_THREAD_SANITIZER)
endif()
target_link_libraries(turnbench_cuda_emulated PUBLIC turnbench_inference)
turnbench_tests(cuda turnbench_cuda_emulated)
turnbench_add_test(cuda turnbench_cuda_tests COST 90 LABEL more)
# The code that selects devices, with emulated ones.
target_sources(turnbench_cuda_tests PRIVATE ${PROJECT_SOURCE_DIR}/inference/devices/devices.cpp)
set_source_files_properties(${PROJECT_SOURCE_DIR}/inference/devices/devices.cpp PROPERTIES
  COMPILE_DEFINITIONS TURNBENCH_CUDA)

# The conformance suite of all methods, on that backend.
add_executable(turnbench_methods_on_cuda_tests backends/cuda.cpp)
target_link_libraries(turnbench_methods_on_cuda_tests PRIVATE turnbench_methods_test_objects
  turnbench_cuda_emulated turnbench_methods GTest::gtest_main)
turnbench_add_test(methods_on_cuda turnbench_methods_on_cuda_tests COST 250 PARTS 2 LABEL more)
# The model families against their golden logits, and the engine with policies, on that backend.
add_executable(turnbench_inference_on_cuda_tests backends/cuda.cpp)
target_link_libraries(turnbench_inference_on_cuda_tests PRIVATE turnbench_inference_test_objects
  turnbench_cuda_emulated turnbench_inference GTest::gtest_main)
turnbench_add_test(inference_on_cuda turnbench_inference_on_cuda_tests COST 90 LABEL more)

# The operations of decode steps on that backend, by method.
if(NOT TURNBENCH_SANITIZE MATCHES thread)
  file(GLOB cost_sources CONFIGURE_DEPENDS costs/*.cpp)
  add_executable(turnbench_costs_tests ${cost_sources} backends/cuda.cpp)
  turnbench_test_program(turnbench_costs_tests turnbench_cuda_emulated turnbench_methods)
  turnbench_add_test(costs turnbench_costs_tests COST 20 LABEL more)
endif()

# Whole dialogues, and their dependencies beyond those of the methods' tests.
add_library(turnbench_answers_test_objects OBJECT
  backends/answers_test.cpp ${PROJECT_SOURCE_DIR}/harness/run/labelled_text.cpp
  ${PROJECT_SOURCE_DIR}/harness/run/prompt.cpp)
turnbench_test_program(turnbench_answers_test_objects turnbench_methods turnbench_datasets)
target_link_libraries(turnbench_methods_on_cuda_tests PRIVATE
  turnbench_answers_test_objects turnbench_datasets)

# The measurements of tests/gpu.sh on that backend, with a small model: checks only that they run.
if(NOT TURNBENCH_SANITIZE MATCHES thread)
  add_executable(turnbench_measures_on_cuda gpu/measures.cpp)
  target_link_libraries(turnbench_measures_on_cuda PRIVATE turnbench_cuda_emulated
    turnbench_core_bench)
  target_compile_definitions(turnbench_measures_on_cuda PRIVATE
    TURNBENCH_SOURCE_DIR="${TURNBENCH_TEST_ROOT}")
  add_test(NAME measures_on_cuda COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/gpu/measures_test.sh
    $<TARGET_FILE:turnbench_measures_on_cuda> ${CMAKE_CURRENT_BINARY_DIR}/measures_on_cuda)
  set_tests_properties(measures_on_cuda PROPERTIES COST 20)
endif()
# tests/gpu.sh itself.
add_test(NAME gpu_script COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/gpu/script_test.sh
  ${PROJECT_SOURCE_DIR} ${CMAKE_COMMAND} ${CMAKE_CURRENT_BINARY_DIR}/gpu_script)
set_tests_properties(gpu_script PROPERTIES COST 10)
