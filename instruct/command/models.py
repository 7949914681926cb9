"""The verbs that give trained models away: merge, push."""

from __future__ import annotations

import argparse

from instruct.base.output import Result
from instruct.command.call import (
    named_run,
    run_config,
    shown,
)


def merge(arguments: argparse.Namespace) -> Result:
    from instruct.training.merge import merge_adapter

    run = named_run(arguments.run, "adapters/*/adapter_config.json")
    folders = merge_adapter(run_config(run, []), run, arguments.system)
    return shown({"merged": folders}, "\n".join(f"merged: {folder}" for folder in folders))


def push(arguments: argparse.Namespace) -> Result:
    from instruct.phases.upload import check_write_access, push_systems, repositories

    run = named_run(arguments.run, "adapters/*/*.safetensors")
    systems = [arguments.system] if arguments.system else sorted(path.name for path in run.adapters.iterdir())
    default = run.folder.resolve().name
    # A system that was named is uploaded to the repository as it was named.
    names = repositories(arguments.repo_id or (f"{default}-{systems[0]}" if arguments.system else default), systems)
    check_write_access(names.values())
    uploaded = push_systems(run, names, arguments.private or None)
    return shown({"uploaded": uploaded}, "\n".join(f"uploaded: {repository}" for repository in uploaded))
