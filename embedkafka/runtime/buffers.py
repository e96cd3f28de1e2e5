"""The types of buffer that pass between packages."""

BytesLike = bytes | bytearray | memoryview
