"""For tests of programs that use trio_mcp: servers from functions, servers that misbehave, wire scripts.

Nothing here is a mock: functions are served by a `ToolServer`, misbehaving servers are processes of their own, and
a wire script is played over the same transport as any conversation.
"""

from .functions import open_functions
from .misbehaviour import Misbehaviour, misbehaving_server
from .scripts import ScriptError, WireScript, open_script

__all__ = ["Misbehaviour", "ScriptError", "WireScript", "misbehaving_server", "open_functions", "open_script"]
