"""The parts of vLLM's process that need no vLLM."""

from __future__ import annotations

import pytest

from instruct.engines.vllm_process import GIB, MOST_CACHE_GIB, _cache_gib


@pytest.mark.parametrize(
    ("changed", "gib"),
    [
        ({}, 1),  # 24 rows of two blocks: 45 KiB a token, .27 GiB
        ({"max_num_seqs": 128}, 2),  # 1.4 GiB
        ({"max_num_seqs": 128, "dtype": "bfloat16"}, 1),
        ({"max_num_seqs": 1000}, MOST_CACHE_GIB),  # 11 GiB: the others wait
        ({"enable_prefix_caching": True}, MOST_CACHE_GIB),
        ({"max_model_len": -1}, MOST_CACHE_GIB),  # as many tokens as there is room for
        ({"max_model_len": 60_000}, 3),  # one row must fit
        ({"max_num_seqs": None}, MOST_CACHE_GIB),  # vLLM's default
    ],
)
def test_the_cache_of_a_cpu_holds_the_rows_of_a_batch(changed, gib, smollm2):
    token = 2 * 30 * 3 * 64 * 4  # keys and values, layers, heads, their size, bytes
    assert token * 2 * 128 * 25 < GIB < token * 2 * 128 * 129
    arguments = {"model": smollm2, "dtype": "float32", "max_model_len": 200, "max_num_seqs": 24}
    assert _cache_gib(arguments | changed) == gib
