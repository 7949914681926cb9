"""How fast a judge in vLLM writes its verdicts, compared with `LLM.generate` alone on the same prompts.

    python -m benchmarks.judge_vllm

SmolLM2-135M gets Auto-J's prompt, as a chat, about answers to real instructions, different ones in each round so that
no prompt is in a prefix cache. `judging` is a whole comparison: prompts are rendered and tokenized, and every reply
and verdict is committed to the store when it is finished. `generate` is one call with all prompts as token ids, with
vLLM's defaults. Each engine has its own process, they run alternately, and their start is not measured. A rate is the
number of tokens written per second.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.harness import alternate, ratio, real_rows, write_results
from benchmarks.plain_vllm import plain_vllm

AIM = 0.95  # of the rate of LLM.generate
CONTEXT = 2048


def answers(count: int, rounds: int) -> tuple[list[tuple[Any, Any]], str]:
    """`count` pairs of answers per round, without repeated instructions and the longest answers, and their source."""
    from instruct.judging.presentations import Answers

    rows, source = real_rows()
    first = {row["instruction"]: row["output"] for row in rows if not row.get("input") and len(row["output"]) < 600}
    second = list(first.values())[1:] + list(first.values())[:1]  # an answer to another question
    pairs = []
    for start in range(0, count * rounds, count):
        chosen = list(zip(first.items(), second, strict=True))[start : start + count]
        sides = [[(text, own) for (text, own), _ in chosen], [(text, other) for (text, _), other in chosen]]
        named = [
            Answers(name, [{"dataset": "", "instruction": text, "output": output} for text, output in side])
            for name, side in zip(("ours", "theirs"), sides, strict=True)
        ]
        pairs.append((named[0], named[1]))
    return pairs, source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=64, help="a round")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()

    from instruct.base.models import EMBEDDED_MODEL, model_path
    from instruct.engines.vllm import VLLMEngine
    from instruct.judging.asking import Judge, engine_options
    from instruct.judging.cards import load_judge_card
    from instruct.judging.comparison import ComparisonKey
    from instruct.judging.options import JudgeOptions
    from instruct.judging.presentations import plan_comparison
    from instruct.judging.store import JudgmentStore
    from instruct.judging.work import judge_plan

    card = load_judge_card("autoj", model=EMBEDDED_MODEL)
    decoding = card.decoding.model_copy(update={"max_tokens": arguments.max_tokens})
    # In its own chat the model writes on to the limit; after the bare text it would stop at once.
    card = card.model_copy(update={"decoding": decoding, "context_length": CONTEXT, "prompt_form": "chat"})
    judge, engine = Judge(JudgeOptions(card="autoj", orders="one"), card), VLLMEngine(engine_options(card))
    pairs, source = answers(arguments.pairs, arguments.rounds + 1)
    plans = [plan_comparison(judge, *sides, engine) for sides in pairs]
    prompts = [[engine._token_ids(each.requests[0].prompt) for each in plan.presentations] for plan in plans]
    tokens: dict[str, list[int]] = {"judging": [], "generate": []}

    def judging() -> None:
        ours, theirs = pairs[len(tokens["judging"])]
        with tempfile.TemporaryDirectory() as folder, JudgmentStore(Path(folder) / "judgments.sqlite") as store:
            judge_plan(judge, plan_comparison(judge, ours, theirs, engine), store, engine)
            keys = [judged.key for judged in store.judgments(ComparisonKey(card.name, ours.name, theirs.name))]
            replies = store.completions(keys).values()
        assert len(replies) == arguments.pairs
        tokens["judging"].append(sum(reply.completion_tokens or 0 for reply in replies))

    def generate() -> None:
        tokens["generate"].append(plain(prompts[len(tokens["generate"])], arguments.max_tokens))

    with plain_vllm(model_path(EMBEDDED_MODEL), CONTEXT, temperature=0) as plain, closing(engine):
        seconds = alternate({"judging": judging, "generate": generate}, arguments.rounds)
    a_token = {
        name: [took / count for took, count in zip(seconds[name], tokens[name][1:], strict=True)] for name in seconds
    }
    row = {
        "model": "SmolLM2-135M",
        "pairs_a_round": arguments.pairs,
        "max_tokens": arguments.max_tokens,
        "tokens_a_round": {name: round(statistics.mean(counts[1:])) for name, counts in tokens.items()},
        "tokens_a_second": {name: round(1 / statistics.median(values), 1) for name, values in a_token.items()},
        # A rate's ratio is that of the seconds a token, turned over.
        "ratios": {"judging/generate": ratio(a_token, "generate", "judging")},
        "aim": AIM,
    }
    for name, rate in row["tokens_a_second"].items():
        print(f"{name:10} {rate:8.1f} tokens a second, {row['tokens_a_round'][name]} a round")
    found = row["ratios"]["judging/generate"]
    print(f"judging/generate {found['median']:.3f}  ({found['low']:.3f} to {found['high']:.3f}); the aim is {AIM}")
    if not arguments.no_write:
        write_results("judge-vllm", [row], data=source, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
