"""Role keys and role sums as values; ``role_device`` has the scheme, ``role_server`` the server's side of it.

Role sums are role keys whose holders say S_r itself, so that the server gets the total of X'X once and solves at once.
For linear regression X'X and X'Y are all there is to know, so one answer of each role is enough. The price is that the
server learns the whole total Gram matrix, as in one-shot; single devices stay as well hidden as with role keys.
"""

from __future__ import annotations

from dataclasses import replace

from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.role_device import RoleDeviceSharing
from codedfl.protocol.schemes.role_server import RoleServerSharing

ROLE_KEYS = SharingScheme("role-keys", RoleDeviceSharing, RoleServerSharing, lists_owners=True, adds_noise=True)
ROLE_SUMS = replace(ROLE_KEYS, name="role-sums", reveals_gram=True)
