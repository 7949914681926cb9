"""The verb that merges adapters, and those that tell what is here: merge, list, doctor."""

from __future__ import annotations

import argparse

from instruct.base.output import Result
from instruct.command import call, flags


def add_verbs(verb: flags.AddVerb) -> None:
    """The verbs of this file, with their flags."""
    sub = verb(merge, "merge a run's adapters into their base model")
    flags.run_argument(sub, "adapters")
    sub.add_argument("--system", metavar="NAME", help="merge only this system")
    sub.add_argument(
        "--trust-remote-code", action="store_true", help="run the code in the model's repository, as its training did"
    )

    sub = verb(list_found, "list the available data sets, judges, tasks or runs and where each was found")
    sub.add_argument("what", choices=["data", "judges", "tasks", "runs"])
    verb(doctor, "check the installation: packages, GPU, memory, disk, network, keys")


def merge(arguments: argparse.Namespace) -> Result:
    from instruct.training.merge import merge_adapter

    run = call.named_run(arguments.run, "adapters/*/adapter_config.json")
    trust = ["--model.trust_remote_code", "true"] if arguments.trust_remote_code else []
    config = call.run_config(run, trust, ["model"], "--trust-remote-code")
    folders = merge_adapter(config, run, arguments.system)
    return call.shown({"merged": folders}, "\n".join(f"merged: {folder}" for folder in folders))


def list_found(arguments: argparse.Namespace) -> Result:
    from instruct.command.listing import listed, render_names, render_text

    entries = listed(arguments.what)
    return Result([entry.content() for entry in entries], render_names(entries), render_text(entries, arguments.what))


def doctor(arguments: argparse.Namespace) -> Result:
    from instruct.command.doctor import failure, run_doctor

    findings = run_doctor()
    broken = failure(findings)
    usable = "" if broken else "instruct can be used here"
    return Result([finding._asdict() for finding in findings], usable, usable, broken)
