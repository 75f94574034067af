# Sets TURNBENCH_HAS_CUDA according to TURNBENCH_CUDA, and enables the language CUDA if it is true.

set(TURNBENCH_HAS_CUDA OFF)
if(TURNBENCH_CUDA STREQUAL "AUTO")
  # Sanitizers check the kernels in the emulation of the tests.
  if(NOT TURNBENCH_SANITIZE)
    find_package(CUDAToolkit 12 QUIET)
    if(TARGET CUDA::cublasLt)
      block(PROPAGATE CMAKE_CUDA_COMPILER)
        set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
        include(CheckLanguage)
        check_language(CUDA)
      endblock()
      if(CMAKE_CUDA_COMPILER)
        set(TURNBENCH_HAS_CUDA ON)
      endif()
    endif()
  endif()
elseif(TURNBENCH_CUDA)
  find_package(CUDAToolkit 12 REQUIRED)
  set(TURNBENCH_HAS_CUDA ON)
endif()

if(TURNBENCH_HAS_CUDA)
  # The program then needs only a driver at run time, not the toolkit's libcudart.
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # Machine code for A100 (and other 8.x) and H100 (H200), and PTX for later GPUs.
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # as in CMake 3.25
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  endif()
endif()

# The kernels (.cu) of a folder, in two units of every second file each: headers take most of nvcc's
# time, and CMake has unity builds for CUDA only since 3.31.
function(turnbench_kernels out folder)
  file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cu)
  if(TURNBENCH_UNITY)
    set(half 0)
    foreach(kernel IN LISTS kernels)
      string(APPEND includes_${half} "#include \"${kernel}\"\n")
      math(EXPR half "1 - ${half}")
    endforeach()
    set(kernels "")
    foreach(half 0 1)
      set(united ${CMAKE_CURRENT_BINARY_DIR}/kernels_${half}.cu)
      file(CONFIGURE OUTPUT ${united} CONTENT "${includes_${half}}")
      list(APPEND kernels ${united})
    endforeach()
  endif()
  set(${out} ${kernels} PARENT_SCOPE)
endfunction()

# A library of a folder's kernels and of its host code (.cpp).  Its property
# TURNBENCH_KERNEL_REPORTS lists the reports of the kernels' resources (see kernel_report.sh).
function(turnbench_cuda_library name folder)
  turnbench_kernels(kernels ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  add_library(turnbench_${name} STATIC ${sources} ${kernels})
  target_link_libraries(turnbench_${name} PUBLIC ${ARGN})
  set(folder ${PROJECT_BINARY_DIR}/kernel_reports)
  set(reports ${kernels})
  list(TRANSFORM reports REPLACE ".*/" "${folder}/")
  list(TRANSFORM reports APPEND ".txt")
  set(launcher
    ${PROJECT_SOURCE_DIR}/cmake/kernel_report.sh ${folder} ${CMAKE_CUDA_COMPILER_LAUNCHER})
  set_target_properties(turnbench_${name} PROPERTIES
    TURNBENCH_KERNEL_REPORTS "${reports}" CUDA_COMPILER_LAUNCHER "${launcher}")
  set(warnings -Wall -Wextra -ffp-contract=off $<$<BOOL:${TURNBENCH_WERROR}>:--Werror=all-warnings>)
  target_compile_options(turnbench_${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;${warnings}>")
  # Otherwise the package is only partly constexpr under this compiler.
  target_compile_definitions(turnbench_${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
endfunction()
