#include "engine/device/cpu/cpu.h"

const mal_device mal_cpu = {
    .name = "cpu",
    .enter = mal_cpu_enter,
    .kernel = {[MAL_OP_MATMUL] = mal_cpu_matmul,
               [MAL_OP_ATTENTION] = mal_cpu_attention,
               [MAL_OP_NORM] = mal_cpu_norm,
               [MAL_OP_ROPE] = mal_cpu_rope,
               [MAL_OP_ACTIVATION] = mal_cpu_activation,
               [MAL_OP_EMBED] = mal_cpu_embed,
               [MAL_OP_CROSS_ENTROPY] = mal_cpu_cross_entropy,
               [MAL_OP_REDUCE_ROWS] = mal_cpu_reduce_rows,
               [MAL_OP_ADD] = mal_cpu_add,
               [MAL_OP_COPY] = mal_cpu_copy},
    .sum_squares = mal_cpu_sum_squares,
    .scale = mal_cpu_scale,
    .adamw = mal_cpu_adamw,
};
