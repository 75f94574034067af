# turnbench_embed(target symbol file): links the bytes of `file` into `target` as
#   extern "C" const std::byte turnbench_<symbol>_begin[], turnbench_<symbol>_end[];
function(turnbench_embed target symbol file)
  set(path ${PROJECT_SOURCE_DIR}/${file})
  set(assembly ${CMAKE_CURRENT_BINARY_DIR}/embed_${symbol}.S)
  file(CONFIGURE OUTPUT ${assembly} @ONLY CONTENT [[
    .section .rodata
    .global turnbench_@symbol@_begin
    .global turnbench_@symbol@_end
    .balign 64
turnbench_@symbol@_begin:
    .incbin "@path@"
turnbench_@symbol@_end:
    .byte 0
    .section .note.GNU-stack,"",%progbits
]])
  set_source_files_properties(${assembly} PROPERTIES OBJECT_DEPENDS ${path})
  target_sources(${target} PRIVATE ${assembly})
endfunction()
