"""How fast prefixes are continued in vLLM, compared with `LLM.generate` alone on the same prefixes.

    python -m benchmarks.continuations

SmolLM2-135M continues prefixes of 20 words of real responses by unbiased samples of a fixed length, other prefixes
in each round. `continue_texts` is the whole call: tokenizing, seeds, batches, the journal, decoding to the letter, the
file. `generate` is one call with all prefixes as token ids, with vLLM's defaults and no seeds. Each engine has its own
process, they run alternately, and their start is not measured. A rate is the number of tokens written per second.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.harness import ROOT, alternate, ratio, real_rows, write_results

AIM = 0.95  # of the rate of LLM.generate
WORDS = 20


def generate_alone(model: str) -> None:
    """A process with a vLLM engine: reads a line of prompts, prints a line with the number of tokens written."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep the output of libraries out of the replies
    import vllm
    from vllm.platforms import current_platform

    on_a_cpu = {"dtype": "bfloat16", "enforce_eager": True} if current_platform.is_cpu() else {}
    llm = vllm.LLM(model, max_model_len=512, generation_config="vllm", **on_a_cpu)
    for line in sys.stdin:
        asked = json.loads(line)
        params = vllm.SamplingParams(temperature=1, max_tokens=asked["max_tokens"], ignore_eos=True)
        outputs = llm.generate([{"prompt_token_ids": ids} for ids in asked["prompts"]], params, use_tqdm=False)
        replies.write(f"{sum(len(output.outputs[0].token_ids) for output in outputs)}\n")
        replies.flush()


@contextmanager
def kept_engine() -> Iterator[None]:
    """One engine and one tokenizer for all calls, which `continue_texts` would load in each."""
    from transformers import AutoTokenizer

    from instruct.engines.start import make_engine
    from instruct.models import EMBEDDED_MODEL, model_path

    engines: list[Any] = []
    tokenizer = AutoTokenizer.from_pretrained(model_path(EMBEDDED_MODEL))

    def make(*arguments: Any, **more: Any) -> Any:
        if not engines:
            engines.append(make_engine(*arguments, **more))
            engines.append(engines[0].close)
            engines[0].close = lambda: None
        return engines[0]

    with (
        mock.patch("instruct.generation.batches.make_engine", make),
        mock.patch("transformers.AutoTokenizer.from_pretrained", return_value=tokenizer),
    ):
        try:
            yield
        finally:
            if engines:
                engines[1]()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefixes", type=int, default=128, help="a round")
    parser.add_argument("--tokens", type=int, default=80, help="of each continuation")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-write", action="store_true", help="print only")
    parser.add_argument("--generate-alone", metavar="MODEL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.generate_alone:
        generate_alone(arguments.generate_alone)
        return

    from transformers import AutoTokenizer

    from instruct.data.cards import Cut
    from instruct.data.prefixes import Prefix, PrefixSet
    from instruct.data.tokens import text_token_ids
    from instruct.generation.continuations import continue_texts, read_continuations
    from instruct.generation.options import ContinuationOptions
    from instruct.models import EMBEDDED_MODEL, ModelOptions, model_path

    rows, source = real_rows()
    texts = [" ".join(row["output"].split()[:WORDS]) for row in rows if len(row["output"].split()) >= WORDS]
    texts = list(dict.fromkeys(texts))[: arguments.prefixes * (arguments.rounds + 1)]
    rounds = [texts[start : start + arguments.prefixes] for start in range(0, len(texts), arguments.prefixes)]
    assert len(rounds) == arguments.rounds + 1, "too few texts; ask for fewer prefixes or rounds"
    assert {len(each) for each in rounds} == {arguments.prefixes}
    folder = model_path(EMBEDDED_MODEL)
    ids = [text_token_ids(AutoTokenizer.from_pretrained(folder), each) for each in rounds]
    options = ContinuationOptions(
        files=["-"], generation={"engine": "vllm", "max_new_tokens": arguments.tokens, "max_model_len": 512}
    )
    settings = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1"}
    alone = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.continuations", "--generate-alone", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        # The engine in the process itself, as in ours: where a second process held it, that would take a core of few.
        env={**settings, **os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
    )
    assert alone.stdin is not None
    assert alone.stdout is not None
    asked, answered = alone.stdin, alone.stdout
    tokens: dict[str, list[int]] = {"continue_texts": [], "generate": []}

    def ours() -> None:
        each = rounds[len(tokens["continue_texts"])]
        prefixes = PrefixSet("", [Prefix(str(i), text, None, "") for i, text in enumerate(each)], {}, Cut())
        with tempfile.TemporaryDirectory() as out:
            systems = {"base": (None, 1.0)}
            continue_texts(ModelOptions(name=EMBEDDED_MODEL), systems, prefixes, options, Path(out))
            written = read_continuations(Path(out) / "base.json")
        tokens["continue_texts"].append(sum(row.tokens or 0 for row in written))

    def generate() -> None:
        request = {"prompts": ids[len(tokens["generate"])], "max_tokens": arguments.tokens}
        print(json.dumps(request), file=asked, flush=True)
        tokens["generate"].append(int(answered.readline()))

    try:
        with kept_engine():
            seconds = alternate({"continue_texts": ours, "generate": generate}, arguments.rounds)
    finally:
        asked.close()
        alone.wait()
    expected = arguments.prefixes * arguments.tokens
    assert {count for counts in tokens.values() for count in counts} == {expected}
    row = {
        "model": "SmolLM2-135M",
        "prefixes_a_round": arguments.prefixes,
        "tokens": arguments.tokens,
        "tokens_a_second": {name: round(expected / statistics.median(seconds[name]), 1) for name in seconds},
        # A rate's ratio is that of the seconds, turned over.
        "ratios": {"continue_texts/generate": ratio(seconds, "generate", "continue_texts")},
        "aim": AIM,
    }
    for name, rate in row["tokens_a_second"].items():
        print(f"{name:14} {rate:8.1f} tokens a second")
    found = row["ratios"]["continue_texts/generate"]
    print(
        f"continue_texts/generate {found['median']:.3f}  ({found['low']:.3f} to {found['high']:.3f}); the aim is {AIM}"
    )
    if not arguments.no_write:
        write_results("continuations", [row], data=source, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
