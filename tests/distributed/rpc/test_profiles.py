"""What a process is asked to do by others, in profiles that they open and close."""

import ftorch
from ftorch.distributed import rpc


def test_each_profile_has_what_came_while_it_was_on(tmp_path):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tmp_path / 'met'}")
    rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
    x, y = ftorch.tensor(1), ftorch.tensor(2)
    try:
        outer = rpc.remote("alone", rpc._server_process_global_profile)
        outer.rpc_sync().__enter__()
        rpc.rpc_sync("alone", ftorch.add, (x, y))
        inner = rpc.remote("alone", rpc._server_process_global_profile)
        inner.rpc_sync().__enter__()
        rpc.rpc_sync("alone", ftorch.sub, (x, y))
        inner.rpc_sync().__exit__(None, None, None)
        outer.rpc_sync().__exit__(None, None, None)
        names = [{e.key for e in p.rpc_sync().key_averages()} for p in (inner, outer)]
        assert "aten::sub" in names[0] and "aten::add" not in names[0]
        assert {"aten::sub", "aten::add"} <= names[1]
        threads = outer.to_here().process_global_function_events
        assert sum(map(len, threads)) == len(outer.to_here().function_events)
    finally:
        rpc.shutdown()


def test_collectives_have_the_name_that_is_wanted(tmp_path):
    dist = ftorch.distributed
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        with ftorch.profiler.profile() as p:
            dist.all_reduce(ftorch.ones(2))
            with dist.record_comm("layer 1"):
                dist.all_reduce(ftorch.ones(2))
            dist.broadcast(ftorch.ones(2), 0)
        names = [e.key for e in p.key_averages()]
        assert {"gloo:all_reduce", "layer 1", "gloo:broadcast"} <= set(names)
    finally:
        dist.destroy_process_group()
