# cmake --install build --prefix PREFIX: the program, the files that it finds relative to itself
# (experiments, rubrics of judges), documents, and the manual page and completions of shells, which
# the program prints.
include(GNUInstallDirs)
install(TARGETS turnbench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY experiments DESTINATION ${CMAKE_INSTALL_DATADIR}/turnbench)
install(DIRECTORY judges/rubrics DESTINATION ${CMAKE_INSTALL_DATADIR}/turnbench/judges)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES README.md CHANGELOG.md CITATION.cff LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(help ${CMAKE_CURRENT_BINARY_DIR}/help)
install(CODE "
  file(MAKE_DIRECTORY ${help})
  foreach(format man bash zsh)
    execute_process(COMMAND $<TARGET_FILE:turnbench> help --format \${format}
      OUTPUT_FILE ${help}/\${format} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()")
install(FILES ${help}/man DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME turnbench.1)
install(FILES ${help}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME turnbench)
install(FILES ${help}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
  RENAME _turnbench)
