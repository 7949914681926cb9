"""What must be said beside a comparison's figures before anybody quotes them."""

from __future__ import annotations

from instruct.reporting.render.text import judge_warnings, span, unread
from instruct.reporting.schema import Comparison, Judge, TallyFigures

# Below this share of pairs with the same verdict in both orders, in percent, the order is a reason to doubt.
_LEAST_CONSISTENCY = 80.0


def cautions(judge: Judge, comparison: Comparison) -> list[str]:
    """Every warning that applies to one comparison, plain text: the judge's and the comparison's."""
    figures = comparison["policies"][comparison["leading"]]
    found = judge_warnings(judge)
    if figures["finding"] == "too few":
        found.append(f"too few: {figures['n_judged']} pairs with a verdict show nothing either way")
    if figures["second_interval"]:
        found.append(
            f"uncertain: the bootstrap interval, {span(figures['second_interval'])} %, would lead to another finding"
        )
    found += _without_verdict(figures)
    consistency = comparison["consistency"]
    if consistency is not None and consistency < _LEAST_CONSISTENCY:
        changed = round(comparison["consistency_n"] * (1 - consistency / 100))
        found.append(
            f"inconsistent: the verdict changed with the order of the answers for {changed} of "
            f"{comparison['consistency_n']} pairs ({100 - consistency:.1f} %)"
        )
    return [text[0].upper() + text[1:] for text in (*found, *comparison["warnings"])]


def _without_verdict(figures: TallyFigures) -> list[str]:
    missing = figures["unparsed"] + figures["failed"]
    if not missing:
        return []
    reverses = ", and could reverse the result" if figures["reversible"] else ""
    return [
        f"{missing} of {figures['n']} pairs have no verdict ({unread(figures)}): had all gone one way, the win rate "
        f"would be {span(figures['bounds'])} %{reverses}"
    ]
