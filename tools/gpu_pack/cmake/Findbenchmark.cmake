# Google Benchmark of the pack: the library that the packing machine had.
file(GLOB library ${CMAKE_CURRENT_LIST_DIR}/../lib/libbenchmark.*)
find_package(Threads REQUIRED)
set(kind STATIC)
if(NOT library MATCHES "[.]a$")
  set(kind SHARED)  # so that CMake gives programs its folder as RPATH
endif()
add_library(benchmark::benchmark ${kind} IMPORTED GLOBAL)
set_target_properties(benchmark::benchmark PROPERTIES IMPORTED_LOCATION ${library}
                      INTERFACE_INCLUDE_DIRECTORIES ${CMAKE_CURRENT_LIST_DIR}/../include INTERFACE_LINK_LIBRARIES Threads::Threads)
set(benchmark_FOUND ON)
