// Package whatif asks the placement engine where tasks would go in a cluster as it is, or was, or
// as a trace describes one, and why not elsewhere. It changes nothing.
package whatif

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/cmd/berth/client"
	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
	"berth/shared/wire/berthapi"
	"berth/shared/wire/shape"
)

// ReadRows reads the rows of a cluster from a running Berth. progress is called with how many there
// are so far.
func ReadRows(
	ctx context.Context, c *client.Client, clusterName string, progress func(rows int),
) ([]berthapi.Row, error) {
	var out []berthapi.Row
	for token := ""; ; {
		var page berthapi.RowsOutput
		if err := c.Own(ctx, "ListClusterRows", berthapi.RowsInput{Cluster: clusterName, NextToken: token},
			&page); err != nil {
			return nil, err
		}
		out = append(out, page.Rows...)
		progress(len(out))
		if token = page.NextToken; token == "" {
			return out, nil
		}
	}
}

// SaveRows writes rows, one a line, for [Saved] to read.
func SaveRows(w io.Writer, rows []berthapi.Row) error {
	buffered := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffered)
	for _, row := range rows {
		if err := encoder.Encode(row); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// maxLine is how long one row may be: what DynamoDB stores in an item, as JSON.
const maxLine = 1 << 20

// ReadSavedRows reads what [Save] wrote. progress is called with how many rows there are so far.
// The error names the line.
func ReadSavedRows(r io.Reader, progress func(rows int)) ([]berthapi.Row, error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	var out []berthapi.Row
	for n := 1; scanner.Scan(); n++ {
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		var row berthapi.Row
		if err := json.Unmarshal(scanner.Bytes(), &row); err != nil || row.Sort == "" {
			return nil, fmt.Errorf("line %d: %.60q is no row of a saved snapshot", n, scanner.Text())
		}
		out = append(out, row)
		progress(len(out))
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", len(out)+1, err)
	}
	return out, nil
}

// BuildSnapshot is the cluster that the rows make up. progress is called with how many were read so
// far.
func BuildSnapshot(rows []berthapi.Row, progress func(read int)) (*snapshot.Snapshot, error) {
	snap := snapshot.NewSnapshot()
	for n, r := range rows {
		row, err := state.DecodeRow(r.Sort, r.Row)
		if err != nil {
			return nil, err
		}
		snap.Put(row)
		progress(n + 1)
	}
	return snap, nil
}

// LoadDefinition has the snapshot know a task definition that the cluster has not used yet:
// family:revision, or a family, whose newest revision it then is. It gives its full name; one that
// is not there is the caller's to notice.
func LoadDefinition(ctx context.Context, c *client.Client, snap *snapshot.Snapshot, name string) (string, error) {
	if snap.Definitions[name] != nil {
		return name, nil
	}
	var out struct {
		TaskDefinition struct {
			types.TaskDefinition
			// Numbers on the wire, and of no interest.
			RegisteredAt, DeregisteredAt json.RawMessage
		} `json:"taskDefinition"`
		Tags []types.Tag `json:"tags"`
	}
	err := c.ECS(ctx, "DescribeTaskDefinition", map[string]any{"taskDefinition": name, "include": []string{"TAGS"}},
		&out)
	if e := new(cluster.Error); errors.As(err, &e) && e.Code == cluster.CodeClient {
		return name, nil
	} else if err != nil {
		return "", err
	}
	def, err := shape.ParseTaskDefinition(out.TaskDefinition.TaskDefinition, out.Tags)
	if err != nil {
		return "", err
	}
	def.Rev = 1
	snap.Put(def)
	return def.Name(), nil
}

// SnapshotOfNodes is an empty cluster of a trace's nodes.
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
