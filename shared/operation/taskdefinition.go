package operation

import (
	"time"

	"berth/shared/cluster"
)

// A Deregistration is a revision of a task definition that is INACTIVE for Berth and ACTIVE at ECS,
// because services may still start tasks of it.
type Deregistration struct {
	Family   string
	Revision int
	At       time.Time
	DeleteAt time.Time // when its deletion was requested, zero if it was not
}

// Name returns family:revision.
func (d *Deregistration) Name() string { return cluster.TaskDefinitionName(d.Family, d.Revision) }
