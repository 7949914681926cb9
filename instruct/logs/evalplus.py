"""EvalPlus: eval_results.json of HumanEval+ and MBPP+.

From the tool's source, version 0.3.1 and, for files with `nfiles`, 0.1 to 0.2.0 (`evaluate.py`, `codegen.py`).
"""

from __future__ import annotations

import re
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.data.formats import check_storable
from instruct.data.sources import RawRow
from instruct.logs.log import Log, Row
from instruct.logs.source import Source, read_number, read_object, read_objects

# A sample passes the extra tests if it passes those of the base, too.
_KINDS = ("plus", "base")
_PASSES, _STATES = ("pass", "success"), ("pass", "success", "fail", "failed", "timeout", "timed out", None)
# The name of a file or folder that EvalPlus generated, such as org--model_vllm_temp_0.0.
_GENERATED = re.compile(r"(?P<model>.+)_(?P<engine>[a-z]+)_temp_(?P<temperature>\d+(?:\.\d+)?)", re.DOTALL)


def read_evalplus(source: Source) -> list[Log] | None:
    """The log of a benchmark: whether each sample passes the base tests, and all of them.

    Raises:
        InputError: a sample without its state, or a pass@1 that is not that of the samples.
    """
    content = source.content
    if not isinstance(content.get("eval"), dict) or content.keys().isdisjoint(("hash", "pass_at_k")):
        return None
    path = str(source.path)
    results = RawRow(path, 1, content)
    check_storable(results, "results", content)
    states: list[tuple[str, list[dict[str, Any]]]] = [
        (task, _samples(value, f"{path}, task {one_line(task, 40)}")) for task, value in content["eval"].items()
    ]
    if not any(samples for _, samples in states):
        raise InputError(f"{path}: eval: has no samples; evaluate again")
    # Without the extra tests, no sample has a state of them.
    plus = any(sample["plus_status"] is not None for _, samples in states for sample in samples)
    log = _log(source, next(iter(content["eval"]), ""))
    for task, samples in states:
        for number, sample in enumerate(samples):
            base = sample["base_status"] in _PASSES
            passed = {"plus": base and sample["plus_status"] in _PASSES} if plus else {}
            values = {f"{kind} pass@1": float(value) for kind, value in (passed | {"base": base}).items()}
            epoch = number + 1 if len(samples) > 1 else None
            response = sample.get("solution")
            row = Row(task, values, epoch=epoch, question=task, response=response if isinstance(response, str) else "")
            log.add(row, f"{path}, task {one_line(task, 40)}")
    figures = read_object(results, "pass_at_k")
    for kind in _KINDS:
        of_kind = read_object(figures, kind)
        for name in of_kind.fields:
            figure, metric = read_number(of_kind, name), f"{kind} {name}"
            if figure is not None and metric in log.values:
                log.check_figure(metric, figure, path)
            elif figure is not None:
                log.figures[metric] = figure
                log.unpaired.append(metric)
    return [log]


def _samples(value: Any, place: str) -> list[dict[str, Any]]:
    """A task's samples, each with the states of both kinds of tests."""
    if isinstance(value, dict):  # until 0.2.0
        base, plus = value.get("base"), value.get("plus") or []
        if not isinstance(base, list) or not isinstance(plus, list) or len(plus) not in (0, len(base)):
            raise InputError(f"{place}: base, plus: must be lists of samples; give the file as the tool wrote it")
        pairs = zip(base, plus or [None] * len(base), strict=True)
        samples = [{"base_status": _state(one), "plus_status": _state(other)} for one, other in pairs]
    else:
        samples = [row.fields for row in read_objects(value, place)]
    for number, sample in enumerate(samples, start=1):
        for kind in _KINDS:
            if (state := sample.get(f"{kind}_status", "missing")) not in _STATES:
                raise InputError(
                    f"{place}, sample {number}: {kind}_status: {one_line(repr(state), 40)} is no state of EvalPlus "
                    "(pass, fail, timeout); give the file as the tool wrote it"
                )
    return samples


def _state(value: Any) -> Any:
    """The state in a pair of it and its details."""
    return value[0] if isinstance(value, list) and value else value


def _log(source: Source, first: str) -> Log:
    content = source.content
    # The samples were a file, whose name the results begin with, or a folder.
    name = re.sub(r"[._]?eval_results$", "", source.path.stem) or source.path.resolve().parent.name
    generated = _GENERATED.fullmatch(name)
    model = generated["model"] if generated else name
    log = Log("EvalPlus", source.path, model.replace("--", "/"), first.partition("/")[0] or "EvalPlus")
    if generated:
        log.settings |= {"temperature": float(generated["temperature"]), "engine": generated["engine"]}
    names = {"hash": "task version", "date": "date"}
    log.settings |= {name: content[field] for field, name in names.items() if isinstance(content.get(field), str)}
    return log
