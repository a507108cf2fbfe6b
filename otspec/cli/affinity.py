"""`otspec affinity`: which tokens stand in for others, from text or from recorded logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from otspec import pickles
from otspec.cli import options
from otspec.cli.conflicts import CONFLICTS, POSITIONS, TEXTS
from otspec.cli.groups import with_option_groups
from otspec.cli.options import ARGUMENT, OutFile
from otspec.cli.sources import ArrayOptions
from otspec.errors import DataError, ProblemError
from otspec.reporting.console import console, progress_bar
from otspec.settings import Count, refuse

if TYPE_CHECKING:
    from otspec.laws import FloatArray, IntArray
    from otspec.vocab import Moments, PairCounts

PIECE = 1 << 16
"""Characters of a file that are one text."""
AT_ONCE = 64
"""Positions that are one chunk of samples."""
TEXT, QUANTITIES = "text", ("logits", "probabilities")
WINDOW = 8


@dataclass(frozen=True, kw_only=True)
class AffinityOptions:
    """What `otspec affinity` takes."""

    sources: Annotated[list[str], ARGUMENT]
    """Text files in UTF-8; or, for --of logits, positions: a profile such as shipped, or a file."""
    out: OutFile
    """The .safetensors file to write."""
    of: str = TEXT
    """What is read: text, in which tokens near each other are counted, or the target's logits or probabilities,
    whose covariance is measured."""
    tokenizer: str | None = None
    """The tokenizer of text: a tokenizer.json, its folder, or shipped; by default shipped."""
    window: Count | None = None
    """How many tokens apart the two of a pair may be; by default 8."""
    vocab: Count | None = None
    """How many tokens the model has, where its head has more than the tokenizer."""
    positions: Count | None = None
    """How many positions to read, from the first on; by default all."""
    tau: float = 1.0
    """The temperature that the file names; the file can be read at any other."""
    tokens: Path | None = None
    """An .npy file with ids of the tokens that get a row; by default all."""
    nearest: Count | None = None
    """How many of the largest entries of each row to keep; by default all."""
    save_every: Count = 32
    """How many chunks to read between two saves."""
    arrays: ArrayOptions


@with_option_groups
@options.holding
def affinity(request: AffinityOptions) -> None:
    """Estimate which tokens stand in for others, the matrix M of Redistributing Drafter Kernels, and save it.

    From text, the command counts how often tokens occur near each other: files are read in texts of 65536 characters or
    a little more, which end where a line does.  From recorded positions, it measures how the target's logits or
    probabilities covary.  A run that is killed goes on from OUT.part when the same command is given again.
    """
    if request.of not in (TEXT, *QUANTITIES):
        raise ProblemError(f"--of is {request.of!r}; known: {', '.join((TEXT, *QUANTITIES))}")
    options.check_new(request.out)
    passed = {f"--{name.replace('_', '-')}": value for name, value in {**vars(request), **request.arrays.all}.items()}
    refuse(CONFLICTS, {**passed, TEXTS: request.of == TEXT, POSITIONS: request.of != TEXT})
    _estimate(request, *(_of_text if request.of == TEXT else _of_positions)(request))


Chunks = Callable[[int], Iterator[Any]]
"""The chunks from a given number on, each of which is read at once."""


def _of_text(request: AffinityOptions) -> tuple[PairCounts | Moments, Chunks, Mapping[str, Any]]:
    """The counter, the chunks that it reads, and their origin."""
    from otspec.extras import require
    from otspec.vocab import PairCounts

    files, vocab, window = list(map(Path, request.sources)), request.vocab, request.window or WINDOW
    path = _tokenizer_file(request.tokenizer or "shipped")
    encoder: Any = _read_tokenizer(path, require("tokenizers"))
    size = encoder.get_vocab_size(with_added_tokens=True)
    if vocab is not None and vocab < size:
        raise ProblemError(f"--vocab is {vocab}, and the tokenizer has {size} tokens; leave it out, or give more")
    about = {
        "source": [_identity(file) for file in files],
        "tokenizer": _identity(path),
        "vocab": vocab or size,
        "window": window,
        "rows": None if request.tokens is None else _identity(request.tokens),
    }

    def chunks(first: int) -> Iterator[list[int]]:
        for piece in islice(_pieces(files), first, None):
            yield encoder.encode(piece, add_special_tokens=False).ids

    return PairCounts(vocab or size, window, _ids(request.tokens)), chunks, about


def _of_positions(request: AffinityOptions) -> tuple[PairCounts | Moments, Chunks, Mapping[str, Any]]:
    """The moments, the chunks that they are taken from, and the origin of these."""
    import numpy as np

    from otspec.data import TopSource, check_positions, open_source
    from otspec.logits import law_from_logits
    from otspec.vocab import Moments

    if len(request.sources) > 1:
        raise ProblemError(f"--of {request.of} reads one source of positions; {len(request.sources)} are named")
    of, recorded = request.of, open_source(request.sources[0], **request.arrays.all)
    if isinstance(recorded, TopSource):
        raise DataError(f"{recorded.name} has the likeliest tokens alone, and all are needed here; record whole laws")
    count = check_positions(recorded, len(recorded) if request.positions is None else request.positions)
    about = {
        "source": dict(recorded.identity),
        "of": of,
        "positions": count,
        "vocab": recorded.vocab,
        "rows": None if request.tokens is None else _identity(request.tokens),
    }

    def chunks(first: int) -> Iterator[FloatArray]:
        for start in range(first * AT_ONCE, count, AT_ONCE):
            rows = [recorded.position(i).target_logits for i in range(start, min(start + AT_ONCE, count))]
            yield np.array(rows if of == "logits" else [law_from_logits("target_logits", row) for row in rows])

    return Moments(recorded.vocab, _ids(request.tokens)), chunks, about


def _estimate(request: AffinityOptions, found: PairCounts | Moments, chunks: Chunks, about: Mapping[str, Any]) -> None:
    """Read the chunks, write the result, and print what it is."""
    from otspec.vocab import Estimate, gather
    from otspec.vocab.affinity import as_temperature

    as_temperature(request.tau)
    out = request.out
    state = out.with_name(f"{out.name}.part")
    with progress_bar() as bar:
        task = bar.add_task("chunks", total=None)
        gather(
            *(found, chunks, state, about),
            every=request.save_every,
            progress=lambda done: bar.update(task, completed=done),
        )
    estimate = Estimate.of(found, request.tau, about)
    if request.nearest is not None:
        estimate = estimate.nearest(request.nearest)
    estimate.save(out)
    state.unlink(missing_ok=True)
    entries, rows = estimate.matrix.nnz, estimate.tokens.size
    seen = f"{found.seen:,} {'tokens' if estimate.kind == 'counts' else 'samples'}"
    console.print(f"{out}: {estimate.kind} from {seen}, {rows:,} rows, {entries:,} entries", highlight=False)
    console.print("Read it with otspec.vocab.load_affinity.", highlight=False)


def _ids(path: Path | None) -> IntArray | None:
    """Token ids of a file; what they have to be is checked where they are used."""
    import numpy as np

    if path is None:
        return None
    try:
        with pickles.refused():
            ids: Any = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if not isinstance(ids, np.ndarray):
        raise DataError(f"{path} holds several arrays; save the ids with numpy.save")
    return ids


def _identity(path: Path) -> dict[str, Any]:
    """Name, size and digest of a file."""
    from otspec.data.files import file_identity

    if not path.is_file():
        raise DataError(f"there is no file {path}")
    return file_identity(path)


def _pieces(files: Sequence[Path]) -> Iterator[str]:
    """Each file in pieces of `PIECE` characters or a little more, up to the end of a line if it is near."""
    for path in files:
        try:
            with path.open(encoding="utf-8", newline="") as file:
                while piece := file.read(PIECE):
                    yield piece + file.readline(PIECE)
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not text in UTF-8: {error}") from error


def _tokenizer_file(name: str) -> Path:
    if name == "shipped":
        import otspec

        return Path(otspec.__file__).parent / "decode" / "shipped" / "target" / "tokenizer.json"
    path = Path(name)
    return path / "tokenizer.json" if path.is_dir() else path


def _read_tokenizer(path: Path, tokenizers: Any) -> Any:
    if not path.is_file():
        raise DataError(f"there is no tokenizer {path}; name a tokenizer.json, a folder that has one, or shipped")
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises nothing narrower
        raise DataError(f"{path} is no tokenizer: {error}") from error
