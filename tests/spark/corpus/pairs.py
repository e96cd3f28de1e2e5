"""The corpus: each fault that deployments meet, as a wrong job, and its mended twin."""

from collections.abc import Mapping
from typing import Final

from tests.spark.corpus import batches, changes, jobs, sinks, state
from tests.spark.corpus.parts import Pair

PAIRS: Final[Mapping[type[Pair], int]] = {
    jobs.TimeOfProcessing: 0,
    jobs.CopiesIntoTopic: 2,
    jobs.UpdatesWithoutKey: 1,
    jobs.ClicksOfImpressions: 1,
    jobs.OnceIntoLedger: 2,
    jobs.MarkedBeforeRows: 1,
    jobs.SwallowedFailure: 4,
    jobs.LastArrival: 4,
    jobs.OnceInBatch: 3,
    jobs.RebuiltTable: 8,
    jobs.AppendedPartitions: 1,
    sinks.AppendedFiles: 2,
    sinks.OverwriteFirst: 12,
    sinks.AddedToTotal: 2,
    sinks.AuditedOnce: 1,
    sinks.AppendedRows: 1,
    sinks.RetriedWhole: 1,
    sinks.WrittenInParallel: 4,
    sinks.NotFlushed: 5,
    sinks.RebuiltByNumber: 12,
    batches.TotalOfBatch: 1,
    batches.TopOfBatch: 1,
    batches.AverageOfAverages: 1,
    batches.IdsOfBatch: 1,
    batches.OverwrittenDay: 1,
    batches.WindowsByName: 1,
    batches.FilledForward: 1,
    batches.CountedUsers: 1,
    batches.SampledByChance: 0,
    batches.RandomIds: 0,
    batches.AssignedPartition: 6,
    batches.ChainOfTopics: 2,
    changes.DeletionsLast: 1,
    changes.SameTime: 5,
    changes.DeletedWithoutTrace: 5,
    changes.PartOfRow: 1,
    state.LateForWindow: 4,
    state.LateForSession: 1,
    state.ExpiredRecords: 9,
}
"""Wrong jobs with their mended twins, and the schedule of seed 1 that finds the wrong one.

It is 0 where the plain schedule gives another result each time.
"""
