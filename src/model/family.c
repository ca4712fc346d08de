/* The table of families. A new one: its file, a line above and a line below. */
#include "model/family.h"

extern const mal_family mal_family_gpt2, mal_family_llama, mal_family_mistral, mal_family_mixtral, mal_family_qwen2,
    mal_family_qwen2_moe, mal_family_qwen3, mal_family_qwen3_moe;

const mal_family *const mal_families[] = {
    &mal_family_gpt2,  &mal_family_llama,     &mal_family_mistral, &mal_family_mixtral,
    &mal_family_qwen2, &mal_family_qwen2_moe, &mal_family_qwen3,   &mal_family_qwen3_moe,
};

const int mal_n_families = sizeof(mal_families) / sizeof(*mal_families);
