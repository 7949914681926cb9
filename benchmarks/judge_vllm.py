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
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, alternate, ratio, real_rows, write_results

AIM = 0.95  # of the rate of LLM.generate
CONTEXT = 2048


def generate_alone(model: str) -> None:
    """A process with a vLLM engine: reads a line of prompts, prints a line with the number of tokens written."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep the output of libraries out of the replies
    import vllm
    from vllm.platforms import current_platform

    on_a_cpu = {"dtype": "bfloat16", "enforce_eager": True} if current_platform.is_cpu() else {}
    llm = vllm.LLM(model, max_model_len=CONTEXT, generation_config="vllm", **on_a_cpu)
    for line in sys.stdin:
        asked = json.loads(line)
        params = vllm.SamplingParams(temperature=0, max_tokens=asked["max_tokens"])
        outputs = llm.generate([{"prompt_token_ids": ids} for ids in asked["prompts"]], params, use_tqdm=False)
        replies.write(f"{sum(len(output.outputs[0].token_ids) for output in outputs)}\n")
        replies.flush()


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
    parser.add_argument("--generate-alone", metavar="MODEL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.generate_alone:
        generate_alone(arguments.generate_alone)
        return

    from instruct.engines.vllm import VLLMEngine
    from instruct.judging.asking import Judge, engine_options
    from instruct.judging.cards import load_judge_card
    from instruct.judging.comparison import Comparison
    from instruct.judging.judge import judge_comparison
    from instruct.judging.options import JudgeOptions
    from instruct.judging.presentations import plan_comparison
    from instruct.judging.store import JudgmentStore
    from instruct.models import EMBEDDED_MODEL, model_path

    card = load_judge_card("autoj", model=EMBEDDED_MODEL)
    decoding = card.decoding.model_copy(update={"max_tokens": arguments.max_tokens})
    # In its own chat the model writes on to the limit; after the bare text it would stop at once.
    card = card.model_copy(update={"decoding": decoding, "context_length": CONTEXT, "prompt_form": "chat"})
    judge, engine = Judge(JudgeOptions(card="autoj", orders="one"), card), VLLMEngine(engine_options(card))
    pairs, source = answers(arguments.pairs, arguments.rounds + 1)
    plans = [plan_comparison(judge, *sides, engine) for sides in pairs]
    prompts = [[engine._token_ids(each.requests[0].prompt) for each in plan.presentations] for plan in plans]
    settings = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1"}
    alone = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.judge_vllm", "--generate-alone", model_path(EMBEDDED_MODEL)],
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
    tokens: dict[str, list[int]] = {"judging": [], "generate": []}

    def judging() -> None:
        ours, theirs = pairs[len(tokens["judging"])]
        with tempfile.TemporaryDirectory() as folder, JudgmentStore(Path(folder) / "judgments.sqlite") as store:
            judge_comparison(judge, ours, theirs, store, engine)
            keys = [judged.key for judged in store.judgments(Comparison(card.name, ours.name, theirs.name))]
            replies = store.completions(keys).values()
        assert len(replies) == arguments.pairs
        tokens["judging"].append(sum(reply.completion_tokens or 0 for reply in replies))

    def generate() -> None:
        request = {"prompts": prompts[len(tokens["generate"])], "max_tokens": arguments.max_tokens}
        print(json.dumps(request), file=asked, flush=True)
        tokens["generate"].append(int(answered.readline()))

    try:
        seconds = alternate({"judging": judging, "generate": generate}, arguments.rounds)
    finally:
        engine.close()
        asked.close()
        alone.wait()
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
