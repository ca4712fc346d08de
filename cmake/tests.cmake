# tests/test_*.c: one cmocka program each, in its own process, with a time limit. tests/*.sh: run with MALHA set.
# bench/*.c: programs of the target `bench`. tests/fuzz/fuzz_*.c: fuzz targets.
file(GLOB test_sources CONFIGURE_DEPENDS tests/test_*.c)
file(GLOB test_scripts CONFIGURE_DEPENDS tests/*.sh)
list(FILTER test_scripts EXCLUDE REGEX "/cli\\.sh$") # sourced by the others
file(GLOB bench_sources CONFIGURE_DEPENDS bench/*.c)
file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
if(MALHA_FOLDERS)
  set(test_scripts)
  foreach(kind IN ITEMS test fuzz)
    set(kept)
    foreach(folder IN LISTS MALHA_FOLDERS)
      set(some ${${kind}_sources})
      list(FILTER some INCLUDE REGEX "/${kind}_${folder}[_.]")
      list(APPEND kept ${some})
    endforeach()
    set(${kind}_sources ${kept})
  endforeach()
endif()

if(MALHA_TESTS)
  enable_testing()
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
  set(test_environment "MALHA_CATALOG=${CMAKE_SOURCE_DIR}/catalog;MALHA_SHARED=${CMAKE_SOURCE_DIR}/../shared;LC_ALL=C.UTF-8;NO_COLOR=1")
  if(TARGET malha)
    list(APPEND test_environment "MALHA=$<TARGET_FILE:malha>")
  endif()
  if(MALHA_SANITIZE) # plugins of hwloc keep the names of PCI devices when they are let go: not our leak
    list(APPEND test_environment "HWLOC_PLUGINS_PATH=/nonexistent")
  endif()
  set(test_limit 600) # for a loaded machine: it is there to end what never ends
  if(MALHA_SANITIZE)
    set(test_limit 1200)
  endif()
  if(DEFINED ENV{MALHA_FULL}) # every layout of the engine
    set(test_limit 10800)
  endif()

  # A stand-in for the driver's library, found before any real one by who asks for it.
  add_library(stand_in_nvml SHARED tests/stand_in/nvml.c)
  target_compile_options(stand_in_nvml PRIVATE -Wno-missing-prototypes)
  set_target_properties(stand_in_nvml PROPERTIES OUTPUT_NAME nvidia-ml SOVERSION 1 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/stand_in)
  list(APPEND test_environment "STAND_IN_FOLDER=${CMAKE_BINARY_DIR}/stand_in")

  foreach(source IN LISTS test_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_include_directories(${name} PRIVATE tests)
    target_compile_definitions(${name} PRIVATE MALHA_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data"
      MALHA_SHARED="${CMAKE_SOURCE_DIR}/../shared" MALHA_SOURCE="${CMAKE_SOURCE_DIR}")
    target_link_libraries(${name} PRIVATE libmalha PkgConfig::CMOCKA)
    add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${test_limit} ENVIRONMENT "${test_environment}")
  endforeach()

  if(TARGET malha)
    foreach(script IN LISTS test_scripts)
      get_filename_component(name ${script} NAME_WE)
      add_test(NAME ${name} COMMAND sh ${script} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
      set_tests_properties(${name} PROPERTIES TIMEOUT ${test_limit} SKIP_RETURN_CODE 77 ENVIRONMENT "${test_environment}"
        ENVIRONMENT_MODIFICATION "PATH=path_list_prepend:/usr/bin") # Debian's Python, whose packages ./dev installs, before any other
    endforeach()
  endif()
endif()

add_custom_target(bench)
foreach(source IN LISTS bench_sources)
  get_filename_component(name ${source} NAME_WE)
  set(name bench_${name})
  string(REPLACE bench_bench_ bench_ name ${name})
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  target_compile_definitions(${name} PRIVATE MALHA_SOURCE="${CMAKE_SOURCE_DIR}" MALHA_SHARED="${CMAKE_SOURCE_DIR}/../shared")
  target_link_libraries(${name} PRIVATE libmalha)
  add_dependencies(bench ${name})
endforeach()

# Peers that a benchmark runs beside ours, where they are installed.
pkg_check_modules(SIMGRID QUIET IMPORTED_TARGET simgrid)
if(SIMGRID_FOUND AND TARGET bench_simgrid)
  target_compile_definitions(bench_simgrid PRIVATE MALHA_SIMGRID)
  target_link_libraries(bench_simgrid PRIVATE PkgConfig::SIMGRID)
endif()

if(MALHA_FUZZ)
  foreach(source IN LISTS fuzz_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE libmalha)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()
