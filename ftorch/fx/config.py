"""Settings of ``torch.fx``."""

disable_progress = True  # no progress bars of passes that take long
verbose_progress = False
do_not_emit_stack_traces = False
