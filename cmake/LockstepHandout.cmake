# Writes BUILD/platform.txt, which says what this build's objects fit; and detects a handout (./lab handout), which has
# the reference's objects in prebuilt/, made elsewhere.
#
#   LOCKSTEP_HANDOUT       whether it is one
#   LOCKSTEP_HANDOUT_FITS  whether its objects fit: this processor, this major version of fmt (whose names have it in
#                          them), and GCC no older than the one that made them, or Clang on such a GCC's library
set(LOCKSTEP_PREBUILT ${CMAKE_SOURCE_DIR}/prebuilt)
string(REGEX MATCH "^[0-9]+" fmt_major "${fmt_VERSION}")
string(REGEX MATCH "^[0-9]+" compiler_major "${CMAKE_CXX_COMPILER_VERSION}")
file(WRITE ${CMAKE_BINARY_DIR}/platform.txt "${CMAKE_SYSTEM_NAME} ${CMAKE_SYSTEM_PROCESSOR}\n${fmt_major}\n${CMAKE_CXX_COMPILER_ID}\n${compiler_major}\n")

set(LOCKSTEP_HANDOUT OFF)
set(LOCKSTEP_HANDOUT_FITS OFF)
if(EXISTS ${LOCKSTEP_PREBUILT}/platform.txt)
  set(LOCKSTEP_HANDOUT ON)
  file(STRINGS ${LOCKSTEP_PREBUILT}/platform.txt made)
  list(GET made 0 made_system)
  list(GET made 1 made_fmt)
  list(GET made 2 made_compiler)
  list(GET made 3 made_major)
  set(here "${CMAKE_SYSTEM_NAME} ${CMAKE_SYSTEM_PROCESSOR}")
  if(here STREQUAL made_system AND fmt_major EQUAL made_fmt AND NOT LOCKSTEP_SANITIZE AND
     (NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR compiler_major GREATER_EQUAL made_major))
    set(LOCKSTEP_HANDOUT_FITS ON)
    message(STATUS "lockstep: a handout; what you borrow was compiled by ${made_compiler} ${made_major} on ${made_system}")
  else()
    message(STATUS "lockstep: this handout's answers for borrowing are for ${made_system}, ${made_compiler} ${made_major} or newer and fmt ${made_fmt}; here are ${here}, ${CMAKE_CXX_COMPILER_ID} ${compiler_major} and fmt ${fmt_major}. Nothing can be borrowed: an exercise that needs others wants yours of them. Ask for a handout made on such a computer, or use the Dockerfile's")
  endif()
endif()
