"""A Hub that does not answer is asked once, and its cache is used."""

from __future__ import annotations

import os
import subprocess
import sys

LOAD = """
from instruct.base.errors import InputError
from instruct.base.models import ModelOptions, model_path
from instruct.base.output import printed_log
from huggingface_hub import hf_hub_download
with printed_log(False, False):
    paths = model_path("some/model"), model_path("some/other")
print(*paths)
try:
    hf_hub_download("some/model", "config.json")
except Exception as error:
    print(type(error).__name__)
"""


def test_an_unreachable_hub_is_asked_once_and_its_clients_do_not_retry(tmp_path):
    variables = os.environ | {"HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run([sys.executable, "-c", LOAD], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "some/model some/other"
    assert done.stdout.splitlines()[-1] == "LocalEntryNotFoundError"
    assert done.stderr.count("the Hugging Face Hub is out of reach (ConnectError)") == 1
    assert "Retry" not in done.stderr
