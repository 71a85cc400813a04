"""``torch._C._distributed_c10d``: the names of groups, stores and options where PyTorch's extension has them."""
# ruff: noqa: F401

from ..distributed._bucket import GradBucket
from ..distributed._fake import FakeProcessGroup
from ..distributed._options import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from ..distributed._reducer import Reducer
from ..distributed._work import FromFuture as _create_work_from_future
from ..distributed._world import get_thread_isolation_mode as _get_thread_isolation_mode
from ..distributed._world import register as _register_process_group
from ..distributed._world import set_thread_isolation_mode as _set_thread_isolation_mode
from ..distributed._world import unregister as _unregister_process_group
from ..distributed._world import unregister_all as _unregister_all_process_groups
from ..distributed.debug._worker_server import _register_handler, _Request, _Response, _WorkerServer
from ..distributed.distributed_c10d import (
    DebugLevel,
    FileStore,
    HashStore,
    PrefixStore,
    ProcessGroup,
    ReduceOp,
    Store,
    TCPStore,
    Work,
    _resolve_process_group,
    get_debug_level,
    set_debug_level,
    set_debug_level_from_env,
)
