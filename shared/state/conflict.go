package state

import (
	"fmt"
)

// Conflict is a write whose condition no longer holds: somebody else was first. Nothing was
// written.
type Conflict struct {
	Key Key
	// Row is what the store holds instead, where the store says so; nil when the row is absent or
	// unknown.
	Row Row
	// Version reports that it was the placement version that had moved on.
	Version bool
}

// Error names the row.
func (c *Conflict) Error() string {
	if c.Version {
		return fmt.Sprintf("cluster %s: the placement version has moved on", c.Key.Cluster)
	}
	return fmt.Sprintf("row %s of cluster %s has changed", c.Key.Sort, c.Key.Cluster)
}
