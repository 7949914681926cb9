"""Bundles of benches: what they hold and never hold, what is refused, what a check finds, and what is compared."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench_runs import bench_run, judge_seeds

from instruct.analysis.results import outcome_name
from instruct.base.errors import InputError
from instruct.reporting.bench import ENTROPY, GREEDY
from instruct.reporting.bundle import check_bundle, pack, read_bundle, write_bundle
from instruct.reporting.compare_bundles import compare_bundles
from instruct.reporting.read import read_run
from instruct.reporting.report import build_report


def bundle_of(folder: Path, name: str, objectives: dict[str, int], **more: Any) -> Path:
    run = bench_run(folder / "runs" / name, objectives, **more)
    path = folder / f"{name}.zip"
    write_bundle(path, read_run(run.folder), build_report(run.folder))
    return path


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def findings_of(path: Path) -> dict[str, str]:
    return {finding.what: finding.state for finding in check_bundle(path)}


def test_a_bundle_is_the_same_bytes_and_gives_its_claims_again(tmp_path):
    path = bundle_of(tmp_path, "b", {"mle": 3, "dft": 3})
    before = path.read_bytes()
    write_bundle(path, read_run(tmp_path / "runs" / "b"), build_report(tmp_path / "runs" / "b"))
    assert path.read_bytes() == before
    assert findings_of(path) == {"hashes": "ok", "claims": "ok", "logs": "ok", "unknown": "warning"}
    bundle = read_bundle(path)
    stated = {(claim.measure, claim.finding): claim.trainings for claim in bundle.claims.objectives}
    assert stated == {(ENTROPY, "no difference"): 3, (GREEDY, "candidate"): 3}
    assert b"secret prompt" not in before  # rows are hashes


HOME = str(Path.home())
PRIVATE = {
    "an address": {"answers": {"generation": {"base_url": "http://user:pw-12345678@host.example/v1"}}},
    "a file": {"data": {"files": [f"{HOME}/mine/d.jsonl"]}},
    "a file's URL": {"data": {"files": [f"file://{HOME}/mine/d.jsonl"]}},
    "a path in a text": {"train": {"run_name": f"of {HOME}/mine"}},
    "an adapter": {"systems": {"gold": {"objective": "none", "adapter": [f"{HOME}/mine/gold"]}}},
    "a key": {f"{HOME}/mine": {"x": 1}},
}


@pytest.mark.parametrize("what", PRIVATE)
def test_no_place_of_this_machine_and_no_address_leaves_it(tmp_path, what):
    own = dict(PRIVATE[what])
    systems = own.pop("systems", {})
    run = bench_run(tmp_path / "runs" / "b", {"mle": 1, "dft": 1}, **own)
    contents = read_run(run.folder)
    contents.config["systems"].update(systems)
    write_bundle(tmp_path / "b.zip", contents, build_report(run.folder))
    packed = (tmp_path / "b.zip").read_bytes()
    for private in (HOME + "/", "/mine", "pw-12345678", "host.example"):
        assert private.encode() not in packed


def test_a_secret_of_the_environment_stops_the_bundle(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-abcdef123456")
    with pytest.raises(InputError, match="bundle: holds SOME_API_KEY"):
        bundle_of(tmp_path, "b", {"mle": 1, "dft": 1}, notes="sk-abcdef123456")
    assert not (tmp_path / "b.zip").exists()


def repacked(change: Callable[[dict[str, bytes]], None]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        members = members_of(path)
        change(members)
        path.write_bytes(pack(members))

    return write


def compressed(path: Path) -> None:
    members = members_of(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def overlapping(path: Path) -> None:
    """Every entry of the directory leads to the largest member: a bomb without compression."""
    with zipfile.ZipFile(path, "a") as archive:
        largest = max(archive.infolist(), key=lambda info: info.file_size)
        for number in range(50):
            info = zipfile.ZipInfo(f"logs/{number}.json")
            info.CRC, info.header_offset, info.file_size, info.compress_size = 0, largest.header_offset, 10**7, 10**7
            archive.filelist.append(info)
            archive.NameToInfo[info.filename] = info
        archive._didModify = True  # type: ignore[attr-defined]


CHANGED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a score": (repacked(lambda them: them.update({"scores.json": b"{}"})), "scores.json was changed"),
    "a further member": (repacked(lambda them: them.update({"x": b""})), "do not agree about x"),
    "a missing member": (repacked(lambda them: them.pop("claims.json")), "do not agree about claims.json"),
    "a path upward": (repacked(lambda them: them.update({"../x": b""})), r"outside of it: \.\./x"),
    "an absolute path": (repacked(lambda them: them.update({"/x": b""})), "outside of it: /x"),
    "no index": (repacked(lambda them: them.pop("bundle.json")), "is no bundle"),
    "another format": (repacked(lambda them: them.update({"bundle.json": b'{"format": 2, "files": {}}'})), "format 2"),
    "nested JSON": (repacked(lambda them: them.update({"bundle.json": b"[" * 100000})), "is no bundle"),
    "compressed": (compressed, "is compressed"),
    "a bomb": (overlapping, "larger than it"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-100]), "is no bundle"),
    "a text": (lambda path: path.write_text("PK"), "is no bundle"),
    "a folder": (lambda path: (path.unlink(), path.mkdir())[0], "is no bundle"),
}  # fmt: skip


@pytest.mark.parametrize("how", CHANGED)
def test_what_is_no_bundle_is_refused_in_a_line(tmp_path, how):
    path = bundle_of(tmp_path, "b", {"mle": 2, "dft": 2})
    change, message = CHANGED[how]
    change(path)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(InputError, match=message) as error:
        read_bundle(path)
    assert "\n" not in str(error.value)
    assert sorted(os.listdir(tmp_path)) == before


def with_content(path: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    """The bundle with a member that was changed, and hashes that agree with it."""
    members = members_of(path)
    content = json.loads(members[name])
    change(content)
    members[name] = json.dumps(content).encode()
    index = json.loads(members["bundle.json"])
    index["files"][name] = hashlib.sha256(members[name]).hexdigest()
    members["bundle.json"] = json.dumps(index).encode()
    path.write_bytes(pack(members))


@pytest.mark.parametrize(
    "fields",
    [{"value": -0.5}, {"p": 1e-6}, {"adjusted_p": 1e-6}, {"finding": "candidate"}, {"n": 31}, {"trainings": 5}],
)
def test_a_claim_that_the_scores_do_not_give_is_found(tmp_path, fields):
    path = bundle_of(tmp_path, "b", {"mle": 3, "dft": 3})
    with_content(path, "claims.json", lambda claims: claims["objectives"][0].update(fields))
    assert findings_of(path)["claims"] == "error"


def forged_bundle(folder: Path, how: str) -> Path:
    """A bundle whose hashes agree with its members, and whose members do not agree with each other."""
    path = bundle_of(folder, "b", {"mle": 3, "dft": 3}, primary=outcome_name(GREEDY))

    def claims(change: Callable[[dict[str, Any]], object]) -> None:
        with_content(path, "claims.json", change)

    def scores(change: Callable[[dict[str, Any]], object]) -> None:
        with_content(path, "scores.json", lambda content: change(content["measures"][GREEDY]["systems"]))

    def of_greedy(content: dict[str, Any]) -> dict[str, Any]:
        return next(claim for claim in content["objectives"] if claim["measure"] == GREEDY)

    if how == "another primary outcome":
        claims(lambda content: [claim.update(primary=claim["measure"] == ENTROPY) for claim in content["objectives"]])
    elif how == "a false claim before the true one":
        claims(lambda content: content["objectives"].insert(0, of_greedy(content) | {"value": 0.9}))
    elif how == "a part of a claim":
        claims(lambda content: of_greedy(content).update(excluding=[-0.01, 0.01]))
    elif how == "a figure":
        claims(lambda content: content["figures"][0].update(value=0.99))
    elif how == "the number of rows":
        claims(lambda content: content["bench"]["rows"].update(test=99999))
    elif how == "systems that changed places":
        scores(lambda of: of.update({f"{a}-seed{n}": of[f"{b}-seed{n}"] for n in (1, 2, 3) for a, b in PLACES}))
    return path


PLACES = [("mle", "dft"), ("dft", "mle")]


@pytest.mark.parametrize(
    "how",
    [
        "another primary outcome",
        "a false claim before the true one",
        "a part of a claim",
        "a figure",
        "the number of rows",
        "systems that changed places",
    ],
)
def test_a_bundle_that_contradicts_itself_is_found(tmp_path, how):
    assert findings_of(forged_bundle(tmp_path, how))["claims"] == "error"


def test_one_training_under_two_seeds_is_found(tmp_path):
    path = bundle_of(tmp_path, "b", {"mle": 3, "dft": 3})
    assert "trainings" not in findings_of(path)

    def copy(content: dict[str, Any]) -> None:
        for measure in content["measures"].values():
            measure["systems"]["dft-seed2"] = measure["systems"]["dft-seed1"]

    with_content(path, "scores.json", copy)
    assert findings_of(path)["trainings"] == "error"


WRONG_CONFIGS: dict[str, Callable[[dict[str, Any]], object]] = {
    "no systems": lambda config: config.update(systems={}),
    "systems that are none": lambda config: config.update(systems=["mle"]),
    "another objective": lambda config: config["systems"]["mle-seed1"].update(objective="dft"),
    "a model that is none": lambda config: config.update(model=7),
    "a revision that is none": lambda config: config.update(model={"name": "m", "revision": 7}),
}


@pytest.mark.parametrize("how", WRONG_CONFIGS)
def test_a_bundle_whose_config_is_none_is_refused(tmp_path, how):
    path = bundle_of(tmp_path, "b", {"mle": 2, "dft": 2})
    with_content(path, "about.json", lambda about: WRONG_CONFIGS[how](about["config"]))
    with pytest.raises(InputError, match="is no bundle"):
        read_bundle(path)


@pytest.mark.parametrize("score", [1.5, -0.1])
def test_a_score_out_of_range_is_refused(tmp_path, score):
    path = bundle_of(tmp_path, "b", {"mle": 2, "dft": 2})

    def change(content: dict[str, Any]) -> None:
        content["measures"][GREEDY]["systems"]["mle-seed1"][0] = score

    with_content(path, "scores.json", change)
    with pytest.raises(InputError, match="has a score that is none"):
        read_bundle(path)


@pytest.mark.parametrize("change", [None, "verdict", "value", "finding", "interval", "gone"])
def test_the_claims_of_judges_are_computed_again_from_their_verdicts(tmp_path, change):
    run = bench_run(tmp_path / "runs" / "b", {"mle": 3, "dft": 3})
    judge_seeds(run, 3)
    path = tmp_path / "b.zip"
    write_bundle(path, read_run(run.folder), build_report(run.folder))
    (stated,) = read_bundle(path).claims.judges
    assert (stated.judge, stated.trainings) == ("j", 3)
    if change == "value":
        with_content(path, "claims.json", lambda claims: claims["judges"][0].update(value=99.0))
    if change == "finding":
        with_content(path, "claims.json", lambda claims: claims["judges"][0].update(finding="candidate"))
    if change == "interval":
        with_content(path, "claims.json", lambda claims: claims["judges"][0].update(interval=[90.0, 99.0]))
    if change == "gone":
        with_content(path, "claims.json", lambda claims: claims.update(judges=[]))
    if change == "verdict":
        with_content(path, "scores.json", lambda scores: scores["verdicts"].pop())
    findings = {finding.what: finding for finding in check_bundle(path)}
    assert findings["claims"].state == ("error" if change else "ok")
    assert "that the verdicts are the judge's" in findings["unknown"].text


def test_the_commands_check_and_compare_bundles(tmp_path, instruct):
    one = bundle_of(tmp_path, "one", {"mle": 3, "dft": 3})
    other = bundle_of(tmp_path, "other", {"mle": 3, "emo": 2})
    apart = bundle_of(tmp_path, "apart", {"mle": 3, "dft": 3}, first=10, model="large")
    page = tmp_path / "page.html"
    code, text, _ = instruct("compare", one, other, apart, "--output", page)
    assert code == 0
    assert "other rows: 30 and 30, 20 in both" in text
    assert "Between bundles" in text
    found = compare_bundles([one, other, apart])
    pairs = {(claim.candidate, claim.baseline): claim.finding for claim in found.between if claim.measure == GREEDY}
    assert pairs == {("mle (one)", "mle (other)"): "no difference", ("dft (one)", "emo (other)"): "too few"}
    assert {row.bundles for row in found.apart} == {"one, apart", "other, apart"}
    assert [row.bundle.name for row in found.within if row.claim.measure == GREEDY] == ["one", "other", "apart"]
    assert len(found.rows()) == len(found.within) + len(found.between)


def test_primary_outcomes_come_first(tmp_path):
    own = {"one": 0, "other": 100}
    more = {"primary": outcome_name(GREEDY)}
    paths = [bundle_of(tmp_path, name, {"mle": 3, "dft": 3}, first=row, **more) for name, row in own.items()]
    found = compare_bundles(paths)
    assert [row.claim.measure for row in found.within] == [GREEDY, GREEDY, ENTROPY, ENTROPY]
    assert [line.split(", ")[0] for line in found.headlines()] == [
        "one: Primary outcome: dft against mle",
        "other: Primary outcome: dft against mle",
    ]


def test_what_differs_between_bundles_is_named(tmp_path):
    changed = {
        "answers": {"generation": {"max_new_tokens": 9}},
        "data": {"chat_template": "other.jinja"},
        "model": {"name": "tiny", "dtype": "bfloat16"},
        "train": {"max_steps": 9},
    }
    one = bundle_of(tmp_path, "one", {"mle": 3, "dft": 3})
    run = bench_run(tmp_path / "runs" / "other", {"mle": 3, "dft": 3})
    contents = read_run(run.folder)
    contents.config.update(changed)
    contents.config["systems"]["dft-seed1"]["learning_rate"] = 0.5
    write_bundle(tmp_path / "other.zip", contents, build_report(run.folder))
    found = compare_bundles([one, tmp_path / "other.zip"])
    differs = {claim.candidate: claim.params["differs"] for claim in found.between}
    assert differs["mle (one)"] == "train, template, model options, answers"
    assert differs["dft (one)"] == "train, template, model options, answers, learning_rate"
    assert [(row.measure, row.why) for row in found.apart] == [
        (ENTROPY, "another template, which is in front of the text")
    ]


def test_a_judges_win_rate_that_is_primary_is_shown(tmp_path):
    paths = []
    for name, first in {"one": 0, "other": 100}.items():
        run = bench_run(tmp_path / "runs" / name, {"mle": 3, "dft": 3}, first=first, primary="j/win_rate")
        judge_seeds(run, 3, first=first)
        paths.append(tmp_path / f"{name}.zip")
        write_bundle(paths[-1], read_run(run.folder), build_report(run.folder))
        assert findings_of(paths[-1])["claims"] == "ok"
    found = compare_bundles(paths)
    assert [row.claim.judge for row in found.within] == ["j", "j", *[None] * 4]
    assert [line.split(": ")[:3] for line in found.headlines()] == [
        [name, "Primary outcome", "j"] for name in ("one", "other")
    ]
    share = found.rows()[0]
    assert share["judge"] == "j"
    assert abs(share["difference"]) < 0.5


def test_another_model_is_not_compared_by_its_own_tokens(tmp_path):
    paths = [bundle_of(tmp_path, name, {"mle": 3, "dft": 3}, model=name) for name in ("large", "tiny")]
    found = compare_bundles(paths)
    assert [(row.measure, row.why.partition(",")[0]) for row in found.apart] == [(ENTROPY, "another model")]
    assert {claim.params["differs"] for claim in found.between} == {"model"}


@pytest.mark.parametrize(("more", "message"), [(["--seeds", "x"], "requires logs"), (["x.json"], "is no bundle")])
def test_bundles_are_compared_with_bundles_alone(tmp_path, instruct, more, message):
    path = bundle_of(tmp_path, "one", {"mle": 3, "dft": 3})
    code, _, error = instruct("compare", path, *more)
    assert (code, message in error) == (2, True)


def test_a_bundle_twice_is_refused(tmp_path):
    path = bundle_of(tmp_path, "one", {"mle": 3, "dft": 3})
    with pytest.raises(InputError, match="again"):
        compare_bundles([path, path])
