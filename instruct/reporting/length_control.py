"""AlpacaEval 2's length-controlled win rate: the package's own model, with difficulties from a local file.

The package downloads the difficulties and takes them by the position of a row, so that the same verdicts in another
order have another rate. Here they are joined on the instruction, and the rows are put into the file's order.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.analysis.results import rounded
from instruct.base.errors import InputError, InstructError, one_line
from instruct.base.files import write_atomically
from instruct.data.formats import text_field
from instruct.data.sources import RawRow, read_file
from instruct.logs.source import read_number
from instruct.reporting.model import ComparisonReport, LengthControl
from instruct.reporting.read import Judged
from instruct.run.directory import RunDirectory

if TYPE_CHECKING:
    import pandas as pd

_LEAST_TO_CORRELATE = 100
_DIFFICULTY = "instruction_difficulty"
_GAMED = ("preference", "std_delta_len", "not_gamed_baseline")
_INDEX = ("index", "", "Unnamed: 0")  # as the hub's files call it, one of them not at all


# A rate, and warnings about it.
Controlled = tuple[LengthControl, list[str]]


@dataclass(frozen=True)
class Difficulty:
    """AlpacaEval's instruction difficulties, for weighted judges' length-controlled rates.

    `prompts`: the prompts in the leaderboard's order, for a `file` that identifies them by position only. `kept`: these
    are the run's own copies, see `keep`.
    """

    file: str | Path
    prompts: str | Path | None = None
    kept: bool = False

    @classmethod
    def of_run(cls, run: RunDirectory) -> Difficulty | None:
        """The run's own copies; None if no report of the run was given any."""
        folders = (run.length_control / name for name in ("difficulties", "prompts"))
        file, prompts = (next(iter(sorted(folder.glob("[!.]*"))), None) for folder in folders)
        return cls(file, prompts, kept=True) if file else None

    def keep(self, run: RunDirectory) -> None:
        """Copy the files into the run's length_control/, so that later reports have the same rate without the flags."""
        for name, file in (("difficulties", self.file), ("prompts", self.prompts)):
            folder = run.length_control / name
            content = None if file is None else Path(file).expanduser().read_bytes()
            for earlier in folder.glob("*"):
                earlier.unlink()
            if file is not None and content is not None:
                write_atomically(folder / Path(file).name, content)

    def check_used(self, comparisons: Iterable[ComparisonReport]) -> None:
        """A file that was given must lead to a rate.

        Raises:
            InputError: no comparison has one.
        """
        rates = [comparison.length_control for comparison in comparisons if comparison.length_control]
        if self.kept or any(rate.win_rate is not None for rate in rates):
            return
        no_grades = "no judge of this run grades its preferences, so there is no length-controlled rate"
        why = rates[0].note if rates else no_grades
        raise InputError(f"{self.file}: has no use here: {why}; drop `instruction_difficulty`")


def length_control(judged: Judged, difficulty: Difficulty | None) -> tuple[LengthControl | None, list[str]]:
    """The rate of a comparison by a weighted judge, for which it is defined, and warnings about it."""
    single = judged.by_policy["single"]
    scores_alone = judged.card is not None and judged.card.protocol == "reward"  # AlpacaEval has no such judges
    if scores_alone or not any(pair.score not in (None, 0, 0.5, 1) for pair in single):
        return None, []
    ours, theirs = judged.sides
    if ours is None or theirs is None:
        name, key = (judged.key.candidate, "outputs") if ours is None else (judged.key.baseline, "reference")
        return _none(f"the answers of {name} are missing; give them as {key}")
    if difficulty is None:
        return _none("no instruction-difficulty file was given")
    rows = [
        {
            "instruction": ours.by_pair.get(pair.instruction, {}).get("instruction", pair.instruction),
            "output_1": theirs.by_pair.get(pair.instruction, {}).get("output"),
            "output_2": ours.by_pair.get(pair.instruction, {}).get("output"),
            "preference": None if pair.score is None else 1 + pair.score,
        }
        for pair in judged.by_policy["single"]
    ]
    try:
        return length_controlled_win_rate(rows, difficulty.file, difficulty.prompts)
    except InputError as error:
        if not difficulty.kept:
            raise
        # A later judge may have been asked about other prompts than those that the kept files are about.
        return _none(one_line(error, 200))


def length_controlled_win_rate(
    rows: Sequence[Mapping[str, Any]], difficulty_file: str | Path, prompts_file: str | Path | None = None
) -> Controlled:
    """The length-controlled win rate of one comparison (alpaca_eval.metrics.glm_winrate), and warnings about it.

    Args:
        rows: in AlpacaEval's schema, as judging.interchange.annotation_files.annotation_rows gives them:
            `instruction`, `output_1` (the baseline's), `output_2`, `preference` (1 the baseline, 2 the candidate, None:
            no verdict).
        difficulty_file: CSV in the layout of the hub's df_gamed.csv, which also has the answers gamed to be long or
            short that regularize the model; or any CSV with `instruction` and `instruction_difficulty`.
        prompts_file: the prompts in the leaderboard's order, for a file that knows them by their `index` alone.

    Raises:
        InputError: a file that is not as it should be, a prompt that has no difficulty, an answer that is missing.
        InstructError: the installed scikit-learn is too new for the package.
    """
    path = Path(difficulty_file).expanduser()
    raw = list(read_file(path))
    difficulties = _difficulties(path, raw, prompts_file)
    _check_rows(path, rows, difficulties)
    frame = _features(rows, difficulties)
    judged = int(frame["preference"].notna().sum())
    if judged < 5:  # the folds of the cross-validation
        return _none(f"it needs 5 verdicts, and there are {judged}")
    if frame["std_delta_len"].nunique() == 1:
        return _none("all answers differ by the same length")
    frame["std_delta_len"] = frame["std_delta_len"] / frame["std_delta_len"].std()
    gamed = _gamed_rows(raw) if all(name in raw[0].fields for name in _GAMED) else None
    probabilities = _fitted(frame, gamed)
    how = (
        "alpaca-eval's length_controlled_noreg, as the file has no gamed answers: not the leaderboard's figure"
        if gamed is None
        else "alpaca-eval's length_controlled_v1"
    )
    rate = rounded(float(probabilities.mean()) * 100)
    note = f"{how}; {len(rows)} prompts; difficulties from {one_line(path.name, 60)}, joined on the instruction"
    return LengthControl(win_rate=rate, note=note), _implausible(frame.dropna())


def _none(why: str) -> Controlled:
    """No rate, and why."""
    return LengthControl(win_rate=None, note=f"no length-controlled rate: {why}"), []


def _check_rows(path: Path, rows: Sequence[Mapping[str, Any]], difficulties: Mapping[str, float]) -> None:
    """Refuse prompts without a difficulty, and missing answers: InputError."""
    if missing := [row["instruction"] for row in rows if row["instruction"] not in difficulties]:
        raise InputError(
            f"{path}: has no difficulty for {len(missing)} of {len(rows)} prompts, first "
            f"{one_line(missing[0], 60)!r}; give the difficulties of the prompts that were judged "
            "(`instruction_difficulty`), and the prompts of that file in its order (`difficulty_prompts`)"
        )
    for row in rows:
        for name in ("output_1", "output_2"):
            if not isinstance(row.get(name), str):
                raise InputError(
                    f"no {name} to {one_line(row['instruction'], 60)!r}: length control needs the answers of both "
                    "sides; give the baseline's (`reference`)"
                )


def _implausible(known: pd.DataFrame) -> list[str]:
    """A warning if difficulties are not what AlpacaEval calls so: a good part of why some prompts are won."""
    varying = known[["preference", _DIFFICULTY]].nunique().min() > 1
    correlation = float(known["preference"].corr(known[_DIFFICULTY])) if varying else 0.0
    # Fisher's transformation: without any relation |r| is below this in 95 of 100 cases.
    if len(known) < _LEAST_TO_CORRELATE or abs(correlation) > math.tanh(1.96 / math.sqrt(len(known) - 3)):
        return []
    return [
        f"the instruction difficulties do not relate to the verdicts (correlation {correlation + 0:.2f}): check that "
        "the file has AlpacaEval's difficulties of these prompts"
    ]


def _features(rows: Sequence[Mapping[str, Any]], difficulties: Mapping[str, float]) -> pd.DataFrame:
    """What the model takes, in the order of the difficulties; the lengths are not yet standardized."""
    import pandas as pd

    place = {instruction: number for number, instruction in enumerate(difficulties)}
    return pd.DataFrame(
        {
            "preference": math.nan if row["preference"] is None else row["preference"] - 1,
            "std_delta_len": len(row["output_1"]) - len(row["output_2"]),
            _DIFFICULTY: difficulties[row["instruction"]],
            "not_gamed_baseline": True,
        }
        for row in sorted(rows, key=lambda row: place[row["instruction"]])
    )


def _fitted(frame: pd.DataFrame, gamed: pd.DataFrame | None) -> pd.Series[float]:
    """The probability that the candidate wins each pair were the answers of one length."""
    import pandas as pd
    import sklearn

    from instruct.judging.annotators import package_module

    package = package_module("alpaca_eval.metrics.glm_winrate")
    info = package.GLM_INFO["length_controlled_v1" if gamed is not None else "length_controlled_noreg"]
    train = frame if gamed is None else pd.concat([gamed, frame], ignore_index=True)
    ours = train["not_gamed_baseline"].astype(bool)
    # Halved as in the package: there are two gamed models.
    weight = None if gamed is None else ours.astype(float) + info["regularize_to_baseline_lambda"] * ~ours / 2
    # The package switches a setting of scikit-learn for the whole process.
    with warnings.catch_warnings(), sklearn.config_context():
        warnings.simplefilter("ignore")
        known, asked = package.make_dmatrix_for_model(train, frame.assign(std_delta_len=0), formula=info["formula"])
        readable = known["preference"].notna()
        try:
            model = package.fit_LogisticRegressionCV(
                known[readable],
                "preference",
                is_ytrue_proba=True,
                sample_weight=None if weight is None else weight[readable],
                **info["kwargs"],
            )
        except TypeError as error:
            raise InstructError(
                f"alpaca-eval's length control does not run under scikit-learn {sklearn.__version__} "
                f"({one_line(error, 100)}); run `pip install 'scikit-learn<1.10'`"
            ) from None
        return pd.Series(model.predict_proba(asked)[:, 1])


def _difficulties(path: Path, raw: Sequence[RawRow], prompts_file: str | Path | None) -> dict[str, float]:
    """Each instruction's difficulty, in the file's order."""
    columns = raw[0].fields
    index = next((name for name in _INDEX if name in columns), None)
    if _DIFFICULTY not in columns or ("instruction" not in columns and index is None):
        raise InputError(f"{path}: needs the columns {_DIFFICULTY!r} and 'instruction' (or 'index'); add them")
    prompts: list[str] = []
    if "instruction" not in columns:
        if prompts_file is None:
            raise InputError(
                f"{path}: identifies its prompts by index only; give the prompts in the leaderboard's order "
                "(`difficulty_prompts`), or add a column 'instruction'"
            )
        prompts = [text_field(row, "instruction") for row in read_file(Path(prompts_file).expanduser())]
    difficulties: dict[str, float] = {}
    for row in raw:
        if "instruction" in columns:
            instruction = text_field(row, "instruction")
        else:
            number = _number(row, str(index))
            if not (number.is_integer() and 0 <= number < len(prompts)):
                raise InputError(
                    f"{row.place}: {index}: {number:g} must be a position among {len(prompts)} prompts; correct it"
                )
            instruction = prompts[int(number)]
        value = _number(row, _DIFFICULTY)
        if difficulties.setdefault(instruction, value) != value:
            raise InputError(
                f"{row.place}: {_DIFFICULTY}: {one_line(instruction, 60)!r} differs from an earlier row; keep one"
                + ("" if prompts_file is None else f", or correct the prompts in {prompts_file}")
            )
    return difficulties


def _gamed_rows(raw: Sequence[RawRow]) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for row in raw:
        flag = str(row.fields.get("not_gamed_baseline"))
        if flag not in ("True", "False"):
            raise InputError(f"{row.place}: not_gamed_baseline: must be True or False")
        rows.append(
            {
                "preference": read_number(row, "preference"),  # without one the row is not trained on
                "std_delta_len": _number(row, "std_delta_len"),
                _DIFFICULTY: _number(row, _DIFFICULTY),
                "not_gamed_baseline": flag == "True",
            }
        )
    return pd.DataFrame(rows)


def _number(row: RawRow, name: str) -> float:
    """A number that every row has."""
    if (number := read_number(row, name)) is None:
        raise InputError(f"{row.place}: {name or 'first column'}: is no number; correct it")
    return number
