package state

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
)

// A ChangeSet has the instances and tasks that one batch of placement was about, as placement knows
// them after it. Managed scaling, which has read the cluster once, applies the sets of later batches
// instead of reading everything anew.
type ChangeSet struct {
	cluster.Head
	Batch   int64     `json:"b"`
	Version int64     `json:"v"` // the placement version after the batch
	At      time.Time `json:"at"`
	// Packed has the rows and the keys of rows that are gone, see [ChangeSet.Unpack].
	Packed string `json:"tk,omitempty"`
	// Omitted says that the batch changed more than it is worth to write down, or that sets cannot
	// have all that placement knew after it.
	Omitted bool `json:"om,omitempty"`
}

// changeSetAge is how long a set is kept: for some of managed scaling's looks.
const changeSetAge = 10 * time.Minute

// maxSetBytes bounds what a set packs. A row of DynamoDB has at most 400 KB.
const maxSetBytes = 256 << 10

// setRows are the rows of a set.
type setRows struct {
	Instances []*cluster.Instance `json:"i,omitempty"`
	Tasks     []*cluster.Task     `json:"t,omitempty"`
	// Gone are the sort keys of rows that are no longer there.
	Gone []string `json:"g,omitempty"`
}

// A Change is one row of a [ChangeSet]; Row is nil if it is gone.
type Change struct {
	Key Key
	Row Row
}

// NewChangeSet returns the set of a batch, without rows. now is when the batch ended.
func NewChangeSet(clusterName string, batch, version int64, now time.Time) *ChangeSet {
	return &ChangeSet{
		Head:  cluster.Head{Cluster: clusterName, Expires: now.Add(changeSetAge).Unix()},
		Batch: batch, Version: version, At: now.UTC(),
	}
}

// Pack puts rows into the set, or sets Omitted if they are too large. Only instances and tasks are
// allowed.
func (s *ChangeSet) Pack(changes []Change) error {
	var of setRows
	for _, c := range changes {
		switch r := c.Row.(type) {
		case *cluster.Instance:
			of.Instances = append(of.Instances, r)
		case *cluster.Task:
			of.Tasks = append(of.Tasks, r)
		case nil:
			of.Gone = append(of.Gone, c.Key.Sort)
		default:
			return fmt.Errorf("packing the changes of batch %d: a set has no %T", s.Batch, r)
		}
	}
	slices.SortFunc(of.Instances, func(a, b *cluster.Instance) int { return cmp.Compare(a.ID, b.ID) })
	sortTasks(of.Tasks)
	slices.Sort(of.Gone)
	var err error
	if s.Packed, err = pack(of); err != nil {
		return fmt.Errorf("packing the changes of batch %d: %w", s.Batch, err)
	}
	if len(s.Packed) > maxSetBytes {
		s.Packed, s.Omitted = "", true
	}
	return nil
}

// Unpack returns the set's rows, ordered by kind and key.
func (s *ChangeSet) Unpack() (changes []Change, err error) {
	if s.Packed == "" {
		return nil, nil
	}
	data, err := unpack(s.Packed)
	if err != nil {
		return nil, fmt.Errorf("unpacking the changes of batch %d: %w", s.Batch, err)
	}
	var of setRows
	if err := json.Unmarshal(data, &of); err != nil {
		return nil, fmt.Errorf("reading the changes of batch %d: %w", s.Batch, err)
	}
	for _, i := range of.Instances {
		changes = append(changes, Change{KeyOf(i), i})
	}
	for _, t := range of.Tasks {
		changes = append(changes, Change{KeyOf(t), t})
	}
	for _, sort := range of.Gone {
		changes = append(changes, Change{Key{Cluster: s.Cluster, Sort: sort}, nil})
	}
	return changes, nil
}

// ChangeSetsAfter returns the range of a cluster's sets of batches after one.
func ChangeSetsAfter(clusterName string, batch int64) Range {
	return Range{Cluster: clusterName, From: changeSetSort(batch + 1), To: PrefixChangeSet + "\xff"}
}

func changeSetSort(batch int64) string { return fmt.Sprintf("%s%019d", PrefixChangeSet, batch) }
