"""Clients of a service: devices, decision clients, curators, modelers and auditors.

Methods of `Device` block, those of `AsyncDevice` are awaited, and so on. Names are imported when
they are first used: a device loads NumPy, and httpx2 with its first request.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreet.service.client.auditor import AsyncAuditor as AsyncAuditor
    from discreet.service.client.auditor import Audit as Audit
    from discreet.service.client.auditor import Auditor as Auditor
    from discreet.service.client.decisions import AsyncDecisionClient as AsyncDecisionClient
    from discreet.service.client.decisions import DecisionClient as DecisionClient
    from discreet.service.client.device import AsyncDevice as AsyncDevice
    from discreet.service.client.device import Device as Device
    from discreet.service.client.person import LedgerRow as LedgerRow
    from discreet.service.client.person import Spending as Spending
    from discreet.service.client.person import read_ledger as read_ledger
    from discreet.service.client.tables import AsyncCuratorClient as AsyncCuratorClient
    from discreet.service.client.tables import AsyncModelerClient as AsyncModelerClient
    from discreet.service.client.tables import CuratorClient as CuratorClient
    from discreet.service.client.tables import ModelerClient as ModelerClient
    from discreet.service.client.transport import ChosenAction as ChosenAction
    from discreet.service.client.transport import Patience as Patience
    from discreet.service.client.transport import Refused as Refused
    from discreet.service.client.transport import Unreachable as Unreachable
else:
    _NAMES = {
        "auditor": ("AsyncAuditor", "Audit", "Auditor"),
        "decisions": ("AsyncDecisionClient", "DecisionClient"),
        "device": ("AsyncDevice", "Device"),
        "person": ("LedgerRow", "Spending", "read_ledger"),
        "tables": ("AsyncCuratorClient", "AsyncModelerClient", "CuratorClient", "ModelerClient"),
        "transport": ("ChosenAction", "Patience", "Refused", "Unreachable"),
    }
    _MODULES = {name: module for module, names in _NAMES.items() for name in names}
    __all__ = sorted(_MODULES)

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
