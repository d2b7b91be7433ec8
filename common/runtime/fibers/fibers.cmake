# Shared by backends whose ranks all live in one process: fibers, queues and closures, groups and their set-up, the run
# loop, mismatch messages and deadlock explanations. Without Boost.Context, or with LOCKSTEP_FIBERS=threads, fibers are
# threads that pass a baton.
set(LOCKSTEP_FIBER_SOURCES fiber_threads.cpp)
if(NOT LOCKSTEP_FIBERS STREQUAL "threads")
  find_library(BOOST_CONTEXT_LIBRARY boost_context)
  find_path(BOOST_CONTEXT_INCLUDE boost/context/fiber.hpp)
  if(BOOST_CONTEXT_LIBRARY AND BOOST_CONTEXT_INCLUDE)
    set(LOCKSTEP_FIBER_SOURCES fiber_context.cpp stacks.cpp)
  else()
    message(STATUS "lockstep: Boost.Context not found: fibers are threads, which is slower")
  endif()
endif()

# The sources are compiled, and the templates instantiated, in one translation unit with the backend that uses them. The
# simulator's hot path crosses its files, and the compiler can inline what it sees; as a separate library it was a tenth
# slower.
function(lockstep_use_fibers backend)
  foreach(source arena.cpp errors.cpp deadlock.cpp groups.cpp ${LOCKSTEP_FIBER_SOURCES})
    target_sources(${backend} PRIVATE ${CMAKE_SOURCE_DIR}/common/runtime/fibers/${source})
  endforeach()
  target_link_libraries(${backend} PRIVATE Threads::Threads)
  if("fiber_context.cpp" IN_LIST LOCKSTEP_FIBER_SOURCES)
    target_include_directories(${backend} PRIVATE ${BOOST_CONTEXT_INCLUDE})
    target_link_libraries(${backend} PRIVATE ${BOOST_CONTEXT_LIBRARY})
  endif()
endfunction()
