package dynamo_test

import (
	"errors"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/dynamo"
	"berth/shared/porttest"
	"berth/shared/state"
)

func TestStatePassesTheSuite(t *testing.T) {
	porttest.TestStore(t, func(t *testing.T) state.Store {
		t.Parallel()
		return open(t)
	})
}

func TestStreamPassesTheSuite(t *testing.T) {
	porttest.TestStream(t, func(t *testing.T) porttest.StreamState {
		t.Parallel()
		return streamState{open(t)}
	})
}

// streamState reads the stream as Lambda would deliver it.
type streamState struct{ *dynamo.State }

func (s streamState) Records(t *testing.T, clusterName string, n int) []state.Record {
	t.Helper()
	var records []state.Record
	for _, r := range streamed(t, s.State) {
		record, err := dynamo.DecodeRecord(r)
		var drop *cluster.Drop
		if errors.As(err, &drop) { // the layout item of the cluster
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if record.Key.Cluster == clusterName {
			records = append(records, record)
		}
	}
	if len(records) < n {
		t.Fatalf("%d records, want %d", len(records), n)
	}
	return records
}

// Expire reports false: DynamoDB expires rows in its own time.
func (streamState) Expire(*testing.T, time.Time) bool { return false }
