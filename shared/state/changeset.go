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
	Batch   int64 `json:"b"`
	Version int64 `json:"v"` // the placement version after the batch
	// ClusterCreatedAt is when the cluster was created. Sets of one that had its name before may be left.
	ClusterCreatedAt time.Time `json:"ca"`
	At               time.Time `json:"at"` // when the batch ended
	// Packed has the rows and the keys of rows that are gone, see [ChangeSet.Unpack].
	Packed string `json:"tk,omitempty"`
	// Omitted says that the set has no rows although the batch was about some: they are too many, or
	// placement has read the cluster anew, and knows of changes that no set has.
	Omitted bool `json:"om,omitempty"`
}

// changeSetAge is how long a set is kept: for ten of managed scaling's looks.
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

// A Change is one row of a [ChangeSet]; Row is nil if it was deleted.
type Change struct {
	Key Key
	Row Row
}

// NewChangeSet returns the set of a batch, without rows. of is the cluster after the batch, now when
// that ended.
func NewChangeSet(of Meta, batch int64, now time.Time) *ChangeSet {
	return &ChangeSet{
		Head:  cluster.Head{Cluster: of.Cluster, Expires: now.Add(changeSetAge).Unix()},
		Batch: batch, Version: of.Version, ClusterCreatedAt: of.CreatedAt, At: now.UTC(),
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

// ChangeSetKey names the set of a batch.
func ChangeSetKey(clusterName string, batch int64) Key {
	return Key{clusterName, fmt.Sprintf("%s%019d", PrefixChangeSet, batch)}
}

// ChangeSetsAfter returns the range of a cluster's sets of batches after one, at most so many.
func ChangeSetsAfter(clusterName string, batch int64, most int) Range {
	return Range{
		Cluster: clusterName, From: ChangeSetKey(clusterName, batch+1).Sort, To: PrefixChangeSet + "\xff", Limit: most,
	}
}
