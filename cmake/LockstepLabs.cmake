# Reads labs/course.json and makes the targets of every exercise. The switch is the link: everything compiles once, and
# a program differs from another only in which object of an exercise it links.
#
#   ref.21.2           object library: solutions/week21_data_parallel/ring_all_reduce.cpp
#   ref.hsdp_units     object library: solutions/given/hsdp_units.cpp, which is given and would give an answer away
#   mine.21.2          object library: the student's file, or a stub where that does not compile (compile_or_stub.sh)
#   tests.21.2         object library: labs/week21_data_parallel/ring_all_reduce_test.cpp, and what there is of
#                      ring_all_reduce_*_test.cpp, in one compilation; of the programs of one exercise
#   tests.week21       the same tests, the week's in few compilations, of the programs of a week
#   chosen.21.2        what the student's later exercises link for 21.2: mine/chosen/21.2.o, a copy of one of the two objects
#   reference.week21_sim, _mpi, _cuda, _nccl     every test of the week with the reference   → suite.week21.*
#   reference.week21_cuda_fake, _nccl_fake the same on the fake GPU                 → suite.cuda_fake.21.2
#   skeleton.week21_sim          the same with freshly generated skeletons           → suite.week21.skeletons
#   mine.21.2_sim, _mpi          one exercise's tests with the student's answer      → mine.21.2
#   mine.train_sim               train_sim with the student's answers where they pass  → ./lab train --mine
#   graded.21.2_sim              the same with an answer that ./lab grade has compiled, reference needs, and a seal
#   graded.21.2_mpi              what it runs besides with --backend, without a seal
#   mutant.21.2.1_sim            the same with one mistake planted in the reference  → suite.mutants.21.2
#   alternative.21.2.WHAT_sim    the same with another right answer                  → suite.mutants.21.2
#   skeletons/, mutants/, mine/  what is generated, in the build tree
#
# Everything that comes from LOCKSTEP_LABS_DIR is out of `all`: no edit there can break the build of the suite.

include(LockstepNcclTests)
set(LOCKSTEP_COURSE ${CMAKE_SOURCE_DIR}/labs/course.json)
# Unused names in a skeleton are not worth a warning.
set(LOCKSTEP_SKELETON_OPTIONS -Wno-unused-parameter -Wno-unused-function -Wno-unused-variable -Wno-unused-but-set-variable
    $<$<CXX_COMPILER_ID:Clang,AppleClang>:-Wno-unused-private-field>)
# Mistakes show: an index beyond the end of a std::vector is a crash that names it, one outside of an array a trap, a
# function without its return does not compile, and GCC removes no endless loop. The header that is found first makes
# private what is the runtime's. For checks and for grades.
set(LOCKSTEP_ANSWER_OPTIONS -D_GLIBCXX_ASSERTIONS -iquote${CMAKE_SOURCE_DIR}/common/for_answers -Werror=return-type
    -fsanitize=bounds)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # -fsanitize-trap came with GCC 13
  list(APPEND LOCKSTEP_ANSWER_OPTIONS -fsanitize-undefined-trap-on-error -fno-finite-loops)
else()
  list(APPEND LOCKSTEP_ANSWER_OPTIONS -fsanitize-trap=bounds)
endif()
set(LOCKSTEP_STUDENT_OPTIONS ${LOCKSTEP_ANSWER_OPTIONS} ${LOCKSTEP_SKELETON_OPTIONS})
# For backtraces; where the user's flags ask for debug information, there is more in it.
string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
if(NOT "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}" MATCHES "(^| )-g")
  list(PREPEND LOCKSTEP_STUDENT_OPTIONS -g1)
endif()
set(LOCKSTEP_MINE_DIR ${CMAKE_BINARY_DIR}/mine)  # use/, chosen/, verdicts/
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${LOCKSTEP_COURSE})

# The elements of a JSON array of strings, or of the member `member` of an array of objects.
function(lockstep_json_list out json array)
  set(result "")
  string(JSON count ERROR_VARIABLE error LENGTH "${json}" ${array})
  if(NOT error AND count GREATER 0)
    math(EXPR last "${count} - 1")
    foreach(i RANGE ${last})
      string(JSON item GET "${json}" ${array} ${i} ${ARGN})
      list(APPEND result "${item}")
    endforeach()
  endif()
  set(${out} "${result}" PARENT_SCOPE)
endfunction()

# Sets `out` to the backends that can be linked in this build: sim; mpi where MPI was found, cuda where its toolkit was,
# nccl where both that and NCCL were.
function(lockstep_backends out)
  set(result "")
  foreach(backend sim mpi cuda nccl)
    if(TARGET lockstep_${backend})
      list(APPEND result ${backend})
    endif()
  endforeach()
  set(${out} "${result}" PARENT_SCOPE)
endfunction()

# The exercises that `id` needs, directly or not, in ${out}; those that are not there yet are left out. With ANSWER_ as a
# third argument those that its answer calls, without its tests.
function(lockstep_all_needs id out)
  set(result "")
  get_property(needs GLOBAL PROPERTY LOCKSTEP_${ARGN}NEEDS_${id})
  foreach(need IN LISTS needs)
    lockstep_all_needs(${need} deeper ANSWER_)
    list(APPEND result ${deeper} ${need})
  endforeach()
  list(REMOVE_DUPLICATES result)
  set(${out} "${result}" PARENT_SCOPE)
endfunction()

# lockstep_with_needs(out 21.2 21.7 …): these exercises and what their answers need, each after its own needs.
function(lockstep_with_needs out)
  set(ids "")
  foreach(id IN LISTS ARGN)
    lockstep_all_needs(${id} needs ANSWER_)
    list(APPEND ids ${needs} ${id})
  endforeach()
  list(REMOVE_DUPLICATES ids)
  set(${out} "${ids}" PARENT_SCOPE)
endfunction()

# lockstep_use_reference(program 21.2 21.7 …): links the reference answers of these exercises, and what they need.
function(lockstep_use_reference program)
  lockstep_with_needs(ids ${ARGN})
  foreach(id IN LISTS ids)
    get_property(links GLOBAL PROPERTY LOCKSTEP_LINKS_${id})
    target_link_libraries(${program} PRIVATE ref.${id} ${links})
  endforeach()
endfunction()

# lockstep_use_answers(program 21.2 21.7 …): the same, and also makes mine.PROGRAM, which links the learner's answers
# where mine/use says so (./lab … --mine). The last call for a program: all that it links and consists of is known.
function(lockstep_use_answers program)
  get_target_property(sources ${program} SOURCES)
  get_target_property(links ${program} LINK_LIBRARIES)
  get_target_property(folder ${program} RUNTIME_OUTPUT_DIRECTORY)
  lockstep_use_reference(${program} ${ARGN})
  lockstep_with_needs(ids ${ARGN})
  list(JOIN ids "\n" lines)
  file(WRITE ${CMAKE_BINARY_DIR}/answers/${program} "${lines}\n")

  set(whose ${CMAKE_BINARY_DIR}/mine/whose/${program}.cpp)  # ./lab writes there whose answers they are
  if(NOT EXISTS ${whose})
    file(WRITE ${whose} "")
  endif()
  add_executable(mine.${program} EXCLUDE_FROM_ALL ${whose})
  if(sources)
    target_sources(mine.${program} PRIVATE ${sources})
  endif()
  target_link_libraries(mine.${program} PRIVATE ${links})
  set_target_properties(mine.${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${folder})
  foreach(id IN LISTS ids)
    lockstep_link_chosen(mine.${program} ${id})
  endforeach()
endfunction()

# Links the answer to `id` that mine/use/ID names, and what it may link.
function(lockstep_link_chosen program id)
  get_property(links GLOBAL PROPERTY LOCKSTEP_LINKS_${id})
  if(NOT TARGET chosen.${id})  # of a week that was not handed out
    target_link_libraries(${program} PRIVATE ref.${id} ${links})
    return()
  endif()
  set(chosen ${CMAKE_BINARY_DIR}/mine/chosen/${id}.o)
  add_dependencies(${program} chosen.${id})
  target_link_libraries(${program} PRIVATE ${chosen} ${links})
  set_property(TARGET ${program} APPEND PROPERTY LINK_DEPENDS ${chosen})
endfunction()

# A program of tests: its main, GoogleTest and one backend.
function(lockstep_test_program name backend)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE lockstep_testing lockstep_${backend})
endfunction()

# A student's object: compiled by compile_or_stub.sh, which falls back on a stub made from the reference.
function(lockstep_student_object object id source solution)
  add_library(${object} OBJECT EXCLUDE_FROM_ALL ${source})
  if(NOT EXISTS ${source})
    set_source_files_properties(${source} PROPERTIES GENERATED TRUE)  # else CMake refuses; Ninja names it when asked
  endif()
  target_compile_options(${object} PRIVATE ${LOCKSTEP_STUDENT_OPTIONS})
  # Before the student's object, which is compared with it and compiled again when it changes. (A dependency on the target
  # ref.ID would order no compilations.)
  set(required ${LOCKSTEP_MINE_DIR}/required/${id})
  add_custom_command(OUTPUT ${required} COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/offered.sh $<TARGET_OBJECTS:ref.${id}> ${required}
    DEPENDS skeleton $<TARGET_OBJECTS:ref.${id}> ${CMAKE_SOURCE_DIR}/cmake/offered.sh COMMENT "" VERBATIM)
  target_sources(${object} PRIVATE ${required})
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${required})
  set(launcher sh ${CMAKE_SOURCE_DIR}/cmake/compile_or_stub.sh ${id} ${CMAKE_BINARY_DIR}/tools/skeleton ${solution}
      ${required} -- ${LOCKSTEP_ANSWERS_LAUNCHER})
  set_target_properties(${object} PROPERTIES CXX_COMPILER_LAUNCHER "${launcher}")
endfunction()

# The programs that judge the answer which ./lab grade has compiled to grade/objects/ID.o, confined and taken apart from
# everything else (tools/grade/grade_compile.hpp); its needs come from the reference. grade/compile/CXX/ID says how
# answers are compiled, an argument a line; grade/references/ID which object offers what the tests call.
function(lockstep_add_graded id)
  if(NOT TARGET lockstep_sim)
    return()
  endif()
  set(grade ${CMAKE_BINARY_DIR}/grade)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND flags -fmax-errors=20 -fno-gnu-unique)
  endif()
  list(APPEND flags ${LOCKSTEP_ANSWER_OPTIONS})
  list(JOIN flags "\n" flags)
  set(of_reference "$<TARGET_PROPERTY:ref.${id}")
  file(GENERATE OUTPUT ${grade}/compile/$<COMPILE_LANGUAGE>/${id} CONTENT "${CMAKE_CXX_COMPILER}
${CMAKE_CXX20_STANDARD_COMPILE_OPTION}
${flags}
$<JOIN:${of_reference},COMPILE_OPTIONS>,\n>
-g1
-I$<JOIN:${of_reference},INCLUDE_DIRECTORIES>,\n-I>
")
  lockstep_all_needs(${id} needs)
  get_property(links GLOBAL PROPERTY LOCKSTEP_LINKS_${id})
  lockstep_backends(backends)
  foreach(backend IN LISTS backends)
    set(program graded.${id}_${backend})
    lockstep_test_program(${program} ${backend} EXCLUDE_FROM_ALL)
    target_link_libraries(${program} PRIVATE tests.${id} ${grade}/objects/${id}.o lockstep_grade_start ${links})
    set_property(TARGET ${program} APPEND PROPERTY LINK_DEPENDS ${grade}/objects/${id}.o)
    if(needs)
      lockstep_use_reference(${program} ${needs})
    endif()
  endforeach()
  target_link_libraries(graded.${id}_sim PRIVATE lockstep_grade_seal)
endfunction()

function(lockstep_add_mine id source solution)
  lockstep_student_object(mine.${id} ${id} ${source} ${solution})

  # The object that later exercises link. mine/use/ID: "mine" once the student's own has passed, else "reference".
  set(use ${LOCKSTEP_MINE_DIR}/use/${id})
  if(NOT EXISTS ${use})
    file(WRITE ${use} "reference\n")
  endif()
  set(chosen ${LOCKSTEP_MINE_DIR}/chosen/${id}.o)
  add_custom_command(OUTPUT ${chosen}
    COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/choose.sh ${use} $<TARGET_OBJECTS:ref.${id}> $<TARGET_OBJECTS:mine.${id}> ${chosen}
    DEPENDS ${use} ${CMAKE_SOURCE_DIR}/cmake/choose.sh ref.${id} mine.${id} $<TARGET_OBJECTS:ref.${id}> $<TARGET_OBJECTS:mine.${id}>
    COMMENT "" VERBATIM)
  add_custom_target(chosen.${id} DEPENDS ${chosen})
endfunction()

# The programs that judge the student's answer to `id`.
function(lockstep_add_mine_programs id week)
  lockstep_backends(backends)
  lockstep_all_needs(${id} needs)
  get_property(links GLOBAL PROPERTY LOCKSTEP_LINKS_${id})
  get_property(core GLOBAL PROPERTY LOCKSTEP_CORE_${id})
  foreach(backend IN LISTS backends)
    set(program mine.${id}_${backend})
    lockstep_test_program(${program} ${backend} EXCLUDE_FROM_ALL)
    target_link_libraries(${program} PRIVATE tests.${id} mine.${id} lockstep_yours ${links})
    foreach(need IN LISTS needs)
      lockstep_link_chosen(${program} ${need})
    endforeach()
  endforeach()
  # `lab check` builds and judges, so that `ctest` alone shows what the file says now. CONFIGURATIONS keeps it out of
  # a plain `ctest`; one at a time, because each may build.
  add_test(NAME mine.${id} CONFIGURATIONS Mine COMMAND lab_tool check ${id} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(mine.${id} PROPERTIES RESOURCE_LOCK mine FIXTURES_REQUIRED mine.build ENVIRONMENT LOCKSTEP_CTEST=1 TIMEOUT 1800
                       LABELS "mine;week${week};${core}")
endfunction()

# mutant.ID.WHICH_sim: the tests of `id` with `text` for its answer, in a file that changes only when the text does.
function(lockstep_add_mutant id which name text)
  set(source ${CMAKE_BINARY_DIR}/mutants/${id}.${which}/${name}.cpp)
  set(before "")
  if(EXISTS ${source})
    file(READ ${source} before)
  endif()
  if(NOT before STREQUAL text)
    file(WRITE ${source} "${text}")
  endif()
  lockstep_add_answer(${id} mutant.${id}.${which}_sim ${source})
  target_compile_options(mutant.${id}.${which}_sim PRIVATE -w)
endfunction()

# `program`: the tests of `id` with the answer in `source`, and what it needs from the reference.
function(lockstep_add_answer id program source)
  lockstep_test_program(${program} sim EXCLUDE_FROM_ALL ${source})
  get_property(links GLOBAL PROPERTY LOCKSTEP_LINKS_${id})
  target_link_libraries(${program} PRIVATE tests.${id} ${links})
  lockstep_all_needs(${id} needs)
  if(needs)
    lockstep_use_reference(${program} ${needs})
  endif()
  add_dependencies(mutants.${id} ${program})
endfunction()

# alternative.ID.WHAT_sim for each tools/alternatives/WEEK/NAME.WHAT.cpp, and for the answer of the hard skeleton: right
# answers that are built otherwise than the reference. The tests must pass them.
function(lockstep_add_alternatives id folder name)
  file(GLOB answers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/alternatives/${folder}/${name}.*.cpp)
  foreach(answer IN LISTS answers)
    get_filename_component(file ${answer} NAME)
    string(REGEX REPLACE "^${name}\\.(.*)\\.cpp$" "\\1" what ${file})
    lockstep_add_answer(${id} alternative.${id}.${what}_sim ${answer})
  endforeach()
  set(hard ${CMAKE_SOURCE_DIR}/solutions/${folder}/hard/${name}.cpp)
  if(EXISTS ${hard})
    lockstep_add_answer(${id} alternative.${id}.hard_sim ${hard})
  endif()
endfunction()

# One program for each mistake of tools/mutants/WEEK/NAME.json: the reference with `replace` replaced by `with`.
# And where the reference opens regions, one without any: tests must not crash on what an answer may have left out.
# With `library_checks` it is compiled as a student's answer is: an index beyond the end of a std::vector is a crash.
# Only with LOCKSTEP_MUTANTS, because these thousand programs are three quarters of what Ninja reads before each build.
function(lockstep_add_mutants id folder name solution)
  set(file ${CMAKE_SOURCE_DIR}/tools/mutants/${folder}/${name}.json)
  if(NOT LOCKSTEP_MUTANTS OR NOT EXISTS ${file} OR NOT TARGET lockstep_sim)
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file} ${solution})
  file(READ ${file} mutants)
  file(READ ${solution} text)
  string(JSON count LENGTH "${mutants}")
  math(EXPR last "${count} - 1")
  add_custom_target(mutants.${id})
  if(NOT TARGET mutants)
    add_custom_target(mutants)
  endif()
  add_dependencies(mutants mutants.${id})
  foreach(i RANGE ${last})
    string(JSON replace GET "${mutants}" ${i} replace)
    string(JSON with GET "${mutants}" ${i} with)
    string(FIND "${text}" "${replace}" first)
    string(FIND "${text}" "${replace}" final REVERSE)
    if(first EQUAL -1 OR NOT first EQUAL final)
      set(mutant "#error mutant ${i} of ${id}: its text to replace must occur exactly once in the solution\n")
    else()
      string(REPLACE "${replace}" "${with}" mutant "${text}")
    endif()
    lockstep_add_mutant(${id} ${i} ${name} "${mutant}")
    string(JSON library ERROR_VARIABLE none GET "${mutants}" ${i} library_checks)
    if(library STREQUAL "ON")
      target_compile_options(mutant.${id}.${i}_sim PRIVATE ${LOCKSTEP_ANSWER_OPTIONS})
    endif()
  endforeach()
  string(REGEX REPLACE "\n *Scope [a-z_]+ = [a-z_.]+region\\([^\n]*" "" without_regions "${text}")
  if(NOT without_regions STREQUAL text)
    lockstep_add_mutant(${id} regions ${name} "${without_regions}")
  endif()
  lockstep_add_alternatives(${id} ${folder} ${name})
  # CONFIGURATIONS: they take a minute, so .ci/run and `ctest -C Mutants` run them, a plain ctest does not.
  add_test(NAME suite.mutants.${id} CONFIGURATIONS Mutants COMMAND lab_tool mutants ${id} --points WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(suite.mutants.${id} PROPERTIES TIMEOUT 1800 COST ${count} LABELS "mutants")  # the most first
endfunction()

# ref.ID. A handout has its object and not its text; where that object does not fit this computer, the reference is as
# unwritten as the skeleton, and nothing can be borrowed. grade/references/ID says where the object is.
function(lockstep_add_reference id solution skeleton)
  add_custom_command(OUTPUT ${skeleton} COMMAND skeleton ${solution} ${skeleton} DEPENDS ${solution} skeleton COMMENT "" VERBATIM)
  if(LOCKSTEP_HANDOUT_FITS)
    add_library(ref.${id} OBJECT IMPORTED GLOBAL)
    get_directory_property(options COMPILE_OPTIONS)
    get_directory_property(folders INCLUDE_DIRECTORIES)
    set_target_properties(ref.${id} PROPERTIES IMPORTED_OBJECTS ${LOCKSTEP_PREBUILT}/${id}.o
                          COMPILE_OPTIONS "${options}" INCLUDE_DIRECTORIES "${folders}")
  elseif(LOCKSTEP_HANDOUT)
    add_library(ref.${id} OBJECT ${skeleton})
    target_compile_options(ref.${id} PRIVATE -w)
  else()
    add_library(ref.${id} OBJECT ${solution})
  endif()
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/grade/references/${id} CONTENT "$<TARGET_OBJECTS:ref.${id}>")
endfunction()

# ref.NAME of solutions/given/NAME.cpp: what an exercise or the trainer is given, and students only as an object, because
# its text gives another exercise's answer away.
function(lockstep_add_given name)
  lockstep_add_reference(${name} ${CMAKE_SOURCE_DIR}/solutions/given/${name}.cpp ${CMAKE_BINARY_DIR}/skeletons/given/${name}.cpp)
endfunction()

# One exercise. Sets nothing; says in a global property that it is there.
function(lockstep_add_exercise week folder exercise)
  string(JSON id GET "${exercise}" id)
  string(JSON name GET "${exercise}" name)
  set(solution ${CMAKE_SOURCE_DIR}/solutions/${folder}/${name}.cpp)
  set(tests ${CMAKE_SOURCE_DIR}/labs/${folder}/${name}_test.cpp)
  if(NOT EXISTS ${solution} OR NOT (EXISTS ${tests} OR LOCKSTEP_HANDOUT))
    message(STATUS "${id} ${name}: in the course, not in this handout, or not yet in the suite")
    return()
  endif()
  lockstep_json_list(needs "${exercise}" needs)
  lockstep_json_list(links "${exercise}" links)
  lockstep_json_list(only_tests "${exercise}" only_tests_need)
  set_property(GLOBAL PROPERTY LOCKSTEP_NEEDS_${id} "${needs}")
  list(REMOVE_ITEM needs "" ${only_tests})
  set_property(GLOBAL PROPERTY LOCKSTEP_ANSWER_NEEDS_${id} "${needs}")
  set_property(GLOBAL PROPERTY LOCKSTEP_LINKS_${id} "${links}")
  string(JSON core GET "${exercise}" core)
  set(label extra)
  if(core)
    set(label core)
  endif()
  set_property(GLOBAL PROPERTY LOCKSTEP_CORE_${id} "${label}")
  set(skeleton ${CMAKE_BINARY_DIR}/skeletons/${folder}/${name}.cpp)
  lockstep_add_reference(${id} ${solution} ${skeleton})
  if(NOT EXISTS ${tests})
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_EXERCISES_${week} ${id})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_SKELETONS_${week} ${skeleton})

  file(GLOB further CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/labs/${folder}/${name}_*_test.cpp)
  if(LOCKSTEP_HIDDEN_TESTS)
    file(GLOB hidden CONFIGURE_DEPENDS ${LOCKSTEP_HIDDEN_TESTS}/${folder}/${name}_*_test.cpp)
    list(APPEND further ${hidden})
  endif()
  list(APPEND tests ${further})
  add_library(tests.${id} OBJECT EXCLUDE_FROM_ALL ${tests})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_TESTS_${week} ${tests})
  target_link_libraries(tests.${id} PRIVATE lockstep_testing_headers)
  if(further)  # their headers once
    set_target_properties(tests.${id} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  endif()
  lockstep_add_mine(${id} ${LOCKSTEP_LABS_DIR}/${folder}/${name}.cpp ${solution})
  lockstep_add_mine_programs(${id} ${week})
  lockstep_add_graded(${id})
  lockstep_add_mutants(${id} ${folder} ${name} ${solution})

  # GoogleTest's filter for the exercise and its parts: Lab21_2.*:Lab21_2a.*:…
  lockstep_json_list(parts "${exercise}" parts id)
  set(suites ${id} ${parts})
  list(TRANSFORM suites REPLACE "^([0-9]+)\\.(.*)$" "Lab\\1_\\2.*")
  list(JOIN suites ":" filter)
  set_property(GLOBAL PROPERTY LOCKSTEP_FILTER_${id} "${filter}")
endfunction()

# The reference: suite.21.2, an exercise in the simulator, and suite.week21.*: more inputs and ranks, under MPI one launch
# per week, the skeletons.
# CTest's limits go by the clock, and are for what never ends, on a computer as busy as may be; those of the launcher and
# of ./lab know what else the computer does.
function(lockstep_add_suite week)
  get_property(ids GLOBAL PROPERTY LOCKSTEP_EXERCISES_${week})
  lockstep_backends(backends)
  if(TARGET lockstep_cuda_fake)
    list(APPEND backends cuda_fake)
  endif()
  if(TARGET lockstep_nccl_fake AND week EQUAL 21)  # to test the backend one week is enough
    list(APPEND backends nccl_fake)
  endif()
  get_property(tests GLOBAL PROPERTY LOCKSTEP_TESTS_${week})
  add_library(tests.week${week} OBJECT ${tests})
  target_link_libraries(tests.week${week} PRIVATE lockstep_testing_headers)
  set_target_properties(tests.week${week} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)  # half the seconds
  set(needs_of_tests "")
  foreach(id IN LISTS ids)
    lockstep_all_needs(${id} needs)
    list(APPEND needs_of_tests ${needs})
  endforeach()
  foreach(backend IN LISTS backends)
    set(program reference.week${week}_${backend})
    lockstep_test_program(${program} ${backend})
    target_link_libraries(${program} PRIVATE tests.week${week})
    lockstep_use_reference(${program} ${ids} ${needs_of_tests})
  endforeach()
  set(seconds 600)
  if(LOCKSTEP_SANITIZE)
    set(seconds 1800)  # on two cores with other work, the thread sanitizer has taken 321
  endif()
  if(TARGET reference.week${week}_sim)
    foreach(id IN LISTS ids)
      get_property(filter GLOBAL PROPERTY LOCKSTEP_FILTER_${id})
      get_property(core GLOBAL PROPERTY LOCKSTEP_CORE_${id})
      add_test(NAME suite.${id} COMMAND reference.week${week}_sim "--gtest_filter=${filter}")
      set_tests_properties(suite.${id} PROPERTIES TIMEOUT ${seconds} LABELS "suite;week${week};${core}")
    endforeach()
    # Right answers pass with whatever inputs ./lab grade draws.
    add_test(NAME suite.week${week}.seeded COMMAND reference.week${week}_sim --seed 1009)
    set_tests_properties(suite.week${week}.seeded PROPERTIES TIMEOUT ${seconds} LABELS "suite;week${week}")
    # They also pass where they are judged apart from their runs, and no skeleton is called there.
    set(handed_over ${CMAKE_SOURCE_DIR}/tools/tests/handed_over_test.sh $<TARGET_FILE:reference.week${week}_sim>
        $<TARGET_FILE:skeleton.week${week}_sim>)
    set(damaged_21 "Lab21_2*")
    set(damaged_22 "Lab22_1*")
    set(damaged_24 "Lab24_6*")
    list(APPEND handed_over ${damaged_${week}})
    add_test(NAME suite.week${week}.handed_over COMMAND sh ${handed_over})
    set_tests_properties(suite.week${week}.handed_over PROPERTIES TIMEOUT ${seconds} LABELS "suite;week${week}")
    # Right answers pass with more ranks than the tests sweep: rounding errors grow with them, in week 23 the most.
    set(many 33)
    if(week EQUAL 23)
      set(many 64)
    endif()
    add_test(NAME suite.week${week}.many_ranks COMMAND reference.week${week}_sim --ranks ${many})
    set_tests_properties(suite.week${week}.many_ranks PROPERTIES TIMEOUT ${seconds} LABELS "suite;week${week}")
    get_property(skeletons GLOBAL PROPERTY LOCKSTEP_SKELETONS_${week})
    lockstep_test_program(skeleton.week${week}_sim sim ${skeletons})
    # They are linked together or not at all: one compilation. Unused names in them are not worth a warning.
    set_target_properties(skeleton.week${week}_sim PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    target_compile_options(skeleton.week${week}_sim PRIVATE ${LOCKSTEP_SKELETON_OPTIONS})
    target_link_libraries(skeleton.week${week}_sim PRIVATE tests.week${week})
    set(earlier "")
    foreach(id IN LISTS ids)
      get_property(links GLOBAL PROPERTY LOCKSTEP_LINKS_${id})
      target_link_libraries(skeleton.week${week}_sim PRIVATE ${links})
      # Answers to earlier weeks that they need come from the reference.
      lockstep_all_needs(${id} needs)
      list(REMOVE_ITEM needs ${ids})
      list(APPEND earlier ${needs})
    endforeach()
    list(REMOVE_DUPLICATES earlier)
    lockstep_use_reference(skeleton.week${week}_sim ${earlier})
    add_test(NAME suite.week${week}.skeletons COMMAND lab_tool expect-not-implemented $<TARGET_FILE:skeleton.week${week}_sim>
             WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(suite.week${week}.skeletons PROPERTIES TIMEOUT ${seconds} LABELS "suite;week${week}")
    lockstep_internal(TESTS suite.week${week}.seeded suite.week${week}.handed_over suite.week${week}.many_ranks suite.week${week}.skeletons
                      TARGETS skeleton.week${week}_sim)
  endif()
  if(TARGET reference.week${week}_mpi)
    add_test(NAME suite.week${week}.mpi
             COMMAND sh ${CMAKE_SOURCE_DIR}/launch/mpirun.sh -n 4 --timeout 170 $<TARGET_FILE:reference.week${week}_mpi>)
    set_tests_properties(suite.week${week}.mpi PROPERTIES TIMEOUT 1800 PROCESSORS 4 LABELS "suite;week${week};mpi")
    # With one GPU, NCCL's tests have one process too: tests that need more are skipped.
    add_test(NAME suite.week${week}.mpi_alone
             COMMAND sh ${CMAKE_SOURCE_DIR}/launch/mpirun.sh -n 1 --timeout 110 $<TARGET_FILE:reference.week${week}_mpi>)
    set_tests_properties(suite.week${week}.mpi_alone PROPERTIES TIMEOUT 1200 LABELS "suite;week${week};mpi")
    lockstep_internal(TESTS suite.week${week}.mpi_alone)
  endif()
  if(TARGET reference.week${week}_cuda)
    add_test(NAME suite.week${week}.cuda COMMAND reference.week${week}_cuda)
    set_tests_properties(suite.week${week}.cuda PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77 LABELS "suite;week${week};gpu")
  endif()
  if(TARGET reference.week${week}_cuda_fake)
    foreach(id IN LISTS ids)  # one test an exercise: emulated kernels are slow
      get_property(filter GLOBAL PROPERTY LOCKSTEP_FILTER_${id})
      set(test suite.cuda_fake.${id})
      add_test(NAME ${test} COMMAND reference.week${week}_cuda_fake "--gtest_filter=${filter}")
      set_tests_properties(${test} PROPERTIES TIMEOUT 600 LABELS "suite;week${week};fake")
    endforeach()
  endif()
  if(TARGET reference.week${week}_nccl)
    lockstep_add_nccl_test(suite.week${week}.nccl reference.week${week}_nccl "suite;week${week};gpu")
  endif()
  if(TARGET reference.week${week}_nccl_fake)
    lockstep_add_nccl_fake_test(suite.week${week}.nccl_fake reference.week${week}_nccl_fake 4 "suite;week${week};fake")
  endif()
endfunction()

# checks_need: what the first check of an exercise in a fresh tree waits for, whichever it is. mine.build: the same for
# `ctest`, with a time limit of its own; CTest runs it before any mine.ID.
function(lockstep_add_checks_need)
  add_custom_target(checks_need)
  foreach(target lockstep_sim lockstep_testing lockstep_test_headers skeleton)
    if(TARGET ${target})
      add_dependencies(checks_need ${target})
    endif()
  endforeach()
  add_test(NAME mine.build CONFIGURATIONS Mine
           COMMAND sh ${CMAKE_SOURCE_DIR}/tools/build_given.sh ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR} lab_tool checks_need)
  set_tests_properties(mine.build PROPERTIES FIXTURES_SETUP mine.build RESOURCE_LOCK mine TIMEOUT 7200 LABELS mine)
endfunction()

# Everything in course.json, and the line on the student's answers below ctest's own last lines.
function(lockstep_add_course)
  set(lab ${CMAKE_BINARY_DIR}/tools/lab)
  file(WRITE ${CMAKE_BINARY_DIR}/CTestCustom.cmake
       "set(CTEST_CUSTOM_POST_TEST [[sh -c \"[ ! -x '${lab}' ] || '${lab}' mine-summary\"]])\n")
  lockstep_backends(backends)
  file(REMOVE_RECURSE ${CMAKE_BINARY_DIR}/backends)
  foreach(backend IN LISTS backends)
    file(WRITE ${CMAKE_BINARY_DIR}/backends/${backend} "")  # for ./lab: what this build has
  endforeach()
  file(READ ${LOCKSTEP_COURSE} course)
  string(JSON weeks LENGTH "${course}" weeks)
  math(EXPR last_week "${weeks} - 1")
  foreach(w RANGE ${last_week})
    string(JSON week GET "${course}" weeks ${w})
    string(JSON number GET "${week}" number)
    string(JSON folder GET "${week}" folder)
    string(JSON exercises LENGTH "${week}" exercises)
    math(EXPR last "${exercises} - 1")
    foreach(e RANGE ${last})
      string(JSON exercise GET "${week}" exercises ${e})
      lockstep_add_exercise(${number} ${folder} "${exercise}")
    endforeach()
    get_property(ids GLOBAL PROPERTY LOCKSTEP_EXERCISES_${number})
    if(ids)
      lockstep_add_suite(${number})
    endif()
  endforeach()
endfunction()
