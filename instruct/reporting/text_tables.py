"""The tables of the report's part about texts."""

from __future__ import annotations

from functools import partial

from instruct.analysis.text_results import TextFigure, TextReport, TextSystem
from instruct.reporting.model import ReportData
from instruct.reporting.tables import Column, Table, columns_table, text_columns
from instruct.reporting.text import probability
from instruct.reporting.text_figures import METRICS

_TESTED = {"permutation": "paired permutation", "jackknife": "jackknife t"}
_METRICS = (
    "In brackets the 95 % interval for other texts and, with several training seeds, other trainings. A control "
    "(mle-matched-SYSTEM) is MLE sampled at the temperature that gives it the system's entropy: what a system "
    "gains over MLE but not over its control is sharpening. Compare figures of sampled texts at equal numbers only."
)
_TESTS = (
    "The first's figure minus the second's on the same texts. p (Holm) is corrected for all tests of this table. "
    "Permutation: the systems are swapped within each text. Jackknife: Student's t over 40 groups of texts and, "
    "with several training seeds, over trainings."
)


def text_tables(report: ReportData) -> list[Table]:
    """The metrics of every system, the tests between them; [] without metrics of texts."""
    texts = report.texts
    return [table for table in (_metrics(texts), _tests(texts)) if table.rows] if texts else []


def _metrics(texts: TextReport) -> Table:
    keys = [key for key in METRICS if any(system.figure(key) for system in texts.systems)]
    human = {figure.metric: figure for figure in texts.human}
    columns = [
        Column("metric", lambda key: METRICS[key].label, text=True),
        Column("read as", lambda key: METRICS[key].better, text=True),
        *(Column(_heading(system), partial(_of_system, system)) for system in texts.systems),
        Column("human", lambda key: _cell(human.get(key)), when=bool(human.keys() & set(keys))),
    ]
    return columns_table("Texts", keys, columns, _METRICS)


def _of_system(system: TextSystem, key: str) -> str | None:
    return _cell(system.figure(key))


def _heading(system: TextSystem) -> str:
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
    columns = [
        Column("metric", lambda test: METRICS[test.metric].label, text=True),
        *text_columns("first", "second"),
        Column("difference", lambda test: f"{'+' * (test.difference > 0)}{decimal(test.difference)}"),
        Column("95 % CI", lambda test: test.interval and " to ".join(map(decimal, test.interval))),
        Column("p", lambda test: probability(test.p)),
        Column("p (Holm)", lambda test: probability(test.p_holm)),
        Column("test", lambda test: _TESTED[test.test]),
        Column("trainings", lambda test: str(test.trainings)),
    ]
    return columns_table("Texts: differences", texts.tests, columns, _TESTS)
