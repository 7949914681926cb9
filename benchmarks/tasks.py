"""Few-shot tasks: rows a second here and by lm-evaluation-harness, on the same prompts, scores equal to 1e-3.

    OMP_NUM_THREADS=1 python -m benchmarks.tasks --folder FOLDER

FOLDER contains the files that the cards' `local` sections name. Both score 8-shot TREC (labels of several tokens) and
5-shot MMLU (labels of one token) with SmolLM2-135M in float32 under the rule `sum`: `lm_eval` on its own model in
batches of 8, `ours` as `instruct evaluate`.
What either needs before the first row (loading, retrieving, lm-eval's index of tasks) is not measured; building and
tokenizing the prompts is.

Where the gain comes from: lm-eval computes a prompt once for all labels of one token, but once for each label of
several, as in TREC. Here it is once in both cases; and MMLU's fixed demonstrations are computed once for all rows of a
subject that follow each other. MMLU's rows are the first of one subject, far fewer than the 246 of a whole one.

Seconds are those of CPU time in all threads of this process, because the machine may be shared.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import alternate, ratio, write_results

AIM = 3.0  # times lm-eval's rows a second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()

    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM

    from instruct.base.models import EMBEDDED_MODEL, ModelOptions
    from instruct.engines.forward import open_model
    from instruct.engines.transformers import TransformersEngine
    from instruct.measuring.tasks.harness import Harness
    from instruct.measuring.tasks.lm import EngineLM, Replies
    from instruct.measuring.tasks.options import TaskOptions

    model = open_model(ModelOptions(name=EMBEDDED_MODEL, dtype="float32"))
    options = TaskOptions(cards=["trec", "mmlu"], folder=arguments.folder, rule="sum")
    asked = replace(model.engine.options, tokenizer=model.tokenizer, context_length=model.context, batch=8)
    harness = Harness(options)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, model.engine.adapted(None) as network:
        theirs = HFLM(pretrained=network, tokenizer=model.tokenizer, batch_size=8)
        for part in harness.parts:
            task = harness.load(part)
            assert task
            dataset = task.dataset[task.config.test_split]
            task.dataset[task.config.test_split] = dataset.select(range(arguments.rows))
            found: dict[str, Any] = {}

            def scored(lm: Any, place: str, task: Any = task, found: dict[str, Any] = found) -> None:
                result = simple_evaluate(lm, tasks=[task], bootstrap_iters=0)
                found[place] = [
                    [float(reply[0]) for reply in sample["filtered_resps"]]
                    for sample in result["samples"][task.config.task]
                ]

            def ours(scored: Any = scored) -> None:
                replies = Path(folder) / "replies.jsonl"
                with contextlib.closing(Replies(replies)) as kept:
                    engine = TransformersEngine(asked)
                    engine.network = network
                    lm = EngineLM(engine, options, "ours", model.tokenizer, None, model.context)
                    scored(lm.keep(kept), "ours")
                replies.unlink()

            timed: dict[str, Callable[[], Any]] = {"ours": ours, "lm_eval": partial(scored, theirs, "theirs")}
            seconds = alternate(timed, arguments.rounds, time.process_time)
            assert np.allclose(found["ours"], found["theirs"], atol=1e-3), "not lm-eval's scores"
            rates = {each: arguments.rows / statistics.median(values) for each, values in seconds.items()}
            rows.append(
                {
                    "task": task.config.task,
                    "shots": task.config.num_fewshot,
                    "rows": arguments.rows,
                    "labels": len(task.config.doc_to_choice),
                    "rows_per_cpu_second": {each: round(rate, 3) for each, rate in rates.items()},
                    "speedup": ratio(seconds, "lm_eval", "ours"),
                    "seconds": {each: [round(value, 3) for value in values] for each, values in seconds.items()},
                    "aim": AIM,
                }
            )
            print(rows[-1])
    if not arguments.no_write:
        print(write_results("tasks", rows, clock="CPU time"))


if __name__ == "__main__":
    main()
