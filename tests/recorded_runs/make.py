"""Record the runs that tests damage, interrupt and read: `python tests/recorded_runs/make.py`.

NAME.yaml is a config, NAME/ the run directory that `instruct run NAME.yaml` leaves behind, without what is written
again (report/, locks). The address in the configs is nobody's: the fake server of these tests answers for it, as an
HTTP proxy. Record again after a change of what a run directory holds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
LEFT_OUT = ("report", "log.txt", ".*.lock", "*.sqlite-*", "data_cache")


def main() -> None:
    configs = sorted(HERE.glob("*.yaml"))
    recorded = [path.stem for path in configs]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "work"
        shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns(*recorded, "make.py"))
        port = folder / "port"
        server = subprocess.Popen([sys.executable, HERE.parent / "engines" / "fake_server.py", port, folder / "log"])
        try:
            while not port.exists():
                time.sleep(0.1)
            proxy = f"http://127.0.0.1:{port.read_text()}"
            variables = os.environ | {"http_proxy": proxy, "HTTP_PROXY": proxy, "HF_HUB_OFFLINE": "1"}
            for config in configs:
                command = [sys.executable, "-m", "instruct", "run", config.name]
                subprocess.run(command, cwd=folder, env=variables, check=True)
                shutil.rmtree(HERE / config.stem, ignore_errors=True)
                run = folder / "runs" / config.stem
                shutil.copytree(run, HERE / config.stem, ignore=shutil.ignore_patterns(*LEFT_OUT))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
