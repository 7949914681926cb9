"""How fast prefixes are continued in vLLM, compared with `LLM.generate` alone on the same prefixes.

    python -m benchmarks.continuations

SmolLM2-135M continues prefixes of 20 words of real responses by unbiased samples of a fixed length, other prefixes
in each round. `continue_texts` is the whole call: tokenizing, seeds, batches, the journal, decoding to the letter, the
file. `generate` is one call with all prefixes as token ids, with vLLM's defaults and no seeds. Each engine has its own
process, they run alternately, and their start is not measured. A rate is the number of tokens written per second.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.harness import alternate, ratio, real_rows, write_results
from benchmarks.plain_vllm import plain_vllm

AIM = 0.95  # of the rate of LLM.generate
WORDS = 20


@contextmanager
def kept_engine() -> Iterator[None]:
    """One engine and one tokenizer for all calls, which `continue_texts` would load in each."""
    from transformers import AutoTokenizer

    from instruct.base.models import EMBEDDED_MODEL, model_path
    from instruct.engines.start import make_engine

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
    arguments = parser.parse_args()

    from transformers import AutoTokenizer

    from instruct.base.models import EMBEDDED_MODEL, ModelOptions, model_path
    from instruct.data.cards import Cut
    from instruct.data.prefixes import Prefix, PrefixSet
    from instruct.data.tokens import text_token_ids
    from instruct.generation.continuations import continue_texts, read_continuations
    from instruct.generation.options import ContinuationOptions

    rows, source = real_rows()
    texts = [" ".join(row["output"].split()[:WORDS]) for row in rows if len(row["output"].split()) >= WORDS]
    texts = list(dict.fromkeys(texts))[: arguments.prefixes * (arguments.rounds + 1)]
    rounds = [texts[start : start + arguments.prefixes] for start in range(0, len(texts), arguments.prefixes)]
    assert len(rounds) == arguments.rounds + 1, "too few texts; ask for fewer prefixes or rounds"
    assert {len(each) for each in rounds} == {arguments.prefixes}
    folder = model_path(EMBEDDED_MODEL)
    ids = [text_token_ids(AutoTokenizer.from_pretrained(folder), each) for each in rounds]
    generation = {"engine": "vllm", "max_new_tokens": arguments.tokens, "max_model_len": 512}
    options = ContinuationOptions.model_validate({"files": ["-"], "generation": generation})
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
        tokens["generate"].append(plain(ids[len(tokens["generate"])], arguments.tokens))

    with plain_vllm(folder, 512, temperature=1, ignore_eos=True) as plain, kept_engine():
        seconds = alternate({"continue_texts": ours, "generate": generate}, arguments.rounds)
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
