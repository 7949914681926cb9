"""The verbs that tell what is here: list, doctor."""

from __future__ import annotations

import argparse

from instruct.base.output import Result
from instruct.command import flags


def add_verbs(verb: flags.AddVerb) -> None:
    """The verbs of this file, with their flags."""
    sub = verb(list_found, "list the available data sets, judges, tasks or runs and where each was found")
    sub.add_argument("what", choices=["data", "judges", "tasks", "runs"])
    verb(doctor, "check the installation: packages, GPU, memory, disk, network, keys")


def list_found(arguments: argparse.Namespace) -> Result:
    from instruct.command.listing import listed, render_names, render_text

    found = listed(arguments.what)
    return Result([each.content() for each in found], render_names(found), render_text(found, arguments.what))


def doctor(arguments: argparse.Namespace) -> Result:
    from instruct.command.doctor import failure, run_doctor

    findings = run_doctor()
    broken = failure(findings)
    usable = "" if broken else "instruct can be used here"
    return Result([finding._asdict() for finding in findings], usable, usable, broken)
