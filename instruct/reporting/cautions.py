"""What a reader must know before believing a report's figures: the warnings that follow from the figures themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instruct.analysis.claims import LEAST_DECIDED
from instruct.analysis.measured_results import TaskReport
from instruct.base.errors import counted
from instruct.data.tokens import MOST_CUT
from instruct.judging.comparison import FILES
from instruct.reporting.model import ComparisonReport, JudgeReport, ReportWarning, claim_warning
from instruct.reporting.text import contradicted, rate_and_interval, span, unread

# Below this percentage of pairs with the same verdict in both orders, the report warns.
LEAST_CONSISTENCY = 80.0
# Above this percentage of a task's test rows among its demonstrations, too.
MOST_IN_TRAINING = 5.0


def judge_warnings(judge: JudgeReport) -> list[ReportWarning]:
    """What a reader must know about the judge before its figures."""
    texts = [judge.warning] if judge.warning else []
    if judge.other_model:
        texts.append("another model than the card's was asked; do not compare these figures with published ones")
    return [claim_warning(text) for text in (*texts, *judge.warnings)]


def training_warnings(manifest: Mapping[str, Any], *systems: str) -> list[str]:
    """What was out of the ordinary in the text that compared systems were trained on."""
    found: dict[str, list[str]] = {}
    for name in systems:
        results = manifest["steps"].get(f"train/{name}", {}).get("results", {})
        answers, rows = results.get("answers", {}), results.get("rows", {})
        ends, cut = answers.get("ends", 0), answers.get("cut", 0)
        out = rows.get("rejected", 0) + rows.get("malformed", 0)
        texts = [
            f"{cut:,} of {counted(ends, 'answer')} ({100 * cut / ends:.1f} %) lost the end token to max_length"
            if cut > MOST_CUT * ends
            else "",
            f"{counted(answers['empty'], 'empty thought')}, which teach not to think" if answers.get("empty") else "",
            f"{out:,} of {counted(rows.get('read', 0), 'row')} left out as unusable" if out else "",
        ]
        for text in filter(None, texts):
            found.setdefault(text, []).append(name)
    return [f"the training of {' and '.join(names)}: {text}" for text, names in found.items()]


def left_out_warnings(manifest: Mapping[str, Any], *systems: str) -> list[str]:
    """How many prompts of compared files were left out, because not all files have them."""
    left_out = manifest["steps"].get(FILES, {}).get("inputs", {}).get("left_out", {})
    counts = [(name, *left_out[name]) for name in systems if name in left_out]
    parts = " and ".join(f"{out:,} of {counted(every, 'prompt')} of {name}" for name, out, every in counts if out)
    if not parts:
        return []
    others = f" of {len(left_out)} files" if len(left_out) > 2 else ""
    return [f"compared on the common prompts{others}: {parts} left out"]


def task_warnings(tasks: TaskReport) -> list[ReportWarning]:
    """The tasks whose test rows a model has seen among the demonstrations."""
    seen = {
        f"{figure.task}: {figure.in_training:,} of {counted(figure.rows, 'test row')} stand word for word among the "
        "demonstrations' rows, so its accuracy is not of unseen text"
        for figure in tasks.figures
        if 100 * figure.in_training > MOST_IN_TRAINING * figure.rows
    }
    return [claim_warning(text) for text in sorted(seen)]


def figure_warnings(comparison: ComparisonReport) -> list[ReportWarning]:
    """What a comparison's figures say about themselves."""
    figures, texts = comparison.leading_figures, []
    if figures.finding == "too few":
        decided = f"{counted(figures.win + figures.loss, 'pair')} with a winner of {figures.n_judged} judged"
        if figures.conversations is not None and figures.conversations < LEAST_DECIDED <= figures.win + figures.loss:
            decided += f", all of them turns of {counted(figures.conversations, 'conversation')}"
        texts.append(f"too few: {decided}; a finding takes {LEAST_DECIDED}")
    if (people := comparison.with_labels) and contradicted(comparison):
        texts.append(
            f"people's labels contradict the judge: with them the win rate of {comparison.candidate} is "
            f"{rate_and_interval(people)}"
        )
    if missing := figures.unread:
        texts.append(
            f"{missing} of {counted(figures.n, 'pair')} {'has' if figures.n == 1 else 'have'} no verdict "
            f"({unread(figures)}): worst- and best-case bounds {span(figures.bounds)} %"
            + ", which could reverse the result"
            * figures.reversible
        )
    consistency = comparison.consistency
    if consistency is not None and consistency < LEAST_CONSISTENCY:
        pairs = counted(comparison.consistency_n, "pair")
        changed = f"{round(comparison.consistency_n * (1 - consistency / 100))} of {pairs} ({100 - consistency:.1f} %)"
        texts.append(f"inconsistent: the verdict changed with the order of the answers for {changed}")
    return list(map(claim_warning, texts))
