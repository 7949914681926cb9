"""The few-shot tasks of the EMO paper: what lm-eval lacks for Tables 3 and 6 to 8 and Figure 1.

Not a recipe by itself. The demonstrations that are most similar to a row are a column of it, as lm-eval's tasks have
rows; the label is chosen by OpenICL's rule. The floor: what the vote of the demonstrations' labels reaches by itself.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from instruct.base.errors import InputError, one_line
from instruct.base.files import write_atomically
from instruct.config import ExperimentConfig
from instruct.measuring.options import TaskOptions
from instruct.measuring.task_cards import read_task
from instruct.measuring.tasks import Harness, evaluate_tasks, refusing
from instruct.phases import PHASES
from instruct.phases.experiment import run_experiment, run_folder, settle_dtype
from instruct.phases.systems import system_folders
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Metrics, read_metrics

TASKS = ("tweet_emotion", "sst2", "trec", "subj", "cr", "rt", "ag_news", "mmlu_ppl")
SMALL_TASKS, SMALL_LIMIT = ("tweet_emotion", "sst2", "trec", "subj", "rt", "mmlu_ppl"), 200
TFIDF = "tfidf"
FLAGS: dict[str, dict[str, Any]] = {
    "tasks": {"metavar": "NAMES", "help": "cards or YAML files of tasks with labels, separated by commas"},
    "limit": {"metavar": "N", "type": int, "help": "rows of each task, drawn at random, the same for every system"},
    "retriever": {"default": TFIDF, "help": "finds demonstrations: tfidf, or an encoder for sentence-transformers"},
}


def measured_tasks(config: ExperimentConfig, arguments: argparse.Namespace) -> Metrics:
    """Train the systems of a config, ask them the tasks, and report, as far as the call says; what was measured.

    Raises:
        InputError: the experiment cannot be run, or a task cannot be read.
    """
    config = settle_dtype(config)
    phases = PHASES[PHASES.index(arguments.first) : PHASES.index(arguments.last) + 1]
    if "train" in phases:
        run_experiment(config, dry_run=arguments.dry_run, last="train")
    if arguments.dry_run:
        return Metrics()
    run = RunDirectory(run_folder(config.name))
    if "evaluate" in phases:
        # The whole of each task, or fewer tasks and rows where the config is for a machine without a GPU.
        tasks, limit = (TASKS, None) if config.needs_gpu else (SMALL_TASKS, SMALL_LIMIT)
        tasks, limit = arguments.tasks.split(",") if arguments.tasks else tasks, arguments.limit or limit
        files = [write_task(name, run.folder / "tasks", limit, arguments.retriever) for name in tasks]
        options = TaskOptions(names=list(map(str, files)))
        evaluate_tasks(options, run, config.model, system_folders(config.systems, run), make=openicl)
    if "report" in phases:
        run_experiment(config, first="report")
    return read_metrics(run)


def accuracies(metrics: Metrics) -> dict[str, dict[str, float]]:
    """The accuracies in percent, by system and task."""
    return {
        system: {task: 100 * (row.value or 0.0) for task, row in rows.items()} for system, rows in metrics.tasks.items()
    }


def floors(config: ExperimentConfig) -> dict[str, float]:
    """By task, the percentage of a run's rows whose label most of their demonstrations have, where these are chosen."""
    found = {}
    for path in sorted((run_folder(config.name) / "tasks").glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if None not in (votes := [row["vote"] for row in rows]):
            found[path.stem] = 100 * sum(map(int.__eq__, votes, (row["label"] for row in rows))) / len(rows)
    return found


def write_task(name: str, folder: Path, limit: int | None, retriever: str) -> Path:
    """Write a task with labels as a YAML file of lm-eval, and its rows, each with its demonstrations.

    The card's `metadata`: `nearest_by`, the column by whose text demonstrations are chosen (default: the first rows),
    `group`, a column in which they have the same value, `share`, of the rows that they are from, from the beginning.

    Raises:
        InputError: the task cannot be read, or has too few rows.
    """
    card = read_task(name)
    task = Harness(TaskOptions(names=[name])).load(card.name)
    from lm_eval.utils import apply_template

    with refusing(name):
        rows, pool = list(task.eval_docs), list(task.fewshot_docs())
        kept = np.random.default_rng(0).permutation(len(rows))[:limit]
        rows = [rows[place] for place in sorted(kept.tolist())]
        pool = pool[: max(1, round(card.about.get("share", 1) * len(pool)))]
        choices, shots = list(task.config.doc_to_choice), int(task.config.num_fewshot or 0)
        column, group = card.about.get("nearest_by"), card.about.get("group")
        nearest = nearest_of([str(row[column]) for row in pool], retriever) if column else None
        lines = []
        for row in rows:
            known = [other for other in pool if group is None or other[group] == row[group]]
            if nearest:
                known = [pool[place] for place in nearest(str(row[column]), shots)]
            if len(known) < shots:
                raise InputError(f"task {name}: has {len(known)} rows for {shots} demonstrations")
            labels = [int(task.doc_to_target(other)) for other in known[:shots]]
            shown = zip(map(task.doc_to_text, known), labels, strict=False)
            texts = [f"{text}{task.config.target_delimiter}{choices[label]}" for text, label in shown]
            before = [apply_template(task.config.description, row) or "", *texts]
            begun = before[0] + "".join(f"{text}{task.config.fewshot_delimiter}" for text in texts)
            vote = Counter(labels).most_common(1)[0][0] if nearest else None
            content = {"text": begun + task.doc_to_text(row), "label": int(task.doc_to_target(row)), "vote": vote}
            lines.append(json.dumps(content, ensure_ascii=False) + "\n")
    data = folder / f"{card.name}.jsonl"
    write_atomically(data, "".join(lines))
    content = {
        "task": card.name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{text}}",
        "doc_to_choice": choices,
        "doc_to_target": "label",
        "num_fewshot": 0,
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
    write_atomically(folder / f"{card.name}.yaml", yaml.safe_dump(content, sort_keys=False))
    return folder / f"{card.name}.yaml"


def openicl(**arguments: Any) -> Any:
    """lm-eval's model whose log-likelihood is that of all tokens but the first, for which there is no prediction,
    divided by the number of all tokens, as in OpenICL's PPLInferencer (Wu et al., 2023)."""
    from lm_eval.models.huggingface import HFLM

    class OpenICL(HFLM):
        def _loglikelihood_tokens(self, requests: Any, disable_tqdm: bool = False, **more: Any) -> list[Any]:
            texts = [(before + after)[-(self.max_length + 1) :] for _, before, after in requests]
            whole = [(None, text[:1], text[1:]) for text in texts]
            values = super()._loglikelihood_tokens(whole, disable_tqdm=disable_tqdm)
            return [(total / len(text), greedy) for text, (total, greedy) in zip(texts, values, strict=True)]

    return OpenICL(**arguments)


def nearest_of(texts: Sequence[str], retriever: str) -> Callable[[str, int], list[int]]:
    """A function to the places of the most similar texts, most similar first, of equally similar ones the first.

    TF-IDF is over words and pairs of words with logarithmic counts.

    Raises:
        InputError: an encoder cannot be loaded.
    """
    if retriever == TFIDF:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        known = vectorizer.fit_transform(texts).T.tocsr()
        return lambda text, count: _largest((vectorizer.transform([text]) @ known).toarray()[0], count)
    try:
        from sentence_transformers import SentenceTransformer

        encoder = SentenceTransformer(retriever)
    except Exception as error:  # the hub's client raises its own, httpx's and the system's errors
        reason = one_line(error, 140) or type(error).__name__
        raise InputError(
            f"retriever {retriever}: cannot be loaded ({reason}); give a folder or a hub id, and install "
            "sentence-transformers"
        ) from None
    vectors = encoder.encode(list(texts), normalize_embeddings=True)
    return lambda text, count: _largest(vectors @ encoder.encode(text, normalize_embeddings=True), count)


def _largest(values: np.ndarray, count: int) -> list[int]:
    """The places of the largest values, the largest first, of equal ones the first."""
    return [int(place) for place in np.argsort(-values, kind="stable")[:count]]
