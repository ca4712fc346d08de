# One interface target carries the flags of everything that is ours.
add_library(malha_flags INTERFACE)
target_compile_options(malha_flags INTERFACE $<BUILD_INTERFACE:-Wall -Wextra -Werror>)
# Messages are cut to their buffers on purpose; gcc alone warns of it, at some levels of optimization.
target_compile_options(malha_flags INTERFACE $<BUILD_INTERFACE:$<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>>)
target_compile_definitions(malha_flags INTERFACE $<BUILD_INTERFACE:_GNU_SOURCE>)

if(MALHA_THREAD_SANITIZE)
  target_compile_options(malha_flags INTERFACE -fsanitize=thread -Wno-tsan) # fences only wake sleepers
  target_link_options(malha_flags INTERFACE -fsanitize=thread)
endif()
if(MALHA_SANITIZE OR MALHA_FUZZ)
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(MALHA_FUZZ)
    list(APPEND sanitize -fsanitize=fuzzer-no-link)
  endif()
  target_compile_options(malha_flags INTERFACE ${sanitize})
  target_link_options(malha_flags INTERFACE ${sanitize})
endif()
