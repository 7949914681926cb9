"""More than two systems ranked: all that a judge compared, and those with a common baseline, over runs, too."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from instruct.analysis.outcomes import mirrored_scores
from instruct.analysis.ranking import Standing, rank_systems, standings
from instruct.analysis.results import Ranked
from instruct.base.errors import counted
from instruct.reporting.model import ComparisonReport, ReportData
from instruct.reporting.read import Judged
from instruct.reporting.sides import baselines, mirrored
from instruct.reporting.tables import Column, Table, columns_table
from instruct.reporting.text import probability

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

    @property
    def mirrored(self) -> Entry:
        """The comparison as its baseline sees it."""
        return replace(
            self,
            comparison=mirrored(self.comparison),
            scores=mirrored_scores(self.scores),
            candidate_answers=self.baseline_answers,
            baseline_answers=self.candidate_answers,
        )


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


def rankings(entries: Sequence[Entry]) -> list[Ranking]:
    """A ranking for each judge, policy and baseline with two systems or more."""
    ranked = []
    for group in _with_one_baseline(_from_all_sides(entries)):
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
            warnings.append(f"the answers of {group[0].comparison.baseline} are missing, so they may differ")
        ours = group[0].comparison
        ranked.append(Ranking(group[0].judge, ours.baseline, ours.leading, standings(scores), warnings))
    return ranked


def _from_all_sides(entries: Sequence[Entry]) -> list[Entry]:
    """The entries as seen from those systems that others of a judge are shown against."""
    by_judge: dict[str, list[Entry]] = {}
    for entry in entries:
        by_judge.setdefault(entry.judge, []).append(entry)
    return [
        seen
        for group in by_judge.values()
        for baseline in baselines([entry.comparison for entry in group])
        for entry in group
        for seen in (entry, entry.mirrored)
        if seen.comparison.baseline == baseline
    ]


def strengths(entries: Sequence[Entry]) -> list[Ranked]:
    """All systems of each judge and policy whose comparisons do not all have the same baseline."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.judge, entry.comparison.leading), []).append(entry)
    fitted = []
    for (judge, policy), group in groups.items():
        if len(_with_one_baseline(group)) > 1:
            games = [(*names, entry.scores) for names, entry in zip(_names(group), group, strict=True)]
            fitted.append(rank_systems(judge, policy, games))
    return fitted


def rank_judged(compared: Iterable[tuple[Judged, ComparisonReport]]) -> list[Ranked]:
    """All systems of each judge and policy that compared more than two; single training seeds are left out."""
    groups: dict[tuple[str, str], list[tuple[str, str, Mapping[str, float | None]]]] = {}
    for judged, comparison in compared:
        if not comparison.spread:
            judge, *names = judged.key
            groups.setdefault((judge, judged.leading), []).append((names[0], names[1], judged.scores()))
    return [
        rank_systems(*group, games)
        for group, games in groups.items()
        if len({name for *names, scores in games if any(s is not None for s in scores.values()) for name in names}) > 2
    ]


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


def ranking_tables(ranked: Sequence[Ranking], strong: Sequence[Ranked]) -> list[Table]:
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
    tables = [_strengths_table(group) for group in strong]
    for ranking in ranked:
        title = f"Ranked by {ranking.judge} against {ranking.baseline} ({ranking.policy})"
        note = " ".join([*(f"Caution: {warning}." for warning in ranking.warnings), ranking.neighbors, _RANKED])
        tables.append(columns_table(title, ranking.standings, standing, note))
    return tables


def _strengths_table(ranked: Ranked) -> Table:
    columns = [
        Column("system", "name", text=True),
        Column("opponents"),
        Column("mean win rate %", "win_rate"),
        Column("strength", form="+.2f"),
        Column("95 % CI", "interval", form=lambda interval: "{:+.2f} to {:+.2f}".format(*interval)),
    ]
    note = _UNDETERMINED if ranked.systems[0].strength is None else _STRENGTHS
    return columns_table(f"Ranked by {ranked.judge} ({ranked.policy})", ranked.systems, columns, note)


def system_tables(report: ReportData) -> list[Table]:
    """By judge with more than two systems, their ranking, and the win rate of each over each."""
    return [table for ranked in report.ranked for table in (_strengths_table(ranked), matrix_table(report, ranked))]


def matrix_table(report: ReportData, ranked: Ranked) -> Table:
    """The win rates of the systems in rows over those in columns; nothing where they were not compared."""
    made = [
        comparison
        for judge in report.judges
        if judge.name == ranked.judge
        for comparison in judge.comparisons
        if comparison.leading == ranked.policy and not comparison.spread
    ]
    rates = {
        (seen.candidate, seen.baseline): seen.leading_figures.win_rate
        for seen in (*map(mirrored, made), *made)
        if seen.candidate != seen.baseline
    }
    names = [system.name for system in ranked.systems]
    rows = [[name, *(rates.get((name, other)) for other in names)] for name in names]
    title = f"Win rate (%) of row over column by {ranked.judge} ({ranked.policy})"
    return Table(title, ["system", *names], rows, note="A tie counts as half a win")


def _ranks(standing: Standing) -> str:
    low, high = standing.rank_interval
    return str(low) if low == high else f"{low}–{high}"
