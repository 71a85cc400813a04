"""What stands in a package for modules that were left out. Packages carry a copy of this file."""


class MockedObject:
    """Something of a module that was left out: it has any attribute, but cannot be used."""

    def __init__(self, name):
        self._mocked_name = name

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return MockedObject(f"{self._mocked_name}.{name}")

    def _refuse(self, where):
        raise NotImplementedError(
            f"Object '{self._mocked_name}' was mocked out during packaging but it is being used in {where}"
        )

    def __call__(self, *args, **kwargs):
        self._refuse("__call__")

    def __getitem__(self, key):
        self._refuse("__getitem__")

    def __setitem__(self, key, value):
        self._refuse("__setitem__")

    def __iter__(self):
        self._refuse("__iter__")

    def __len__(self):
        self._refuse("__len__")

    def __bool__(self):
        self._refuse("__bool__")

    def __repr__(self):
        return f"MockedObject({self._mocked_name})"
