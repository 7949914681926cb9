"""A process that runs a vLLM engine and speaks JSON lines. `VLLMClient` in `vllm.py` starts it.

vLLM's own engine process outlives a killed parent and keeps its memory, and requests reach it one by one, so that
which of them share its first step depends on timing. Here the engine runs inside this process: a batch is scheduled as
a whole, the same way each time, and the process ends as soon as its standard input does, at the latest when its parent
is gone. It imports nothing from this package, so that it starts quickly.

The rows of a line join those in flight; a line comes back whenever some of them are finished. Rows are numbered from 0
in the order of arrival. Rows with `scored` are prompts whose tokens are scored. A line with `classify` holds texts for
a reward model.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from contextlib import suppress
from typing import Any, TextIO


def main() -> None:
    """Serve until standard input ends. The first line holds the engine's arguments, the others prompts."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries must not print between the replies
    requests: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read, args=(sys.stdin, requests), daemon=True).start()
    about: dict[str, Any] = {}  # what an error is about
    try:
        start = requests.get()
        llm, engine = _start(start)
        loras: dict[str, Any] = {}
        for adapter in start["adapters"]:
            from vllm.lora.request import LoRARequest

            about = {"adapter": adapter}
            loras[adapter] = LoRARequest(adapter, len(loras) + 1, adapter)
            # loaded now: an adapter that fails to load inside a batch would end the engine
            llm.llm_engine.add_lora(loras[adapter])
        about = {}
        _reply(replies, {"engine": engine, "context": llm.model_config.max_model_len})
        while True:
            request = requests.get()
            if "classify" in request:
                _reply(replies, {"scores": _scores(llm, request["classify"])})
            else:
                _generate(llm, request, loras, requests, replies)
    except Exception as error:
        if isinstance(error, _SchemaError):
            about = {"schema": True}
        _reply(replies, {"error": type(error).__name__, "message": str(error), **about})
        raise


class _SchemaError(Exception):
    """vLLM does not support the JSON schema."""


def _read(stream: TextIO, requests: queue.Queue[dict[str, Any]]) -> None:
    for line in stream:
        requests.put(json.loads(line))
    os._exit(0)  # nobody waits for a reply any more; the kernel frees the memory at once


def _reply(replies: TextIO, reply: dict[str, Any]) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


def _start(start: dict[str, Any]) -> tuple[Any, str]:
    import vllm
    from vllm.platforms import current_platform

    return vllm.LLM(**for_platform(start["arguments"])), f"vllm {vllm.__version__} {current_platform.device_type}"


def for_platform(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `vllm.LLM` that fit this machine."""
    from vllm.platforms import current_platform

    arguments = dict(arguments)
    if current_platform.is_cpu():
        arguments["enforce_eager"] = True
    if "reasoning_config" in arguments:
        from vllm.config import ReasoningConfig

        arguments["reasoning_config"] = ReasoningConfig(**arguments["reasoning_config"])
    return arguments


def _arguments(request: dict[str, Any], loras: dict[str, Any]) -> dict[str, Any]:
    """What vLLM is called with for a request: prompts, parameters and `vllm.lora.request.LoRARequest` by prompt."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    schema, rows = request.get("schema"), request["rows"]
    params = [
        SamplingParams(
            **{name: row[name] for name in ("temperature", "seed", "max_tokens", "min_tokens", "stop")},
            top_p=request["top_p"],
            thinking_token_budget=request.get("thinking_budget"),
            stop_token_ids=request["stop_ids"],
            repetition_penalty=request.get("repetition_penalty") or 1.0,
            logprob_token_ids=request.get("logprob_token_ids"),
            structured_outputs=StructuredOutputsParams(json=schema) if schema is not None else None,
            detokenize=bool(row["stop"]),
            prompt_logprobs=None if row["scored"] is None else 1,
        )
        for row in rows
    ]
    prompts = [{"prompt_token_ids": row["prompt"]} for row in rows]
    adapters = [None if row["adapter"] is None else loras[row["adapter"]] for row in rows]
    return {"prompts": prompts, "sampling_params": params, "lora_request": adapters, "use_tqdm": False}


def _prompt_scores(output: Any) -> list[tuple[float, bool]] | None:
    """Of each token of a prompt but the first, its log-probability and whether it is the most probable one."""
    if output.prompt_logprobs is None:
        return None
    own = zip(output.prompt_token_ids[1:], output.prompt_logprobs[1:], strict=True)
    return [(row[token].logprob, row[token].rank == 1) for token, row in own]


def _scores(llm: Any, texts: list[list[int]]) -> list[float]:
    """A reward model's logit for each text; `reward`, the task of that name, is for token-wise models."""
    from vllm import PoolingParams

    prompts = [{"prompt_token_ids": ids} for ids in texts]
    done = llm.classify(prompts, pooling_params=PoolingParams(use_activation=False), use_tqdm=False)
    return [output.outputs.probs[0] for output in done]


def _generate(
    llm: Any,
    request: dict[str, Any],
    loras: dict[str, Any],
    requests: queue.Queue[dict[str, Any]],
    replies: TextIO,
) -> None:
    """Send what is `finished` after each step; take new requests, too."""
    _enqueue(llm, request, loras)
    while llm.llm_engine.has_unfinished_requests():
        with suppress(queue.Empty):
            while True:
                _enqueue(llm, requests.get_nowait(), loras)
        finished = [
            _finished(output, request.get("logprob_token_ids")) for output in llm.llm_engine.step() if output.finished
        ]
        if finished:
            _reply(replies, {"finished": finished})


def _finished(output: Any, labels: list[int] | None) -> tuple[Any, ...]:
    """Number, tokens, finish reason and prompt's scores; with labels, their log-probabilities as the first token."""
    done = output.outputs[0]
    logprobs = labels and [done.logprobs[0][token].logprob for token in labels]
    return int(output.request_id), list(done.token_ids), done.finish_reason, _prompt_scores(output), logprobs


def _enqueue(llm: Any, request: dict[str, Any], loras: dict[str, Any]) -> None:
    try:
        llm.enqueue(**_arguments(request, loras))
    except Exception as error:  # vLLM checks a schema here
        if request.get("schema") is None:
            raise
        raise _SchemaError(f"{type(error).__name__}: {error}") from error


if __name__ == "__main__":
    main()
