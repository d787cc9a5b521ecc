"""The network as a component of another program: it is stepped from outside and answers by callbacks.

``NetworkBackend`` is all that a simulator, a scheduler or a message-passing client needs; ``fredfw.embed.simpy`` puts
it under SimPy's processes. Neither is imported with ``fredfw`` itself.
"""

from fredfw.embed.backend import Callback, Handle, NetworkBackend

__all__ = ["Callback", "Handle", "NetworkBackend"]
