# Compiles for aarch64 without its libraries: the C library's headers come with the cross compiler, those of the other
# libraries, which are the same for every processor, from this machine. Nothing is linked.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_FLAGS_INIT "-idirafter /usr/include -idirafter /usr/include/x86_64-linux-gnu") # hwloc keeps its configuration there
set(MALHA_COMPILE_ONLY ON)
