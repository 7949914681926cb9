"""What a judge's card says about its agreement with people, and the words for it in lists and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Required, cast

from pydantic import ConfigDict
from typing_extensions import TypedDict

from instruct.base.errors import counted
from instruct.scores.claims import ALPHA

# An accuracy over fewer pairs is uncertain by 10 points and more.
LEAST_PAIRS = 100


class HumanAgreement(TypedDict, total=False):
    """Agreement with one set of human labels, from `instruct validate`, in percent except `pairs` and Cohen's kappa.

    `yardstick` is the best way to give verdicts without a judge, such as "the longer answer", with its accuracy and the
    p-value of the judge against it. `judge` is the start of the card's hash at the time; `verdicts`
    says who made the verdicts if it was not this card. Figures that were not measured are absent.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    pairs: Required[int]
    accuracy: float
    accuracy_interval: tuple[float, float]
    kappa: float
    kappa_interval: tuple[float, float]
    yardstick: str
    yardstick_accuracy: float
    yardstick_p: float
    both_orders: float
    consistency: float
    first_position_rate: float
    judge: str
    verdicts: str
    measured: str


class Measured(Protocol):
    """A judge's card (instruct.judging.cards), as far as it matters here."""

    @property
    def human_agreement(self) -> Mapping[str, HumanAgreement] | None: ...
    def sha256(self) -> str: ...


def rounded_figures(figures: Mapping[str, Any]) -> HumanAgreement:
    """The figures as a card has them: percent with two digits, kappa with four, p with two that count, and nothing that
    is not defined."""

    def short(name: str, figure: Any) -> Any:
        if isinstance(figure, list):
            return tuple(short(name, end) for end in figure)
        if not isinstance(figure, float):
            return figure
        return float(f"{figure:.2g}") if name == "yardstick_p" else round(figure, 4 if name.startswith("kappa") else 2)

    rounded = {name: short(name, figure) for name, figure in figures.items() if figure is not None}
    return cast(HumanAgreement, rounded)


def agreement_words(card: Measured) -> str:
    """The judge's measured agreement with human labels, for a list or a report; "not measured" if there is none."""
    if not card.human_agreement:
        return "not measured"
    return "; ".join(set_words(name, record, _outdated(card, record)) for name, record in card.human_agreement.items())


def agreement_warnings(card: Measured) -> list[str]:
    """One sentence for each set that is small, or on which the card's judge does not beat the best yardstick."""
    current = {name: figures for name, figures in (card.human_agreement or {}).items() if not _outdated(card, figures)}
    small = [
        f"was validated on {counted(figures['pairs'], 'pair')} of {name} only; a figure takes at least {LEAST_PAIRS}"
        for name, figures in current.items()
        if figures["pairs"] < LEAST_PAIRS
    ]
    return small + [warning for name, figures in current.items() if (warning := yardstick_warning(name, figures))]


def yardstick_warning(name: str, figures: Mapping[str, Any], who: str = "people") -> str | None:
    """That a judge does not beat the best yardstick on the set `name`, or is not shown to; None if it does.

    `who` made the labels.
    """
    if not {"accuracy", "yardstick", "yardstick_accuracy"} <= figures.keys():
        return None
    accuracy, yardstick = (share(figures[key], figures["pairs"]) for key in ("accuracy", "yardstick_accuracy"))
    shares = f"{accuracy} against {yardstick} of {counted(figures['pairs'], 'pair')}"
    if figures["accuracy"] <= figures["yardstick_accuracy"]:
        return f"agrees with {who} no better than {figures['yardstick']} does: {shares} of {name}{_chance(figures)}"
    p = figures.get("yardstick_p", 1.0)
    if p <= ALPHA:
        return None
    return (
        f"has no significant lead over {figures['yardstick']} in agreement with {who}: {shares} of {name}, "
        f"p = {p:.2g}{_chance(figures)}"
    )


def share(percent: float, pairs: int) -> str:
    """A card's percentage of `pairs` to one decimal, rounded once: a card holds two decimals of count / pairs."""
    count = round(percent * pairs / 100)
    exact = 100 * count / pairs if pairs else percent
    return f"{exact if abs(exact - percent) < 0.006 else percent:.1f} %"


def set_words(name: str, figures: HumanAgreement, outdated: bool = False) -> str:
    """The agreement with one set: Cohen's kappa first, because the accuracy of chance depends on the labels.

    `outdated`: it was measured with another prompt or decoding than the card's.
    """
    pairs = figures["pairs"]
    accuracy = (
        f"accuracy {share(figures['accuracy'], pairs)} of {pairs}" if "accuracy" in figures else counted(pairs, "pair")
    )
    few = pairs < LEAST_PAIRS
    if few and "accuracy_interval" in figures:
        accuracy += f", 95 % CI {'–'.join(f'{end:.1f}' for end in figures['accuracy_interval'])}"
    asides = [accuracy]
    if "yardstick" in figures and "yardstick_accuracy" in figures:
        always = "always " * figures["yardstick"].startswith("the ")
        asides.append(f"{always}{figures['yardstick']}: {share(figures['yardstick_accuracy'], pairs)}")
    asides += [f"{share(figures['both_orders'], pairs)} right in both orders"] if "both_orders" in figures else []
    asides += [figures["verdicts"]] if "verdicts" in figures else []
    asides += ["measured with another prompt or decoding"] if outdated else []
    if "kappa" not in figures:
        words = f"{name}: {accuracy}" + (f" ({'; '.join(asides[1:])})" if asides[1:] else "")
    elif is_chance(figures):
        words = f"{name}: not shown to be better than chance (κ {kappa_text(figures)}; {'; '.join(asides)})"
    else:
        words = f"{name}: κ {kappa_text(figures)} ({'; '.join(asides)})"
    return f"{words}, too few pairs to rely on" if few else words


def is_chance(figures: Mapping[str, Any]) -> bool:
    """Whether the interval of Cohen's kappa includes 0, which is chance."""
    return bool(figures.get("kappa_interval", (1.0, 1.0))[0] <= 0)


def kappa_text(figures: Mapping[str, Any]) -> str:
    """Cohen's kappa of an agreement that has one, with two digits and never a negative zero."""
    return f"{round(figures['kappa'], 2) + 0:.2f}"


def _chance(figures: Mapping[str, Any]) -> str:
    return f"; not shown to be better than chance (κ {kappa_text(figures)})" if is_chance(figures) else ""


def _outdated(card: Measured, figures: Mapping[str, Any]) -> bool:
    return "judge" in figures and not card.sha256().startswith(figures["judge"])
