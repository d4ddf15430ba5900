"""Registry of datasets by name, `family` or `family/variant`. Adapters are imported on use.

Families come from `BUILT_IN` (shipped with the harness), from the entry point group
`harness.adapters` of any installed package, and from `@register_adapter` in a plug-in file.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from harness.datasets.adapter import Adapter, DatasetConfig, Variant, by_name
from harness.datasets.manifest import AS_OF, INJECT, Manifest, base_split, injected_part
from harness.datasets.manifest import NAME as MANIFEST
from harness.datasets.reader import Dataset
from harness.errors import UsageError, require_names, suggest
from harness.io import plugins
from harness.io.checksums import DamagedError
from harness.io.files import disk_errors, sweep, sweep_below

if TYPE_CHECKING:
    from harness.runfiles.tables import Frame


ENTRY_POINTS = "harness.adapters"

BUILT_IN = {
    "sample": "harness.datasets.adapters.sample",
    "changes": "harness.datasets.adapters.changes",
    "scopes": "harness.datasets.adapters.scopes",
    "longmemeval": "harness.datasets.adapters.longmemeval",
    "locomo": "harness.datasets.adapters.locomo",
    "beam": "harness.datasets.adapters.beam",
    "realtalk": "harness.datasets.adapters.realtalk",
    "realmem": "harness.datasets.adapters.realmem",
    "memdaily": "harness.datasets.adapters.memdaily",
    "devmembench": "harness.datasets.adapters.devmembench",
    "locomo-plus": "harness.datasets.adapters.locomo_plus",
    "precisionmembench": "harness.datasets.adapters.precisionmembench",
    "beir": "harness.datasets.adapters.beir",
    "msmarco": "harness.datasets.adapters.msmarco",
    "mteb": "harness.datasets.adapters.mteb",
    "ir": "harness.datasets.adapters.ir",
    "labelled": "harness.datasets.adapters.labelled",
}
"""Module of each family that comes with the harness; data, so that no adapter is imported here."""

_registered: dict[str, type[Adapter]] = {}


def register_adapter(family: str) -> Callable[[type[Adapter]], type[Adapter]]:
    """Class decorator that makes an adapter known under `family` in this process."""

    def register(adapter: type[Adapter]) -> type[Adapter]:
        _registered[family] = adapter
        return adapter

    return register


def families() -> list[str]:
    """All known families: those that come with the harness, then others, sorted."""
    others = {*_registered, *plugins.names(ENTRY_POINTS)}
    return [*BUILT_IN, *sorted(others - set(BUILT_IN))]


def adapter(family: str, name: str = "") -> Adapter:
    """Returns the adapter of a family. Raises UsageError for an unknown one, called `name`."""
    if family in BUILT_IN and family not in _registered:
        import_module(BUILT_IN[family])
    if family not in _registered:
        entry = plugins.find(ENTRY_POINTS, family)
        if entry is not None:
            _registered.setdefault(family, plugins.load(entry, "adapter"))
    if family not in _registered:
        raise UsageError(f"unknown dataset {name or family!r}{_suggestion(name or family)}")
    return _registered[family]()


def _suggestion(name: str) -> str:
    """Names the dataset that was probably meant, or the command for the user's own files."""
    if os.path.exists(name):
        own = name if os.path.isdir(name) else os.path.dirname(name) or "."
        return f"; for your own files: --dataset labelled --source {shlex.quote(own)}"
    ours = [
        full_name(family, variant) for family in BUILT_IN for variant in adapter(family).variants()
    ]
    if same := [full for full in ours if name in full.split("/")[1:]]:
        return f"; did you mean {', '.join(same[:3])}?"
    return suggest(name.partition("/")[0], families())


def find(name: str) -> tuple[Adapter, Variant, str]:
    """Looks up the adapter, the variant and the full name of a dataset.

    Raises UsageError for an unknown name, with similar ones.
    """
    family, _, rest = name.partition("/")
    found = adapter(family, name)
    own = getattr(found, "variant", None)
    variant = by_name(found.variants(), rest) if own is None else own(rest)
    if variant is None:
        known = [v.name for v in found.variants()]
        raise UsageError(f"unknown dataset {name!r} of the family {family!r}{suggest(rest, known)}")
    return found, variant, full_name(family, variant)


def full_name(family: str, variant: Variant) -> str:
    """`family` or `family/variant`."""
    return f"{family}/{variant.name}" if variant.name else family


def iter_configs() -> Iterator[tuple[str, Variant]]:
    """Yields every listed dataset with its full name."""
    for family in families():
        for variant in adapter(family).variants():
            yield full_name(family, variant), variant


_log = logging.getLogger(__name__)


def home() -> Path:
    """Returns the cache folder: `HARNESS_HOME`, else the platform's cache folder."""
    chosen = os.environ.get("HARNESS_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("retrieval-harness")


def open_dataset(
    name: str,
    *,
    granularity: str = "",
    text: str = "",
    split: str = "",
    source: str | Path | Mapping[str, Frame] | None = None,
    quiet: bool = True,
    rebuild: bool = False,
) -> Dataset:
    """Opens a dataset by name; prepares it first if it is not in the cache.

    `granularity`, `text` and `split` default to the dataset's first. `source` is a local copy of
    the raw files (file or folder) to read instead of downloading. For `labelled` it may be tables
    of pandas, polars, Arrow or Hugging Face: {"documents": ..., "queries": ..., "qrels": ...}.

    Raises UsageError for unknown names and choices, missing or broken raw files and a cache that
    cannot be written or is full; RunError when a download fails.
    """
    adapter, variant, full = find(name)
    config = choose_config(variant, granularity, text, split, full)
    if isinstance(source, Mapping):
        from harness.datasets.frames import frames_folder

        with disk_errors(home(), "set HARNESS_HOME"), frames_folder(source, full, home()) as folder:
            return open_dataset(full, split=split, source=folder, quiet=quiet, rebuild=rebuild)
    sweep_below(home())
    with disk_errors(home(), "set HARNESS_HOME to a folder that can be written"):
        path = Path(source).expanduser().absolute() if source is not None else None
        require_names(path)
        if path is not None and not path.exists():
            raise UsageError(f"--source {path}: no such file or folder")
        dataset = None
        if variant.needs_source:
            path, dataset = _own_files(full, adapter, variant, config, path, quiet=quiet)
        if dataset is None and not rebuild:
            dataset = _prepared(full, adapter, config, path)
        if dataset is None:
            dataset = _prepare(full, adapter, variant, config, path, quiet=quiet, rebuild=rebuild)
        if variant.needs_source and variant.name:
            os.utime(dataset.folder / MANIFEST)  # the latest one is opened by name
        return dataset


def _own_files(
    name: str,
    adapter: Adapter,
    variant: Variant,
    config: DatasetConfig,
    path: Path | None,
    *,
    quiet: bool,
) -> tuple[Path, Dataset | None]:
    """Returns the user's own files: `path`, else the files last used with this name.

    If the latter are missing, also the dataset prepared from them. Raises UsageError.
    """
    before = _stands_for(name) if variant.name else None
    if path is not None:
        if before not in (None, path) and not quiet:
            _log.warning(f"note: {name} stands for {path} now, before for {before}")
        return path, None
    if before is None:
        once = " once, and it stands for them" if variant.name else ""
        named = [one.partition("/")[2] for one in own_names(name.partition("/")[0])]
        others = suggest(variant.name, named) if variant.name and named else ""
        raise UsageError(
            variant.without_source
            or f"the dataset {name!r} reads your own files: add --source PATH{once}{others}"
        )
    if before.exists():
        return before, None
    folder = config_folder(name, config, before)
    manifest = _trusted(folder, adapter)
    dataset = None if manifest is None else _opened(folder, manifest)
    if dataset is None:
        raise UsageError(f"{before}, for which {name} stands, is not there: add --source PATH")
    return before, dataset


def own_names(family: str) -> list[str]:
    """Returns `family/NAME` of all names of the user's own files, sorted."""
    found = (home() / "datasets").glob(f"{family}__*/[!.]*/manifest.json")
    return sorted({path.parent.parent.name.replace("__", "/") for path in found})


def _stands_for(name: str) -> Path | None:
    """Returns the files last used with this name; None if there are none."""
    manifests = [folder / MANIFEST for folder in prepared_folders(name)]
    last = max(manifests, key=lambda path: path.stat().st_mtime_ns, default=None)
    return None if last is None else Path(Manifest.read(last.parent).source)


def choose_config(
    variant: Variant, granularity: str, text: str, split: str, name: str
) -> DatasetConfig:
    """Fills in the variant's defaults for unset options. Raises UsageError.

    In a split with the suffix `-as-of` questions see undated documents and those dated up to them;
    `-inject-KIND-N` adds N documents per query (inject.py).
    """

    def choose(what: str, chosen: str, known: tuple[str, ...]) -> str:
        if chosen and chosen not in known:
            raise UsageError(f"{name} has no {what} {chosen!r}{suggest(chosen, list(known))}")
        return chosen or known[0]

    return DatasetConfig(
        choose("granularity", granularity, variant.granularities),
        choose("text form", text, variant.texts),
        choose("split", base_split(split), variant.splits)
        + (f"{INJECT}{injected}" if (injected := injected_part(split)) else "")
        + (AS_OF if variant.as_of or split.endswith(AS_OF) else ""),
    )


def config_folder(name: str, config: DatasetConfig, path: Path | None) -> Path:
    """Returns the folder of a config, of the official files or (with `path`) of another source."""
    leaf = f"{config.granularity}-{config.text}-{config.split}"
    if path is not None:
        leaf += "@" + hashlib.sha256(str(path).encode()).hexdigest()[:12]
    return home() / "datasets" / name.replace("/", "__") / leaf


def prepared_folders(name: str) -> list[Path]:
    """Returns the folders of all prepared configs of a dataset."""
    root = home() / "datasets" / name.replace("/", "__")
    return sorted(path.parent for path in root.glob("[!.]*/manifest.json"))


def open_folder(name: str, folder: Path) -> Dataset | None:
    """Opens a dataset in one of `prepared_folders`; None if it is incomplete or outdated."""
    manifest = _trusted(folder, find(name)[0])
    return None if manifest is None else _opened(folder, manifest)


def open_prepared(name: str, fingerprint: str) -> Dataset | None:
    """Opens the prepared dataset with this content, from any source; None if there is none."""
    adapter, _, full = find(name)
    for folder in prepared_folders(full):
        manifest = _trusted(folder, adapter)
        if manifest is not None and manifest.fingerprint == fingerprint:
            return _opened(folder, manifest)
    return None


def _prepared(
    name: str, adapter: Adapter, config: DatasetConfig, path: Path | None
) -> Dataset | None:
    """Opens the prepared dataset for this request if it is complete and current; else None."""
    candidates = [config_folder(name, config, None)]
    if path is not None:
        candidates.append(config_folder(name, config, path))
    for folder in candidates:
        manifest = _trusted(folder, adapter)
        if manifest is not None and (path is None or _same_files(manifest, adapter, config, path)):
            dataset = _opened(folder, manifest)
            if dataset is not None:
                return dataset
    return None


def _opened(folder: Path, manifest: Manifest) -> Dataset | None:
    """Opens the dataset of `manifest`; None if it is damaged or another process is replacing it.

    After None, the caller waits for that process's lock.
    """
    try:
        dataset = Dataset(folder)
        return dataset if dataset.manifest == manifest == Manifest.read(folder) else None
    except DamagedError as error:
        _log.warning(f"note: {error.what}; it is prepared again")
        return None
    except (FileNotFoundError, UsageError):
        return None


def _trusted(folder: Path, adapter: Adapter) -> Manifest | None:
    """Returns the manifest of a complete folder of this adapter's version, else None."""
    if not folder.is_dir():
        return None
    try:
        manifest = Manifest.read(folder)
        whole = manifest.adapter_version == adapter.version and manifest.matches(folder)
    except (FileNotFoundError, UsageError):
        return None
    return manifest if whole else None


def _same_files(manifest: Manifest, adapter: Adapter, config: DatasetConfig, path: Path) -> bool:
    """Tests whether the raw files at `path` are those of the manifest."""
    _, variant, _ = find(manifest.name)
    files = adapter.find_files(path, variant, config.for_adapter)
    located = {name: file.absolute() for name, file in files.items()}
    return {
        name: (str(f), f.stat().st_size, f.stat().st_mtime_ns) for name, f in located.items()
    } == {raw.name: (raw.path, raw.bytes, raw.modified_ns) for raw in manifest.raw}


def _prepare(
    name: str,
    adapter: Adapter,
    variant: Variant,
    config: DatasetConfig,
    path: Path | None,
    *,
    quiet: bool,
    rebuild: bool,
) -> Dataset:
    from filelock import FileLock

    from harness.datasets.adapter import downloads_folder
    from harness.datasets.build import PrepareRequest, build

    root = home() / "datasets" / name.replace("/", "__")
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / ".lock"):
        # Another process may have prepared it in the meantime.
        dataset = None if rebuild else _prepared(name, adapter, config, path)
        if dataset is not None:
            return dataset
        sweep(root, again=True)
        request = PrepareRequest(
            name=name,
            adapter=adapter,
            variant=variant,
            config=config,
            path=path,
            known_source=path or _known_source(name, adapter, variant, config),
            folder=config_folder(name, config, path),
            official=config_folder(name, config, None),
            downloads=downloads_folder(home(), name.partition("/")[0]),
            quiet=quiet,
        )
        return Dataset(build(request))


def _known_source(
    name: str, adapter: Adapter, variant: Variant, config: DatasetConfig
) -> Path | None:
    """Finds an unchanged local copy of the official files that an earlier config used."""
    if not variant.files:
        return None
    for folder in prepared_folders(name):
        try:
            manifest = Manifest.read(folder)
            source = Path(manifest.source)
            if manifest.official and source.exists() and _unchanged(manifest):
                adapter.find_files(source, variant, config.for_adapter)
                return source
        except UsageError:
            continue
    return None


def _unchanged(manifest: Manifest) -> bool:
    return bool(manifest.raw) and all(
        (path := Path(raw.path)).is_file()
        and (path.stat().st_size, path.stat().st_mtime_ns) == (raw.bytes, raw.modified_ns)
        for raw in manifest.raw
    )
