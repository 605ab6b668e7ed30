"""Ask every rule about a trace: measurement first, then the program; nothing is believed twice."""

from __future__ import annotations
