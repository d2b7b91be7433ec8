# Tests of programs with a process a GPU. What follows the labels are arguments of the program.

# A test with one process for each GPU of this computer; SKIPPED where there is none.
function(lockstep_add_nccl_test name program labels)
  add_test(NAME ${name} COMMAND sh ${CMAKE_SOURCE_DIR}/common/backends/tests/nccl/on_gpus.sh ${CMAKE_SOURCE_DIR}/launch/local.sh
                                --timeout 280 $<TARGET_FILE:${program}> ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77 RUN_SERIAL ON LABELS "${labels}")
endfunction()

# A test with `ranks` processes, each with a fake GPU.
function(lockstep_add_nccl_fake_test name program ranks labels)
  set(launcher local.sh)
  if(TARGET lockstep_mpi)
    set(launcher mpirun.sh)
  endif()
  add_test(NAME ${name} COMMAND sh ${CMAKE_SOURCE_DIR}/launch/${launcher} -n ${ranks} --timeout 280 $<TARGET_FILE:${program}> ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 PROCESSORS 2 ENVIRONMENT LOCKSTEP_FAKE_DEVICES=${ranks} LABELS "${labels}")
endfunction()
