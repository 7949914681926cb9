"""A task of lm-evaluation-harness whose rows have labels: demonstrations that are chosen for each row, and their vote.

A YAML file names it by `class: !function instruct.measuring.tasks.few_shot.FewShot`; `lm_eval` runs it, too, and prints
the metric `acc`. Imports lm-eval, which may not be installed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from lm_eval.api.task import ConfigurableTask
from pydantic import Field

from instruct.analysis.clusters import numbered, row_clusters
from instruct.analysis.inference import clustered_interval, share, wilson_interval
from instruct.base.cards import validated
from instruct.base.errors import InputError, one_line
from instruct.measuring.tasks.cards import Rule
from instruct.measuring.tasks.rows import LocalRows, RowOptions, TaskRowReader
from instruct.run.measurements import PartResult, numbers

TFIDF = "tfidf"
_SEED = 0
_DEFAULTS: Mapping[str, Any] = {
    "output_type": "multiple_choice",
    "test_split": "test",
    "fewshot_split": "train",
    "fewshot_delimiter": "\n",
    "doc_to_target": "label",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}


class About(RowOptions):
    """The `metadata` of a task."""

    rule: Rule = "sum"
    """`sum`: the most probable label, as lm-eval's `acc`; `openicl`: that with the lowest loss of the whole prompt."""
    nearest_by: str | None = None
    """Demonstrations have the most similar text in this column, most similar first (default: by fewshot_config)."""
    group: str | None = None
    """Demonstrations come from rows with the same value in this column."""
    cluster_column: str | None = None
    """Rows with the same value in this column are a cluster (default: those with the same passage or question)."""
    share: float = Field(default=1.0, gt=0, le=1)
    """Only this share of the demonstrations' split, from its beginning."""
    macro_f1: bool = False
    """It is reported in addition to the accuracy."""
    variants: dict[str, dict[str, Any]] = {}
    """Other wordings, by name: keys of lm-eval that are replaced."""
    local: LocalRows | None = None
    """The same rows as files in `folder`, used if that is set."""
    folder: str | None = None
    """Where the files are."""
    variant: str | None = None
    """The variant that is used, if the task has it."""
    retriever: str = TFIDF
    """Finds similar rows: `tfidf`, or a sentence encoder for the package sentence-transformers."""
    description: str = ""
    """One line for people."""
    licence: str = ""
    """Of the data."""
    citation: str | None = None
    """Where the task comes from."""
    notes: str | None = None
    """For people who read the file."""
    version: Any = None
    """Of the task."""
    config_source: str = ""
    """Where lm-eval found the task."""


class FewShot(ConfigurableTask):
    """A task with labels; see `About` for what its `metadata` says.

    `fits`: whether a text fits the model's context. Demonstrations that do not fit are left out from the last on, the
    least similar one, as in OpenICL; `shots`: those that a prompt has. Without it, lm-eval cuts the beginning.
    """

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        content = {key: value for key, value in {**_DEFAULTS, **(config or {})}.items() if key != "class"}
        self.about = validated(About, content.get("metadata") or {}, f"task {content.get('task')}: metadata")
        content |= self.about.variants.get(self.about.variant or "", {})
        self._rows_from: RowOptions = self.about
        if self.about.folder and (local := self.about.local):
            self._rows_from = local
            content |= {"dataset_path": local.dataset_path, "dataset_kwargs": local.dataset_kwargs}
            content["dataset_name"] = None
        if self.about.nearest_by:
            content["fewshot_config"] = {**(content.get("fewshot_config") or {}), "sampler": "first_n"}
        self.fits: Callable[[str], bool] = lambda text: True
        self.shots: dict[str, int] = {}
        super().__init__(config=content)

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **more: Any) -> None:
        """Called by lm-eval."""
        from datasets import Dataset

        config = self.config
        source = {key: config[key] for key in ("dataset_path", "dataset_name", "dataset_kwargs")}
        if not isinstance(config.doc_to_choice, list) or len(set(config.doc_to_choice)) < 2:
            raise InputError(f"task {config.task}: doc_to_choice must be a list of at least two different texts")
        reader = TaskRowReader(config.task, self._rows_from, source, self.about.folder, config.doc_to_choice)
        splits = dict.fromkeys((config.test_split, config.fewshot_split))
        self.dataset = {split: Dataset.from_list(reader.rows(split, self._text)) for split in splits}

    @property
    def _text(self) -> str:
        return self.about.nearest_by or "text"

    @cached_property
    def pool(self) -> list[dict[str, Any]]:
        """The rows that demonstrations are chosen from."""
        rows = list(self.fewshot_docs())
        return rows[: max(1, round(self.about.share * len(rows)))]

    def demonstrations(self, doc: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
        """At least `count` rows to choose from for a test row, the best first.

        Raises:
            InputError: there are fewer.
        """
        about, pool = self.about, self.pool
        if about.group:
            pool = [row for row in pool if row[about.group] == doc[about.group]]
        count += self.fewshot_cfg.split == self.config.test_split  # lm-eval leaves out the row itself
        if len(pool) < count:
            raise InputError(f"task {self.config.task}: has {len(pool)} rows for {count} demonstrations; lower shots")
        if not about.nearest_by:
            return pool
        return [self.pool[place] for place in self._nearest(str(doc[about.nearest_by]), count)]

    @cached_property
    def _nearest(self) -> Callable[[str, int], list[int]]:
        return nearest_of([str(row[self._text]) for row in self.pool], self.about.retriever)

    def fewshot_context(self, doc: dict[str, Any], num_fewshot: int, **more: Any) -> Any:
        """Called by lm-eval: the prompt of a row."""
        demonstrations = self.demonstrations(doc, num_fewshot) if num_fewshot else []
        longest = max(self.doc_to_choice(doc), key=len)
        for shots in range(num_fewshot, -1, -1):
            self.sampler.replace_df(demonstrations)
            context = super().fewshot_context(doc, shots, **more)
            if self.fits(f"{context}{self.config.target_delimiter}{longest}"):
                break
        self.shots[context] = shots
        return context

    def doc_iterator(self, *, limit: int | None = None, **more: Any) -> Iterator[tuple[int, Any]]:
        """Called by lm-eval: of a limited task, rows drawn at random, because many files are sorted by label."""
        count = len(self.eval_docs)
        kept = set(np.random.default_rng(_SEED).permutation(count)[: limit or count].tolist())
        return (row for row in super().doc_iterator(**more) if row[0] in kept)

    def vote(self, doc: Mapping[str, Any], shots: int) -> int | None:
        """The label that most demonstrations have; of several, that of the nearest one; None if they are fixed."""
        if not self.about.nearest_by or not shots:
            return None
        return Counter(row["label"] for row in self.demonstrations(doc, shots)[:shots]).most_common(1)[0][0]

    def in_training(self, docs: Sequence[Mapping[str, Any]]) -> int:
        """How many rows are among the demonstrations' split, word for word."""

        def words(row: Mapping[str, Any]) -> tuple[str, ...]:
            return tuple(" ".join(str(value).split()) for name, value in row.items() if name != "label")

        known = set(map(words, self.fewshot_docs()))
        return sum(words(row) in known for row in docs)

    def result(self, samples: Sequence[Mapping[str, Any]]) -> PartResult:
        """The accuracy; by row its place in the split, label, answer, scores, shots, the vote of the demonstrations'
        labels, and where rows are clusters the first row of each one's. Rates are percentages.

        The details: `right` of the test rows, of which `of` exist; `floor`: the accuracy of the vote, None for fixed
        demonstrations; `most_frequent`: of always answering the test rows' most frequent label; `in_training`: test
        rows that are among the demonstrations' split, word for word; `shortened`: rows whose prompt did not fit the
        context with all demonstrations, `dropped` demonstrations in all; `answers`: how often each label was the
        answer; `clusters` of rows, if there are fewer than rows.

        Args:
            samples: lm-eval's, in order.
        """
        about = self.about
        names = [str(choice).strip(" .") for choice in self.config.doc_to_choice]
        gold = [int(sample["target"]) for sample in samples]
        scores = [[float(score) for score, _ in sample["filtered_resps"]] for sample in samples]
        answers = [values.index(max(values)) for values in scores]
        shots = [self.shots[sample["arguments"][0][0]] for sample in samples]
        wanted = self.config.num_fewshot
        votes = [self.vote(sample["doc"], wanted) for sample in samples]
        right, count = sum(map(int.__eq__, answers, gold)), len(gold)
        figures = {"accuracy": 100 * right / count}
        if about.macro_f1:
            from sklearn.metrics import f1_score

            labels = list(range(len(names)))
            figures["macro_f1"] = 100 * float(f1_score(gold, answers, labels=labels, average="macro", zero_division=0))
        docs = {sample["doc_id"]: sample["doc"] for sample in samples}
        clusters = row_clusters(docs, {id: self.doc_to_text(doc) for id, doc in docs.items()}, about.cluster_column)
        accuracy, *others = numbers(
            figures,
            count,
            task=self.config.task,
            variant=about.variant if about.variant in about.variants else None,
            rule=about.rule,
            shots=wanted,
            retriever=about.retriever if about.nearest_by else None,
            of=len(self.eval_docs),
            right=right,
            floor=100 * sum(vote == label for vote, label in zip(votes, gold, strict=True)) / count
            if None not in votes
            else None,
            most_frequent=100 * Counter(gold).most_common(1)[0][1] / count,
            in_training=self.in_training([sample["doc"] for sample in samples]),
            shortened=sum(number < wanted for number in shots),
            dropped=sum(wanted - number for number in shots),
            answers={name: answers.count(place) for place, name in enumerate(names)},
            **({"clusters": len(set(clusters.values()))} if clusters else {}),
        )
        accuracy.interval = wilson_interval(right, count)
        if clusters:
            counts = np.array([[answer == label, 1] for answer, label in zip(answers, gold, strict=True)], dtype=float)
            accuracy.interval = clustered_interval(share, counts, numbered(clusters.values()))
        columns: dict[str, Sequence[Any]] = {
            "id": [sample["doc_id"] for sample in samples],
            "label": [names[label] for label in gold],
            "answer": [names[label] for label in answers],
            "scores": [[round(value, 6) for value in values] for values in scores],
            "shots": shots,
        }
        if clusters:
            columns["cluster"] = [str(clusters[id]) for id in columns["id"]]
        return PartResult([accuracy, *others], columns)


def nearest_of(texts: Sequence[str], retriever: str = TFIDF) -> Callable[[str, int], list[int]]:
    """A function to the places of the most similar texts, most similar first, of equally similar ones the first.

    TF-IDF is over words and pairs of words with logarithmic counts.

    Raises:
        InputError: no text has a word, or an encoder cannot be loaded.
    """
    if retriever == TFIDF:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        try:
            known = vectorizer.fit_transform(texts).T.tocsr()
        except ValueError as error:  # no words at all
            raise InputError(f"retriever tfidf: {one_line(error, 100)}; give texts with words") from None
        return lambda text, count: _largest((vectorizer.transform([text]) @ known).toarray()[0], count)
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise InputError(
            f"retriever {retriever}: needs the package sentence-transformers; run `pip install sentence-transformers`, "
            "or set retriever tfidf"
        ) from None
    try:
        encoder = SentenceTransformer(retriever)
    except Exception as error:  # the hub's client raises its own, httpx's and the system's errors
        reason = one_line(error, 140) or type(error).__name__
        raise InputError(f"retriever {retriever}: cannot be loaded ({reason}); give a folder or a hub id") from None
    vectors = encoder.encode(list(texts), normalize_embeddings=True)
    return lambda text, count: _largest(vectors @ encoder.encode(text, normalize_embeddings=True), count)


def _largest(values: np.ndarray, count: int) -> list[int]:
    """The places of the largest values, the largest first, of equal ones the first."""
    least = np.partition(values, len(values) - count)[len(values) - count]
    places = np.flatnonzero(values >= least)  # few, unless many are equal: sorting them all would take seconds
    return [int(place) for place in places[np.argsort(-values[places], kind="stable")[:count]]]
