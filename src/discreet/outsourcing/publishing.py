"""A drawn release written out for the modeler: whole or not at all, and over nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from discreet.durable import draft_name, sweep_drafts, sync_folder, write_bytes
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.files import sha256_of
from discreet.outsourcing.key import CERTIFICATE, Key
from discreet.validation import InvalidInput


def publish(key: Key, release: str, out: Path) -> bool:
    """Write a drawn release to the folder `out`; False if it was there already, whole.

    Raises:
        InvalidInput: for a folder that holds something else; nothing is written.
    """
    certificate = key.certificate(release)
    check_out(out, key.folder, certificate)
    out = out.resolve()
    names = (certificate.file, CERTIFICATE)
    contents = {name: (key.folder / release / name).read_bytes() for name in names}
    if sha256_of(contents[certificate.file]) != certificate.sha256:
        raise InvalidInput(f"the release {release} in {key.folder} was changed; restore the key.")
    sweep_drafts(out.parent, out.name)
    replaced = out.is_dir() and any(out.iterdir())
    if replaced and all(_holds(out / name, content) for name, content in contents.items()):
        key.mark_published(release)
        return False
    draft = out.with_name(draft_name(out.name))
    draft.mkdir()
    try:
        for name, content in contents.items():
            write_bytes(draft / name, content)
        if replaced:
            os.replace(out, out.with_name(draft_name(out.name)))
        os.replace(draft, out)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    sync_folder(out.parent)
    sweep_drafts(out.parent, out.name)
    # Whoever is stopped before this line and asks for a new release gets this one once more.
    key.mark_published(release)
    return True


def check_out(out: Path, key: Path, certificate: Certificate) -> None:
    """Refuse a folder that a release should not be written to; nothing changes.

    Args:
        out: the folder.
        key: the folder of the key.
        certificate: of the release; it may be there already, even damaged.
    """
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"{out} is a file; name a folder for the release.")
    if not out.parent.is_dir():
        raise InvalidInput(f"the folder of {out} does not exist; make it first.")
    if not os.access(out.resolve().parent, os.W_OK):
        raise InvalidInput(f"{out} cannot be written; choose a folder that you may write to.")
    inner, outer = key.resolve(), out.resolve()
    if inner == outer or outer in inner.parents or inner in outer.parents:
        raise InvalidInput(
            f"the key {key} and the release {out} are one inside the other; the release goes to "
            "the modeler and the key stays, so give them folders apart."
        )
    if out.is_dir() and any(out.iterdir()) and not _replaceable(out, certificate):
        raise InvalidInput(
            f"the folder {out} holds something other than this release; name another folder, or "
            "move that one away."
        )


def _replaceable(out: Path, certificate: Certificate) -> bool:
    """Whether a folder holds nothing but this release, or a simulated one, which protects nobody
    and can be drawn again."""
    there = {path.name for path in out.iterdir()}
    try:
        text = (out / CERTIFICATE).read_text(encoding="utf-8")
        if there == {CERTIFICATE, certificate.file} and text == certificate.to_json():
            return True
        old = Certificate.from_json(text)
        rows = (out / old.file).read_bytes()
    except (OSError, UnicodeDecodeError, InvalidInput):
        return False
    return old.simulated and there == {CERTIFICATE, old.file} and sha256_of(rows) == old.sha256


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content
