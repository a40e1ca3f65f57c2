package state

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/shared/cluster"
)

// An Inbox row announces to placement which tasks have changed. The rows of tasks are spread over
// partition keys ([PartitionKey]), so the stream delivers them in several shards, to as many
// environments at once. The inbox is in the cluster's own partition: one environment at a time
// gets all that concerns the cluster, and its snapshot stays warm.
//
// Placement needs only the record of the insertion, so the row expires after [inboxAge].
type Inbox struct {
	cluster.Head
	ID string `json:"id"`
	// Packed has the rows of tasks after their changes, see [Inbox.Tasks].
	Packed string `json:"tk,omitempty"`
	// Unread are tasks that have changed in a way that the writer did not see. Placement reads them.
	Unread []TaskRef `json:"ur,omitempty"`
}

// A TaskRef names the row of a task.
type TaskRef struct {
	Owner string `json:"o"`
	ID    string `json:"i"`
}

// inboxAge is how long an inbox row is kept. Its stream record has everything that it says.
const inboxAge = time.Minute

// maxInboxTasks is how many tasks one inbox row has. A packed task takes about 100 bytes.
const maxInboxTasks = 100

// maxPacked is the most bytes that an inbox row packs. Tasks with large overrides take more; placement
// reads them.
const maxPacked = 64 << 10

// ConcernsPlacement reports whether placement has to look at a task again after a change of its
// row: ECS reports on it while it is wanted, it has STOPPED, or a user stops it. Of other changes,
// such as claims, placement needs to know nothing before the next report.
func ConcernsPlacement(t *cluster.Task) bool {
	return t.Last == cluster.TaskStopped || t.Last != "" && t.Desired == cluster.TaskRunning ||
		t.StopCode == cluster.StopUserInitiated
}

// NewInbox returns a row with tasks of one cluster that have changed, at most [maxInboxTasks]. Its id
// follows from the time and from what it says.
func NewInbox(clusterName string, now time.Time, tasks []*cluster.Task, unread ...TaskRef) (*Inbox, error) {
	packed, err := "", error(nil)
	if len(tasks) > 0 {
		packed, err = pack(tasks)
	}
	if err != nil {
		return nil, fmt.Errorf("packing %d tasks of cluster %s: %w", len(tasks), clusterName, err)
	}
	if len(packed) > maxPacked {
		for _, t := range tasks {
			unread = append(unread, TaskRef{Owner: t.Owner, ID: t.ID})
		}
		packed = ""
	}
	of := []string{packed}
	for _, u := range unread {
		of = append(of, u.Owner, u.ID)
	}
	return &Inbox{
		Head:   cluster.Head{Cluster: clusterName, Expires: now.Add(inboxAge).Unix()},
		ID:     fmt.Sprintf("%013d-%s", now.UnixMilli(), cluster.Digest(of...)[:16]),
		Packed: packed, Unread: unread,
	}, nil
}

// compressors are reused: each is 600 KB, which takes longer to make than the usual row takes to pack.
var compressors = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.DefaultCompression) // it fails for an unknown level only
	return w
}}

// pack compresses rows into text. They have most of their text in common: 100 tasks of a service
// take a tenth of their size.
func pack(rows any) (string, error) {
	data, err := json.Marshal(rows)
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	w.Reset(&packed)
	if _, err := w.Write(data); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

// maxUnpacked bounds what a row may unpack to, in bytes.
const maxUnpacked = 64 << 20

// unpack reads what [pack] has written.
func unpack(packed string) ([]byte, error) {
	text := base64.NewDecoder(base64.StdEncoding, strings.NewReader(packed))
	return io.ReadAll(io.LimitReader(flate.NewReader(text), maxUnpacked))
}

// Tasks returns the tasks of the row that the writer has seen, ordered by owner and id.
func (i *Inbox) Tasks() ([]*cluster.Task, error) {
	if len(i.Packed) == 0 {
		return nil, nil
	}
	data, err := unpack(i.Packed)
	if err != nil {
		return nil, fmt.Errorf("unpacking inbox row %s: %w", i.ID, err)
	}
	var tasks []*cluster.Task
	if err := json.Unmarshal(data, &tasks); err != nil {
		return nil, fmt.Errorf("reading inbox row %s: %w", i.ID, err)
	}
	return tasks, nil
}

// sortTasks orders tasks by owner and id, which puts those next to each other that have most in
// common.
func sortTasks(tasks []*cluster.Task) {
	slices.SortFunc(tasks, func(a, b *cluster.Task) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.ID, b.ID))
	})
}
