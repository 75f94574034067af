# The whole program on the emulated GPU: the state that a sweep leaves if the GPU fails.
add_executable(turnbench_on_emulated_card ${PROJECT_SOURCE_DIR}/inference/devices/devices.cpp)
target_link_libraries(turnbench_on_emulated_card PRIVATE turnbench_cuda_emulated turnbench_cli)
set(turnbench_emulated_card_tests_program turnbench_on_emulated_card)
turnbench_tests(emulated_card turnbench_common)
target_sources(turnbench_emulated_card_tests PRIVATE cli/program.cpp)
turnbench_add_test(emulated_card turnbench_emulated_card_tests COST 30 LABEL more)
add_dependencies(turnbench_emulated_card_tests turnbench_on_emulated_card)
