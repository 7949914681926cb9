"""Uploading trained systems to the Hugging Face Hub, each with its model card and the report's evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from instruct.base.errors import InputError, InstructError, one_line
from instruct.base.output import say
from instruct.engines.canary import FILE as CANARY
from instruct.run.directory import RunDirectory

if TYPE_CHECKING:
    from instruct.config import ExperimentConfig

_LOGIN = "set HF_TOKEN to a token with write access, or run `hf auth login`"


def repositories(name: str, systems: Iterable[str]) -> dict[str, str]:
    """The repository of each system: `name`, or, if there are several systems, `name-SYSTEM`."""
    systems = list(systems)
    return {system: name if len(systems) == 1 else f"{name}-{system}" for system in systems}


def configured_repositories(config: ExperimentConfig) -> dict[str, str]:
    """Where `train.push_to_hub` uploads each system to: `train.hub_model_id`, by default the run's name; else {}."""
    if not config.train.get("push_to_hub"):
        return {}
    return repositories(str(config.train.get("hub_model_id") or config.name), config.trained)


def check_write_access(names: Iterable[str]) -> None:
    """Check that the Hub accepts uploads to these repositories. Nothing is created.

    Raises:
        InputError: no token, one without write access, a namespace of somebody else, or no Hub.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, LocalTokenNotFoundError
    from huggingface_hub.utils import validate_repo_id

    try:
        for name in names:
            validate_repo_id(name)
        user = HfApi().whoami()
    except HFValidationError as error:
        raise InputError(f"hub repository: {one_line(error, 200)}; correct train.hub_model_id or `repo_id`") from None
    except LocalTokenNotFoundError:
        raise InputError(f"hub: no token; {_LOGIN}") from None
    except Exception as error:  # the HTTP library's errors have no common base class with the Hub's
        if _status(error) in (401, 403):
            raise InputError(f"hub: the token is not accepted; {_LOGIN}") from None
        raise InputError(f"hub: cannot be reached ({_reason(error)}); upload later with `instruct push`") from None
    token = (user.get("auth") or {}).get("accessToken") or {}
    if token.get("role") == "read":
        raise InputError(f"hub: the token has read access only; {_LOGIN}")
    writable = {user["name"], *(org["name"] for org in user.get("orgs") or [] if org.get("roleInOrg") != "read")}
    for name in names:
        namespace, slash, _ = name.rpartition("/")
        if slash and namespace not in writable:
            raise InputError(
                f"hub: {user['name']} has no write access to {one_line(name, 100)}; name a repository of "
                f"{', '.join(sorted(map(str, writable)))}"
            )


def create_repositories(names: Iterable[str], private: bool | None = None) -> list[str]:
    """Create the repositories that do not exist; their full names.

    Raises:
        InputError: the Hub refuses, for example a token that is limited to other repositories.
    """
    from huggingface_hub import HfApi

    created = []
    for name in names:
        try:
            repository = HfApi().create_repo(name, private=private, exist_ok=True).repo_id
            HfApi().auth_check(repository, write=True)  # one that exists is not created, whoever it belongs to
            created.append(repository)
        except Exception as error:
            raise InputError(f"hub: no write access to {one_line(name, 100)} ({_reason(error)}); {_LOGIN}") from None
    return created


def push_systems(run: RunDirectory, names: dict[str, str], private: bool | None = None) -> list[str]:
    """Upload the folder of each system to its repository, in one commit each; the repositories' full names.

    The model card has the report's evaluation if the run has a report.

    Args:
        names: the repository by system.
        private: whether a repository that is created is private; None: the Hub's default.

    Raises:
        InputError: a system without trained weights, or no write access.
        InstructError: an upload failed.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    for system in names:
        if not any((run.adapters / system).glob("*.safetensors")):
            raise InputError(f"{run.adapters / system}: no trained weights; name a trained system of this run")
    cards = _evaluated_cards(run)
    full_names = create_repositories(names.values(), private)
    for system, repository in zip(names, full_names, strict=True):
        folder = run.adapters / system
        kept = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != CANARY)  # training text
        files: dict[str, Any] = {str(path.relative_to(folder)): path for path in kept}
        if system in cards:
            files["README.md"] = cards[system].encode()
        operations = [CommitOperationAdd(path_in_repo=name, path_or_fileobj=file) for name, file in files.items()]
        try:
            HfApi().create_commit(
                repository, operations, commit_message=f"Upload {system} of {run.folder.resolve().name}"
            )
        except Exception as error:
            raise InstructError(
                f"hub: {repository}: the upload failed ({_reason(error)}); repeat it: instruct push {run.folder}"
            ) from None
    return full_names


def upload(config: ExperimentConfig, run: RunDirectory) -> None:
    """Upload every trained system to the Hub if `train.push_to_hub` says so.

    Raises:
        InputError: no write access.
        InstructError: an upload failed.
    """
    from accelerate import PartialState

    names = configured_repositories(config)
    if names and PartialState().is_main_process:
        for repository in push_systems(run, names, config.train.get("hub_private_repo")):
            say(f"uploaded  {repository}")


def _evaluated_cards(run: RunDirectory) -> dict[str, str]:
    """The model cards with the evaluation, by system; {} without a report."""
    from instruct.reporting.exports import evaluated_model_cards
    from instruct.reporting.report import Report

    if not (run.report / "report.json").is_file():
        return {}
    return evaluated_model_cards(run, Report.read(run.folder))


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _reason(error: Exception) -> str:
    """What went wrong, without the error's own text: it may hold the address, and an address may hold a password."""
    status = _status(error)
    return f"HTTP status {status}" if status else type(error).__name__
