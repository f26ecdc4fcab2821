# Fails where the object of an instruction set has a weak symbol: the linker might take that copy for
# all, and code for AVX-512 would run on a processor without it.
foreach(object IN LISTS OBJECTS)
  if(NOT object MATCHES "/level_[^/]*$")
    continue()
  endif()
  execute_process(COMMAND "${NM}" -C "${object}" OUTPUT_VARIABLE symbols RESULT_VARIABLE failed)
  string(REGEX MATCHALL "[^\n]* [WVu] [^\n]*" weak "${symbols}")
  if(weak)
    string(REPLACE ";" "\n" weak "${weak}")
    message(FATAL_ERROR "weak symbols in ${object}:\n${weak}")
  endif()
endforeach()
