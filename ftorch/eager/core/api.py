"""Every op and composite by its public path, for code inside the package: ``api.cat(...)``.

Filled by `ftorch.eager.surface.attach`; modules import it freely and use it when they run.
"""
