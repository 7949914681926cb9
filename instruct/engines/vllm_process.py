"""A process that runs a vLLM engine and speaks JSON lines. `VLLMClient` in `vllm.py` starts it.

vLLM's own engine process outlives a killed parent and keeps its memory, and requests reach it one by one, so that
which of them share its first step depends on timing. Here the engine runs inside this process: a batch is scheduled as
a whole, the same way each time, and the process ends as soon as its standard input does, at the latest when its parent
is gone. It imports nothing from this package that it does not need, so that it starts quickly.

The rows of a line join those in flight; a line comes back whenever some of them are finished. The rows of a line are
numbered from its `first` on. Rows with `scored` are prompts whose tokens are scored. A line with `classify` holds texts
for a reward model.

On a GPU, adapters are LoRA layers of vLLM. On a CPU they are merged into the weights in memory, one at a time, if PEFT
can do that, because vLLM's LoRA layers copy an adapter's matrices once for each token there, which takes most of the
time of a batch; rows of another adapter wait until those in flight are finished.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

GIB = 2**30
# The keys and values of a CPU: GiB that they take at most, if one row does not need more; and tokens of a block.
MOST_CACHE_GIB, CACHE_BLOCK = 2, 128
# Packages that vLLM's imports take along where they are installed, and that are not needed here.
UNUSED = ("sklearn", "chardet")


def main() -> None:
    """Serve until standard input ends. The first line holds the engine's arguments, the others prompts."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries must not print between the replies
    sys.modules.update(dict.fromkeys(UNUSED))  # type: ignore[arg-type]  # None: not found
    requests: queue.Queue[dict[str, Any]] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            requests.put(json.loads(line))
        os._exit(0)  # nobody waits for a reply any more; the kernel frees the memory at once

    threading.Thread(target=read, daemon=True).start()
    about: dict[str, Any] = {}  # what an error is about
    try:
        start = requests.get()
        llm, merged, started = _start(start)
        loras: dict[str | None, Any] = dict.fromkeys([None, *start["adapters"]])
        for number, adapter in enumerate([] if merged else start["adapters"], 1):
            from vllm.lora.request import LoRARequest

            about = {"adapter": adapter}
            loras[adapter] = LoRARequest(adapter, number, adapter)
            # loaded now: an adapter that fails to load inside a batch would end the engine
            llm.llm_engine.add_lora(loras[adapter])
        about = {}
        config = llm.model_config
        _reply(replies, {**started, "context": config.max_model_len, "dtype": str(config.dtype)})
        rows = _Rows(llm, loras, merged)
        while True:
            request = requests.get()
            if "classify" in request:
                from vllm import PoolingParams

                texts = [{"prompt_token_ids": ids} for ids in request["classify"]]
                # A reward model's logit; `reward`, the task of that name, is for token-wise models.
                done = llm.classify(texts, pooling_params=PoolingParams(use_activation=False), use_tqdm=False)
                _reply(replies, {"scores": [output.outputs.probs[0] for output in done]})
                continue
            rows.add(request)
            while rows.unfinished():
                with suppress(queue.Empty):
                    while True:
                        rows.add(requests.get_nowait())
                if finished := rows.step():
                    _reply(replies, {"finished": finished})
    except Exception as error:
        if isinstance(error, _SchemaError):
            about = {"schema": True}
        _reply(replies, {"error": type(error).__name__, "message": str(error), **about})
        raise


class _SchemaError(Exception):
    """vLLM does not support the JSON schema."""


def _reply(replies: TextIO, reply: dict[str, Any]) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


def _start(start: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """The `vllm.LLM`, its `MergedAdapters` if it serves adapters so, and what it is and has to say."""
    import vllm
    from vllm.platforms import current_platform

    arguments, merged = for_platform(start["arguments"]), None
    about: dict[str, Any] = {"engine": f"vllm {vllm.__version__} {current_platform.device_type}", "unmerged": None}
    if start["adapters"]:
        sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the package that this file is part of
        from instruct.base.errors import InputError
        from instruct.base.networks import check_adapter

        model, revision, adapters = arguments["model"], arguments["revision"], start["adapters"]
        try:
            if not current_platform.is_cpu():
                for adapter in adapters:  # vLLM itself says nothing of a tensor that has no place
                    check_adapter(model, revision, adapter)
            elif arguments.get("tensor_parallel_size", 1) > 1:
                raise ValueError("several processes share the weights")
            else:
                merged = MergedAdapters(model, revision, adapters)
        except InputError:
            raise
        except Exception as error:  # whatever PEFT makes of an adapter that vLLM may yet serve
            about["unmerged"] = f"{type(error).__name__}: {error}" if current_platform.is_cpu() else None
        if merged:
            arguments = {name: value for name, value in arguments.items() if "lora" not in name}
    return vllm.LLM(**arguments), merged, {**about, "merged": merged is not None}


def for_platform(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `vllm.LLM` that fit this machine."""
    from vllm.platforms import current_platform

    arguments = dict(arguments)
    if current_platform.is_cpu():
        arguments["enforce_eager"] = True
        if not os.environ.get("VLLM_CPU_KVCACHE_SPACE"):
            arguments["kv_cache_memory_bytes"] = _cache_gib(arguments) * GIB
    return arguments


def _cache_gib(arguments: dict[str, Any]) -> int:
    """Memory for keys and values: of all rows that run at once, at most `MOST_CACHE_GIB` unless one row needs more."""
    import torch
    from transformers import AutoConfig

    length, rows = arguments.get("max_model_len") or -1, arguments.get("max_num_seqs")
    config = AutoConfig.from_pretrained(arguments["model"], revision=arguments.get("revision")).get_text_config()
    try:
        heads, size = getattr(config, "num_attention_heads", None), getattr(config, "head_dim", None)
    except RuntimeError:  # other numbers in each layer
        return MOST_CACHE_GIB
    if length < 0 or not rows or not heads:  # as many tokens as there is memory for, or another kind of network
        return MOST_CACHE_GIB
    size = size or config.hidden_size // heads
    heads = getattr(config, "num_key_value_heads", None) or heads
    token = 2 * config.num_hidden_layers * heads * size * getattr(torch, arguments["dtype"]).itemsize
    row = token * -(-length // CACHE_BLOCK) * CACHE_BLOCK
    shared = arguments.get("enable_prefix_caching")  # what is kept of earlier rows is worth more memory
    return max(-(-row // GIB), MOST_CACHE_GIB if shared else min(MOST_CACHE_GIB, -(-row * (rows + 1) // GIB)))


def _last_token(row: dict[str, Any], loras: dict[str | None, Any]) -> list[int] | None:
    """The one token that is scored, if it has to be asked as a reply: with LoRA layers, vLLM scores no prompts."""
    return row["prompt"][-1:] if row["scored"] is not None and any(loras.values()) else None


class _Rows:
    """Rows that have arrived: those that run in vLLM, and those whose adapter is not merged yet."""

    def __init__(self, llm: Any, loras: dict[str | None, Any], merged: Any) -> None:
        self._llm, self._loras, self._merged = llm, loras, merged
        self._waiting: deque[dict[str, Any]] = deque()
        # By vLLM's ids: numbers, labels, and the token that is scored as a reply.
        self._running: dict[str, tuple[int, list[int] | None, list[int] | None]] = {}

    def add(self, request: dict[str, Any]) -> None:
        """Take the rows of a line; with merged adapters, each part of a line has one."""
        rows = [row | {"number": number} for number, row in enumerate(request["rows"], request["first"])]
        adapters = dict.fromkeys(row["adapter"] for row in rows)
        parts = [[row for row in rows if row["adapter"] == adapter] for adapter in adapters] if self._merged else [rows]
        self._waiting.extend(request | {"rows": part} for part in parts)

    def unfinished(self) -> bool:
        """Whether rows wait or run."""
        return bool(self._waiting) or self._llm.llm_engine.has_unfinished_requests()

    def step(self) -> list[tuple[Any, ...]]:
        """Let vLLM compute one step of what can run; what is `finished` with it."""
        engine = self._llm.llm_engine
        if self._waiting and self._merged and not engine.has_unfinished_requests():
            adapter = self._waiting[0]["rows"][0]["adapter"]
            if adapter != self._merged.adapter:
                self._merged.put(self._llm, adapter)
        while self._waiting and (not self._merged or self._waiting[0]["rows"][0]["adapter"] == self._merged.adapter):
            request = self._waiting.popleft()
            labels = request.get("logprob_token_ids")
            for id_, row in zip(_enqueue(self._llm, request, self._loras), request["rows"], strict=True):
                self._running[id_] = row["number"], labels, _last_token(row, self._loras)
        return [_finished(output, *self._running.pop(output.request_id)) for output in engine.step() if output.finished]


def _finished(output: Any, number: int, labels: list[int] | None, last: list[int] | None) -> tuple[Any, ...]:
    """Number, tokens, finish reason and prompt's scores; with labels, their log-probabilities as the first token."""
    done = output.outputs[0]
    logprobs = labels and [done.logprobs[0][token].logprob for token in labels]
    scores: list[Any] | None = None
    if output.prompt_logprobs is not None:  # of each token but the first
        rows = zip(output.prompt_token_ids[1:], output.prompt_logprobs[1:], strict=True)
        scores = [row[token].logprob for token, row in rows]
    if last:
        before = [None] * (len(output.prompt_token_ids) - 1)
        scores = [*before, done.logprobs[0][last[0]].logprob]
    return number, list(done.token_ids), done.finish_reason, scores, logprobs


def _enqueue(llm: Any, request: dict[str, Any], loras: dict[str | None, Any]) -> list[str]:
    """Give rows to vLLM; its ids of them, as its outputs have them."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    schema = request.get("schema")
    prompts, params, adapters = [], [], []
    try:
        for row in request["rows"]:
            last = _last_token(row, loras)
            prompts.append({"prompt_token_ids": row["prompt"][:-1] if last else row["prompt"]})
            adapters.append(loras[row["adapter"]])
            params.append(
                SamplingParams(
                    **{name: row[name] for name in ("temperature", "seed", "max_tokens", "min_tokens")},
                    top_p=request["top_p"],
                    stop_token_ids=request["stop_ids"],
                    repetition_penalty=request.get("repetition_penalty") or 1.0,
                    logprob_token_ids=request.get("logprob_token_ids") or last,
                    structured_outputs=StructuredOutputsParams(json=schema) if schema is not None else None,
                    detokenize=False,
                    prompt_logprobs=None if row["scored"] is None or last else 1,
                )
            )
        ids = llm.enqueue(prompts=prompts, sampling_params=params, lora_request=adapters, use_tqdm=False)
    except Exception as error:  # vLLM checks a schema here
        if schema is None:
            raise
        raise _SchemaError(f"{type(error).__name__}: {error}") from error
    return [id_.partition("-")[0] for id_ in ids]


class MergedAdapters:
    """Puts a model with an adapter, or as it was, in the place of the weights of a running `vllm.LLM`.

    PEFT merges one matrix at a time in float32, and vLLM rounds the sum once, to its dtype: in float32 nothing is
    rounded, in bfloat16 the weights differ from those with an adapter beside them. Nothing is subtracted: all weights
    are read from the model's files again. `adapter` is the folder of what is merged; None: nothing.

    Args:
        model: a folder or hub id, whose `revision` it is; its weights are safetensors.
        adapters: folders.

    Raises:
        ValueError: an adapter that cannot be merged a matrix at a time; vLLM's own LoRA layers may serve it.
        Exception: PEFT or transformers cannot load the adapter or the model.
    """

    def __init__(self, model: str, revision: str | None, adapters: Sequence[str]) -> None:
        from huggingface_hub import snapshot_download
        from safetensors import safe_open

        if not (folder := Path(model)).is_dir():
            folder = Path(snapshot_download(model, revision=revision, allow_patterns=["*.safetensors", "*.json"]))
        names: set[str] = set()
        for path in folder.glob("*.safetensors"):
            with safe_open(path, "pt") as file:
                names |= set(file.keys())
        self.adapter: str | None = None
        self._layers = {adapter: _layers(model, revision, adapter, names) for adapter in adapters}

    def put(self, llm: Any, adapter: str | None) -> None:
        """Merge `adapter` in the place of what is merged; no request may be running."""
        from vllm.model_executor.model_loader import get_model_loader

        config = llm.llm_engine.vllm_config
        weights = get_model_loader(config.load_config).get_all_weights(config.model_config, None)
        layers = {} if adapter is None else self._layers[adapter]
        llm.collective_rpc("reload_weights", kwargs={"weights_iterator": _merged(weights, layers)})
        llm.reset_prefix_cache()  # which other weights have computed
        self.adapter = adapter


def _layers(model: str, revision: str | None, adapter: str, names: set[str]) -> dict[str, Any]:
    """An adapter's layers by the names of the model's matrices, in a network without weights.

    Args:
        names: of the model's tensors in its files.
    """
    import torch
    from peft import PeftConfig
    from peft.tuners.lora import LoraLayer
    from safetensors import safe_open
    from transformers import AutoConfig

    from instruct.base.networks import INITS_OF_BASE, load_adapter, new_network

    config = PeftConfig.from_pretrained(adapter)
    if config.init_lora_weights not in INITS_OF_BASE:
        raise ValueError(f"{config.init_lora_weights} may change the base's weights")
    with torch.device("meta"):
        network = new_network(AutoConfig.from_pretrained(model, revision=revision))
    network = network.float().to_empty(device="cpu")  # memory that is never written takes none
    network = load_adapter(network, adapter)
    layers = {f"{name}.weight": module for name, module in network.named_modules() if isinstance(module, LoraLayer)}
    for name, layer in layers.items():
        if not isinstance(layer.get_base_layer(), torch.nn.Linear) or (layer.lora_variant and not config.use_dora):
            raise ValueError(f"{name}: no plain LoRA on a matrix")
    with safe_open(Path(adapter) / "adapter_model.safetensors", "pt") as file:
        saved = {name.partition(".lora_") for name in file.keys()}  # noqa: SIM118 (no dict)
    others = {
        layer + dot + kind
        for layer, dot, kind in saved
        if f"{layer}.weight" not in layers or kind not in ("A.weight", "B.weight", "magnitude_vector")
    }
    of_model = {name.removeprefix("base_model.model."): layer for name, layer in layers.items()}
    if unknown := sorted(others) or sorted(of_model.keys() - names):
        raise ValueError(f"{unknown[0]}: no part of a matrix in the model's files")
    return of_model


def _merged(weights: Iterator[tuple[str, Any]], layers: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The model's tensors in the order of its files, those of an adapter's layers merged."""
    import torch

    for name, weight in weights:
        if layer := layers.get(name):
            base = layer.get_base_layer()
            base.weight = torch.nn.Parameter(weight.float(), requires_grad=False)
            layer.merge()
            weight, base.weight = base.weight.data, None
            layer.merged_adapters.clear()
        yield name, weight


if __name__ == "__main__":
    main()
