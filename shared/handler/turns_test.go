package handler

import (
	"testing"
	"time"

	"berth/shared/cluster"
)

func TestTurnsOfDecisions(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	snap := cluster.NewSnapshot()
	snap.Put(&cluster.Service{Head: cluster.Head{Cluster: "c"}, Name: "web", Short: "s1", Status: cluster.ServiceActive, Strategy: cluster.Replica})
	fell := func(kind cluster.DueKind, subject string, generation int) cluster.Record {
		due := &cluster.Due{Head: cluster.Head{Cluster: "c"}, At: now, Kind: kind, Subject: subject, Generation: generation}
		return cluster.Record{Op: cluster.Remove, Key: cluster.KeyOf(due), Old: due}
	}
	again := func(kind cluster.DueKind, subject string, wait time.Duration) *cluster.Due {
		return &cluster.Due{Head: cluster.Head{Cluster: "c"}, At: now.Add(wait), Kind: kind, Subject: subject}
	}
	for _, c := range []struct {
		name    string
		records []cluster.Record
		due     *cluster.Due
		outbox  *cluster.Outbox
		want    int
	}{
		{"TheFirstTimeIsNoTurn", nil, again(cluster.DueService, "web", time.Second), nil, 0},
		{"ThenItIsOne", []cluster.Record{fell(cluster.DueService, "web", 0)}, again(cluster.DueService, "web", time.Second), nil, 1},
		{"AndOneMore", []cluster.Record{fell(cluster.DueService, "web", 41)}, again(cluster.DueService, "web", time.Second), nil, 42},
		{"AfterASweepsTheCountBegins", []cluster.Record{fell(cluster.DueService, "web", -1)}, again(cluster.DueService, "web", time.Second), nil, 1},
		{"NotOfAnotherService", []cluster.Record{fell(cluster.DueService, "db", 41)}, again(cluster.DueService, "web", time.Second), nil, 0},
		{"NotWhenItComesSeldom", []cluster.Record{fell(cluster.DueService, "web", 41)}, again(cluster.DueService, "web", time.Minute), nil, 0},
		{
			"AStartIsProgress", []cluster.Record{fell(cluster.DueService, "web", 41)}, again(cluster.DueService, "web", time.Second),
			&cluster.Outbox{Owner: "s1", Starts: []cluster.StartItem{{Instance: "i"}}}, 0,
		},
		{
			"AStopIsProgress", []cluster.Record{fell(cluster.DueService, "web", 41)}, again(cluster.DueService, "web", time.Second),
			&cluster.Outbox{Stops: []cluster.StopItem{{Owner: "s1", ID: "t"}}}, 0,
		},
		{
			"AnothersStartIsNot", []cluster.Record{fell(cluster.DueService, "web", 41)}, again(cluster.DueService, "web", time.Second),
			&cluster.Outbox{Owner: "s2", Starts: []cluster.StartItem{{Instance: "i"}}}, 42,
		},
		{"WaitingTasks", []cluster.Record{fell(cluster.DueWaiting, "", 7)}, again(cluster.DueWaiting, "", time.Second), nil, 8},
		{
			"AnyStartIsProgressOfWaitingTasks", []cluster.Record{fell(cluster.DueWaiting, "", 7)}, again(cluster.DueWaiting, "", time.Second),
			&cluster.Outbox{Owner: "s2", Starts: []cluster.StartItem{{Instance: "i"}}}, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			commit := cluster.Commit{Cluster: "c", Writes: []cluster.Write{{Put: c.due, Any: true}}}
			if c.outbox != nil {
				commit.Writes = append(commit.Writes, cluster.Write{Put: c.outbox})
			}
			if got := turns(c.records, []cluster.Commit{commit}, snap, now); got != c.want || c.due.Generation != c.want {
				t.Errorf("%d turns, generation %d, want %d", got, c.due.Generation, c.want)
			}
		})
	}
}
