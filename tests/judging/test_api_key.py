"""The API key: it is shown nowhere, whatever a server makes of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

KEY = "sk-secret-key"


@pytest.mark.slow
def test_the_key_is_in_no_file_output_or_process_list(tmp_path, fake_server, make_run):
    """Also if the server repeats it in an error, a model's name and a reply."""
    faults = {"Question 1?": ["500"], "Question 2?": "400", "Question 3?": "leak"}
    url, _ = fake_server(faults, delay=0.5)
    run = make_run(tmp_path / "a-run", 10)
    sides = ["--candidate", "ours", "--baseline", "theirs"]
    command = [sys.executable, "-m", "instruct", "judge", str(run.folder), "--judge", "pandalm", "--base-url", url]
    loud = {**os.environ, "OPENAI_API_KEY": KEY, "OPENAI_LOG": "debug"}
    with (tmp_path / "out.log").open("w") as log:
        process = subprocess.Popen([*command, *sides], stdout=log, stderr=log, env=loud)
        listed = ""
        while process.poll() is None:
            listed += subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
            time.sleep(0.2)
    shown = (tmp_path / "out.log").read_text()
    assert process.returncode == 0, shown
    assert url in listed
    assert KEY not in listed
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert run.store in files
    assert b"(the key)" in run.store.read_bytes()
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
