"""Each verb that the command has, disturbed in each way: it does its work, or says in one line why not."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from verbs import PARSERS, call_of_verb, run_without_rights, write_more
from works import RUN, Started, changes, in_one_line, on_disk, resize

from instruct.base.interrupts import INTERRUPTED

# `check` computes for long, without files.
EVERY = [pytest.param(verb, marks=pytest.mark.full) if verb == "check" else verb for verb in PARSERS]
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults"), pytest.mark.parametrize("verb", EVERY)]


class Calm(NamedTuple):
    """An undisturbed call."""

    call: list[str]
    folder: Path
    """As it was before the call."""
    code: int
    made: set[str]
    """The files that it made."""
    seconds: float
    asked: int


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.name.endswith((".log", ".lock"))}


@pytest.fixture(scope="session")
def calm(undisturbed: Any) -> Iterator[Callable[[str], Calm]]:
    """`calm(verb)`: its undisturbed call, which is made once."""
    kept: dict[str, Calm] = {}
    with tempfile.TemporaryDirectory() as place:
        before = Path(place, "before")
        shutil.copytree(undisturbed.before["all"], before)
        write_more(before)

        def make(verb: str) -> Calm:
            if verb not in kept:
                url = (before / "mine.yaml").read_text().partition("base_url: ")[2].split()[0]
                call, folder, asked = call_of_verb(verb, url), Path(place, "calm"), len(undisturbed.requests())
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(before, folder)
                begun = time.monotonic()
                code, printed = Started(call, folder).end()
                in_one_line(code, printed)
                seconds, asked = time.monotonic() - begun, len(undisturbed.requests()) - asked
                kept[verb] = Calm(call, before, code, files_in(folder) - files_in(before), seconds, asked)
            return kept[verb]

        yield make


def done(calm: Calm, folder: Path, code: int, printed: str) -> None:
    """It ended as the undisturbed call, and made what that made, or it failed."""
    in_one_line(code, printed)
    if code == 0:
        assert calm.code == 0
        assert calm.made <= files_in(folder)


def test_what_must_not_be_written_stays(calm, tmp_path, verb):
    """Neither the run nor the working directory."""
    without, folder = calm(verb), tmp_path / "work"
    shutil.copytree(without.folder, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    before = changes(folder)
    code, printed = Started(without.call, folder, place=tmp_path, target=run_without_rights).end()
    in_one_line(code, printed)
    assert not without.made or code, printed
    assert changes(folder) == before


def test_a_full_disk_is_told(calm, disk, tmp_path, verb):
    without = calm(verb)
    folder = on_disk(disk, without.folder)
    shutil.rmtree(folder / RUN / "report", ignore_errors=True)
    resize(disk, 0)
    code, printed = Started(without.call, folder, place=tmp_path).end()
    done(without, folder, code, printed)
    resize(disk, None)
    assert Started(without.call, folder, place=tmp_path).end()[0] == without.code


def test_an_interrupted_verb_ends_and_goes_on(calm, tmp_path, undisturbed, verb):
    without, folder, asked = calm(verb), tmp_path / "work", len(undisturbed.requests())
    shutil.copytree(without.folder, folder)
    process = Started(without.call, folder)
    time.sleep(0.8 * without.seconds)
    process.send(signal.SIGINT)
    code, printed = process.end(20)
    assert "Traceback" not in printed, printed
    assert code in (INTERRUPTED, -signal.SIGINT, without.code), printed
    code, printed = Started(without.call, folder).end()
    done(without, folder, code, printed)
    assert code == without.code, printed
    assert len(undisturbed.requests()) - asked <= without.asked + 64 * (without.asked > 0)


CODE = "from pathlib import Path\nPath({mark!r}).write_text('it ran')\nraise SystemExit('it ran')\n"


def test_code_in_the_model_of_a_run_that_is_read_is_not_run(calm, tmp_path, verb):
    """A run says what it was trained with; whether that code is run is for the call to say."""
    if verb not in ("generate", "evaluate", "merge", "preview"):
        pytest.skip("it loads no model of a run")
    without, folder, mark = calm(verb), tmp_path / "work", tmp_path / "mark"
    shutil.copytree(without.folder, folder)
    config = yaml.safe_load((folder / RUN / "config.yaml").read_text())
    config["model"] |= {"trust_remote_code": True, "dtype": "auto"}  # which is read from the model's own config
    (folder / RUN / "config.yaml").write_text(yaml.safe_dump(config))
    model = folder / "model"
    (model / "theirs.py").write_text(CODE.format(mark=str(mark)))
    classes = {"AutoConfig": "theirs.AutoConfig", "AutoModelForCausalLM": "theirs.AutoModelForCausalLM"}
    for name, named in {
        "config.json": classes,
        "tokenizer_config.json": {"AutoTokenizer": ["theirs.Slow", None]},
    }.items():
        content = json.loads((model / name).read_text())
        (model / name).write_text(json.dumps(content | {"auto_map": named}))
    for name in ("outputs", "metrics", "kept"):
        shutil.rmtree(folder / RUN / name, ignore_errors=True)
    (folder / RUN / "metrics.json").unlink()
    code, printed = Started(without.call, folder).end()
    in_one_line(code, printed)
    assert not mark.exists()
    if verb == "preview":  # it is run if the call says so
        Started([*without.call, "--model.trust_remote_code", "true"], folder).end()
        assert mark.exists()
    else:
        assert "model.trust_remote_code True" in printed
