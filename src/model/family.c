/* The table of families. A new one: its file, a name in each list below. */
#include "model/family.h"

extern const mal_family mal_family_bloom, mal_family_cohere, mal_family_deepseek_v2, mal_family_deepseek_v3,
    mal_family_falcon, mal_family_falcon_7b, mal_family_falcon_40b, mal_family_gemma, mal_family_gemma2,
    mal_family_gemma3, mal_family_gemma3_text, mal_family_gpt2, mal_family_gpt_neox, mal_family_gpt_oss,
    mal_family_gptj, mal_family_llama, mal_family_mistral, mal_family_mixtral, mal_family_mpt, mal_family_nemotron,
    mal_family_olmo2, mal_family_opt, mal_family_phi3, mal_family_qwen2, mal_family_qwen2_moe, mal_family_qwen3,
    mal_family_qwen3_moe, mal_family_starcoder2;

const mal_family *const mal_families[] = {
    &mal_family_bloom,     &mal_family_cohere,    &mal_family_deepseek_v2, &mal_family_deepseek_v3,
    &mal_family_falcon,    &mal_family_falcon_7b, &mal_family_falcon_40b,  &mal_family_gemma,
    &mal_family_gemma2,    &mal_family_gemma3,    &mal_family_gemma3_text, &mal_family_gpt2,
    &mal_family_gpt_neox,  &mal_family_gpt_oss,   &mal_family_gptj,        &mal_family_llama,
    &mal_family_mistral,   &mal_family_mixtral,   &mal_family_mpt,         &mal_family_nemotron,
    &mal_family_olmo2,     &mal_family_opt,       &mal_family_phi3,        &mal_family_qwen2,
    &mal_family_qwen2_moe, &mal_family_qwen3,     &mal_family_qwen3_moe,   &mal_family_starcoder2,
};

const int mal_n_families = sizeof(mal_families) / sizeof(*mal_families);
