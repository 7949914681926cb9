"""The transport cost, of moving probability from one token to another, and the energy's embeddings: from a table."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from instruct.base.errors import InputError, one_line

# Heads of the same tokenizer may be padded to different numbers of rows. A larger difference means a different
# tokenizer, whose rows stand for different tokens.
PADDING_ROWS = 512
TABLE_DTYPES = ("F16", "BF16", "F32", "F64")
PROJECTION_SEED = 0
# Rows of a table that are normalized and projected at a time, in float32.
ROWS = 8192


class CosineCost:
    """1 - cosine of two tokens' embeddings (EMO paper, Eq. 13), from a table with one row per token, of any width.

    It keeps the table itself, not a normalized copy, and one float32 number per row. A row of norm 0 (vocabulary
    padding) has cosine 0, and therefore cost 1, to every other token.

    Args:
        table: (tokens, width), float16, bfloat16, float32 or float64; not copied, never modified. It may be a model's
            head, its input embedding, or any other embedding of the same vocabulary.
        vocabulary: the number of rows of the head, if the table's differs because one of the two is padded: tokens
            missing in the table cost 1, and extra rows are ignored. None: the table's own.

    Raises:
        ValueError: the table is not a floating-point matrix, or differs from `vocabulary` by more than padding.
    """

    def __init__(self, table: Tensor, vocabulary: int | None = None) -> None:
        if table.ndim != 2 or not table.is_floating_point():
            raise ValueError(
                f"a cost table is a floating-point matrix with one row per token, not {tuple(table.shape)} "
                f"{table.dtype}; load a quantized one as bfloat16"
            )
        table = table.detach()
        missing = 0 if vocabulary is None else vocabulary - len(table)
        if abs(missing) > PADDING_ROWS:
            raise ValueError(
                f"the cost table has {len(table)} rows, the head {vocabulary}: they belong to different tokenizers; "
                "give a table of the model's own vocabulary"
            )
        if missing > 0:
            table = torch.nn.functional.pad(table, (0, 0, 0, missing))
        self.table = table[:vocabulary]
        norm = torch.linalg.vector_norm(self.table, dim=1, dtype=torch.promote_types(table.dtype, torch.float32))
        # Clamped to stay finite in the table's dtype, however small a row is.
        inverse = (1 / norm).clamp(max=torch.finfo(table.dtype).max)
        self.inverse_norm = torch.where(norm > 0, inverse, torch.zeros_like(norm))

    @property
    def vocabulary(self) -> int:
        return len(self.table)

    @property
    def checksum(self) -> int:
        """The sum of the table's bits as integers, which is the same on every device and in every order."""
        bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[self.table.element_size()]
        return int(self.table.view(bits).sum(dtype=torch.int64))

    def rows(self, labels: Tensor, out: Tensor | None = None) -> Tensor:
        """The cost from every token to each label: (labels, vocab), the table's dtype, at least 0.

        The product is normalized in place. Costs are clamped at 0, which rounding may undercut for tokens with the
        label's own embedding: with negative costs, EMO's ratio of cross-entropy to cost would be unbounded, while
        without them no token's part of b * cost exceeds half the cross-entropy.
        """
        fits = out is not None and out.dtype == self.table.dtype
        product = torch.mm(unit_rows(self.table, self.inverse_norm, labels), self.table.T, out=out if fits else None)
        one = torch.ones((), dtype=product.dtype, device=product.device)
        return torch.addcmul(one, product, -self.inverse_norm.to(product.dtype), out=product).clamp_(min=0)


def unit_rows(table: Tensor, inverse_norm: Tensor, labels: Tensor) -> Tensor:
    """(labels, width): the labels' rows, divided by their norms, in the table's dtype."""
    return (table[labels].to(inverse_norm.dtype) * inverse_norm[labels, None]).to(table.dtype)


class EnergyTable:
    """The unit rows of a table, projected to `dim` dimensions: the embeddings between which energy is measured.

    The projection is a random one (Johnson and Lindenstrauss, 1984): orthonormal columns from a fixed seed, scaled so
    that squared distances keep their expectation. The weight of the energy therefore means the same for every `dim`,
    and energy stays proper, since the score is proper for any embeddings. A principal component analysis would shrink
    every distance: for SmolLM2's head and 128 dimensions to 41 % of its square on average, and less evenly
    (correlation with the exact distances .90, of the random projection .92).

    Args:
        table: (tokens, width), as for CosineCost: not copied, rows of norm 0 stay 0.
        dim: the width of the embeddings. At the table's own width or more, they are its unit rows.
        vocabulary: the number of rows of the head, as for CosineCost: tokens missing in the table are 0.

    Attributes:
        embeddings: (vocabulary, dim), float32, or float64 for a table of float64.
        checksum: of the table, see CosineCost.

    Raises:
        ValueError: as CosineCost.
    """

    def __init__(self, table: Tensor, dim: int, vocabulary: int | None = None) -> None:
        source = CosineCost(table, vocabulary)
        wide = torch.promote_types(source.table.dtype, torch.float32)
        width = source.table.shape[1]
        projected = []
        for rows, inverse in zip(source.table.split(ROWS), source.inverse_norm.split(ROWS), strict=True):
            units = rows.to(wide) * inverse[:, None]
            projected.append(units if dim >= width else units @ projection(width, dim).to(units))
        self.embeddings = torch.cat(projected)
        self.checksum = source.checksum

    @property
    def vocabulary(self) -> int:
        return len(self.embeddings)


@functools.cache
def projection(width: int, dim: int) -> Tensor:
    """(width, dim) float64: random orthogonal columns of length sqrt(width / dim), the same on every machine."""
    generator = torch.Generator().manual_seed(PROJECTION_SEED)
    columns, _ = torch.linalg.qr(torch.randn(width, dim, generator=generator, dtype=torch.float64))
    return columns * (width / dim) ** 0.5


def load_cost_table(path: str | Path) -> Tensor:
    """A cost table from disk, (tokens, width), in the dtype that it was saved in, on the CPU.

    Args:
        path: a .safetensors file with one matrix, `FILE.safetensors:NAME` for one of several, or a model folder written
            by `save_pretrained`: its lm_head or, if that is tied, its input embedding. No other weight is read, and
            nothing is unpickled.

    Raises:
        InputError: a missing file or folder, a missing or ambiguous tensor, or a tensor that is not a cost table.
    """
    text = str(path)
    file_part, colon, name = text.rpartition(".safetensors:")
    if colon and not Path(text).exists():
        return _read(Path(file_part + ".safetensors"), name)
    folder = Path(text)
    if not folder.is_dir():
        return _read(folder, None)
    files: dict[str, Path] = {}
    for file in sorted(folder.glob("model*.safetensors")):
        with _opened(file) as tensors:
            files |= dict.fromkeys(tensors.keys(), file)
    if not files:
        raise InputError(f"{folder}: no model.safetensors; give a model folder written by save_pretrained")
    for endings in (HEADS, EMBEDDINGS):  # the head, or the input embedding that it is tied to
        names = [name for name in files if name.endswith(endings)]
        if len(names) == 1:
            return _read(files[names[0]], names[0])
        if names:
            raise InputError(
                f"{folder}: several heads ({', '.join(sorted(names)[:4])}); name one as FILE.safetensors:NAME"
            )
    raise InputError(f"{folder}: no lm_head and no input embedding; name the table as FILE.safetensors:NAME")


HEADS = ("lm_head.weight", "embed_out.weight")
EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight")


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """The tensors of a file."""
    from safetensors import SafetensorError, safe_open

    if not file.is_file():
        raise InputError(f"{file}: no such file; give a .safetensors file or a model folder")
    try:
        with safe_open(file, framework="pt") as tensors:
            yield tensors
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"{file}: not a safetensors file ({one_line(error, 100)}); save the table with safetensors.torch.save_file"
        ) from error


def _read(file: Path, name: str | None) -> Tensor:
    with _opened(file) as tensors:
        names = list(tensors.keys())
        if name is not None and name not in names:
            raise InputError(f"{file}: no tensor {one_line(name, 80)!r}; it has {one_line(', '.join(names), 160)}")
        if name is None:
            matrices = [known for known in names if len(tensors.get_slice(known).get_shape()) == 2]
            if len(matrices) != 1:
                raise InputError(f"{file}: has {len(matrices)} matrices; name the cost table as {file.name}:NAME")
            name = matrices[0]
        header = tensors.get_slice(name)
        if len(header.get_shape()) != 2 or header.get_dtype() not in TABLE_DTYPES:
            raise InputError(
                f"{file}:{name}: {header.get_dtype()} {header.get_shape()} is not a cost table; "
                "save a matrix of bfloat16, float16 or float32 with one row per token"
            )
        table = tensors.get_tensor(name)
    if not torch.isfinite(table).all():
        raise InputError(f"{file}:{name}: the table has NaN or infinite values; save it without them")
    return table
