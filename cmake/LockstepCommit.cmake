# The commit of the source, in a file that programs read when they write results: BUILD/commit.txt. Refreshed by every
# build, rewritten only when it changed, and compiled into nothing. Also run as a script, by the target below.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.22)
  if(EXISTS ${SOURCE}/commit.txt)  # sources that were packed, without git
    file(STRINGS ${SOURCE}/commit.txt commit LIMIT_COUNT 1)
  else()
    execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                    OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  if(NOT commit)
    set(commit unknown)
  endif()
  file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "@commit@\n" @ONLY)
else()
  set(LOCKSTEP_COMMIT_FILE ${CMAKE_BINARY_DIR}/commit.txt)
  add_custom_target(lockstep_commit
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${LOCKSTEP_COMMIT_FILE} -P ${CMAKE_CURRENT_LIST_FILE}
    BYPRODUCTS ${LOCKSTEP_COMMIT_FILE} VERBATIM COMMENT "")
endif()
