# Tool chain of the fuzz preset, and for a try with clang:
#   cmake --preset dev -B build/clang --toolchain cmake/clang.cmake

find_program(CONCH_CLANG NAMES clang++-19 clang++ clang++-20 clang++-18 REQUIRED)
set(CMAKE_CXX_COMPILER "${CONCH_CLANG}")
