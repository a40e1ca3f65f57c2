package whatif

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/cmd/berth/client"
	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
	"berth/shared/wire/berthapi"
	"berth/shared/wire/shape"
)

// ReadRows reads the rows of a cluster from a running Berth, and when they were read: by the
// scheduler's clock, or by this machine's if an older Berth does not say. It calls progress after
// each page with the number of rows so far.
func ReadRows(
	ctx context.Context, c *client.Client, clusterName string, progress func(rows int),
) (out []berthapi.Row, at time.Time, err error) {
	for token := ""; ; {
		var page berthapi.RowsOutput
		if err := c.CallBerth(ctx, "ListClusterRows", berthapi.RowsInput{Cluster: clusterName, NextToken: token},
			&page); err != nil {
			return nil, at, err
		}
		out = append(out, page.Rows...)
		progress(len(out))
		if token = page.NextToken; token == "" {
			if at = page.At; at.IsZero() {
				at = time.Now()
			}
			return out, at, nil
		}
	}
}

// Saved is a cluster in a file.
type Saved struct {
	// Cluster and At say which cluster it was and when, by its scheduler's clock. Files of earlier versions
	// do not say.
	Cluster string
	At      time.Time
	Rows    []berthapi.Row
}

// savedHeader is the first line of a file.
type savedHeader struct {
	Cluster string    `json:"cluster"`
	At      time.Time `json:"at"`
	Rows    int       `json:"rows"`
}

// Save writes a cluster as JSON: a line about it, and one for each row. [ReadSaved] reads it.
func (s *Saved) Save(w io.Writer) error {
	buffered := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffered)
	if err := encoder.Encode(savedHeader{s.Cluster, s.At, len(s.Rows)}); err != nil {
		return err
	}
	for _, row := range s.Rows {
		if err := encoder.Encode(row); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// maxLine bounds one row in bytes: an item of DynamoDB has at most 400 KB, and JSON is longer.
const maxLine = 1 << 20

// ReadSaved reads what [Saved.Save] wrote, and what earlier versions wrote, which have no line about the
// cluster. A file without rows, or with fewer than that line says, is an error. It calls progress after each row
// with the number of rows so far. Errors about a line name it.
func ReadSaved(r io.Reader, progress func(rows int)) (*Saved, error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	var header savedHeader
	var rows []berthapi.Row
	for n := 1; scanner.Scan(); n++ {
		// Files that people have edited often have empty lines.
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		if header.Cluster == "" && len(rows) == 0 && json.Unmarshal(scanner.Bytes(), &header) == nil &&
			header.Cluster != "" {
			continue
		}
		var row berthapi.Row
		if err := json.Unmarshal(scanner.Bytes(), &row); err != nil || row.Sort == "" {
			return nil, fmt.Errorf("line %d: %.60q is no row of a saved snapshot", n, scanner.Text())
		}
		rows = append(rows, row)
		progress(len(rows))
	}
	switch err := scanner.Err(); {
	case err != nil:
		return nil, fmt.Errorf("line %d: %w", len(rows)+1, err)
	case len(rows) < max(1, header.Rows):
		return nil, fmt.Errorf("it has %d of %d rows of a saved snapshot", len(rows), max(1, header.Rows))
	}
	return &Saved{header.Cluster, header.At, rows}, nil
}

// BuildSnapshot builds the cluster from its rows. A row of an unknown kind is an error: the answers
// would be wrong without it.
func BuildSnapshot(rows []berthapi.Row) (*snapshot.Snapshot, error) {
	snap := snapshot.NewSnapshot()
	for _, r := range rows {
		row, err := state.DecodeRow(r.Sort, r.Row)
		if err != nil {
			return nil, err
		}
		snap.Put(row)
	}
	return snap, nil
}

// LoadDefinition adds to the snapshot a task definition that the cluster has not used yet, and
// returns its full name. The name is family:revision, or a family for its newest revision. A
// definition that does not exist is no error here: the question about it will find nothing.
func LoadDefinition(ctx context.Context, c *client.Client, snap *snapshot.Snapshot, name string) (string, error) {
	if snap.Definitions[name] != nil {
		return name, nil
	}
	var out struct {
		TaskDefinition struct {
			types.TaskDefinition
			// These are numbers on the wire, which the SDK's type does not accept and Berth does
			// not need them.
			RegisteredAt, DeregisteredAt json.RawMessage
		} `json:"taskDefinition"`
		Tags []types.Tag `json:"tags"`
	}
	err := c.CallECS(ctx, "DescribeTaskDefinition", map[string]any{"taskDefinition": name, "include": []string{"TAGS"}},
		&out)
	// ECS answers with this code if there is no such definition.
	if e := new(cluster.Error); errors.As(err, &e) && e.Code == cluster.CodeClient {
		return name, nil
	} else if err != nil {
		return "", err
	}
	def, err := shape.ParseTaskDefinition(out.TaskDefinition.TaskDefinition, out.Tags)
	if err != nil {
		return "", err
	}
	// A snapshot accepts a row only if its revision is higher than the one that it has.
	def.Rev = 1
	snap.Put(def)
	return def.Name(), nil
}

// SnapshotOfNodes builds a cluster of a trace's nodes, without tasks. Instances have the nodes'
// names as ids, and the GPU model as an attribute, which constraints can name.
func SnapshotOfNodes(nodes []trace.Node) *snapshot.Snapshot {
	snap := snapshot.NewSnapshot()
	for _, n := range nodes {
		i := &cluster.Instance{
			Head: cluster.Head{Cluster: "trace", Rev: 1}, ID: n.Name, Status: cluster.InstanceActive,
			AgentConnected: true,
			Registered: cluster.Capacity{CPU: n.CPUMilli * cluster.MilliVCPU, Memory: n.MemoryMiB,
				GPUs: make([]string, n.GPUs)},
			Attributes: map[string]string{},
		}
		if n.Model != "" {
			i.Attributes[trace.ModelAttribute] = n.Model
		}
		snap.Put(i)
	}
	return snap
}
