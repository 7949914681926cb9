"""Shared by the benchmarks: alternating contenders, processes, medians of ratios, real labels, results files."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from instruct.base.machine import machine, now, versions

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
# A model's head, (vocabulary, hidden): SmolLM2-135M, Llama-2-7B, Llama-3.2-1B.
SHAPES = [(49152, 576), (32000, 4096), (128256, 2048)]

# Where AlpacaEval, Alpaca-GPT4 and others may be.
SHARED = Path(os.environ.get("INSTRUCT_SHARED_DATA", ROOT.parent / "shared" / "data"))

# Seconds of the wall, or of CPU time in all threads of this process: for a machine that is shared.
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


def real_rows() -> tuple[list[dict[str, str]], str]:
    """Instruction rows and their file's name: Alpaca-GPT4 if it is available, otherwise the starter set."""
    path = SHARED / "alpaca_gpt4" / "alpaca_gpt4.jsonl"
    if not path.is_file():
        path = ROOT / "data" / "starter" / "starter.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()], path.name


def response_ids(count: int) -> tuple[list[int], str]:
    """`count` token ids of real responses, and their source.

    Without SmolLM2's tokenizer (on a bare GPU machine) tokens are words and punctuation marks, which repeat similarly.
    """
    rows, source = real_rows()
    responses = [row["output"] for row in rows]
    try:
        from transformers import AutoTokenizer

        from instruct.base.models import EMBEDDED_MODEL, model_path

        tokenizer = AutoTokenizer.from_pretrained(model_path(EMBEDDED_MODEL))
        encode: Callable[[str], list[Any]] = lambda text: tokenizer(text)["input_ids"]  # noqa: E731
        source += ", SmolLM2's tokens"
    except Exception:  # not installed here
        import re

        encode = lambda text: re.findall(r"\w+|[^\w\s]", text)  # noqa: E731
        source += ", words"
    tokens: list[Any] = []
    while len(tokens) < count:
        for response in responses:
            tokens += [*encode(response), None]
            if len(tokens) >= count:
                break
    number = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    return [number[token] for token in tokens[:count]], source


def response_labels(count: int, vocabulary: int) -> tuple[torch.Tensor, str]:
    """(count,) int64 labels that repeat like tokens of real responses, over the whole vocabulary, and their source."""
    ids, source = response_ids(count)
    spread = torch.randperm(vocabulary, generator=torch.Generator().manual_seed(0))
    return spread[torch.tensor(ids) % vocabulary], source


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def alternate(
    contenders: dict[str, Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each contender in each round, by `clock`. Each runs once per round, in random order."""
    order = random.Random(0)
    for run in contenders.values():  # one-time work (memory, threads, kernels) is not measured
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name in order.sample(list(contenders), len(contenders)):
            synchronize()
            begun = clock()
            contenders[name]()
            synchronize()
            seconds[name].append(clock() - begun)
    return seconds


def ratio(seconds: dict[str, list[float]], name: str, peer: str) -> dict[str, float]:
    """The median over rounds of name/peer, with the quartiles."""
    ratios = sorted(a / b for a, b in zip(seconds[name], seconds[peer], strict=True))
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return {"median": round(middle, 3), "low": round(low, 3), "high": round(high, 3)}


def ratios(seconds: dict[str, list[float]], pairs: Sequence[str]) -> dict[str, dict[str, float]]:
    """Those of each `name/peer` that were measured, which are printed."""
    found = {pair: ratio(seconds, *pair.split("/")) for pair in pairs if set(pair.split("/")) <= set(seconds)}
    for pair, value in found.items():
        print(f"  {pair:22} {value['median']:.3f}  ({value['low']:.3f} to {value['high']:.3f})")
    return found


def command(*arguments: str) -> dict[str, float]:
    """`instruct ARGUMENTS` as a process: seconds, CPU seconds, and peak memory in GiB."""
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([sys.executable, "-m", "instruct", *arguments], stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        assert process.returncode == 0, said.read()[-2000:]
    found = {"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "gib": used.ru_maxrss / 2**20}
    return {name: round(value, 3) for name, value in found.items()}


def fresh(module: str, *arguments: Any, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """What `python -m benchmarks.MODULE --one ARGUMENTS` prints last, a JSON object, in a process of its own."""
    call = [sys.executable, "-m", f"benchmarks.{module}", "--one", *map(str, arguments)]
    done = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


class Server:
    """The local judge server as a process: its URL and its requests."""

    def __init__(self, folder: Path, latency: float) -> None:
        self._log, port = folder / "requests.jsonl", folder / "port"
        script = ROOT / "tests" / "engines" / "fake_server.py"
        self._process = subprocess.Popen([sys.executable, script, port, self._log, "{}", str(latency)])
        while not port.exists():
            assert self._process.poll() is None
            time.sleep(0.02)
        self.url = f"http://127.0.0.1:{port.read_text()}/v1"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def requests(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []


def product_rate(
    tokens: int, vocabulary: int, hidden: int, device: str, clock: Callable[[], float] = time.perf_counter
) -> float:
    """FLOP per second, by `clock`, of the logits' bfloat16 product in this shape: the best of three."""
    states = torch.randn(tokens, hidden, device=device, dtype=torch.bfloat16)
    weight = torch.randn(vocabulary, hidden, device=device, dtype=torch.bfloat16)
    best = 0.0
    for _ in range(3):
        synchronize()
        begun = clock()
        states @ weight.T
        synchronize()
        best = max(best, 2 * tokens * vocabulary * hidden / (clock() - begun))
    return best


def write_results(
    name: str, rows: list[dict[str, Any]], key: Sequence[str] = (), device: str | None = None, **about: Any
) -> Path:
    """benchmarks/results/NAME-DEVICE.json: the rows, the machine, versions, the time. The default device is this one.

    With a `key`, rows of an earlier run on the same machine and versions are kept unless a new row has the same key.
    """
    if device is None:
        device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu"
    path = RESULTS / f"{name}-{device.lower().replace(' ', '-')}.json"
    RESULTS.mkdir(parents=True, exist_ok=True)
    for row in rows:
        row["finished"] = now()
    where = {"machine": machine(), "threads": torch.get_num_threads(), "versions": versions()}
    if key and path.is_file():
        earlier = json.loads(path.read_text())
        if all(earlier[field] == value for field, value in where.items()):
            measured = {tuple(row.get(field) for field in key) for row in rows}
            rows += [row for row in earlier["rows"] if tuple(row.get(field) for field in key) not in measured]
    content = {
        "benchmark": name,
        "device": device,
        **where,
        "finished": now(),
        **about,
        "rows": rows,
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path.relative_to(ROOT)}")
    return path
