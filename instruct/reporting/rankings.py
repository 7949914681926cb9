"""More than two systems: ranked against a common baseline, and by Bradley-Terry strengths where comparisons cross."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from instruct.analysis.ranking import Standing, Strength, bradley_terry, standings
from instruct.base.errors import counted
from instruct.reporting.entries import Entry
from instruct.reporting.tables import Column, Table, columns_table

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
class Ranking:
    """Systems that one judge compared with the same answers of a baseline under one policy, on the same prompts."""

    judge: str
    baseline: str
    policy: str
    standings: list[Standing]
    warnings: list[str]


@dataclass(frozen=True)
class Strengths:
    """The systems of one judge's comparisons that do not all share a baseline; `strengths` None: not determined."""

    judge: str
    policy: str
    strengths: list[Strength] | None


def rankings(entries: Sequence[Entry]) -> list[Ranking]:
    """A ranking for each judge, policy and baseline with two systems or more."""
    groups: dict[tuple[str, str, str, str | None], list[Entry]] = {}
    for entry in entries:
        key = (entry.judge, entry.comparison.leading, entry.comparison.baseline, entry.baseline_sha256)
        groups.setdefault(key, []).append(entry)
    found = []
    for (judge, policy, baseline, _), group in groups.items():
        shared = set.intersection(*({p for p, score in each.scores.items() if score is not None} for each in group))
        if len(group) < 2 or len(shared) < 2:
            continue
        names = _names(group)
        if len(set(names)) < len(names):  # one system, judged in several runs
            names = [f"{entry.run}: {entry.comparison.candidate}" for entry in group]
        scores = {
            name: {prompt: entry.scores[prompt] for prompt in entry.scores if prompt in shared}
            for name, entry in zip(names, group, strict=True)
        }
        left_out = max(len(entry.scores) for entry in group) - len(shared)
        warnings = [f"left out: {counted(left_out, 'prompt')} without a verdict on every system"] if left_out else []
        warnings += ["judging has not finished"] if any(entry.comparison.partial for entry in group) else []
        if group[0].baseline_sha256 is None:
            warnings.append("the baseline's answers are missing, so they may differ")
        found.append(Ranking(judge, baseline, policy, standings(scores), warnings))
    return found


def strengths(entries: Sequence[Entry]) -> list[Strengths]:
    """Strengths for each judge and policy whose comparisons do not all have the same baseline."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.judge, entry.comparison.leading), []).append(entry)
    found = []
    for (judge, policy), group in groups.items():
        if len({(entry.comparison.baseline, entry.baseline_sha256) for entry in group}) > 1:
            sides = zip(_names(group), _names(group, baselines=True), group, strict=True)
            games = [(ours, theirs, entry.scores) for ours, theirs, entry in sides]
            found.append(Strengths(judge, policy, bradley_terry(games)))
    return found


def _names(group: Sequence[Entry], baselines: bool = False) -> list[str]:
    """Each entry's candidate (or baseline); with its run, if systems with other answers share the name."""
    answers: dict[str, set[str | None]] = {}
    for entry in group:
        answers.setdefault(entry.comparison.candidate, set()).add(entry.candidate_sha256)
        answers.setdefault(entry.comparison.baseline, set()).add(entry.baseline_sha256)
    names = []
    for entry in group:
        name = entry.comparison.baseline if baselines else entry.comparison.candidate
        names.append(name if len(answers[name]) == 1 else f"{entry.run}: {name}")
    return names


def ranking_tables(ranked: Sequence[Ranking], strong: Sequence[Strengths]) -> list[Table]:
    """The tables of both; without systems to rank, none."""
    standing = [
        Column("system", "name", text=True),
        Column("rank"),
        Column("rank 95 %", _ranks),
        Column("n"),
        Column("win rate %", "win_rate"),
        Column("simultaneous 95 % CI", "interval"),
    ]
    strength = [
        Column("system", "name", text=True),
        Column("strength", lambda system: f"{system.strength:+.2f}"),
        Column("95 % CI", _strength_interval),
    ]
    tables = []
    for ranking in ranked:
        title = f"Ranked by {ranking.judge} against {ranking.baseline} ({ranking.policy})"
        note = " ".join([*(f"Caution: {warning}." for warning in ranking.warnings), _RANKED])
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
