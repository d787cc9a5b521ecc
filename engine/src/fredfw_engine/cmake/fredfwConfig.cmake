# The engine of fredfw for CMake: the target fredfw::fredfw, of the library and the header that the wheel brings.
if(NOT TARGET fredfw::fredfw)
  get_filename_component(_fredfw "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
  add_library(fredfw::fredfw SHARED IMPORTED)
  set_target_properties(fredfw::fredfw PROPERTIES
    IMPORTED_LOCATION "${_fredfw}/engine.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_fredfw}/include")
  unset(_fredfw)
endif()
