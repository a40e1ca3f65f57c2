package operation

import (
	"time"

	"berth/shared/cluster"
)

// A Deregistration is that of a revision of a task definition through Berth, while services may still
// use it. The revision is INACTIVE for Berth, and ACTIVE at ECS until no service needs it.
type Deregistration struct {
	Family   string
	Revision int
	At       time.Time
	DeleteAt time.Time // when its deletion was requested, zero if it was not
}

// Name returns family:revision.
func (d *Deregistration) Name() string { return cluster.TaskDefinitionName(d.Family, d.Revision) }
