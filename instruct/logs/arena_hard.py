"""Arena-Hard: model_judgment/JUDGE/MODEL.jsonl of arena-hard-auto.

From the tool's source, v0.1 and v2.0 (`gen_judgment.py`, `show_result.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from instruct.analysis.outcomes import pair_results, weighted_scores
from instruct.judging.cards import load_judge_card
from instruct.judging.comparison import ComparisonKey
from instruct.judging.interchange.leaderboards import question_texts, read_leaderboard
from instruct.judging.store import Judgment
from instruct.judging.verdicts import margins
from instruct.logs.source import Source
from instruct.scores.scores import Row, Scores

METRIC = "win rate"
# The tool's figure: a strong verdict counts as three, so that units do not count alike.
SCORE = "score"


def read_arena_hard(source: Source) -> list[Scores] | None:
    """A log for each model, baseline and category, with the model's share of the wins in both games.

    Raises:
        InputError: an invalid row.
    """
    if not {"games", "model"} <= source.first.keys():
        return None
    rows = list(source.rows())
    # Version 0.1 does not name its baseline.
    contents = read_leaderboard(rows, baseline="its baseline")
    groups: dict[tuple[ComparisonKey, str], list[Judgment]] = {}
    for judgment in contents.judgments:
        groups.setdefault((judgment.comparison, judgment.dataset), []).append(judgment)
    questions = question_texts(source.path)
    return [_log(source, *about, judgments, questions) for about, judgments in groups.items()]


def _log(
    source: Source,
    comparison: ComparisonKey,
    category: str,
    judgments: Sequence[Judgment],
    questions: Mapping[str, str],
) -> Scores:
    name, _, model = comparison.judge.partition("@")
    card = load_judge_card(name, model or None)
    about = "Arena-Hard" if category == "unknown" else f"Arena-Hard {category}"
    log = Scores("arena-hard-auto", source.path, comparison.candidate, f"{about} against {comparison.baseline}")
    log.settings |= {"baseline": comparison.baseline, "judge": card.model}
    results = pair_results(judgments, "strict", margins=margins(card, judgments, {}))
    for result in results:
        asked = questions.get(result.instruction)
        row = Row(result.instruction, {METRIC: result.score}, result.outcome, doc=asked, question=asked or "")
        log.add(row, str(source.path))
    if scores := weighted_scores(results):
        log.figures[SCORE] = sum(scores) / len(scores)
        log.unpaired.append(SCORE)
    return log
