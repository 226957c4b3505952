"""What the servers of the coded schemes share: relaying what devices seal for each other along the code."""

from __future__ import annotations

from abc import abstractmethod

from codedfl.code.masks import mask_receivers, mask_senders
from codedfl.crypto.sealed import digest_of
from codedfl.errors import MessageRefused
from codedfl.protocol.convener import Outgoing
from codedfl.protocol.messages import Kind, Message, Share, Shares
from codedfl.protocol.server import Server


class CodedServer(Server):
    """The server of a scheme with a gradient code; see ``Server`` for the arguments."""

    @abstractmethod
    def _take_shares(self, sender: int, message: Message, for_server: bytes) -> bytes:
        """Keep what device ``sender`` shared with the server; returns the bulk to relay along the column."""

    def _on_shares(self, message: Message) -> list[Outgoing]:
        agreed = self._agreed
        sender = agreed.position(message.sender)
        member = agreed.members[sender]
        message.check_signature(member.identity)
        if sender in self._shared:
            self.ignored["repeated shares"] += 1
            return []
        shares = Shares.decode(message.body, most=agreed.n_devices)
        shares.commitments.check_signature(member.name, agreed.hash, member.identity)
        # One envelope too few would leave its receiver waiting for ever.
        wanted = {agreed.names[i] for i in mask_receivers(agreed.code, sender) if i != sender}
        if set(shares.envelopes) != wanted:
            odd = sorted(set(shares.envelopes) ^ wanted)
            raise MessageRefused(
                f"the shares of {message.sender!r} must be for those who need its seeds under this code:"
                f" missing or too many are {', '.join(map(repr, odd))[:200]}"
            )
        bulk = self._take_shares(sender, message, shares.for_server)
        self._shared.add(sender)
        column = {agreed.names[i] for i in agreed.code.column_support(sender)}
        relayed, digests = [], {data: digest_of([data]) for data in (bulk, b"")}
        for name, envelope in shares.envelopes.items():
            attachment = bulk if name in column else b""
            body = Share(shares.commitments, envelope).encode()
            share = Message(Kind.SHARE, self.run, agreed.hash, message.sender, name, body, attachment)
            relayed.append(Outgoing((name,), share.signed_by(self.identity, digests[attachment]).encode()))
        return relayed + self._start_if_possible()

    def _relayed(self, sender: int, receiver: int) -> bool:
        return sender != receiver and sender in mask_senders(self._agreed.code, receiver)
