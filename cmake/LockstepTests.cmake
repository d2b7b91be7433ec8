# Tests of `./lab test`: the reference answers of all weeks on the simulator and on MPI, the contract of each backend,
# arithmetic and model, and one run of each command. The suite's tests of itself (grader, planner, drills, launchers,
# kills, bad input, …) are `./lab test --all`, which CI runs.
#
# lockstep_internal([TESTS suite.x …] [TARGETS x_test …]): these tests are of the second kind and have the label
# `internal`; what only they need is left out of a plain build, and built by the target internal_tests.
add_custom_target(internal_tests)

function(lockstep_internal)
  cmake_parse_arguments(internal "" "" "TESTS;TARGETS" ${ARGN})
  foreach(test IN LISTS internal_TESTS)
    set_property(TEST ${test} APPEND PROPERTY LABELS internal)
  endforeach()
  if(internal_TARGETS)
    set_target_properties(${internal_TARGETS} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(internal_tests ${internal_TARGETS})
  endif()
endfunction()

# suite.commands, and in a plain build what it runs. Once every program is there.
function(lockstep_add_commands_test)
  if(LOCKSTEP_HANDOUT)
    return()
  endif()
  add_custom_target(commands_need ALL)
  foreach(target lab_tool tests.21.2 train_sim train_mpi why plan_sim scale_sim bench_memory_sim bench_pipeline_sim bench_schedule_sim
                 bench_all_reduce_sim bench_all_reduce_mpi)
    if(TARGET ${target})
      add_dependencies(commands_need ${target})
    endif()
  endforeach()
  if(NOT TARGET bench_all_reduce_sim)  # without Google Benchmark, most of them are missing
    return()
  endif()
  add_test(NAME suite.commands COMMAND sh ${CMAKE_SOURCE_DIR}/tools/tests/commands_test.sh $<TARGET_FILE:lab_tool>
                                       $<IF:$<TARGET_EXISTS:bench_all_reduce_mpi>,yes,no> ${CMAKE_SOURCE_DIR})
  set_tests_properties(suite.commands PROPERTIES TIMEOUT 600 RESOURCE_LOCK mine PROCESSORS 2 LABELS suite)
endfunction()
