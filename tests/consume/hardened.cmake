# Has PROGRAM been built as conch_harden says? Started by ctest.

function(expect what options pattern)
  execute_process(COMMAND "${READELF}" ${options} "${PROGRAM}" OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "${PROGRAM}: ${what} is missing")
  endif()
endfunction()

expect("-z now" "-dW" "BIND_NOW|Flags:[^\n]*NOW")
expect("-z relro" "-lW" "GNU_RELRO")
expect("-fstack-protector-strong" "-sW" "__stack_chk_fail")
expect("_GLIBCXX_ASSERTIONS" "-sW" "__glibcxx_assert_fail|__replacement_assert")
if(CONFIG MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$")
  expect("_FORTIFY_SOURCE" "-sW" "__[a-z]+_chk@")
endif()
