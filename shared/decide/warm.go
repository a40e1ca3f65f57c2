package decide

import (
	"time"

	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Warm is what an environment remembers of a cluster, good only if it handled the cluster's previous batch.
type Warm struct {
	Snap   *snapshot.Snapshot
	engine *placement.Engine // on snap
	specs  *Specs
	Batch  int64
	// Dues are the timers that are set, winding the registrations that dispatch has been told to wind up.
	Dues    map[timer]time.Time
	Winding map[state.Key]bool
	// reserved reports that what DAEMON services will need is kept free.
	reserved bool
}

// NewWarm indexes the snapshot for decisions.
func NewWarm(snap *snapshot.Snapshot) *Warm {
	return &Warm{
		Snap: snap, engine: placement.New(snap), specs: NewSpecs(snap), Dues: map[timer]time.Time{}, Winding: map[state.Key]bool{},
	}
}
