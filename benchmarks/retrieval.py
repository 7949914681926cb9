"""What retrieval alone reaches on few-shot tasks: the vote of a row's demonstrations, without a model, by retriever.

    python -m benchmarks.retrieval --folder FOLDER --retrievers tfidf all-mpnet-base-v2

FOLDER contains the files that the cards' `local` sections name; a retriever is `tfidf`, or a sentence encoder as in
`evaluation.tasks.retriever` (needs sentence-transformers). Printed and written for all test rows, and for the 200 that
`evaluation.tasks.limit: 200` draws.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.harness import write_results
from instruct.analysis.inference import wilson_interval

TASKS = ["tweet_emotion", "sst2", "trec", "subj", "rt"]
DRAWN = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--retrievers", nargs="+", default=["tfidf"])
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()

    from instruct.measuring.tasks.harness import Harness
    from instruct.measuring.tasks.options import TaskOptions

    rows: list[dict[str, Any]] = []
    for retriever in arguments.retrievers:
        harness = Harness(TaskOptions(cards=arguments.tasks, folder=arguments.folder, retriever=retriever))
        for part in harness.parts:
            task = harness.load(part)
            assert task
            shots = task.config.num_fewshot
            drawn = {place for place, _ in task.doc_iterator(limit=DRAWN)}
            right = [task.vote(doc, shots) == int(doc["label"]) for doc in task.eval_docs]
            known = [right[place] for place in drawn]
            row: dict[str, Any] = {"task": task.config.task, "retriever": Path(retriever).name, "shots": shots}
            for name, votes in (("all", right), ("drawn", known)):
                interval = wilson_interval(sum(votes), len(votes))
                assert interval
                low, high = interval
                figures = {"rows": len(votes), "floor": 100 * sum(votes) / len(votes), "low": low, "high": high}
                row[name] = {key: round(value, 1) for key, value in figures.items()}
            print(row)
            rows.append(row)
    if not arguments.no_write:
        write_results("retrieval", rows, key=("task", "retriever"))


if __name__ == "__main__":
    main()
