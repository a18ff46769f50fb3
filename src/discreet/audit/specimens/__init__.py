"""Designs that are known to be broken, each a small faithful copy of one flaw.

An audit that misses one of them proves nothing about honest code. Each module makes one check whose
claim is what its design promises, or would promise; `discreet audit specimens` must catch them all.
"""
