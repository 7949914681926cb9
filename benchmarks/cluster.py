"""What a Ray cluster costs: time between batches, and the memory of the process that runs the command.

    python -m benchmarks.cluster [--engine vllm] [--memory]

`overhead`: one worker on a node of this machine asks fixed batches of SmolLM2 one after another, and so does a single
process (`LLM.generate` in vLLM, without Ray), alternately. The time of a batch is that from one arrival to the next, so
that the engine's start is not measured. `idle` is the share of the worker's time in which its engine did not compute,
which does not depend on what else the machine does. `--engine sleep` waits 5 s in place of computing.

`--memory`: the high-water mark of the process that runs `generate_answers`, for 1,000 to 100,000 prompts in batches of
64 with answers of 500 characters, with an engine that only returns them; with two workers, and without a cluster.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, fresh, real_rows, write_results
from instruct.base.replies import Completion, Reply
from instruct.engines.base import Decoding, EngineOptions, Request
from instruct.engines.ray_cluster import ClusterOptions
from instruct.engines.ray_engine import RayEngine
from instruct.engines.start import engine_version, make_engine
from instruct.engines.transformers import TransformersEngine

sys.path.append(str(ROOT / "tests" / "cluster"))
ANSWER = "A sentence of an answer. " * 20  # 500 characters


class Returned(TransformersEngine):
    """Waits, and returns an answer that was not computed."""

    def __init__(self, options: EngineOptions, seconds: float) -> None:
        super().__init__(options)
        self._waits = seconds

    def start(self) -> str:
        return engine_version("transformers")

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        time.sleep(self._waits)
        yield [(request, Completion(ANSWER, finish_reason="stop", completion_tokens=100)) for request in requests]


def returning(kind: Any, options: EngineOptions, cluster: Any = None, *, seconds: float = 0.0) -> Any:
    """`make_engine` with `Returned`."""
    one = functools.partial(Returned, seconds=seconds)
    return one(options) if cluster is None else RayEngine(options, cluster, one, _version)


def _version() -> str:
    return engine_version("transformers")


def overhead(kind: str, batches: int, size: int, tokens: int, rounds: int, address: str) -> dict[str, Any]:
    """Seconds of a batch without and with Ray, and the share of time in which the worker's engine was idle."""
    from transformers import AutoTokenizer

    from instruct.base.models import EMBEDDED_MODEL, model_path

    model = model_path(EMBEDDED_MODEL)
    tokenizer = AutoTokenizer.from_pretrained(model)
    texts = [row["instruction"] for row in real_rows()[0][: size * (batches + 1)]]
    asked = [
        [
            Request(str(number), tuple(tokenizer(text)["input_ids"][:128]), max_tokens=tokens, min_tokens=tokens)
            for number, text in enumerate(texts[first : first + size], first)
        ]
        for first in range(0, len(texts), size)
    ]
    options = EngineOptions(
        f"model {model}", model, Decoding(), 128 + tokens, batch=size, tokenizer=tokenizer, gpu_memory_utilization=0.4
    )
    make = make_engine if kind == "vllm" else functools.partial(returning, seconds=5.0)
    found: dict[str, list[float]] = {"alone": [], "cluster": [], "idle": []}
    for _ in range(rounds):
        for where in ("alone", "cluster"):
            cluster = ClusterOptions(address=address, workers=1) if where == "cluster" else None
            engine = make("vllm" if kind == "vllm" else "transformers", options, cluster)
            try:
                engine.start()
                arrivals, computed = [], []
                for portion in engine.complete_batches(asked):
                    arrivals.append(time.perf_counter())
                    computed.append(portion.seconds)
            finally:
                engine.close()
            waited = arrivals[-1] - arrivals[0]
            found[where].append(waited / batches)
            if where == "cluster":
                found["idle"].append(max(0.0, 1 - sum(computed[1:]) / waited))
    medians = {name: statistics.median(values) for name, values in found.items()}
    ratios = [there / here - 1 for here, there in zip(found["alone"], found["cluster"], strict=True)]
    return {
        "what": "overhead", "engine": kind, "batches": batches, "prompts_a_batch": size, "tokens": tokens,
        "rounds": rounds, "alone_s": round(medians["alone"], 3), "cluster_s": round(medians["cluster"], 3),
        "overhead": round(statistics.median(ratios), 4), "idle": round(medians["idle"], 4),
        "load": os.getloadavg()[0],
    }  # fmt: skip


def memory_of_one(prompts: int, address: str | None) -> None:
    """A process that answers so many prompts, and prints its high-water mark in MiB and its seconds."""
    from instruct.base.models import EMBEDDED_MODEL, ModelOptions
    from instruct.data.prompts import EvalPrompt
    from instruct.generation import batches
    from instruct.generation.answers import GenerationConfig, generate_answers

    if address:
        from ray import cloudpickle

        cloudpickle.register_pickle_by_value(sys.modules[__name__])
    batches.make_engine = returning  # type: ignore[assignment]
    rows = [row["instruction"] for row in real_rows()[0]]
    asked = [EvalPrompt(f"{number}: {rows[number % len(rows)]}", "bench") for number in range(prompts)]
    config = GenerationConfig(engine="transformers", max_new_tokens=128, batch_size=64)
    cluster = ClusterOptions(address=address) if address else None
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        model = ModelOptions(name=EMBEDDED_MODEL)
        generate_answers(model, {"base": None}, asked, "chat", config, Path(folder), cluster)
        size = Path(folder, "base.replies.sqlite").stat().st_size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"mib": round(peak), "seconds": round(time.perf_counter() - begun, 1), "store": size}))


def memory(prompts: int, address: str | None) -> dict[str, Any]:
    found = fresh("cluster", prompts, *(["--at", address] if address else []))
    return {"what": "memory", "engine": "returned", "prompts": prompts, "cluster": address is not None, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["vllm", "sleep"], default="vllm")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--size", type=int, default=48, help="prompts of a batch")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--prompts", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--at", help=argparse.SUPPRESS)
    parser.add_argument("--no-write", action="store_true")
    given = parser.parse_args()
    if given.one:
        memory_of_one(given.one, given.at)
        return
    from nodes import two_nodes
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    rows = []
    with two_nodes() as cluster:
        if given.memory:
            for prompts in given.prompts:
                for address in (None, cluster.address):
                    rows.append(memory(prompts, address))
                    print(rows[-1], flush=True)
        else:
            rows.append(overhead(given.engine, given.batches, given.size, given.tokens, given.rounds, cluster.address))
            print(rows[-1], flush=True)
    if not given.no_write:
        write_results("cluster-memory" if given.memory else "cluster", rows, key=("engine", "prompts", "cluster"))


if __name__ == "__main__":
    main()
