"""The tables of the report's part about texts."""

from __future__ import annotations

from instruct.analysis.text_results import TextFigure, TextReport, TextSystem
from instruct.reporting.model import ReportData
from instruct.reporting.tables import Table, Value
from instruct.reporting.text import probability
from instruct.reporting.text_figures import METRICS

_TESTED = {"permutation": "paired permutation", "jackknife": "jackknife t"}


def text_tables(report: ReportData) -> list[Table]:
    """The metrics of every system, the tests between them; [] without metrics of texts."""
    texts = report.texts
    return [table for table in (_metrics(texts), _tests(texts)) if table.rows] if texts else []


def _metrics(texts: TextReport) -> Table:
    keys = [key for key in METRICS if any(system.figure(key) for system in texts.systems)]
    human = {figure.metric: figure for figure in texts.human}
    with_human = bool(human.keys() & set(keys))
    rows: list[list[Value]] = []
    for key in keys:
        cells: list[Value] = [METRICS[key].label, METRICS[key].better]
        cells += [_cell(system.figure(key)) for system in texts.systems]
        rows.append(cells + [_cell(human.get(key))] * with_human)
    header = ["metric", "read as", *map(_column, texts.systems), *["human"] * with_human]
    note = (
        "In brackets the 95 % interval for other texts and, with several training seeds, other trainings. A control "
        "(mle-matched-SYSTEM) is MLE sampled at the temperature that gives it the system's entropy: what a system "
        "gains over MLE but not over its control is sharpening. Compare figures of sampled texts at equal numbers only."
    )
    return Table("Texts", header, rows, left=2, note=note)


def _column(system: TextSystem) -> str:
    trainings = f", {len(system.names)} seeds" if len(system.names) > 1 else ""
    if system.temperatures:
        mean = sum(system.temperatures) / len(system.temperatures)
        return f"{system.name} (T {mean:.3f}{trainings})"
    return system.name + (f" ({trainings.removeprefix(', ')})" if trainings else "")


def _cell(figure: TextFigure | None) -> str | None:
    if figure is None:
        return None
    text = decimal(figure.value)
    return text if figure.interval is None else f"{text} ({' to '.join(decimal(end) for end in figure.interval)})"


def decimal(value: float) -> str:
    """Four digits, or three decimals: metrics are between 0 and 1, or perplexities."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"


def _tests(texts: TextReport) -> Table:
    rows: list[list[Value]] = []
    for test in texts.tests:
        difference = f"{'+' * (test.difference > 0)}{decimal(test.difference)}"
        interval = None if test.interval is None else " to ".join(decimal(end) for end in test.interval)
        names: list[Value] = [METRICS[test.metric].label, test.first, test.second]
        tested: list[Value] = [probability(test.p), probability(test.p_holm), _TESTED[test.test], str(test.trainings)]
        rows.append([*names, difference, interval, *tested])
    header = ["metric", "first", "second", "difference", "95 % CI", "p", "p (Holm)", "test", "trainings"]
    note = (
        "The first's figure minus the second's on the same texts. p (Holm) is corrected for all tests of this table. "
        "Permutation: the systems are swapped within each text. Jackknife: Student's t over 40 groups of texts and, "
        "with several training seeds, over trainings."
    )
    return Table("Texts: differences", header, rows, left=3, note=note)
