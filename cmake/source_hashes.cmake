# Writes which sources a program is built from, as C++:
#   cmake -DSOURCE=<project> -DOUTPUT=<file.cpp> -P source_hashes.cmake
# The file changes only when what it says does.  Each part is the hash of the files that decide what
# its name says; the files stand beside it.  A method's (or probe's) files are the one that describes
# it and what that includes of methods/ and probes/, headers and their sources, to the end.
cmake_policy(VERSION 3.25)
file(REAL_PATH ${SOURCE} SOURCE)

# Sets `entry` to a line of the table of parts.
function(describe_part entry name)
  list(REMOVE_DUPLICATES ARGN)
  list(SORT ARGN)
  set(all "")
  foreach(file IN LISTS ARGN)
    file(SHA256 ${SOURCE}/${file} hash)
    string(APPEND all "${file} ${hash}\n")
  endforeach()
  string(SHA256 hash "${all}")
  string(SUBSTRING ${hash} 0 16 hash)
  list(JOIN ARGN " " files)
  set(${entry} "      {\"${name}\", \"${hash}\"},  // ${files}\n" PARENT_SCOPE)
endfunction()

set(entries "")
function(add_part name)
  set(files "")
  foreach(pattern ${ARGN})
    file(GLOB found RELATIVE ${SOURCE} ${SOURCE}/${pattern})
    list(APPEND files ${found})
  endforeach()
  describe_part(entry ${name} ${files})
  set(entries "${entries}${entry}" PARENT_SCOPE)
endfunction()

add_part(engine inference/*.h inference/*.cpp inference/cpu/* inference/devices/*
  harness/unit/active_unit.h harness/unit/conversation.* harness/unit/fidelity.*
  harness/unit/history.h
  harness/unit/memoized_prefill.h harness/unit/prefill_groups.* harness/unit/probe_unit.*
  harness/unit/unit.* harness/unit/unit_runner.* common/mean.h common/random.h)
add_part(cuda inference/cuda/*)
add_part(prompts harness/unit/prompt.* harness/unit/labelled_text.* inference/tokenizer/*.h
  inference/tokenizer/*.cpp inference/jinja/*.h inference/jinja/*.cpp common/python_text.*
  common/special_casing.*)
add_part(datasets datasets/*.h datasets/*.cpp)
add_part(metrics metrics/*.h metrics/*.cpp common/python_text.* common/special_casing.*)

file(GLOB described RELATIVE ${SOURCE} ${SOURCE}/methods/*.cpp ${SOURCE}/probes/*.cpp)
foreach(file IN LISTS described)
  file(STRINGS ${SOURCE}/${file} descriptions REGEX "^(Method|Probe)Info [a-z0-9_]+\\(\\) {")
  if(NOT descriptions)
    continue()
  endif()
  set(files ${file})
  set(left ${file})
  while(left)
    list(POP_FRONT left next)
    file(STRINGS ${SOURCE}/${next} includes REGEX "^#include \"(methods|probes)/")
    foreach(line IN LISTS includes)
      string(REGEX REPLACE "^#include \"(.*)\\.h\".*" "\\1" stem "${line}")
      foreach(other ${stem}.h ${stem}.cpp)
        if(EXISTS ${SOURCE}/${other} AND NOT other IN_LIST files)
          list(APPEND files ${other})
          list(APPEND left ${other})
        endif()
      endforeach()
    endforeach()
  endwhile()
  get_filename_component(folder ${file} DIRECTORY)
  foreach(line IN LISTS descriptions)
    string(REGEX REPLACE "^(Method|Probe)Info ([a-z0-9_]+)\\(.*" "\\2" name "${line}")
    string(REPLACE "_" "-" name ${name})
    describe_part(entry ${folder}/${name} ${files})
    string(APPEND entries "${entry}")
  endforeach()
endforeach()

# The commit, where this is a checkout and not a folder in somebody else's.
set(commit "")
set(modified false)
find_program(git git)
if(git)
  execute_process(COMMAND ${git} -C ${SOURCE} rev-parse --show-toplevel HEAD
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  string(REPLACE "\n" ";" answer "${answer}")
  list(LENGTH answer lines)
  if(NOT failed AND lines EQUAL 2)
    list(GET answer 0 top)
    file(REAL_PATH ${top} top)
    if(top STREQUAL SOURCE)
      list(GET answer 1 commit)
      execute_process(COMMAND ${git} -C ${SOURCE} status --porcelain
        OUTPUT_VARIABLE changes ERROR_QUIET)
      if(changes)
        set(modified true)
      endif()
    endif()
  endif()
endif()

file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
// Made by cmake/source_hashes.cmake at every build.
#include "harness/store/provenance.h"

namespace turnbench {

SourceState source_state() {
  return {"@commit@", @modified@, {
@entries@  }};
}

}  // namespace turnbench
]])
