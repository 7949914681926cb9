"""`LLM.generate` in a process of its own, with vLLM's defaults: what this package's use of vLLM is compared with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.harness import ROOT
from instruct.base.models import pick_dtype


@contextmanager
def plain_vllm(model: str, max_model_len: int, **sampling: Any) -> Iterator[Callable[[list[list[int]], int], int]]:
    """A function from prompts, as token ids, and the most tokens of a reply to the number of tokens written.

    Args:
        sampling: further arguments of vLLM's SamplingParams.
    """
    settings = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.plain_vllm", model, str(max_model_len), json.dumps(sampling)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        # The engine in the process itself, as in ours: where a second process held it, that would take a core of few.
        env={**settings, **os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    asked, answered = process.stdin, process.stdout

    def generate(prompts: list[list[int]], max_tokens: int) -> int:
        print(json.dumps({"prompts": prompts, "max_tokens": max_tokens}), file=asked, flush=True)
        return int(answered.readline())

    try:
        yield generate
    finally:
        asked.close()
        process.wait()


def answer_lines(model: str, max_model_len: int, sampling: dict[str, Any]) -> None:
    """Reads a line of prompts, prints a line with the number of tokens written."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep the output of libraries out of the replies
    import vllm
    from vllm.platforms import current_platform

    on_a_cpu = {"dtype": pick_dtype(None, str), "enforce_eager": True} if current_platform.is_cpu() else {}
    llm = vllm.LLM(model, max_model_len=max_model_len, generation_config="vllm", **on_a_cpu)
    for line in sys.stdin:
        asked = json.loads(line)
        params = vllm.SamplingParams(max_tokens=asked["max_tokens"], **sampling)
        outputs = llm.generate([{"prompt_token_ids": ids} for ids in asked["prompts"]], params, use_tqdm=False)
        replies.write(f"{sum(len(output.outputs[0].token_ids) for output in outputs)}\n")
        replies.flush()


if __name__ == "__main__":
    answer_lines(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
