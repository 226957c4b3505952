"""A party's private keys for TLS, made where they stay: only requests for certificates leave.

Every request is for a new key, in a file named by the digest of its public half. A certificate finds its key by that
digest, so the one before keeps working until it expires, and nothing in use is ever overwritten.
"""

from __future__ import annotations

from pathlib import Path

from codedfl.crypto.certificates import key_digest, read_certificate, read_request
from codedfl.errors import InvalidInput
from codedfl.private_files import check_private, make_private_folder, sync_folder, write_private


class TlsKeys:
    """The keys in one private folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from codedfl.crypto.tls_keys import TlsKeys
    >>> keys = TlsKeys(Path(tempfile.mkdtemp()) / "tls")
    >>> keys.request("hospital-3").splitlines()[0]
    b'-----BEGIN CERTIFICATE REQUEST-----'
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def request(self, name: str) -> bytes:
        """Make a key, which is on the disk before its request is returned (PEM)."""
        from codedfl.crypto.authority import Requested  # a device that joins reads only

        made = Requested.created(name)
        make_private_folder(self.folder)
        write_private(self._place(key_digest(read_request(name, made.request))), [made.key])
        sync_folder(self.folder)
        return made.request

    def key_for(self, certificate: bytes) -> Path:
        """The file of the key that a certificate (PEM) is for; refused where it was not made here."""
        found = self._place(key_digest(read_certificate(certificate)))
        if not found.is_file():
            raise InvalidInput(
                f"the certificate must be for a key that was made on this machine, got one for {found.stem[:16]}, which"
                f" is not in {self.folder}: codedfl site enrol requests another"
            )
        check_private(found, "the key of a certificate")
        return found

    def _place(self, digest: str) -> Path:
        return self.folder / f"{digest}.key"
