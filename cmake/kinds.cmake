# Puts the letters and numbers of src/rules/kinds.inc into the text of a script, for embed_lua.cmake and embed_sql.cmake.
#
# In Lua KIND_SEGMENTS becomes the letter, in SQL its number; KIND_LETTERS (Lua only) all letters. FENCE_EPOCH_US and the like become the number.
# So a word may stand where its value may: in Lua the letters inside quotation marks.

# conch_put_constants(VARIABLE lua|sql FILE): changes the variable of the caller. FILE is named where a word is unknown.
function(conch_put_constants variable language file)
  set(text "${${variable}}")
  set(letters "")
  file(STRINGS "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../src/rules/kinds.inc" lines REGEX "^CONCH_(KIND|NUMBER)\\(")
  foreach(line IN LISTS lines)
    if(line MATCHES "^CONCH_KIND\\(([a-z_]+), *'([a-z])',")
      string(TOUPPER "KIND_${CMAKE_MATCH_1}" word)
      set(value "${CMAKE_MATCH_2}")
      string(APPEND letters "${value}")
      if(language STREQUAL "sql")
        string(HEX "${value}" value)
        math(EXPR value "0x${value}")
      endif()
    elseif(line MATCHES "^CONCH_NUMBER\\(([a-z_]+), *([0-9]+)\\)")
      string(TOUPPER "${CMAKE_MATCH_1}" word)
      set(value "${CMAKE_MATCH_2}")
    else()
      continue() # the mutex, which has no letter
    endif()
    string(REPLACE "${word}" "${value}" text "${text}")
  endforeach()
  if(language STREQUAL "lua")
    string(REPLACE "KIND_LETTERS" "${letters}" text "${text}")
  endif()
  if(text MATCHES "KIND_[A-Z]+")
    message(FATAL_ERROR "${file}: ${CMAKE_MATCH_0} is not in src/rules/kinds.inc")
  endif()
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()
