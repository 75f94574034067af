# turnbench_source_state(target): links source_state() into `target`, the hashes of the sources of
# the program.  A tool of tools/source_hashes/ regenerates it at every build if it has changed.  The
# tool runs during the build: it is compiled for the build machine, without the flags, sanitizers
# and instruction sets of the program.
if(CMAKE_CROSSCOMPILING)
  find_program(TURNBENCH_HOST_CXX NAMES c++ g++ clang++ NO_CMAKE_FIND_ROOT_PATH REQUIRED
    DOC "The C++ compiler of the machine that builds")
else()
  set(TURNBENCH_HOST_CXX ${CMAKE_CXX_COMPILER})
endif()
set(TURNBENCH_SOURCE_HASHES ${CMAKE_CURRENT_BINARY_DIR}/source_hashes)

function(turnbench_source_state target)
  set(folder ${PROJECT_SOURCE_DIR}/tools/source_hashes)
  set(sources ${folder}/main.cpp ${folder}/parts.cpp ${folder}/tokens.cpp)
  add_custom_command(OUTPUT ${TURNBENCH_SOURCE_HASHES}
    COMMAND ${TURNBENCH_HOST_CXX} -std=c++20 -O1 -I${PROJECT_SOURCE_DIR} ${sources}
            -o ${TURNBENCH_SOURCE_HASHES}
    DEPENDS ${sources} ${folder}/parts.h ${folder}/tokens.h
    VERBATIM)
  set(state ${CMAKE_CURRENT_BINARY_DIR}/source_state.cpp)
  add_custom_target(turnbench_sources
    COMMAND ${TURNBENCH_SOURCE_HASHES} ${PROJECT_SOURCE_DIR} ${state}
    DEPENDS ${TURNBENCH_SOURCE_HASHES} BYPRODUCTS ${state}
    VERBATIM)
  target_sources(${target} PRIVATE ${state})
  add_dependencies(${target} turnbench_sources)
endfunction()
