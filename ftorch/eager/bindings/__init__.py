"""Python signatures of ops: arguments, overloads, ``out=``."""
