"""The comparisons of runs, as `instruct compare` needs them, and more than two systems ranked.

Against a common baseline, and by Bradley-Terry strengths where comparisons cross.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from instruct.analysis.ranking import Standing, Strength, bradley_terry, standings
from instruct.base.errors import counted
from instruct.reporting.build import build
from instruct.reporting.model import ComparisonReport, Panel
from instruct.reporting.read import read_run
from instruct.reporting.tables import Column, Table, columns_table
from instruct.reporting.text import probability
from instruct.run.directory import RunDirectory

_RANKED = (
    "Simultaneous 95 % intervals (Šidák's level, united with the exact limits): all of them hold at once. Ranks: those "
    "that paired tests of all pairs of systems leave open, corrected by Holm's method. A tie is half a win."
)
_STRENGTHS = (
    "Bradley–Terry strengths in log-odds, mean 0, with 95 % bootstrap intervals over prompts: a system beats one that "
    "is 1 weaker with probability 73 %. A tie is half a win for either."
)
_UNDETERMINED = (
    "Not determined: some systems won no point against the others, or two groups of systems were never "
    "compared. Judge more pairs between them."
)


@dataclass(frozen=True)
class Entry:
    """A comparison of one run, under the leading policy of its judge.

    `scores`: by prompt, 1 for a win, ½ for a tie, 0 for a loss, a weighted judge's grade, None without a verdict.
    `card` is the hash of the judge's card when it judged; `candidate_answers` and `baseline_answers` map prompt to
    the answer's hash in this process; None: unknown.
    """

    run: str
    judge: str
    model: str
    comparison: ComparisonReport
    scores: Mapping[str, float | None]
    card: str | None
    candidate_answers: Mapping[str, int] | None
    baseline_answers: Mapping[str, int] | None


def entries_of(run: RunDirectory, label: str) -> tuple[list[Entry], list[Panel]]:
    """The comparisons of a run, which is called `label`, and its panels of judges."""
    contents = read_run(run.folder)
    report = build(contents)
    comparisons = [(judge, comparison) for judge in report.judges for comparison in judge.comparisons]
    entries = []
    for (judge, comparison), judged in zip(comparisons, contents.by_judge, strict=True):
        answers = [
            {pair: hash(row["output"]) for pair, row in side.by_pair.items()} if side else None for side in judged.sides
        ]
        card = judged.step.get("inputs", {}).get("card")
        entries.append(Entry(label, judge.name, judge.model, comparison, judged.scores(), card, *answers))
    return entries, report.panels


@dataclass(frozen=True)
class Ranking:
    """Systems that one judge compared with the same answers of a baseline under one policy, on the same prompts."""

    judge: str
    baseline: str
    policy: str
    standings: list[Standing]
    warnings: list[str]

    @property
    def told_apart(self) -> int:
        """Of the systems but the last, how many can be told apart from the one that follows."""
        return sum(standing.next_apart for standing in self.standings)

    @property
    def neighbors(self) -> str:
        """The same in a sentence."""
        systems = len(self.standings)
        return (
            f"{self.told_apart} of {counted(systems - 1, 'pair')} of neighboring ranks can be told apart (paired "
            f"tests, Holm's correction over all {counted(math.comb(systems, 2), 'pair')} of systems)."
        )


@dataclass(frozen=True)
class Strengths:
    """The systems of one judge's comparisons that do not all share a baseline; `strengths` None: not determined."""

    judge: str
    policy: str
    strengths: list[Strength] | None


def rankings(entries: Sequence[Entry]) -> list[Ranking]:
    """A ranking for each judge, policy and baseline with two systems or more."""
    ranked = []
    for group in _with_one_baseline(entries):
        shared = set.intersection(*({p for p, score in entry.scores.items() if score is not None} for entry in group))
        if len(group) < 2 or len(shared) < 2:
            continue
        names = [candidate for candidate, _ in _names(group)]
        if len(set(names)) < len(names):  # one system, judged in several runs
            names = [f"{entry.run}: {entry.comparison.candidate}" for entry in group]
        scores = {
            name: {prompt: score for prompt, score in entry.scores.items() if prompt in shared}
            for name, entry in zip(names, group, strict=True)
        }
        left_out = max(len(entry.scores) for entry in group) - len(shared)
        warnings = [f"left out: {counted(left_out, 'prompt')} without a verdict on every system"] if left_out else []
        warnings += ["judging has not finished"] if any(entry.comparison.partial for entry in group) else []
        if group[0].baseline_answers is None:
            warnings.append("the baseline's answers are missing, so they may differ")
        ours = group[0].comparison
        ranked.append(Ranking(group[0].judge, ours.baseline, ours.leading, standings(scores), warnings))
    return ranked


def strengths(entries: Sequence[Entry]) -> list[Strengths]:
    """Strengths for each judge and policy whose comparisons do not all have the same baseline."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.judge, entry.comparison.leading), []).append(entry)
    fitted = []
    for (judge, policy), group in groups.items():
        if len(_with_one_baseline(group)) > 1:
            games = [(*names, entry.scores) for names, entry in zip(_names(group), group, strict=True)]
            fitted.append(Strengths(judge, policy, bradley_terry(games)))
    return fitted


def _with_one_baseline(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The entries of each judge and policy with the same answers of a baseline, to those prompts that they share."""
    groups: list[tuple[tuple[str, str, str, bool], dict[str, int], list[Entry]]] = []
    for entry in entries:
        answers = entry.baseline_answers
        key = (entry.judge, entry.comparison.leading, entry.comparison.baseline, answers is None)
        for other, known, group in groups:
            if key == other and _agree(known, answers):
                group.append(entry)
                break
        else:
            groups.append((key, dict(answers or {}), [entry]))
    return [group for _, _, group in groups]


def _agree(known: dict[str, int], answers: Mapping[str, int] | None) -> bool:
    """Whether answers are the known ones, where both have the prompt; if so, all of them are known now."""
    agree = all(known.get(prompt, answer) == answer for prompt, answer in (answers or {}).items())
    known.update((answers or {}) if agree else {})
    return agree


def _names(group: Sequence[Entry]) -> list[tuple[str, str]]:
    """Each entry's candidate and baseline; with the run, where systems with other answers share the name."""
    known: dict[str, dict[str, int]] = {}
    missing: dict[str, bool] = {}
    differing = set()
    for entry in group:
        ours, theirs = entry.comparison.candidate, entry.comparison.baseline
        for name, answers in ((ours, entry.candidate_answers), (theirs, entry.baseline_answers)):
            alike = missing.setdefault(name, answers is None) == (answers is None)
            if not (alike and _agree(known.setdefault(name, {}), answers)):
                differing.add(name)

    def shown(name: str, run: str) -> str:
        return f"{run}: {name}" if name in differing else name

    return [(shown(one.comparison.candidate, one.run), shown(one.comparison.baseline, one.run)) for one in group]


def ranking_tables(ranked: Sequence[Ranking], strong: Sequence[Strengths]) -> list[Table]:
    """The tables of both; without systems to rank, none."""
    standing = [
        Column("system", "name", text=True),
        Column("rank"),
        Column("rank 95 %", _ranks),
        Column("n"),
        Column("win rate %", "win_rate"),
        Column("simultaneous 95 % CI", "interval"),
        Column("p against the next", "next_p", form=probability),
    ]
    strength = [
        Column("system", "name", text=True),
        Column("strength", form="+.2f"),
        Column("95 % CI", _strength_interval),
    ]
    tables = []
    for ranking in ranked:
        title = f"Ranked by {ranking.judge} against {ranking.baseline} ({ranking.policy})"
        note = " ".join([*(f"Caution: {warning}." for warning in ranking.warnings), ranking.neighbors, _RANKED])
        tables.append(columns_table(title, ranking.standings, standing, note))
    for group in strong:
        title = f"Strengths by {group.judge} ({group.policy})"
        note = _UNDETERMINED if group.strengths is None else _STRENGTHS
        tables.append(columns_table(title, group.strengths or [], strength, note))
    return tables


def _strength_interval(system: Strength) -> str:
    return f"{system.interval[0]:+.2f} to {system.interval[1]:+.2f}" if system.interval else "not estimable"


def _ranks(standing: Standing) -> str:
    low, high = standing.rank_interval
    return str(low) if low == high else f"{low}–{high}"
