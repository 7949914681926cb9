"""The verbs that tell what is here: list, doctor."""

from __future__ import annotations

import argparse

from instruct.base.errors import InputError
from instruct.base.output import Result
from instruct.command import completion, flags


def add_verbs(verb: flags.AddVerb) -> None:
    """The verbs of this file, with their flags."""
    sub = verb(list_found, "list the available data sets, judges, tasks or runs and where each was found")
    sub.add_argument("what", choices=["data", "judges", "tasks", "runs"])
    sub = verb(doctor, "check the installation (packages, GPU, memory, disk, network, keys), or the files of a run")
    flags.completes(sub.add_argument("run", nargs="?", metavar="RUN", help="a run directory"), completion.runs)
    sub.add_argument("--repair", action="store_true", help="do what loses nothing, such as keep what can be read")


def list_found(arguments: argparse.Namespace) -> Result:
    from instruct.command.listing import listed, render_names, render_text

    found = listed(arguments.what)
    return Result([each.content() for each in found], render_names(found), render_text(found, arguments.what))


def doctor(arguments: argparse.Namespace) -> Result:
    from instruct.command.doctor import failure, run_doctor, said

    if arguments.run:
        from instruct.phases.doctor import check_run
        from instruct.run.directory import RunDirectory

        findings = said(check_run(RunDirectory(arguments.run), arguments.repair))
    elif arguments.repair:
        raise InputError("--repair repairs a run; name it: instruct doctor RUN --repair")
    else:
        findings = run_doctor()
    broken = failure(findings)
    usable = "" if broken else f"{arguments.run or 'instruct'} can be used{'' if arguments.run else ' here'}"
    return Result([finding._asdict() for finding in findings], usable, usable, broken)
