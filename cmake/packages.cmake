# Packages: the system's, or those of a folder that `make gpu-deps` prepares for machines without
# them.  The folder has headers (include/), shared libraries with their dependencies (lib/), and
# GoogleTest's sources (googletest/); the core, the methods and their tests can be built from it.

find_package(Threads REQUIRED)
if(NOT TURNBENCH_PACKAGES)
  find_package(fmt REQUIRED)
  find_package(nlohmann_json REQUIRED)
  find_package(CLI11 REQUIRED)
  find_package(SQLite3 REQUIRED)
  find_package(CURL REQUIRED)
  find_package(Eigen3 REQUIRED)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
  pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
  pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
  pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
  pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
  pkg_check_modules(ZIP REQUIRED IMPORTED_TARGET libzip)
  pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
  return()
endif()

# The libraries depend on each other, and only the old kind of rpath applies to dependencies too.
add_link_options(-Wl,--disable-new-dtags)

function(turnbench_package name)
  add_library(${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${name} INTERFACE ${TURNBENCH_PACKAGES}/include)
  foreach(library ${ARGN})
    file(GLOB file ${TURNBENCH_PACKAGES}/lib/lib${library}.so.*)
    target_link_libraries(${name} INTERFACE ${file})
  endforeach()
endfunction()

turnbench_package(fmt::fmt)
turnbench_package(Eigen3::Eigen)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY=1)
turnbench_package(nlohmann_json::nlohmann_json)
turnbench_package(PkgConfig::HWY hwy)
turnbench_package(PkgConfig::PCRE2 pcre2-8)
turnbench_package(PkgConfig::UTF8PROC utf8proc)
turnbench_package(PkgConfig::XXHASH xxhash)
turnbench_package(PkgConfig::ZIP zip)

add_library(gtest_main STATIC
  ${TURNBENCH_PACKAGES}/googletest/src/gtest-all.cc
  ${TURNBENCH_PACKAGES}/googletest/src/gtest_main.cc)
target_include_directories(gtest_main PRIVATE ${TURNBENCH_PACKAGES}/googletest)
target_include_directories(gtest_main SYSTEM PUBLIC ${TURNBENCH_PACKAGES}/googletest/include)
target_link_libraries(gtest_main PUBLIC Threads::Threads)
add_library(GTest::gtest_main ALIAS gtest_main)
