package decide

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
)

func TestCountIdleHops(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	snap := snapshot.NewSnapshot()
	snap.Put(&cluster.Service{
		Head:            cluster.Head{Cluster: "c"},
		ServiceIdentity: cluster.ServiceIdentity{Name: "web", Short: "s1"},
		ServiceSpec:     cluster.ServiceSpec{Strategy: cluster.Replica},
		ServiceStatus:   cluster.ServiceStatus{Status: cluster.ServiceActive},
	})
	fell := func(kind state.DueKind, subject string, generation int) state.Record {
		due := &state.Due{Head: cluster.Head{Cluster: "c"}, At: now, Kind: kind, Subject: subject,
			Generation: generation}
		return state.Record{Op: state.Remove, Key: state.KeyOf(due), Old: due}
	}
	again := func(kind state.DueKind, subject string, wait time.Duration) *state.Due {
		return &state.Due{Head: cluster.Head{Cluster: "c"}, At: now.Add(wait), Kind: kind, Subject: subject}
	}
	for _, c := range []struct {
		name    string
		records []state.Record
		due     *state.Due
		outbox  *state.Outbox
		want    int
	}{
		{"TheFirstTimeIsNoTurn", nil, again(state.DueService, "web", time.Second), nil, 0},
		{"ThenItIsOne", []state.Record{fell(state.DueService, "web", 0)}, again(state.DueService, "web", time.Second),
			nil, 1},
		{"AndOneMore", []state.Record{fell(state.DueService, "web", 41)}, again(state.DueService, "web", time.Second),
			nil, 42},
		{"AfterASweepsTheCountBegins", []state.Record{fell(state.DueService, "web", -1)},
			again(state.DueService, "web", time.Second), nil, 1},
		{"NotOfAnotherService", []state.Record{fell(state.DueService, "db", 41)},
			again(state.DueService, "web", time.Second), nil, 0},
		{"NotWhenItComesSeldom", []state.Record{fell(state.DueService, "web", 41)},
			again(state.DueService, "web", time.Minute), nil, 0},
		{
			"AStartIsProgress", []state.Record{fell(state.DueService, "web", 41)},
			again(state.DueService, "web", time.Second),
			&state.Outbox{Owner: "s1", Starts: []state.StartItem{{Instance: "i"}}}, 0,
		},
		{
			"AStopIsProgress", []state.Record{fell(state.DueService, "web", 41)},
			again(state.DueService, "web", time.Second),
			&state.Outbox{Stops: []state.StopItem{{Owner: "s1", ID: "t"}}}, 0,
		},
		{
			"AnothersStartIsNot", []state.Record{fell(state.DueService, "web", 41)},
			again(state.DueService, "web", time.Second),
			&state.Outbox{Owner: "s2", Starts: []state.StartItem{{Instance: "i"}}}, 42,
		},
		{"WaitingTasks", []state.Record{fell(state.DueWaiting, "", 7)}, again(state.DueWaiting, "", time.Second), nil,
			8},
		{
			"AnyStartIsProgressOfWaitingTasks", []state.Record{fell(state.DueWaiting, "", 7)},
			again(state.DueWaiting, "", time.Second),
			&state.Outbox{Owner: "s2", Starts: []state.StartItem{{Instance: "i"}}}, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			commit := state.Commit{Cluster: "c", Writes: []state.Write{{Put: c.due, Any: true}}}
			if c.outbox != nil {
				commit.Writes = append(commit.Writes, state.Write{Put: c.outbox})
			}
			if got := CountIdleHops(c.records, []state.Commit{commit}, snap, now); got != c.want ||
				c.due.Generation != c.want {
				t.Errorf("%d idle hops, generation %d, want %d", got, c.due.Generation, c.want)
			}
		})
	}
}
