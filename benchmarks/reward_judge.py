"""How many tokens a second a reward model judges, compared with the bare model's forward on the same batches.

    OMP_NUM_THREADS=1 python -m benchmarks.reward_judge --model tiny
    OMP_NUM_THREADS=1 python -m benchmarks.reward_judge --model smollm2 --pairs 805

`judging` is a whole comparison in the transformers engine: chats are rendered and tokenized, sorted by length, padded
and scored, and every score and verdict is committed to the store. `forward` calls the model that transformers loads
with the padded ids and masks of the same batches, made beforehand. Both are in this process, run alternately, and load
their weights before they are measured. The scores must be equal. Tokens are counted without padding.
`share_in_the_model` is the share of judging's own time that is spent computing scores.

`smollm2` is SmolLM2-135M with a random head, `tiny` a Qwen3 of 4 layers and hidden size 128 with SmolLM2's tokenizer,
which shows what is spent around the model. On a CPU, which may be shared, seconds are those of CPU time in all threads
of this process; on a GPU they are seconds of the clock.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import alternate, ratio, real_rows, write_results

AIM = 0.95  # of the rate of the bare forward


def reward_model(name: str, folder: Path) -> None:
    """Save a reward model with a random head, and SmolLM2's tokenizer."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, Qwen3Config

    from instruct.base.models import EMBEDDED_MODEL, model_path

    base = model_path(EMBEDDED_MODEL)
    tokenizer = AutoTokenizer.from_pretrained(base)
    torch.manual_seed(0)
    if name == "smollm2":
        network = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1, dtype=torch.float32)
        network.config.pad_token_id = tokenizer.pad_token_id
    else:
        config = Qwen3Config(
            vocab_size=len(tokenizer), hidden_size=128, intermediate_size=384, num_hidden_layers=4, head_dim=32,
            num_attention_heads=4, num_key_value_heads=2, num_labels=1, pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
        )  # fmt: skip
        network = AutoModelForSequenceClassification.from_config(config)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def sides(count: int) -> tuple[list[Any], str]:
    """Two systems' answers to `count` instructions, the second answer being one to another question; their source."""
    from instruct.judging.presentations import Answers

    rows, source = real_rows()
    chosen = list({row["instruction"]: row["output"] for row in rows if not row.get("input")}.items())[:count]
    answers = [output for _, output in chosen]
    return [
        Answers(name, [{"dataset": "", "instruction": text, "output": output} for (text, _), output in found])
        for name, found in (
            ("ours", list(zip(chosen, answers, strict=True))),
            ("theirs", list(zip(chosen, answers[1:] + answers[:1], strict=True))),
        )
    ], source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["tiny", "smollm2"], default="smollm2")
    parser.add_argument("--pairs", type=int, default=805)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()

    from transformers import AutoModelForSequenceClassification

    from instruct.engines.network import padded
    from instruct.engines.rewards import RewardEngine
    from instruct.judging.asking import Judge
    from instruct.judging.cards import load_judge_card
    from instruct.judging.comparison import ComparisonKey
    from instruct.judging.options import JudgeOptions
    from instruct.judging.presentations import plan_comparison
    from instruct.judging.store import JudgmentStore
    from instruct.judging.work import judge_plan

    with tempfile.TemporaryDirectory() as model, tempfile.TemporaryDirectory() as runs:
        reward_model(arguments.model, Path(model))
        card = load_judge_card("skywork_reward", model=model)
        options = JudgeOptions(card=card.name, engine="transformers", dtype=arguments.dtype)
        judge = Judge(options, card)
        (ours, theirs), source = sides(arguments.pairs)
        with judge.open() as engine:
            assert isinstance(engine, RewardEngine)
            engine.start()
            device = engine.network.device
            clock = time.process_time if device.type == "cpu" else time.perf_counter
            bare = AutoModelForSequenceClassification.from_pretrained(model, dtype=getattr(torch, arguments.dtype))
            bare = bare.to(device).eval()
            plan = plan_comparison(judge, ours, theirs, engine)
            requests = {request.key: request for each in plan.presentations for request in each.requests}
            keys = list(requests)
            texts = engine._texts([requests[key].prompt for key in keys])
            tokens = sum(len(text.ids) for text in texts)
            parts = engine._batches([len(text.ids) for text in texts], device.type)
            batches = [
                [tensor.to(device) for tensor in padded([texts[index].ids for index in places], engine.pad or 0)]
                for places in parts
            ]
            found: dict[str, dict[str, float]] = {}
            stores = iter(range(arguments.rounds + 1))

            compute, shares = engine._scores, []

            def judging() -> None:
                inside = 0.0

                def scores(texts: list[Any]) -> list[float]:
                    nonlocal inside
                    begun = clock()
                    found = compute(texts)
                    inside += clock() - begun
                    return found

                engine._scores = scores  # type: ignore[method-assign]
                begun = clock()
                with JudgmentStore(Path(runs) / f"{next(stores)}.sqlite") as store:
                    judge_plan(judge, plan_comparison(judge, ours, theirs, engine), store, engine)
                    judgments = store.judgments(ComparisonKey(card.name, ours.name, theirs.name))
                    used = [key for judgment in judgments for key in judgment.key.split()]
                    replies = store.completions(used)
                shares.append(inside / (clock() - begun))
                found["judging"] = {key: float(reply.text) for key, reply in replies.items()}

            def forward() -> None:
                with torch.inference_mode():
                    scores = [
                        value
                        for ids, mask in batches
                        for value in bare(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, 0].tolist()
                    ]
                found["forward"] = dict(zip((keys[index] for part in parts for index in part), scores, strict=True))

            seconds = alternate({"judging": judging, "forward": forward}, arguments.rounds, clock)
        assert found["judging"].keys() == found["forward"].keys()
        apart = max(abs(found["judging"][key] - found["forward"][key]) for key in keys)

    assert apart < (1e-3 if arguments.dtype == "float32" else 0.1), f"the scores differ by {apart}"
    median = {name: statistics.median(values) for name, values in seconds.items()}
    padding = sum(ids.numel() for ids, _ in batches) / tokens
    row = {
        "model": arguments.model,
        "dtype": arguments.dtype,
        "pairs": arguments.pairs,
        "texts": len(keys),
        "seconds": "of CPU time" if device.type == "cpu" else "of the clock",
        "tokens": tokens,
        "computed_for_each_token": round(padding, 3),
        "tokens_a_second": {name: round(tokens / value, 1) for name, value in median.items()},
        # A rate's ratio is that of the seconds, turned over.
        "ratios": {"judging/forward": ratio(seconds, "forward", "judging")},
        # Within the same run, so that it hardly depends on what else the machine does.
        "share_in_the_model": round(statistics.median(shares[1:]), 4),
        "largest_difference_of_scores": apart,
        "aim": AIM,
        "rounds": arguments.rounds,
    }
    for name, rate in row["tokens_a_second"].items():
        print(f"{name:8} {rate:9.1f} tokens a second")
    ratios = row["ratios"]["judging/forward"]
    print(
        f"judging/forward {ratios['median']:.3f}  ({ratios['low']:.3f} to {ratios['high']:.3f}); the aim is {AIM}; "
        f"{len(keys)} texts, {tokens} tokens, {padding:.3f} computed for each; "
        f"{row['share_in_the_model']:.4f} of judging is in the model; scores differ by at most {apart:.1e}"
    )
    if not arguments.no_write:
        write_results("reward-judge", [row], key=("model", "dtype"), data=source)


if __name__ == "__main__":
    main()
