"""A bundle: what a bench found, in one file to publish and to check: scores of every row, claims, versions, hashes.

Its bytes depend on the run alone. It holds no texts, no weights, no keys and no paths of the machine.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import statistics
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from instruct.analysis.claims import decide, of_family, settle
from instruct.analysis.outcomes import mirrored_scores
from instruct.analysis.results import ELSEWHERE, Claim, Kind
from instruct.base.errors import InputError, counted, one_line
from instruct.base.files import sha256_of, write_atomically
from instruct.base.output import Finding
from instruct.base.parsing import parse_json
from instruct.data.prompts import identity
from instruct.reporting.bench import (
    ENTROPY,
    EXACT,
    GREEDY,
    MLE,
    OBJECTIVES,
    SAMPLED,
    STEP,
    Measured,
    measured_in,
    objective_claims,
    trainings_of,
)
from instruct.reporting.comparison import claim_over_seeds
from instruct.reporting.model import Bench, ReportData
from instruct.reporting.read import RunContents, seeds_of
from instruct.run.measurements import Measurement, metric_step
from instruct.training.options import without_seed

ENDING = ".zip"
_INDEX, _ABOUT, _SCORES, _CLAIMS, _LOGS = "bundle.json", "about.json", "scores.json", "claims.json", "logs/"
_FORMAT = 1
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a ZIP file can hold
# A larger file, or one with more members, is no bundle.
_MOST_BYTES, _MOST_MEMBERS = 256 << 20, 2000
_MOST_SCORE = 1e9
_SECRETS = re.compile(r"KEY|TOKEN|SECRET|PASSW", re.IGNORECASE)
_LEAST_SECRET = 8  # characters; shorter values of such variables are words
_PATH = re.compile(r"(?:file://|(?<![\w.:/@~-])~?/)[^\s'\"(),;]+")
_URL = re.compile(r"https?://[^\s'\"(),;]+")
# Where a server is, which is nobody's business; and folders of this machine.
_PRIVATE = ("base_url", "api_key", "hub_model_id", "run_name", "logging_dir", "output_dir")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=(), strict=True)


class _Index(_Part):
    """The format, and the SHA-256 of every other member."""

    format: int
    files: dict[str, str]


class About(_Part):
    """What was run, and on what. `hashes`: of data, prompts and weights; `inputs`: how each step was made."""

    name: str
    created: str
    data: str
    versions: dict[str, Any]
    machine: dict[str, Any]
    config: dict[str, Any]
    hashes: dict[str, str]


class _Scored(_Part):
    """A measure's score of each row by system. `rows`: hashes of what was asked."""

    rows: list[str]
    clusters: list[str] | None
    systems: dict[str, list[float | None]]


class _Verdicts(_Part):
    """A judge's score of each row of a comparison, 0 to 1 for the candidate."""

    judge: str
    candidate: str
    baseline: str
    scores: dict[str, float | None]


class _Scores(_Part):
    measures: dict[str, _Scored]
    verdicts: list[_Verdicts]


def _of_kind(kind: Kind) -> BeforeValidator:
    """Claims of the bundles in docs/results do not say what they are."""
    return BeforeValidator(lambda claim: {"kind": kind, **claim} if isinstance(claim, dict) else claim)


class _Claims(BaseModel):
    """What the report says: the claims of objectives, those of judges over seeds, the figures of each system with the
    learning rates that were tried, and the sizes and notes."""

    model_config = ConfigDict(extra="forbid")

    objectives: list[Annotated[Claim, _of_kind("metric")]]
    judges: list[Annotated[Claim, _of_kind("rate")]]
    figures: list[Measurement]
    bench: Bench


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read, whose members have the hashes that its index names."""

    path: Path
    sha256: str
    about: About
    measured: Measured
    verdicts: Sequence[_Verdicts]
    claims: _Claims
    logs: Sequence[str]
    model: str
    """The base model, with its revision if the config names one."""

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def data(self) -> str:
        """The card or the files of the rows, with the first digits of the training rows' hash."""
        digests = training_rows(self)
        return f"{self.about.data} ({min(digests)[:8]})" if digests else self.about.data


def write_bundle(path: str | Path, contents: RunContents, report: ReportData) -> str:
    """Write the bundle of a finished bench; its SHA-256.

    Raises:
        InputError: another extension, no bench, or something that must not leave this machine.
    """
    check_ending(path)
    if report.bench is None:
        raise InputError(f"{contents.run.folder}: is no bench; a bundle is made by `instruct bench`")
    judges = [claim for claim in report.seeds if claim.judge]
    about = About(
        name=report.run,
        created=report.created,
        data=contents.manifest["steps"][STEP]["inputs"].get("data", "?"),
        versions=report.versions,
        machine=report.machine,
        config=contents.config,
        hashes=report.sha256,
    )
    claims = _Claims(
        objectives=of_family(report.claims, OBJECTIVES),
        judges=judges,
        figures=[row for row in report.measurements if row.part == OBJECTIVES],
        bench=report.bench,
    )
    members: dict[str, Any] = {
        _ABOUT: about.model_dump(mode="json"),
        _SCORES: _scores_of(contents).model_dump(mode="json"),
        _CLAIMS: claims.model_dump(mode="json"),
    }
    for log in sorted(contents.run.adapters.glob("*/training_log.json")):
        members[f"{_LOGS}{log.parent.name}.json"] = json.loads(log.read_text(encoding="utf-8"))
    texts = {name: _json(_public(content)) for name, content in members.items()}
    index = _Index(format=_FORMAT, files={name: _digest(text) for name, text in texts.items()})
    packed = pack({_INDEX: _json(index.model_dump()), **texts})
    _refuse_secrets(packed)
    write_atomically(Path(path), packed)
    return hashlib.sha256(packed).hexdigest()


def check_ending(path: str | Path) -> None:
    """Raise InputError for a file that would not be read as a bundle."""
    if Path(path).suffix.lower() != ENDING:
        raise InputError(f"{one_line(path, 200)}: a bundle's name ends with {ENDING}; write it so")


def pack(members: Mapping[str, bytes]) -> bytes:
    """A ZIP file whose bytes depend on its members alone: nothing is compressed, as libraries do that differently."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(members.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
    return packed.getvalue()


def _json(content: Any) -> bytes:
    return (json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _scores_of(contents: RunContents) -> _Scores:
    measured = measured_in(contents)
    references = {identity(row): row["output"] for row in contents.answers["baseline"].rows}

    def hashed(row: str, asked: Any = None) -> str:
        return _row(asked, row) if asked else _row(None, row, references.get(row, ""))

    measures = {}
    for measure, systems in measured.scores.items():
        rows = list(dict.fromkeys(row for scores in systems.values() for row in scores))
        clusters = measured.clusters.get(measure)
        asked = _asked(contents, measure)
        measures[measure] = _Scored(
            rows=[hashed(row, asked) for row in rows],
            clusters=[_row(asked, clusters.get(row, row)) for row in rows] if clusters else None,
            systems={name: [_finite(scores.get(row)) for row in rows] for name, scores in systems.items()},
        )
    verdicts = [
        _Verdicts(
            judge=judged.key.judge,
            candidate=judged.key.candidate,
            baseline=judged.key.baseline,
            scores={hashed(row): _finite(score) for row, score in judged.scores().items()},
        )
        for judged in contents.by_judge
    ]
    return _Scores(measures=measures, verdicts=verdicts)


def _asked(contents: RunContents, measure: str) -> Any:
    """What a task was asked with, but the system and the machine; of other measures nothing."""
    for part, systems in contents.values.items():
        if part.startswith(("tasks/", "lm_eval/")) and measure.startswith(f"{part.partition('/')[2]} ("):
            step = contents.manifest["steps"].get(metric_step(part, next(iter(systems))), {})
            own = ("weights", "dtype", "engine")
            return part, {key: value for key, value in step.get("inputs", {}).items() if key not in own}
    return None


def _row(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:20]


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _public(content: Any) -> Any:
    """Without what says where things are on this machine: paths become names, servers `set`."""
    if isinstance(content, dict):
        return {_public(key): "set" if key in _PRIVATE and value else _public(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [*map(_public, content)]
    if not isinstance(content, str):
        return content if not isinstance(content, float) or math.isfinite(content) else None
    for folder, label in ((os.getcwd(), "."), (str(Path.home()), "~")):
        content = content.replace(folder + os.sep, f"{label}/") if folder != os.sep else content
    content = _URL.sub(
        lambda url: re.sub(r"//[^/@]*@|\?.*", lambda part: "//" if "@" in part[0] else "", url[0]), content
    )
    return _PATH.sub(lambda path: PurePosixPath(path[0]).name, content)


def _refuse_secrets(packed: bytes) -> None:
    """Stop before a key, or this machine's home directory, leaves it.

    Raises:
        InputError: it is in there.
    """
    from huggingface_hub import get_token

    values = {name: value for name, value in os.environ.items() if _SECRETS.search(name)}
    values |= {"the token of the Hugging Face Hub": get_token() or "", "the home directory": f"{Path.home()}{os.sep}"}
    for name, value in values.items():
        if len(value.strip()) >= _LEAST_SECRET and value.strip().encode() in packed:
            raise InputError(f"bundle: holds {name}; remove it from the config, from names and from what was logged")


def is_bundle(path: str | Path) -> bool:
    """Whether a path is to be read as a bundle."""
    return Path(path).suffix.lower() == ENDING and Path(path).is_file()


def read_bundle(path: str | Path) -> Bundle:
    """Read a bundle of anyone: nothing is unpacked into files, and nothing in it is run.

    Raises:
        InputError: it is none, or was changed.
    """
    where = one_line(path, 200)
    members = _members(Path(path), where)
    try:
        index = _parsed(_Index, members.pop(_INDEX, b"{}"))
        if index.format != _FORMAT:
            raise ValueError(f"has the format {index.format}, and {_FORMAT} is known")
        if index.files.keys() != members.keys():
            odd = sorted(index.files.keys() ^ members.keys())[0]
            raise ValueError(f"its index and its members do not agree about {one_line(odd, 100)}")
        if changed := [name for name, content in members.items() if _digest(content) != index.files[name]]:
            raise ValueError(f"{one_line(changed[0], 100)} was changed: its hash is another one")
        about, scores = _parsed(About, members[_ABOUT]), _parsed(_Scores, members[_SCORES])
        claims = _parsed(_Claims, members[_CLAIMS])
        measured = _measured(scores, about.config)
        logs = [name.removeprefix(_LOGS).removesuffix(".json") for name in members if name.startswith(_LOGS)]
        named = about.config.get("model") or {}
        model = "@".join(filter(None, (str(named.get("name", "?")), named.get("revision"))))
    except (KeyError, ValueError, RecursionError, AttributeError, TypeError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise InputError(f"{where}: is no bundle of `instruct bench` ({one_line(reason, 200)})") from None
    return Bundle(Path(path), sha256_of(Path(path)), about, measured, scores.verdicts, claims, logs, model)


def _members(path: Path, where: str) -> dict[str, bytes]:
    """The content of a ZIP file by name: only plain, uncompressed members, which together are no larger than it."""
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise ValueError(f"has {size:,} bytes, and {_MOST_BYTES:,} are read at most")
        with zipfile.ZipFile(path) as archive:
            found = archive.infolist()
            names = [info.filename for info in found]
            if len(found) > _MOST_MEMBERS or len(set(names)) < len(names):
                raise ValueError(f"has {len(found):,} members, or one twice")
            for info in found:
                name = PurePosixPath(info.filename)
                if name.is_absolute() or ".." in name.parts or "\\" in info.filename or info.is_dir():
                    raise ValueError(f"has a member outside of it: {one_line(info.filename, 100)}")
                if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
                    raise ValueError(f"{one_line(info.filename, 100)} is compressed or encrypted, which no bundle is")
            if sum(info.file_size for info in found) > size:
                raise ValueError("its members are larger than it")
            return {info.filename: archive.read(info) for info in found}
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise InputError(f"{where}: is no bundle of `instruct bench` ({one_line(error, 200)})") from None


def _parsed(kind: type[Any], content: bytes) -> Any:
    return kind.model_validate(parse_json(content.decode("utf-8")))


def _measured(scores: _Scores, config: Mapping[str, Any]) -> Measured:
    """Raises ValueError: scores that are not those of the rows, or a config without MLE."""
    by_measure: dict[str, dict[str, dict[str, float | None]]] = {}
    clusters: dict[str, dict[Any, str]] = {}
    for measure, scored in scores.measures.items():
        lengths = {len(scored.rows), *map(len, scored.systems.values()), len(scored.clusters or scored.rows)}
        if len(lengths) > 1 or len(set(scored.rows)) < len(scored.rows):
            raise ValueError(f"{one_line(measure, 60)}: its rows and scores do not agree")
        values = (value for scores_of in scored.systems.values() for value in scores_of if value is not None)
        least, most = (0, 1) if measure in (GREEDY, SAMPLED, EXACT) else (-_MOST_SCORE, _MOST_SCORE)
        if not all(least <= value <= most for value in values):
            raise ValueError(f"{one_line(measure, 60)}: has a score that is none")
        by_measure[measure] = {
            name: dict(zip(scored.rows, values, strict=True)) for name, values in scored.systems.items()
        }
        if scored.clusters:
            clusters[measure] = dict(zip(scored.rows, scored.clusters, strict=True))
    names, elsewhere = trainings_of(config)
    if not names.get(MLE) or {config["systems"][name]["objective"] for name in names[MLE]} != {MLE}:
        raise ValueError("has no trainings with mle")
    return Measured(names, by_measure, clusters, elsewhere)


def training_rows(bundle: Bundle) -> set[str]:
    """The hashes of the rows that its systems were trained on."""
    return {digest for name, digest in bundle.about.hashes.items() if name.startswith("training data of ")}


def check_bundle(path: str | Path) -> Iterator[Finding]:
    """Verify hashes, compute the claims again from the scores of rows, and say what nobody can verify."""
    bundle = read_bundle(path)
    yield Finding("hashes", "ok", f"every member has the hash of the index; this file: sha256 {bundle.sha256}")
    stated, again = [*bundle.claims.objectives, *bundle.claims.judges], recomputed(bundle)
    differing = [*_differing(stated, again), *_other_figures(bundle)]
    measures = ", ".join([*bundle.measured.scores, *dict.fromkeys(made.judge for made in bundle.verdicts)])
    if differing:
        more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
        text = f"not what the scores give: {'; '.join(differing[:3])}{more}"
        yield Finding("claims", "error", one_line(text, 300), "do not publish it; ask for the run")
    else:
        yield Finding("claims", "ok", f"{counted(len(stated), 'claim')} computed again from the scores of {measures}")
    if twice := [*_scored_twice(bundle.measured)]:
        text = f"{one_line(', '.join(twice), 200)}: have the same scores on every row, so they are one training"
        yield Finding("trainings", "error", text, "do not publish it; ask for the run")
    trained = {name for names in bundle.measured.names.values() for name in names} - bundle.measured.elsewhere
    logs = f"{counted(len(trained & {*bundle.logs}), 'training log')} of {counted(len(trained), 'training')}"
    yield Finding("logs", "ok" if trained == {*bundle.logs} else "warning", logs)
    not_known = ["that the scores are of these models' answers", "that the models were trained as the config says"]
    if bundle.verdicts:
        not_known.append("that the verdicts are the judge's, the correction of its p-values, and its margins")
    if bundle.measured.elsewhere:
        not_known.append("what was trained elsewhere, and on which rows")
    text = f"not verified: {'; '.join(not_known)}"
    yield Finding("unknown", "warning", text, "train one system of it again, or ask for the run")


def recomputed(bundle: Bundle) -> list[Claim]:
    """The claims that the scores and the verdicts give.

    A judge's p-values may have been corrected with those of other claims, so that the corrected ones, and what is said
    of a margin, are as stated.
    """
    stated = [*bundle.claims.objectives, *bundle.claims.judges]
    claims = objective_claims(bundle.measured)
    primary = bundle.about.config.get("primary")
    if any(claim.primary is not None for claim in stated):  # else it was set when results existed
        for claim in claims:
            claim.primary = claim.outcome == primary
    settle(claims)
    return [*claims, *_of_judges(bundle)]


def _of_judges(bundle: Bundle) -> Iterator[Claim]:
    seeds, measured = seeds_of(bundle.about.config), bundle.measured
    arms = {key for key, names in measured.names.items() if measured.elsewhere.intersection(names)}
    groups: dict[tuple[str, frozenset[str]], dict[int, _Verdicts]] = {}
    for made in bundle.verdicts:
        names = made.candidate, made.baseline
        of_names = {seeds[name] for name in names if name in seeds}
        if len(of_names) == 1 and any(score is not None for score in made.scores.values()):
            (seed,) = of_names
            pair = frozenset(without_seed(name, seed) for name in names)
            groups.setdefault((made.judge, pair), {})[seed] = made
    stated = {(claim.judge, frozenset((claim.candidate, claim.baseline))): claim for claim in bundle.claims.judges}
    for (judge, pair), by_seed in groups.items():
        claim = stated.get((judge, pair))
        if len(by_seed) < 2:
            continue
        candidate, baseline = (claim.candidate, claim.baseline) if claim else sorted(pair)
        scores = {
            seed: made.scores if without_seed(made.candidate, seed) == candidate else mirrored_scores(made.scores)
            for seed, made in sorted(by_seed.items())
        }
        number = 1 if pair & measured.elsewhere else len(by_seed)
        params: dict[str, Any] = {ELSEWHERE: True} if pair & arms else {}
        again = claim_over_seeds(scores, number, params, candidate=candidate, baseline=baseline, judge=judge)
        if claim:
            for name in ("policy", "family", "claims", "equivalent", "not_worse"):
                setattr(again, name, getattr(claim, name))
            again.primary = None if claim.primary is None else again.outcome == bundle.about.config.get("primary")
            again.complete.adjusted_p, again.adjusted_p = claim.complete.adjusted_p, claim.adjusted_p
            decide(again, claim.adjusted_p, claim.complete.adjusted_p)
        yield again


def _differing(stated: Sequence[Claim], again: Sequence[Claim]) -> Iterator[str]:
    """The claims that only one side has, or that do not say the same."""

    def by_key(claims: Iterable[Claim]) -> dict[tuple[str, ...], list[dict[str, Any]]]:
        found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for claim in claims:
            key = claim.judge or "", claim.candidate, claim.baseline, claim.measure
            found.setdefault(key, []).append(claim.model_dump(mode="json"))
        return found

    ours, theirs = by_key(stated), by_key(again)
    for key in dict.fromkeys((*ours, *theirs)):
        if not _same(ours.get(key), theirs.get(key)):
            yield f"{' '.join(filter(None, [key[3], key[0] and f'({key[0]})']))}, {key[1]} against {key[2]}"


def _other_figures(bundle: Bundle) -> Iterator[str]:
    """What the tables say beside claims: means and deviations of scores, and the number of rows."""
    measured = bundle.measured
    for row in bundle.claims.figures:
        if row.metric not in measured.scores:
            continue
        scores = measured.of(row.metric, measured.names.get(row.system, [row.system]))
        values = [[one for one in training.values() if one is not None] for training in scores]
        means = [*map(statistics.fmean, values)] if all(values) else []
        if means and not _same([row.value, row.details.trainings], [statistics.fmean(means), len(means)]):
            yield f"{row.metric} of {row.system}"
    tested = {len(rows) for measure in (ENTROPY, GREEDY, EXACT) for rows in measured.scores.get(measure, {}).values()}
    if tested - {bundle.claims.bench.rows.get("test")}:
        yield "the number of rows to test"


def _scored_twice(measured: Measured) -> Iterator[str]:
    """Trainings that have the scores of an earlier one, in graded measures, where that is no chance."""
    seen: dict[Any, str] = {}
    for name in (name for names in measured.names.values() for name in names):
        graded = {measure: tuple(of[name].values()) for measure, of in measured.scores.items() if name in of}
        scores = tuple((measure, values) for measure, values in graded.items() if len(set(values)) > 2)
        if scores and seen.setdefault(scores, name) != name:
            yield f"{seen[scores]} and {name}"


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal, but for the rounding of sums in another order."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float | int) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    return bool(one == other)
