# Tests of ptxas' output for the kernels, if nvcc has compiled them.
turnbench_tests(ptxas turnbench_common)
turnbench_add_test(ptxas turnbench_ptxas_tests COST 10 LABEL more)
set(reports "")
set(cuobjdump "")
if(TURNBENCH_HAS_CUDA)
  add_dependencies(turnbench_ptxas_tests turnbench_cuda)
  get_target_property(reports turnbench_cuda TURNBENCH_KERNEL_REPORTS)
  list(JOIN reports "|" reports)
  find_program(TURNBENCH_CUOBJDUMP cuobjdump HINTS ${CUDAToolkit_BIN_DIR})
  find_program(TURNBENCH_NVDISASM nvdisasm HINTS ${CUDAToolkit_BIN_DIR})  # cuobjdump runs it
  if(TURNBENCH_CUOBJDUMP AND TURNBENCH_NVDISASM)
    set(cuobjdump ${TURNBENCH_CUOBJDUMP})
  endif()
endif()
target_compile_definitions(turnbench_ptxas_tests PRIVATE
  TURNBENCH_KERNEL_REPORTS="${reports}" TURNBENCH_CUOBJDUMP="${cuobjdump}")
