"""The files of one log: creates, rolls, replaces and deletes its segments.

Owner: `Log._lock`.
Invariants: everything in `segments` has files; deleted files are renamed at once and removed later,
so that a crash leaves no half-deleted segment.
Not here: the log's public offsets (`log`), and repairs (`loader`).
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.environment import LogEnvironment
from embedkafka.broker.log.files.record_ages import PartitionAges
from embedkafka.broker.log.files.segment import Segment
from embedkafka.broker.log.files.segments import Segments
from embedkafka.broker.log.retention import SegmentView

DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"


class LocalLog:
    """A log directory and its segments."""

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        environment: LogEnvironment,
        on_storage_error: Callable[[OSError], object],
    ) -> None:
        self.directory = directory
        self.config = config
        self.segments = Segments()
        self._clock = environment.clock
        self._files = environment.files
        self._scheduler = environment.scheduler
        self._random = environment.random
        self.on_storage_error = on_storage_error

    @property
    def active(self) -> Segment:
        return self.segments.active

    def begin(self) -> None:
        """Starts with an empty segment, which has no file until `Segment.create`."""
        self._files.make_directory(self.directory)
        segment = self.open_segment(0)
        segment.begin()
        self.segments.add(segment)

    def start_at(self, base_offset: int) -> None:
        """Adds an empty segment when none is left."""
        self.segments.add(self._new_segment(base_offset))

    def hold(self, segments: Sequence[Segment]) -> None:
        """Takes over loaded segments."""
        self.segments = Segments(segments)
        for segment in segments[:-1]:
            segment.release()

    def open_segment(self, base_offset: int, suffix: str = "") -> Segment:
        """A segment with the current settings; the caller creates or loads its files."""
        config = self.config
        jitter_ms = 0
        if config.segment_jitter_ms:
            jitter_ms = self._random.randrange(min(config.segment_jitter_ms, config.segment_ms))
        return Segment(
            self._files,
            self.directory,
            base_offset,
            config,
            now_ms=self._clock.now_ms(),
            jitter_ms=jitter_ms,
            suffix=suffix,
        )

    def roll(self, base_offset: int) -> Segment:
        """Starts a new segment; replaces the active one if that is empty and not the first.

        The first one stays, because the log starts there and may be read from there.
        """
        active = self.segments.active
        active.retire()
        segment = self._new_segment(base_offset)
        self.segments.add(segment)
        if active.size == 0 and active is not self.segments.first:
            self.delete([active])
        else:
            self.segments.keep_open(active)
        return segment

    def _new_segment(self, base_offset: int) -> Segment:
        segment = self.open_segment(base_offset)
        segment.create()
        return segment

    def delete(self, segments: Sequence[Segment]) -> None:
        """Takes segments out of the log."""
        self.segments.remove(segments)
        self._delete_files(segments)

    def _delete_files(self, segments: Sequence[Segment]) -> None:
        """Renames the files at once and removes them after `file.delete.delay.ms`."""
        for segment in segments:
            segment.change_suffix("", DELETED_SUFFIX)
            segment.release()

        def remove_files() -> None:
            try:
                for segment in segments:
                    segment.remove()
            except OSError as error:
                self.on_storage_error(error)

        delay_ms = self.config.file_delete_delay_ms
        self._scheduler.once(f"delete-file {self.directory.name}", delay_ms, remove_files)

    def replace(self, new: Segment, old: Sequence[Segment]) -> None:
        """Replaces the original segments with a `.cleaned` one.

        From the first rename on, a crash leaves the finished new segment or the original ones.
        """
        new.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
        self.segments.remove(old)
        self.segments.add(new)
        self._delete_files(old)
        new.change_suffix(SWAP_SUFFIX, "")
        self.segments.keep_open(new)

    def truncate(self, offset: int) -> Sequence[Segment]:
        """Drops the batches from `offset` on; returns the segments that were deleted whole."""
        later = [segment for segment in self.segments if segment.base_offset > offset]
        if later:
            self.delete(later)
        self.segments.active.truncate_to(offset, self._clock.now_ms())
        return later

    def rename(self, directory: Path) -> None:
        """Moves the whole directory."""
        self._files.rename(self.directory, directory)
        self.directory = directory
        for segment in self.segments:
            segment.move(directory)

    def views(self, end_offset: int, ages: PartitionAges) -> Sequence[SegmentView]:
        """The segments as values, for retention."""
        segments = tuple(self.segments)
        ends = [following.base_offset for _, following in pairwise(segments)] + [end_offset]
        return [
            SegmentView(
                base_offset=segment.base_offset,
                end_offset=end,
                size=segment.size,
                latest_ms=segment.latest_ms(end, ages),
                is_active=segment is self.segments.active,
            )
            for segment, end in zip(segments, ends, strict=True)
        ]
